//! The papers' measuring traffic on the 802.11 model: data that nothing slows down, and an ACK per
//! L packets or per period that nothing waits for.
//!
//! No transport reacts to what it measures, so the result is the airtime cost of acknowledging and
//! nothing else: the ceiling of what fewer ACKs can gain.

pub mod ns3;
mod run;

use core::time::Duration;

use tack_units::Instant;

use run::{Reading, Run};

use crate::link::HostId;
use crate::wlan::{Airtime, ConfigError, Ledger, NodeStats, WlanConfig};

/// Usual IP bytes of a data packet: 1518 on Ethernet.
pub const DATA_IP_BYTES: u32 = 1_500;
/// Usual IP bytes of an ACK: 64 on Ethernet.
pub const ACK_IP_BYTES: u32 = 46;
/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;
/// The host on the wired side. Station hosts are those of the configuration.
pub const WIRED_HOST: HostId = 0;

/// Who sends data to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Wired host to every station, no ACKs.
    Udp,
    /// The same, and every station acknowledges.
    UdpAck,
    /// First station to second station through the access point, which acknowledges if told to.
    Relay,
    /// Every station to the wired host, no ACKs.
    Up,
}

impl Mode {
    /// `udp`, `udpack`, `relay` or `up`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Udp => "udp",
            Mode::UdpAck => "udpack",
            Mode::Relay => "relay",
            Mode::Up => "up",
        }
    }

    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<Mode> {
        [Mode::Udp, Mode::UdpAck, Mode::Relay, Mode::Up].into_iter().find(|m| m.name() == name)
    }
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckRule {
    /// Never.
    Never,
    /// After this many packets.
    EveryPackets(u32),
    /// At every multiple of this period, if anything has arrived since the last ACK.
    Every(Duration),
}

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// The network; each station's first host takes part.
    pub wlan: WlanConfig,
    /// Who sends.
    pub mode: Mode,
    /// When receivers acknowledge; ignored by modes without ACKs.
    pub ack: AckRule,
    /// IP bytes of every data packet.
    pub data_ip_bytes: u32,
    /// IP bytes of every ACK.
    pub ack_ip_bytes: u32,
    /// Constant rate of every sender's application in Mb/s: UDP payload, 1472 bytes of each
    /// 1500-byte packet, as ns-3's and the papers' traffic generators count. `None`: always one
    /// more packet than can be sent.
    pub offered_mbps: Option<f64>,
    /// One-way delay between the wired host and the access point.
    pub wired_delay: Duration,
    /// Left out of the result.
    pub warm_up: Duration,
    /// Measured after that.
    pub duration: Duration,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Data that reached its receivers, IP level (1500 bytes per packet as a rule), Mb/s.
    pub l3_mbps: f64,
    /// The same as UDP payload.
    pub goodput_mbps: f64,
    /// Data packets that reached their receivers.
    pub data_packets: u64,
    /// The same for each flow.
    pub data_packets_by_flow: Vec<u64>,
    /// ACKs that receivers sent.
    pub acks_sent: u64,
    /// ACKs that reached the senders.
    pub acks_delivered: u64,
    /// The access point.
    pub ap: NodeStats,
    /// All stations together.
    pub stations: NodeStats,
    /// Who used the medium.
    pub airtime: Airtime,
    /// Where all packets of the run have gone, warm-up included.
    pub ledger: Ledger,
}

/// Mean and spread over seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Mean IP-level rate in Mb/s.
    pub l3_mbps: f64,
    /// Sample standard deviation of it; 0 for one run.
    pub l3_sd: f64,
    /// Every run.
    pub runs: Vec<Report>,
}

impl OpenLoop {
    /// Saturated traffic of `mode` on `wlan`: 0.2 s of warm-up and 10 s of measurement, an ACK per
    /// two packets, 0.5 ms of wire.
    pub fn new(wlan: WlanConfig, mode: Mode) -> OpenLoop {
        OpenLoop {
            wlan,
            mode,
            ack: AckRule::EveryPackets(2),
            data_ip_bytes: DATA_IP_BYTES,
            ack_ip_bytes: ACK_IP_BYTES,
            offered_mbps: None,
            wired_delay: Duration::from_micros(500),
            warm_up: Duration::from_millis(200),
            duration: Duration::from_secs(10),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the network does not validate, the mode needs more stations than it has, or a rate or
    /// time is out of range.
    pub fn run(&self) -> Result<Report, ConfigError> {
        self.validate()?;
        let mut run = Run::new(self)?;
        run.until(Instant::ZERO + self.warm_up);
        let before = run.reading();
        run.until(Instant::ZERO + self.warm_up + self.duration);
        let after = run.reading();
        Ok(self.report(&before, &after))
    }

    /// Runs it once per seed.
    ///
    /// # Errors
    /// As [`OpenLoop::run`].
    pub fn run_seeds(&self, seeds: impl IntoIterator<Item = u64>) -> Result<Summary, ConfigError> {
        let mut experiment = self.clone();
        let mut runs = Vec::new();
        for seed in seeds {
            experiment.wlan.seed = seed;
            runs.push(experiment.run()?);
        }
        let n = runs.len() as f64;
        let l3_mbps = runs.iter().map(|r| r.l3_mbps).sum::<f64>() / n.max(1.0);
        let squares: f64 = runs.iter().map(|r| (r.l3_mbps - l3_mbps).powi(2)).sum();
        let l3_sd = if runs.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Ok(Summary { l3_mbps, l3_sd, runs })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.wlan.validate()?;
        let fail = |field: &str, problem| Err(ConfigError { field: field.to_owned(), problem });
        let hour = Duration::from_secs(3_600);
        if self.duration.is_zero() || self.duration > hour * 24 {
            return fail("duration", "must be positive, at most a day");
        }
        if self.warm_up > hour || self.wired_delay > hour {
            return fail("wired_delay or warm_up", "is longer than an hour");
        }
        if self.offered_mbps.is_some_and(|m| !(m.is_finite() && m > 0.0 && m <= 1e6)) {
            return fail("offered_mbps", "must be positive, at most 1e6");
        }
        if !(29..=65_535).contains(&self.data_ip_bytes) || self.ack_ip_bytes > 65_535 {
            return fail("data_ip_bytes or ack_ip_bytes", "must be 29 to 65535, 0 to 65535");
        }
        match self.ack {
            AckRule::EveryPackets(0) => return fail("ack", "an ACK per 0 packets"),
            AckRule::Every(period) if period < Duration::from_micros(1) => {
                return fail("ack", "a period below 1 us");
            }
            _ => {}
        }
        if self.mode == Mode::Relay && self.wlan.stations.len() < 2 {
            return fail("stations", "relay needs two");
        }
        if self.wlan.stations.iter().any(|s| s.hosts.is_empty()) {
            return fail("stations", "each needs a host");
        }
        if self.wlan.stations.iter().any(|s| s.hosts.contains(&WIRED_HOST)) {
            return fail("stations", "host 0 is the wired host");
        }
        Ok(())
    }

    fn report(&self, before: &Reading, after: &Reading) -> Report {
        let by_flow = after.data.iter().zip(&before.data).map(|(a, b)| a - b);
        let data_packets_by_flow: Vec<u64> = by_flow.collect();
        let data_packets = data_packets_by_flow.iter().sum::<u64>();
        let mbps = |bytes: u32| {
            data_packets as f64 * f64::from(bytes) * 8.0 / self.duration.as_secs_f64() / 1e6
        };
        Report {
            l3_mbps: mbps(self.data_ip_bytes),
            goodput_mbps: mbps(self.data_ip_bytes - HEADER_BYTES),
            data_packets,
            data_packets_by_flow,
            acks_sent: after.acks_sent - before.acks_sent,
            acks_delivered: after.acks_delivered - before.acks_delivered,
            ap: after.ap.since(&before.ap),
            stations: after.stations.since(&before.stations),
            airtime: after.airtime.since(&before.airtime),
            ledger: after.ledger,
        }
    }
}
