//! `tack lab airtime`: open-loop traffic on any setting of the 802.11 model, to hold it against
//! another model or a measurement.

use core::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use tack_link::open_loop::{AckRule, Mode, OpenLoop, Report};
use tack_link::wlan::{AmpduLimits, DataRate, Preset, Protection, Standard, Use, WlanConfig};

/// What to run; rates in Mbit/s. Keys left `None` keep the preset's value.
#[derive(Clone, Debug)]
pub struct AirtimeSettings {
    /// `b`, `g`, `n`, `ac` or `ax`.
    pub phy: String,
    /// `textbook`, `paper-a`, `paper-b`, or `ns3`: textbook rates with what ns-3 adds (beacons,
    /// a response that waits for the idle medium).
    pub preset: String,
    /// `udp`, `udpack`, `relay` or `up`.
    pub mode: String,
    /// Data packets per ACK; 0: none by count. `None` is 2, but 0 in a relay or
    /// with a period.
    pub l: Option<u32>,
    /// An ACK per period instead, milliseconds; 0: none by time. Modes without ACKs ignore both.
    pub period_ms: f64,
    /// Stations; a relay has at least two.
    pub stations: u32,
    /// Largest A-MPDU of the AP, bytes; 0: none.
    pub ap_ampdu_bytes: Option<u32>,
    /// Largest A-MPDU of a station, bytes; 0: none.
    pub sta_ampdu_bytes: Option<u32>,
    /// PHY rate of stations.
    pub uplink_rate: Option<f64>,
    /// UDP payload rate of each sender; `None` or 0 saturates.
    pub offered_mbps: Option<f64>,
    /// One-way delay between the wired host and the AP, milliseconds.
    pub wired_delay_ms: f64,
    /// Measured time, after 0.2 s of warm-up.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
    /// BlockAckReq after a lost BlockAck.
    pub explicit_bar: bool,
    /// RTS/CTS around PSDUs above this, bytes. `None` keeps the preset's; that of ns-3 is its
    /// default of 65535 with `explicit_bar`, its other default that matters, and none without.
    pub rts_threshold: Option<u32>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AirtimeReport {
    /// Data that arrived, IP level (1500 bytes a packet), Mbit/s.
    pub l3_mbps: f64,
    /// The same as UDP payload (1472 bytes a packet).
    pub goodput_mbps: f64,
    /// Data packets that arrived.
    pub data_packets: u64,
    /// ACKs sent.
    pub acks: u64,
    /// ACKs that arrived.
    pub acks_received: u64,
    /// The AP's channel accesses.
    pub ap: NodeReport,
    /// The stations' channel accesses, all together.
    pub stations: NodeReport,
    /// Shares of the medium's time by use; they sum to 1.
    pub airtime: std::collections::BTreeMap<&'static str, f64>,
    /// Seconds measured.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
}

/// A contender's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// Attempts to send.
    pub accesses: u64,
    /// Of those, collided.
    pub collisions: u64,
    /// `collisions / accesses`.
    pub collision_probability: f64,
    /// PPDUs with data or ACKs.
    pub ppdus: u64,
    /// MPDUs in each, on average.
    pub mpdus_per_ppdu: f64,
    /// Packets its queue refused.
    pub queue_drops: u64,
    /// MPDUs given up after too many retries.
    pub retry_drops: u64,
}

impl From<&tack_link::wlan::NodeStats> for NodeReport {
    fn from(s: &tack_link::wlan::NodeStats) -> Self {
        let ratio = |a: u64, b: u64| a as f64 / (b as f64).max(1.0);
        NodeReport {
            accesses: s.accesses,
            collisions: s.collisions,
            collision_probability: ratio(s.collisions, s.accesses),
            ppdus: s.data_ppdus,
            mpdus_per_ppdu: ratio(s.mpdus, s.data_ppdus),
            queue_drops: s.queue_drops,
            retry_drops: s.retry_drops,
        }
    }
}

impl AirtimeSettings {
    /// Saturated traffic of `mode` on `phy` as ns-3 runs it: one station, ten seconds.
    pub fn new(phy: &str, mode: &str) -> AirtimeSettings {
        AirtimeSettings {
            phy: phy.to_owned(),
            preset: "ns3".to_owned(),
            mode: mode.to_owned(),
            l: None,
            period_ms: 0.0,
            stations: 1,
            ap_ampdu_bytes: None,
            sta_ampdu_bytes: None,
            uplink_rate: None,
            offered_mbps: None,
            wired_delay_ms: 0.5,
            seconds: 10.0,
            seed: 1,
            explicit_bar: false,
            rts_threshold: None,
        }
    }

    /// Runs them.
    ///
    /// # Errors
    /// Which setting is out of range, and what would be right.
    pub fn run(&self) -> Result<AirtimeReport> {
        let report = self.experiment()?.run()?;
        ensure!(report.ledger.balances(), "packets were not conserved: {:?}", report.ledger);
        Ok(self.report(&report))
    }

    fn report(&self, r: &Report) -> AirtimeReport {
        AirtimeReport {
            l3_mbps: r.l3_mbps,
            goodput_mbps: r.goodput_mbps,
            data_packets: r.data_packets,
            acks: r.acks_sent,
            acks_received: r.acks_delivered,
            ap: (&r.ap).into(),
            stations: (&r.stations).into(),
            airtime: Use::ALL.iter().map(|u| (u.name(), r.airtime.share(*u))).collect(),
            seconds: self.seconds,
            seed: self.seed,
        }
    }

    /// The experiment that these settings stand for.
    ///
    /// # Errors
    /// As [`AirtimeSettings::run`].
    pub fn experiment(&self) -> Result<OpenLoop> {
        let mode = Mode::from_name(&self.mode)
            .with_context(|| format!("--mode is `{}`: udp, udpack, relay or up", self.mode))?;
        let mut experiment = OpenLoop::new(self.wlan(mode)?, mode);
        ensure!(
            (0.0..=1e6).contains(&self.period_ms),
            "--period-ms is {}, but must lie between 0 and 1000000",
            self.period_ms
        );
        experiment.ack = self.ack_rule(mode)?;
        experiment.offered_mbps = self.offered_mbps.filter(|mbps| *mbps != 0.0);
        for (flag, value) in
            [("--wired-delay-ms", self.wired_delay_ms), ("--seconds", self.seconds)]
        {
            ensure!(
                (0.0..=1e5).contains(&value),
                "{flag} is {value}, but must lie between 0 and 100000"
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
