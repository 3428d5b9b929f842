//! Rows of ns-3 results and the experiments that correspond to them.
//!
//! A row names what the ns-3 run was told: PHY, uplink mode, traffic, limits. Its columns mean:
//! `ul_mode` the rate of the stations' data frames (`same` as the access point's), `max_ampdu` and
//! `sta_max_ampdu` bytes of an A-MPDU (0: none), `explicit_bar` a BlockAckReq after a lost
//! BlockAck (ns-3's default), `rts_thr` the PSDU size above which RTS/CTS is used (65535 by
//! default, so that only A-MPDUs of ac and ax exceed it), `offered_mbps` UDP payload per sender.
//!
//! Deviation from what an ns-3 run does, known and left in (all below 0.6 %): ns-3 3.37's VHT
//! preamble lacks SIG-B, its short-guard symbols are not padded to 4 µs, and its HE training
//! fields are 8 µs long.

use core::time::Duration;

use super::{AckRule, Mode, OpenLoop};
use crate::wlan::{
    AmpduLimits, Beacons, DataRate, DsssPreamble, Mcs, Preset, Protection, Standard, WlanConfig,
};

/// The input columns of one row, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Ns3Row {
    /// Generation.
    pub phy: Standard,
    /// Rate of the stations' frames, as ns-3 names it.
    pub ul_mode: String,
    /// Traffic.
    pub mode: Mode,
    /// Packets per ACK; 0 for none.
    pub l: u32,
    /// Period of ACKs in ms; 0 for none.
    pub period_ms: f64,
    /// Stations.
    pub n_sta: u32,
    /// A-MPDU bytes at the access point.
    pub max_ampdu: u32,
    /// A-MPDU bytes at the stations.
    pub sta_max_ampdu: u32,
    /// BlockAckReq after a lost BlockAck.
    pub explicit_bar: bool,
    /// RTS threshold in bytes.
    pub rts_thr: u32,
    /// UDP payload per sender, Mb/s.
    pub offered_mbps: f64,
    /// One-way delay of the wire in ms.
    pub wired_delay_ms: f64,
    /// The result: IP-level Mb/s.
    pub l3_mbps: f64,
}

/// Why a line is not a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The header has no such column.
    #[error("no column {0}")]
    NoColumn(&'static str),
    /// The column holds something else than what belongs there.
    #[error("column {column}: {text:?} is not understood")]
    BadValue {
        /// The column.
        column: &'static str,
        /// What it holds.
        text: String,
    },
}

impl Ns3Row {
    /// Reads a line under `header`, both comma-separated. Columns not listed above are ignored.
    ///
    /// # Errors
    /// When a column is missing or holds an unknown value.
    pub fn parse(header: &str, line: &str) -> Result<Ns3Row, RowError> {
        let names: Vec<&str> = header.trim().split(',').collect();
        let values: Vec<&str> = line.trim().split(',').collect();
        let text = |column: &'static str| {
            let at = names.iter().position(|n| *n == column);
            at.and_then(|i| values.get(i)).copied().ok_or(RowError::NoColumn(column))
        };
        let bad = |column, text: &str| RowError::BadValue { column, text: text.to_owned() };
        let number = |column: &'static str| {
            let text = text(column)?;
            let value: f64 = text.parse().map_err(|_| bad(column, text))?;
            if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(bad(column, text)) }
        };
        let integer = |column: &'static str| number(column).map(|v| v as u32);
        Ok(Ns3Row {
            phy: Standard::from_name(text("phy")?).ok_or_else(|| bad("phy", line))?,
            ul_mode: text("ul_mode")?.to_owned(),
            mode: Mode::from_name(text("mode")?).ok_or_else(|| bad("mode", line))?,
            l: integer("L")?,
            period_ms: number("period_ms")?,
            n_sta: integer("n_sta")?,
            max_ampdu: integer("max_ampdu")?,
            sta_max_ampdu: integer("sta_max_ampdu")?,
            explicit_bar: number("explicit_bar")? != 0.0,
            rts_thr: integer("rts_thr")?,
            offered_mbps: number("offered_mbps")?,
            wired_delay_ms: number("wired_delay_ms")?,
            l3_mbps: number("l3_mbps")?,
        })
    }

    /// The experiment that this row measured, over `duration` with `seed`.
    ///
    /// # Errors
    /// When `ul_mode` is no rate of the row's PHY.
    pub fn experiment(&self, duration: Duration, seed: u64) -> Result<OpenLoop, RowError> {
        let mut wlan =
            WlanConfig::preset(Preset::Textbook, self.phy).with_stations(self.n_sta.max(1));
        wlan.seed = seed;
        wlan.uplink = uplink(&self.ul_mode, wlan.downlink)
            .ok_or_else(|| RowError::BadValue { column: "ul_mode", text: self.ul_mode.clone() })?;
        wlan.explicit_bar = self.explicit_bar;
        as_ns3(&mut wlan);
        if self.phy.aggregates() {
            wlan.ap_ampdu = limits(self.max_ampdu);
            wlan.station_ampdu = limits(self.sta_max_ampdu);
            wlan.protection = Protection::RtsCts { threshold_bytes: self.rts_thr, kbps: None };
        }
        let mut experiment = OpenLoop::new(wlan, self.mode);
        experiment.ack = match (self.l, self.period_ms) {
            (0, 0.0) => AckRule::Never,
            (0, ms) => AckRule::Every(Duration::from_secs_f64(ms / 1e3)),
            (l, _) => AckRule::EveryPackets(l),
        };
        experiment.offered_mbps = (self.offered_mbps > 0.0).then_some(self.offered_mbps);
        experiment.wired_delay = Duration::from_secs_f64(self.wired_delay_ms / 1e3);
        experiment.duration = duration;
        Ok(experiment)
    }
}

/// Adds to `wlan` what every ns-3 run has and a textbook leaves out: beacons, its response
/// timeout, and stations whose answer to a lone frame finds the medium idle.
pub fn as_ns3(wlan: &mut WlanConfig) {
    wlan.idle_before_response = true;
    wlan.beacons = Some(beacons(wlan.standard));
    let t = &mut wlan.timing;
    let receive_start = match wlan.downlink {
        rate @ DataRate::Dsss { .. } => rate.preamble(),
        _ => Duration::from_micros(20),
    };
    t.response_timeout = Some(t.sifs + t.slot + receive_start);
}

/// The A-MPDU limits behind ns-3's byte limit: its BlockAck window is 64 for every PHY.
fn limits(max_bytes: u32) -> AmpduLimits {
    if max_bytes == 0 { AmpduLimits::NONE } else { AmpduLimits::new(max_bytes, 64) }
}

/// ns-3's beacons: rate and size follow from its airtime totals (they grow with the capabilities
/// announced; b and g send them at the lowest DSSS rate).
fn beacons(phy: Standard) -> Beacons {
    let (bytes, kbps) = match phy {
        Standard::B => (52, 1_000),
        Standard::G => (65, 1_000),
        Standard::N => (129, 6_000),
        Standard::Ac => (159, 6_000),
        Standard::Ax => (189, 6_000),
    };
    Beacons { interval: Duration::from_micros(102_400), bytes, kbps, networks: 1 }
}

/// The rate that ns-3 calls `name`, with the streams, width and guard interval of `downlink`.
fn uplink(name: &str, downlink: DataRate) -> Option<DataRate> {
    if name == "same" {
        return Some(downlink);
    }
    let mcs = |digits: &str| digits.parse::<u8>().ok();
    let rate = match downlink {
        DataRate::Ht(m) => {
            let n = mcs(name.strip_prefix("HtMcs")?)?;
            DataRate::Ht(Mcs { index: n % 8, streams: n / 8 + 1, ..m })
        }
        DataRate::Vht(m) => DataRate::Vht(Mcs { index: mcs(name.strip_prefix("VhtMcs")?)?, ..m }),
        DataRate::He(m) => DataRate::He(Mcs { index: mcs(name.strip_prefix("HeMcs")?)?, ..m }),
        DataRate::Ofdm { .. } => {
            let digits = name.split_once("OfdmRate")?.1.strip_suffix("Mbps")?;
            DataRate::Ofdm { mbps: digits.parse().ok()? }
        }
        DataRate::Dsss { .. } => {
            let digits = name.strip_prefix("DsssRate")?.strip_suffix("Mbps")?;
            let mbps: f64 = digits.replace('_', ".").parse().ok()?;
            DataRate::Dsss { kbps: (mbps * 1_000.0) as u32, preamble: DsssPreamble::Long }
        }
    };
    rate.problem().is_none().then_some(rate)
}
