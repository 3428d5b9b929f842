//! The wireless hop: what `[wifi]` may say.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tack_link::wlan::{
    AmpduLimits, Beacons, DataRate, Errors, HiddenInterferer, HostDelay, Load, Neighbour, Preset,
    Protection, ScanPlan, Scheduling, Standard, TxqConfig, WlanConfig,
};

use super::error::{Problem, above_zero, plain, within};
use super::keys::{keys, one};

/// What waits at a node of the 802.11 hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WifiQueue {
    /// In order of arrival.
    Fifo,
    /// mac80211's queues per station and flow.
    FqCodel,
}

keys! {
    /// The 802.11 hop between station(s) and AP. Keys left out keep the preset's value.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Wifi {
        /// `b`, `g`, `n`, `ac` or `ax`.
        pub phy: String,
        /// `textbook`, `paper-a` or `paper-b`.
        #[serde(default = "textbook")]
        pub preset: String,
        /// Stations, 1 to 1000.
        #[serde(default = "one")]
        pub stations: u32,
        ;
        /// Largest A-MPDU the AP sends, bytes; 0 sends every MPDU alone.
        ap_ampdu_bytes: u32,
        /// Most MPDUs in one.
        ap_ampdu_mpdus: u16,
        /// Largest A-MPDU a station sends, bytes.
        sta_ampdu_bytes: u32,
        /// Most MPDUs in one.
        sta_ampdu_mpdus: u16,
        /// PHY rate of what stations send, Mbit/s; the PHY's nearest rate is taken.
        uplink_mbps: f64,
        /// PHY rate of what the AP sends, Mbit/s; the PHY's nearest rate is taken.
        downlink_mbps: f64,
        /// Share of MPDUs with bit errors, both directions.
        mpdu_error: f64,
        /// Share of whole PPDUs lost.
        ppdu_error: f64,
        /// `none`, `cts-to-self` or `rts-cts`.
        protection: String,
        /// A BlockAckReq precedes retransmission after a lost BlockAck.
        explicit_bar: bool,
        /// Neighbours on the channel that always have something to send.
        saturated_neighbours: u32,
        /// Neighbours with a load of their own: how many.
        neighbours: u32,
        /// Packets of 1500 bytes per second each of those offers (100).
        neighbour_packets_per_s: f64,
        /// Bursts per second of interference nobody hears coming.
        hidden_bursts_per_s: f64,
        /// The AP sends beacons.
        beacons: bool,
        /// The AP's queue: `fifo`, one for all stations (the preset's), or `fq-codel`, Linux's: a queue
        /// per station and flow under CoDel with ECN, stations in turn by airtime.
        queue: WifiQueue,
        /// The stations' queues, likewise; airtime is shared by the AP alone.
        sta_queue: WifiQueue,
        /// PPDUs that lie in the hardware behind `fq-codel`, 1 to 64 per node and category (2).
        committed_ppdus: usize,
        /// AP queue, packets: of all stations together (1000; 8192 with `fq-codel`), or with
        /// `round_robin` of each.
        ap_queue_packets: usize,
        /// Station queue, packets (1000; 8192 with `fq-codel`).
        sta_queue_packets: usize,
        /// Attempts after which an MPDU is given up, beyond the first.
        retry_limit: u32,
        /// Transmission opportunity of the AP, microseconds; 0 allows one PPDU per access.
        ap_txop_us: f64,
        /// When the AP collides with a station, what of its frame outlasts the station's is received
        /// (on with several stations).
        capture: bool,
        /// Every station has the AP's queue limit to itself and is served in turn.
        round_robin: bool,
        /// Stations leave the channel to scan this often, seconds.
        scan_every_s: f64,
        /// Shortest and longest absence, milliseconds ([100, 250]).
        scan_ms: (f64, f64),
        /// The station's host takes this long per PPDU before it acknowledges, microseconds.
        host_delay_us: f64,
        /// And this long per packet, microseconds.
        host_per_packet_us: f64,
    }
}

fn textbook() -> String {
    "textbook".to_owned()
}

impl Wifi {
    /// `preset` of `phy` with one station, nothing changed.
    pub fn preset(phy: &str, preset: &str) -> Wifi {
        Wifi { phy: phy.to_owned(), preset: preset.to_owned(), stations: 1, ..Wifi::default() }
    }

    fn standard(&self) -> Result<Standard, Problem> {
        Standard::from_name(&self.phy)
            .ok_or_else(|| Problem::new("phy", format!("is `{}`: b, g, n, ac or ax", self.phy)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let config = self.build()?;
        let impossible = |field: &str, what| format!("cannot be: {field} {what}");
        config.validate().map_err(|e| Problem::new("wifi", impossible(&e.field, e.problem)))
    }

    /// What the link model takes.
    ///
    /// # Errors
    /// Which key is out of range; none for a scenario that was parsed.
    fn build(&self) -> Result<WlanConfig, Problem> {
        self.build_own().map_err(|p| p.of("wifi"))
    }

    fn build_own(&self) -> Result<WlanConfig, Problem> {
        let bad = |key: &str, what: String| Problem::new(key, what);
        let standard = self.standard()?;
        let preset = Preset::from_name(&self.preset).ok_or_else(|| {
            bad("preset", format!("is `{}`: textbook, paper-a or paper-b", self.preset))
        })?;
        within("stations", f64::from(self.stations), 1.0, 1e3)?;
        let mut config = WlanConfig::preset(preset, standard).with_stations(self.stations);
        for (key, share) in [("mpdu_error", self.mpdu_error), ("ppdu_error", self.ppdu_error)] {
            within(key, share, 0.0, 1.0)?;
        }
        for (key, mpdus) in
            [("ap_ampdu_mpdus", self.ap_ampdu_mpdus), ("sta_ampdu_mpdus", self.sta_ampdu_mpdus)]
        {
            within(key, mpdus.map(f64::from), 0.0, 1024.0)?;
        }
        let limits = |limits: AmpduLimits, bytes: Option<u32>, mpdus: Option<u16>| AmpduLimits {
            max_bytes: bytes.unwrap_or(limits.max_bytes),
            max_mpdus: mpdus.unwrap_or(limits.max_mpdus),
            ..limits
        };
        config.ap_ampdu = limits(config.ap_ampdu, self.ap_ampdu_bytes, self.ap_ampdu_mpdus);
        config.station_ampdu =
            limits(config.station_ampdu, self.sta_ampdu_bytes, self.sta_ampdu_mpdus);
        let rate = |key: &str, mbps: f64| {
            DataRate::nearest(standard, mbps)
                .ok_or_else(|| bad(key, format!("is {}, but must be positive", plain(mbps))))
        };
        if let Some(mbps) = self.uplink_mbps {
            config.uplink = rate("uplink_mbps", mbps)?;
        }
        if let Some(mbps) = self.downlink_mbps {
            config.downlink = rate("downlink_mbps", mbps)?;
        }
        let errors = &mut config.errors;
        *errors = Errors {
            downlink_mpdu: self.mpdu_error.unwrap_or(errors.downlink_mpdu),
            uplink_mpdu: self.mpdu_error.unwrap_or(errors.uplink_mpdu),
            ppdu: self.ppdu_error.unwrap_or(errors.ppdu),
            ..*errors
        };
        if let Some(name) = &self.protection {
            config.protection = match name.as_str() {
                "none" => Protection::None,
                "cts-to-self" => Protection::CtsToSelf { kbps: None },
                "rts-cts" => Protection::RtsCts { threshold_bytes: 0, kbps: None },
                _ => {
                    let what = format!("is `{name}`: none, cts-to-self or rts-cts");
                    return Err(Problem::new("protection", what));
                }
            };
        }
        config.explicit_bar = self.explicit_bar.unwrap_or(config.explicit_bar);
        self.surroundings(&mut config)?;
        self.access(&mut config)?;
        self.queues(&mut config)?;
        let HostDelay { delay, per_packet, .. } = &mut config.host_delay;
        for (key, us, own) in [
            ("host_delay_us", self.host_delay_us, delay),
            ("host_per_packet_us", self.host_per_packet_us, per_packet),
        ] {
            within(key, us, 0.0, 1e6)?;
            *own = us.map_or(*own, |us| Duration::from_secs_f64(us / 1e6));
        }
        Ok(config)
    }

    /// What waits where.
    fn queues(&self, config: &mut WlanConfig) -> Result<(), Problem> {
        let bad = |key: &str, what: &str| Problem::new(key, what);
        for (key, packets) in [
            ("ap_queue_packets", self.ap_queue_packets),
            ("sta_queue_packets", self.sta_queue_packets),
        ] {
            if packets == Some(0) {
                return Err(bad(key, "must hold something"));
            }
        }
        config.ap_queue_packets = self.ap_queue_packets.unwrap_or(config.ap_queue_packets);
        config.station_queue_packets =
            self.sta_queue_packets.unwrap_or(config.station_queue_packets);
        let txq = |kind: Option<WifiQueue>, key: &str, packets: Option<usize>| {
            let mut txq = TxqConfig::mac80211(config.standard);
            if let Some(packets) = packets {
                txq.limit_packets = u32::try_from(packets)
                    .map_err(|_| bad(key, "must be at most 4294967295 with fq-codel"))?;
            }
            txq.committed_ppdus = self.committed_ppdus.unwrap_or(txq.committed_ppdus);
            Ok((kind == Some(WifiQueue::FqCodel)).then_some(txq))
        };
        let ap = txq(self.queue, "ap_queue_packets", self.ap_queue_packets)?;
        let station = txq(self.sta_queue, "sta_queue_packets", self.sta_queue_packets)?;
        if ap.is_some() && self.round_robin.is_some() {
            let what = "is for queue = \"fifo\": leave it out, airtime decides whose turn it is";
            return Err(bad("round_robin", what));
        }
        if ap.or(station).is_none() && self.committed_ppdus.is_some() {
            let what = "needs queue = \"fq-codel\" or sta_queue = \"fq-codel\"";
            return Err(bad("committed_ppdus", what));
        }
        within("committed_ppdus", self.committed_ppdus.map(|n| n as f64), 1.0, 64.0)?;
        (config.ap_txq, config.station_txq) = (ap, station);
        Ok(())
    }

    /// Retries, opportunities, scheduling and absences.
    fn access(&self, config: &mut WlanConfig) -> Result<(), Problem> {
        let range = |key: &str, v: f64, lo: f64, hi: f64| {
            if v >= lo && v <= hi {
                return Ok(Duration::from_secs_f64(v));
            }
            let what = format!("is {v} s, but must lie between {lo} and {hi} s");
            Err(Problem::new(key, what))
        };
        config.retry_limit = self.retry_limit.or(config.retry_limit);
        config.capture = self.capture.unwrap_or(config.capture);
        if let Some(us) = self.ap_txop_us {
            let txop = range("ap_txop_us", us / 1e6, 0.0, 0.008_16)?;
            config.ap_edca.iter_mut().for_each(|category| category.txop = txop);
        }
        match self.round_robin {
            Some(true) => config.scheduling = Scheduling::RoundRobin,
            Some(false) => config.scheduling = Scheduling::Fifo,
            None => {}
        }
        if self.scan_ms.is_some() && self.scan_every_s.is_none() {
            let what = "says how long, but scan_every_s does not say how often";
            return Err(Problem::new("scan_ms", what));
        }
        if let Some(every) = self.scan_every_s {
            let (min, max) = self.scan_ms.unwrap_or((100.0, 250.0));
            config.scan = Some(ScanPlan {
                interval: range("scan_every_s", every, 1e-3, 60.0)?,
                min: range("scan_ms", min / 1e3, 0.0, 60.0)?,
                max: range("scan_ms", max / 1e3, min / 1e3, 60.0)?,
            });
        }
        Ok(())
    }

    /// Other networks and interference.
    fn surroundings(&self, config: &mut WlanConfig) -> Result<(), Problem> {
        let neighbour = |config: &WlanConfig, load: Load| Neighbour {
            load,
            rate: config.downlink,
            packet_bytes: 1_500,
            ampdu: config.ap_ampdu,
            edca: config.ap_edca[1],
        };
        within("neighbours", self.neighbours.map(f64::from), 0.0, 1e3)?;
        within("saturated_neighbours", self.saturated_neighbours.map(f64::from), 0.0, 1e3)?;
        for _ in 0..self.saturated_neighbours.unwrap_or(0) {
            config.neighbours.push(neighbour(config, Load::Saturated));
        }
        let packets_per_s = self.neighbour_packets_per_s.unwrap_or(100.0);
        above_zero("neighbour_packets_per_s", packets_per_s, 1e6)?;
        for _ in 0..self.neighbours.unwrap_or(0) {
            let load = Load::Mbps(packets_per_s * 1_500.0 * 8.0 / 1e6);
            config.neighbours.push(neighbour(config, load));
        }
        if let Some(bursts_per_s) = self.hidden_bursts_per_s {
            within("hidden_bursts_per_s", bursts_per_s, 0.0, 1e6)?;
            config.hidden = Some(HiddenInterferer { bursts_per_s, burst: None });
        }
        match self.beacons {
            Some(true) => {
                let kbps = if config.standard == Standard::B { 1_000 } else { 6_000 };
                let interval = Duration::from_micros(102_400);
                config.beacons = Some(Beacons { interval, bytes: 250, kbps, networks: 1 });
            }
            Some(false) => config.beacons = None,
            None => {}
        }
        Ok(())
    }

    /// What the link model takes, with `seed`, for settings that no scenario file has checked.
    ///
    /// # Errors
    /// The first key that is wrong, and what would be right.
    pub fn checked_config(&self, seed: u64) -> anyhow::Result<WlanConfig> {
        let wrong = |p: Problem| anyhow::anyhow!("{} {}", p.key, p.what);
        self.check().map_err(wrong)?;
        Ok(WlanConfig { seed, ..self.build().map_err(wrong)? })
    }
}
