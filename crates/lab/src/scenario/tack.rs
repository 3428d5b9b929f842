//! TACK's own parameters: what `[flow.tack]` may say.

use tack::{Params, RbbPolicy, StartupAcks};

use super::error::{Problem, within};
use super::keys::keys;

keys! {
    /// Parameters of the mechanism, as in [`tack::Params`]; left out: its defaults.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TackWords {
        ;
        /// `beta`: TACKs per RTTmin, 2 to 64 (the flow's own `beta`).
        beta: u32,
        /// `L`: full segments per TACK, 1 to 64 (the flow's own `segments_per_ack`).
        l: u32,
        /// How many holes a TACK lists: `on-demand`, `rich` (all of them) or `poor:Q` [TON §V-A].
        rbb: String,
        /// Whether losses are announced at once [TON Fig. 6a].
        loss_iacks: bool,
        /// RTTmin by the least one-way delay; `false` samples the newest packet
        /// [TON Fig. 7a].
        owd_timing: bool,
        /// A loss is announced RTTmin divided by this after it shows, 1 to 1000 [TON §VIII].
        settling_divisor: u32,
        /// While bandwidth is probed: `per-packet` or `per-rtt:N` TACKs.
        startup: String,
    }
}

impl TackWords {
    /// Puts what is said here into `params`.
    pub(super) fn apply(&self, params: &mut Params) -> Result<(), Problem> {
        for (key, word, (least, most), param) in [
            ("beta", self.beta, (2.0, 64.0), &mut params.beta),
            ("l", self.l, (1.0, 64.0), &mut params.segments_per_ack),
            ("settling_divisor", self.settling_divisor, (1.0, 1e3), &mut params.settling_divisor),
        ] {
            within(key, word.map(f64::from), least, most)?;
            *param = word.unwrap_or(*param);
        }
        params.loss_iacks = self.loss_iacks.unwrap_or(params.loss_iacks);
        params.owd_timing = self.owd_timing.unwrap_or(params.owd_timing);
        if let Some(text) = &self.rbb {
            params.rbb = rbb(text).ok_or_else(|| {
                Problem::new("rbb", format!("is `{text}`: on-demand, rich or poor:1 to poor:1000"))
            })?;
        }
        if let Some(text) = &self.startup {
            params.startup = startup(text).ok_or_else(|| {
                let what = format!("is `{text}`: per-packet or per-rtt:2 to per-rtt:1000");
                Problem::new("startup", what)
            })?;
        }
        Ok(())
    }
}

fn rbb(text: &str) -> Option<RbbPolicy> {
    match text.split_once(':') {
        None if text == "on-demand" => Some(RbbPolicy::OnDemand),
        None if text == "rich" => Some(RbbPolicy::Rich),
        Some(("poor", q)) => counted(q, 1).map(RbbPolicy::Poor),
        _ => None,
    }
}

fn startup(text: &str) -> Option<StartupAcks> {
    match text.split_once(':') {
        None if text == "per-packet" => Some(StartupAcks::PerPacket),
        Some(("per-rtt", n)) => counted(n, 2).map(StartupAcks::PerRtt),
        _ => None,
    }
}

fn counted(text: &str, least: u32) -> Option<u32> {
    text.parse().ok().filter(|n| (least..=1_000).contains(n))
}
