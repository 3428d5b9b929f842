//! What lies between the ends: a wire, or Wi-Fi with a wire behind its access point.
//!
//! ```text
//!  receiver  A [ 802.11 ] ─ [ wire: half the RTT each way, loss ] B  sender
//! ```
//!
//! The file is downloaded: its sender is on the wired side, its receiver is the station, whose
//! acknowledgments compete with the data for the air.

use std::io;
use std::time::Duration;

use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Airtime, NodeStats, Preset, Standard, Wlan, WlanConfig};
use tack_link::{End, HostId, Link, Output, Packet, path};
use tack_units::{Instant, Rate};

/// Where the file's sender is attached.
pub(crate) const SENDER: End = End::B;
/// Where the file's receiver is attached.
pub(crate) const RECEIVER: End = End::A;

/// Least buffer of a wire: some packets must always fit.
const MIN_BUFFER_BYTES: u64 = 32 << 10;
/// Both runs see the same draws as long as they send alike.
const SEED: u64 = 0x7ac4;

/// What limits the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Medium {
    /// A wire of this rate in each direction.
    Wire(Rate),
    /// One station and its access point.
    Wifi {
        /// The generation.
        standard: Standard,
        /// Its parameters.
        preset: Preset,
    },
}

/// What the path does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// What limits the rate.
    pub medium: Medium,
    /// Round-trip time without queueing and serialisation, all of it on the wire.
    pub rtt: Duration,
    /// Share of packets the wire loses towards the receiver.
    pub loss: f64,
    /// Share of packets the wire loses towards the sender.
    pub ack_loss: f64,
}

impl Path {
    /// The path as a link.
    ///
    /// # Errors
    /// A share that is none.
    pub(crate) fn build(&self) -> io::Result<path::Path<Hop>> {
        let invalid =
            |e: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let (from_a, from_b) = (self.direction(self.ack_loss), self.direction(self.loss));
        let wire = Wired::new(from_a, from_b, SEED).map_err(|e| invalid(&e))?;
        let wire = Hop::Wire(Box::new(wire));
        Ok(path::Path::new(match self.medium {
            Medium::Wire(_) => vec![wire],
            Medium::Wifi { standard, preset } => {
                let config = WlanConfig { seed: SEED, ..WlanConfig::preset(preset, standard) };
                let wlan = Wlan::new(config).map_err(|e| invalid(&e))?;
                vec![Hop::Wifi(Box::new(wlan)), wire]
            }
        }))
    }

    fn direction(&self, loss: f64) -> DirectionConfig {
        let shape = match self.medium {
            Medium::Wire(rate) => {
                let limit = Limit::Bytes(buffer_bytes(rate, self.rtt));
                DirectionConfig::clean(rate, Duration::ZERO, limit)
            }
            Medium::Wifi { .. } => DirectionConfig::default(),
        };
        DirectionConfig { loss: LossConfig::Bernoulli(loss), delay: self.rtt / 2, ..shape }
    }

    /// The path in words.
    pub(crate) fn describe(&self) -> String {
        let medium = match self.medium {
            Medium::Wire(rate) => {
                let kilobytes = buffer_bytes(rate, self.rtt) as f64 / 1e3;
                format!("a path of {rate}, buffer {kilobytes:.0} kB")
            }
            Medium::Wifi { standard, preset } => {
                format!("802.11{} ({} parameters)", standard.name(), preset.name())
            }
        };
        let rtt_ms = self.rtt.as_secs_f64() * 1e3;
        let (loss, ack_loss) = (self.loss * 100.0, self.ack_loss * 100.0);
        if loss + ack_loss == 0.0 {
            return format!("{medium}, RTT {rtt_ms:.1} ms");
        }
        format!("{medium}, RTT {rtt_ms:.1} ms, loss {loss:.2} % there and {ack_loss:.2} % back")
    }
}

/// A wire's buffer: what fills it, once more.
fn buffer_bytes(rate: Rate, rtt: Duration) -> u64 {
    rate.bytes_in(rtt).max(MIN_BUFFER_BYTES)
}

/// The host at `end`, as the presets number them: the station's is 1.
pub(crate) fn host(end: End) -> HostId {
    match end {
        RECEIVER => 1,
        SENDER => 0,
    }
}

/// A link of the path, so that its account can be read.
#[derive(Debug)]
pub(crate) enum Hop {
    Wifi(Box<Wlan>),
    Wire(Box<Wired>),
}

impl Hop {
    /// The air's account at `now`; a wire has none.
    pub(crate) fn air(&self, now: Instant) -> Option<Air> {
        match self {
            Hop::Wifi(wlan) => {
                let station = wlan.station_stats(0).unwrap_or_default();
                Some(Air { time: wlan.airtime(now), nodes: wlan.ap_stats().plus(&station) })
            }
            Hop::Wire(_) => None,
        }
    }
}

impl Link for Hop {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        match self {
            Hop::Wifi(wlan) => wlan.offer(end, packet, now),
            Hop::Wire(wire) => wire.offer(end, packet, now),
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        match self {
            Hop::Wifi(wlan) => wlan.poll(now),
            Hop::Wire(wire) => wire.poll(now),
        }
    }
}

/// Who used the air, and how often two did at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Air {
    pub(crate) time: Airtime,
    pub(crate) nodes: NodeStats,
}

impl Air {
    pub(crate) fn since(&self, earlier: &Air) -> Air {
        Air { time: self.time.since(&earlier.time), nodes: self.nodes.since(&earlier.nodes) }
    }
}
