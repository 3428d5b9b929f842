//! `tack lab airtime`: open-loop traffic on any setting of the 802.11 model, to hold it against
//! another model or a measurement.

use core::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{AmpduLimits, DataRate, Preset, Protection, Standard, WlanConfig};

const AFTER: &str = "\
The default preset `ns3` is the textbook's with what every ns-3 run adds, so that figures can be
held against ns-3's. l3_mbps counts 1500 bytes per data packet.

Examples:
  tack lab airtime --phy n --mode udpack --l 2 --ap-ampdu-bytes 20100 --uplink-rate 60 --json
  tack lab airtime --phy n --mode relay --offered-mbps 96.97 --l 4";

/// Run open-loop traffic on the 802.11 model.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct AirtimeArgs {
    /// 802.11 generation: b, g, n, ac, ax
    #[arg(long, default_value = "n")]
    pub phy: String,
    /// textbook, paper-a, paper-b or ns3
    #[arg(long, value_name = "NAME", default_value = "ns3")]
    pub preset: String,
    /// udp (down, no ACKs), udpack (down), relay (station to station), up (no ACKs)
    #[arg(long, default_value = "udpack")]
    pub mode: String,
    /// Data packets per ACK, 0 for none by count [default: 2; 0 in a relay or with a period]
    #[arg(long, value_name = "N")]
    pub l: Option<u32>,
    /// An ACK per this time instead, 0 for none
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub period_ms: f64,
    /// Stations [default: 1, 2 for relay]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub stations: u32,
    /// Largest A-MPDU of the access point, 0 for none [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub ap_ampdu_bytes: Option<u32>,
    /// Largest A-MPDU of a station, 0 for none [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub sta_ampdu_bytes: Option<u32>,
    /// PHY rate of stations in Mbit/s; the nearest there is [default: the preset's]
    #[arg(long, value_name = "MBPS")]
    pub uplink_rate: Option<f64>,
    /// UDP payload rate of each sender in Mbit/s; 0 is as much as goes
    #[arg(long, value_name = "MBPS", default_value_t = 0.0)]
    pub offered_mbps: f64,
    /// One-way delay between wired host and access point
    #[arg(long, value_name = "MS", default_value_t = 0.5)]
    pub wired_delay_ms: f64,
    /// Simulated seconds measured
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A BlockAckReq follows a lost BlockAck, as in ns-3's defaults
    #[arg(long)]
    pub explicit_bar: bool,
    /// RTS/CTS around frames above this [default: ns-3's 65535 with --explicit-bar, else none]
    #[arg(long, value_name = "BYTES")]
    pub rts_threshold: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl AirtimeArgs {
    /// The experiment that these settings stand for.
    ///
    /// # Errors
    /// Which setting is out of range, and what would be right.
    pub fn experiment(&self) -> Result<OpenLoop> {
        let mode = Mode::from_name(&self.mode)
            .with_context(|| format!("--mode is `{}`: udp, udpack, relay or up", self.mode))?;
        let mut experiment = OpenLoop::new(self.wlan(mode)?, mode);
        ensure!(
            (0.0..=1e6).contains(&self.period_ms),
            "--period-ms is {:?}, but must lie between 0 and 1000000",
            self.period_ms
        );
        experiment.ack = self.ack_rule(mode)?;
        experiment.offered_mbps = Some(self.offered_mbps).filter(|mbps| *mbps != 0.0);
        for (flag, value) in
            [("--wired-delay-ms", self.wired_delay_ms), ("--seconds", self.seconds)]
        {
            ensure!(
                (0.0..=1e5).contains(&value),
                "{flag} is {value:?}, but must lie between 0 and 100000"
            );
        }
        experiment.wired_delay = Duration::from_secs_f64(self.wired_delay_ms / 1e3);
        experiment.duration = Duration::from_secs_f64(self.seconds);
        Ok(experiment)
    }

    fn ack_rule(&self, mode: Mode) -> Result<AckRule> {
        if matches!(mode, Mode::Udp | Mode::Up) {
            return Ok(AckRule::Never);
        }
        let by_time = self.period_ms > 0.0;
        let usual = if by_time || mode == Mode::Relay { 0 } else { 2 };
        Ok(match self.l.unwrap_or(usual) {
            0 if by_time => AckRule::Every(Duration::from_secs_f64(self.period_ms / 1e3)),
            0 => AckRule::Never,
            l if !by_time => AckRule::EveryPackets(l),
            _ => bail!("--l and --period-ms are two rules: give one, or 0 for the other"),
        })
    }

    fn wlan(&self, mode: Mode) -> Result<WlanConfig> {
        let standard = Standard::from_name(&self.phy)
            .with_context(|| format!("--phy is `{}`: b, g, n, ac or ax", self.phy))?;
        let ns3 = self.preset == "ns3";
        let preset = if ns3 { Some(Preset::Textbook) } else { Preset::from_name(&self.preset) };
        let preset = preset.with_context(|| {
            format!("--preset is `{}`: textbook, paper-a, paper-b or ns3", self.preset)
        })?;
        ensure!(
            (1..=1_000).contains(&self.stations),
            "--stations is {}, 1 to 1000 can run",
            self.stations
        );
        let stations = if mode == Mode::Relay { self.stations.max(2) } else { self.stations };
        let mut wlan = WlanConfig::preset(preset, standard).with_stations(stations);
        if ns3 {
            tack_link::open_loop::ns3::as_ns3(&mut wlan);
        }
        let limits = |bytes: u32| match bytes {
            0 => AmpduLimits::NONE,
            bytes => AmpduLimits::new(bytes, 64),
        };
        if standard.aggregates() {
            wlan.ap_ampdu = self.ap_ampdu_bytes.map_or(wlan.ap_ampdu, limits);
            wlan.station_ampdu = self.sta_ampdu_bytes.map_or(wlan.station_ampdu, limits);
        }
        if let Some(mbps) = self.uplink_rate {
            wlan.uplink = DataRate::nearest(standard, mbps)
                .with_context(|| format!("--uplink-rate is {mbps}, but must be positive"))?;
        }
        let of_ns3 = (ns3 && standard.aggregates() && self.explicit_bar).then_some(65_535);
        if let Some(threshold_bytes) = self.rts_threshold.or(of_ns3) {
            wlan.protection = Protection::RtsCts { threshold_bytes, kbps: None };
        }
        wlan.explicit_bar = self.explicit_bar;
        wlan.seed = self.seed;
        Ok(wlan)
    }
}

#[cfg(test)]
#[path = "airtime_tests.rs"]
mod tests;
