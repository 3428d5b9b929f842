//! Everything that can be set about a WLAN, and the check that it makes sense.

use core::time::Duration;

use super::ampdu::AmpduLimits;
use super::edca::{AcParams, Classifier};
use super::error::ConfigError;
use super::phy::{DataRate, GuardInterval, Standard};
use super::timing::Timing;
use super::txq::TxqConfig;
use crate::link::HostId;

/// Most stations, neighbours included, that one medium takes.
pub const MAX_NODES: usize = 10_000;

/// A bystander acquires a preamble out of two overlapping frames if one is about 4 dB stronger.
/// With senders spread evenly over a disc around it and power falling with the cube of distance,
/// that is `10^(-2 · 4 dB / (10 dB · 3))` of all pairs.
pub const EIFS_SHARE: f64 = 0.54;

/// A WLAN: one access point, its stations, and whoever else is on the channel.
#[derive(Clone, Debug, PartialEq)]
pub struct WlanConfig {
    /// Generation; decides nothing by itself once the rest is filled in, but names results.
    pub standard: Standard,
    /// Slots, interframe spaces, basic rates.
    pub timing: Timing,
    /// Rate of the access point's data frames, unless a station has its own.
    pub downlink: DataRate,
    /// Rate of the stations' data frames, unless a station has its own.
    pub uplink: DataRate,
    /// QoS data frames: two more bytes of header and four access categories. Without, every packet
    /// is sent as best effort.
    pub qos: bool,
    /// How a frozen backoff counter is charged for the slot in which another station starts.
    pub freeze: FreezeRule,
    /// The access point's contention parameters: background, best effort, video, voice.
    pub ap_edca: [AcParams; 4],
    /// The stations' contention parameters, same order.
    pub station_edca: [AcParams; 4],
    /// How packets are put into access categories.
    pub classifier: Classifier,
    /// Aggregation at the access point.
    pub ap_ampdu: AmpduLimits,
    /// Aggregation at the stations, unless a station has its own.
    pub station_ampdu: AmpduLimits,
    /// BlockAck window in MPDUs, 1..=1024. Above 64 the BlockAck frame is longer.
    pub block_ack_window: u16,
    /// Send a BlockAckReq after a lost BlockAck, before anything is retransmitted.
    pub explicit_bar: bool,
    /// Retransmissions before an MPDU is dropped; `None` retries for ever.
    pub retry_limit: Option<u32>,
    /// What precedes the first PPDU of an access.
    pub protection: Protection,
    /// Share of bystanders that wait EIFS instead of AIFS after a collision, 0..=1: those whose PHY
    /// acquired a preamble out of it and then met an error. See [`EIFS_SHARE`].
    pub eifs_share: f64,
    /// A frame that reaches a queue at the very end of a lone MPDU, before the response to it,
    /// counts as having found the medium idle and needs no backoff if none is pending. The standard
    /// has it draw one; ns-3 does not.
    pub idle_before_response: bool,
    /// An access point's PPDU that collides with a station other than its receiver keeps the MPDUs
    /// that begin after the other frame's end.
    pub capture: bool,
    /// Losses by noise.
    pub errors: Errors,
    /// Interferers that neither side hears before it sends.
    pub hidden: Option<HiddenInterferer>,
    /// The access point's beacons.
    pub beacons: Option<Beacons>,
    /// Other contenders on the channel.
    pub neighbours: Vec<Neighbour>,
    /// Client stations; packets to a host that none of them has go to the wired side.
    pub stations: Vec<Station>,
    /// Packets the access point queues per access category (over all stations with
    /// [`Scheduling::Fifo`], per station with [`Scheduling::RoundRobin`]).
    pub ap_queue_packets: usize,
    /// Packets a station queues per access category.
    pub station_queue_packets: usize,
    /// Which station the access point serves next.
    pub scheduling: Scheduling,
    /// Queues per flow and airtime fairness at the access point, instead of `ap_queue_packets` and
    /// `scheduling`.
    pub ap_txq: Option<TxqConfig>,
    /// Queues per flow at the stations, instead of `station_queue_packets`.
    pub station_txq: Option<TxqConfig>,
    /// CCMP's 16 bytes on every MPDU.
    pub ccmp: bool,
    /// How long a station's host takes to see what its radio received.
    pub host_delay: HostDelay,
    /// Absences of the stations.
    pub scan: Option<ScanPlan>,
    /// Seed of every random draw.
    pub seed: u64,
}

/// A client station.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Station {
    /// Hosts behind this station.
    pub hosts: Vec<HostId>,
    /// Rate of frames to this station.
    pub downlink: Option<DataRate>,
    /// Rate of frames from this station.
    pub uplink: Option<DataRate>,
    /// Aggregation of this station's frames.
    pub ampdu: Option<AmpduLimits>,
    /// This station's host.
    pub host_delay: Option<HostDelay>,
}

/// What a backoff counter loses when another station begins to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeRule {
    /// EDCA: the whole slots that passed and the one in which the other began.
    Edca,
    /// Classic DCF: the whole slots that passed.
    Dcf,
}

/// Frames sent ahead of data to silence others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// None.
    None,
    /// RTS and CTS around PSDUs of more than this many bytes.
    RtsCts {
        /// PSDUs above this are protected; 0 protects all.
        threshold_bytes: u32,
        /// Rate of both in kb/s; `None` for that of a response.
        kbps: Option<u32>,
    },
    /// A CTS to oneself before every PPDU.
    CtsToSelf {
        /// Its rate in kb/s; `None` for that of a response.
        kbps: Option<u32>,
    },
}

/// Independent losses. All are probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Errors {
    /// Per MPDU from the access point.
    pub downlink_mpdu: f64,
    /// Per MPDU from a station.
    pub uplink_mpdu: f64,
    /// Per PPDU: its header is lost and all of it with it.
    pub ppdu: f64,
    /// Per Ack, BlockAck or CTS.
    pub response: f64,
}

/// Bursts of a transmitter that is not heard in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiddenInterferer {
    /// Mean bursts per second (Poisson).
    pub bursts_per_s: f64,
    /// Length of a burst: MPDUs it overlaps are lost, all of them if it hits the preamble. `None`
    /// loses the whole PPDU at every hit.
    pub burst: Option<Duration>,
}

/// Beacons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacons {
    /// From one to the next; 102.4 ms is usual.
    pub interval: Duration,
    /// Frame size in bytes.
    pub bytes: u32,
    /// Rate in kb/s: DSSS if it is 1000, 2000, 5500 or 11000, OFDM otherwise.
    pub kbps: u32,
    /// How many networks beacon on this channel, this one included.
    pub networks: u32,
}

/// A contender that is not part of this network: it sends to someone on the same channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// How much it has to send.
    pub load: Load,
    /// Its data rate.
    pub rate: DataRate,
    /// IP bytes of each of its packets.
    pub packet_bytes: u32,
    /// Its aggregation.
    pub ampdu: AmpduLimits,
    /// Its contention parameters.
    pub edca: AcParams,
}

/// What a neighbour offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Always something to send.
    Saturated,
    /// Poisson arrivals of this many IP-level Mb/s.
    Mbps(f64),
    /// Poisson arrivals that would take this share of the medium, sent one by one.
    Airtime(f64),
}

/// Which station an access point serves next among those it has packets for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// The one whose oldest packet came first; all stations share one queue limit and an arriving
    /// packet is dropped when it is reached.
    Fifo,
    /// In turn; every station has the queue limit to itself.
    RoundRobin,
}

/// When a station's host sees received packets: a server that takes `delay` (each time spread
/// evenly over `1 ± spread`) for a PPDU and `per_packet` for each packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct HostDelay {
    /// Per PPDU.
    pub delay: Duration,
    /// Relative spread of `delay`, 0..=1.
    pub spread: f64,
    /// Per packet.
    pub per_packet: Duration,
}

/// Off-channel scans: a station goes away, tells nobody's application, and comes back. The access
/// point knows (power management) and queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// From the end of one absence to the start of the next.
    pub interval: Duration,
    /// Shortest absence; 100 ms is usual.
    pub min: Duration,
    /// Longest absence; 250 ms is usual.
    pub max: Duration,
}

impl WlanConfig {
    /// The same network with `n` stations of one host each, numbered from 1.
    #[must_use]
    pub fn with_stations(mut self, n: u32) -> Self {
        let template = self.stations.first().cloned().unwrap_or_default();
        self.stations = (1..=n).map(|id| Station { hosts: vec![id], ..template.clone() }).collect();
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range or contradicts another.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_timing()?;
        rate("downlink", self.downlink)?;
        rate("uplink", self.uplink)?;
        for (i, (ap, station)) in self.ap_edca.iter().zip(&self.station_edca).enumerate() {
            edca(&format!("ap_edca[{i}]"), ap)?;
            edca(&format!("station_edca[{i}]"), station)?;
        }
        if let Classifier::Fixed(ac) = self.classifier {
            check(ac < 4, "classifier", "categories are 0 to 3")?;
        }
        ampdu("ap_ampdu", &self.ap_ampdu)?;
        ampdu("station_ampdu", &self.station_ampdu)?;
        let window = (1..=1024).contains(&self.block_ack_window);
        check(window, "block_ack_window", "must be 1 to 1024 MPDUs")?;
        check(self.ap_queue_packets > 0, "ap_queue_packets", "must be positive")?;
        check(self.station_queue_packets > 0, "station_queue_packets", "must be positive")?;
        self.ap_txq.map_or(Ok(()), |t| t.validate("ap_txq"))?;
        self.station_txq.map_or(Ok(()), |t| t.validate("station_txq"))?;
        self.validate_protection()?;
        self.validate_channel()?;
        host_delay("host_delay", &self.host_delay)?;
        if let Some(s) = self.scan {
            check(s.min <= s.max, "scan.min", "is longer than scan.max")?;
            check(!s.interval.is_zero(), "scan.interval", "must be positive")?;
            check(s.interval <= MINUTE && s.max <= MINUTE, "scan", "is longer than a minute")?;
        }
        self.validate_stations()?;
        for (i, n) in self.neighbours.iter().enumerate() {
            neighbour(&format!("neighbours[{i}]"), n)?;
        }
        Ok(())
    }

    fn validate_timing(&self) -> Result<(), ConfigError> {
        let t = &self.timing;
        let sane = |d: Duration| !d.is_zero() && d <= Duration::from_millis(1);
        check(sane(t.slot), "timing.slot", "must be positive, at most 1 ms")?;
        check(sane(t.sifs), "timing.sifs", "must be positive, at most 1 ms")?;
        check(t.cca < t.slot, "timing.cca", "must be shorter than a slot")?;
        let timeout = t.response_timeout.unwrap_or_default();
        check(timeout <= MINUTE, "timing.response_timeout", "is longer than a minute")?;
        check(!t.basic_kbps.is_empty(), "timing.basic_kbps", "needs at least one rate")?;
        if let Some(kbps) = t.response_kbps {
            rate("timing.response_kbps", t.control_rate(kbps, self.downlink))?;
        }
        for &kbps in &t.basic_kbps {
            rate("timing.basic_kbps", t.control_rate(kbps, self.downlink))?;
        }
        Ok(())
    }

    fn validate_protection(&self) -> Result<(), ConfigError> {
        match self.protection {
            Protection::RtsCts { kbps: Some(k), .. } | Protection::CtsToSelf { kbps: Some(k) } => {
                rate("protection.kbps", self.timing.control_rate(k, self.downlink))
            }
            _ => Ok(()),
        }
    }

    fn validate_channel(&self) -> Result<(), ConfigError> {
        let e = &self.errors;
        probability("eifs_share", self.eifs_share)?;
        probability("errors.downlink_mpdu", e.downlink_mpdu)?;
        probability("errors.uplink_mpdu", e.uplink_mpdu)?;
        probability("errors.ppdu", e.ppdu)?;
        probability("errors.response", e.response)?;
        if let Some(h) = self.hidden {
            let rate = h.bursts_per_s.is_finite() && (0.0..=1e6).contains(&h.bursts_per_s);
            check(rate, "hidden.bursts_per_s", "must be 0 to 1e6")?;
            let burst = h.burst.unwrap_or_default();
            check(burst <= Duration::from_secs(1), "hidden.burst", "is longer than a second")?;
        }
        if let Some(b) = self.beacons {
            let interval = (Duration::from_millis(1)..=MINUTE).contains(&b.interval);
            check(interval, "beacons.interval", "must be 1 ms to 1 min")?;
            check((1..=2304).contains(&b.bytes), "beacons.bytes", "must be 1 to 2304")?;
            check((1..=1000).contains(&b.networks), "beacons.networks", "must be 1 to 1000")?;
            rate("beacons.kbps", self.timing.control_rate(b.kbps, self.downlink))?;
        }
        Ok(())
    }

    fn validate_stations(&self) -> Result<(), ConfigError> {
        check(!self.stations.is_empty(), "stations", "needs at least one")?;
        let nodes = self.stations.len() + self.neighbours.len();
        check(nodes <= MAX_NODES, "stations", "more than 10000 with the neighbours")?;
        let mut hosts = std::collections::BTreeSet::new();
        for (i, s) in self.stations.iter().enumerate() {
            let name = format!("stations[{i}]");
            for host in &s.hosts {
                check(hosts.insert(*host), &format!("{name}.hosts"), "a host has two stations")?;
            }
            s.downlink.map_or(Ok(()), |r| rate(&format!("{name}.downlink"), r))?;
            s.uplink.map_or(Ok(()), |r| rate(&format!("{name}.uplink"), r))?;
            s.ampdu.map_or(Ok(()), |a| ampdu(&format!("{name}.ampdu"), &a))?;
            s.host_delay.map_or(Ok(()), |h| host_delay(&format!("{name}.host_delay"), &h))?;
        }
        Ok(())
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn check(ok: bool, field: &str, problem: &'static str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { field: field.to_owned(), problem }) }
}

fn rate(field: &str, rate: DataRate) -> Result<(), ConfigError> {
    if let DataRate::Ht(m) | DataRate::Vht(m) = rate {
        let short = matches!(m.guard, GuardInterval::Ns400 | GuardInterval::Ns800);
        check(short, &format!("{field}.guard"), "HT and VHT have 0.4 and 0.8 us")?;
    }
    rate.problem().map_or(Ok(()), |p| check(false, field, p))
}

fn probability(field: &str, p: f64) -> Result<(), ConfigError> {
    check((0.0..=1.0).contains(&p), field, "must be a probability, 0 to 1")
}

fn edca(field: &str, p: &AcParams) -> Result<(), ConfigError> {
    check(p.cw_min <= p.cw_max, &format!("{field}.cw_min"), "is above cw_max")?;
    check(p.cw_max <= 32_767, &format!("{field}.cw_max"), "must be at most 32767")?;
    check((1..=15).contains(&p.aifsn), &format!("{field}.aifsn"), "must be 1 to 15")?;
    let txop = p.txop <= Duration::from_micros(8_160);
    check(txop, &format!("{field}.txop"), "must be at most 8.16 ms")
}

fn ampdu(field: &str, a: &AmpduLimits) -> Result<(), ConfigError> {
    let duration = !a.max_duration.is_zero() && a.max_duration <= Duration::from_millis(10);
    check(duration, &format!("{field}.max_duration"), "must be positive, at most 10 ms")?;
    check(a.max_mpdus <= 1024, &format!("{field}.max_mpdus"), "must be at most 1024")
}

fn host_delay(field: &str, h: &HostDelay) -> Result<(), ConfigError> {
    check((0.0..=1.0).contains(&h.spread), &format!("{field}.spread"), "must be 0 to 1")?;
    check(h.delay <= MINUTE, &format!("{field}.delay"), "is longer than a minute")?;
    check(h.per_packet <= MINUTE, &format!("{field}.per_packet"), "is longer than a minute")
}

fn neighbour(field: &str, n: &Neighbour) -> Result<(), ConfigError> {
    rate(&format!("{field}.rate"), n.rate)?;
    edca(&format!("{field}.edca"), &n.edca)?;
    ampdu(&format!("{field}.ampdu"), &n.ampdu)?;
    let bytes = (1..=2_304).contains(&n.packet_bytes);
    check(bytes, &format!("{field}.packet_bytes"), "must be 1 to 2304")?;
    let load = match n.load {
        Load::Saturated => true,
        Load::Mbps(m) => m.is_finite() && (0.0..=100_000.0).contains(&m),
        Load::Airtime(share) => (0.0..=10.0).contains(&share),
    };
    check(load, &format!("{field}.load"), "must be finite, not negative, and not absurd")
}
