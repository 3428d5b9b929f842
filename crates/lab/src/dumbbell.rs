//! The wired topology of Landström & Larzon, as scenarios.
//!
//! ```text
//! sender 1 --┐                         ┌-- receiver 1
//! sender 2 --┼-- bottleneck, queue ----┼-- receiver 2
//! sender n --┘                         └-- receiver n
//! ```
//!
//! As in ns-2: segments of 1000 bytes, window-based controllers without pacing, queues that count
//! packets.

use core::time::Duration;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use tack_cc::Algorithm;

use crate::scenario::{Access, Flow, PerPair, QueueKind, Scenario, Strategy, Wan, WanDirection};

/// Application bytes of a segment [Landström & Larzon §4.1].
pub const SEGMENT_BYTES: u16 = 1_000;
/// The same segment on the IP level, with timestamps.
pub const PACKET_BYTES: u32 = 1_052;
/// One way over an access link, milliseconds, in the mean.
const ACCESS_DELAY_MS: f64 = 1.0;

/// What waits at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Drop-tail with so many bandwidth-delay products.
    DropTail(f64),
    /// RED: thresholds at 0.25 and 1.25 bdp, at most 10 % between them, gentle
    /// [Landström & Larzon §4.6].
    Red,
    /// CoDel with the defaults of RFC 8289 and room for four bdp.
    Codel,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queue::DropTail(bdp) if *bdp == 1.0 => f.pad("drop-tail"),
            Queue::DropTail(bdp) => f.pad(&format!("drop-tail:{bdp}")),
            Queue::Red => f.pad("red"),
            Queue::Codel => f.pad("codel"),
        }
    }
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "red" => return Ok(Queue::Red),
            "codel" => return Ok(Queue::Codel),
            "drop-tail" => return Ok(Queue::DropTail(1.0)),
            _ => {}
        }
        let bdp = s.strip_prefix("drop-tail:").and_then(|bdp| bdp.parse::<f64>().ok());
        match bdp {
            Some(bdp) if (0.001..=10_000.0).contains(&bdp) => Ok(Queue::DropTail(bdp)),
            _ => Err(format!("`{s}` is no queue: drop-tail, drop-tail:BDPS, red or codel")),
        }
    }
}

impl Queue {
    /// The keys of a scenario that make it the queue of `[wan]`.
    pub fn keys(&self) -> Vec<(&'static str, toml::Value)> {
        let (kind, bdp) = match self {
            Queue::DropTail(bdp) => ("drop-tail", *bdp),
            // Gentle RED drops everything at twice its upper threshold: room for that.
            Queue::Red => ("red", 2.5),
            Queue::Codel => ("codel", 4.0),
        };
        let mut keys = vec![("wan.queue", kind.into()), ("wan.buffer_bdp", bdp.into())];
        if *self == Queue::Red {
            keys.push(("wan.red_bdp", vec![0.25, 1.25].into()));
        }
        keys
    }
}

/// A dumbbell without flows.
#[derive(Clone, Copy, Debug)]
pub struct Dumbbell {
    /// Of the bottleneck, both ways.
    pub rate_mbps: f64,
    /// Of every access link: how close together a burst's segments reach the bottleneck.
    pub access_mbps: f64,
    /// Without queues, access links included; at least 4 ms.
    pub rtt: Duration,
    /// At both ends of the bottleneck.
    pub queue: Queue,
    /// Hosts on each side.
    pub pairs: u32,
    /// Whether access delays differ a little from pair to pair. Equal ones put flows in lockstep:
    /// who loses at a full drop-tail queue is decided by microseconds, not by chance.
    pub staggered: bool,
    /// Longest time a host takes over a packet; see [`Access::processing_ms`].
    pub processing: Duration,
}

impl Dumbbell {
    /// The scenario: `flow` over this dumbbell.
    pub fn scenario(&self, flow: Vec<Flow>, duration_s: f64, warmup_s: f64, seed: u64) -> Scenario {
        let access_ms = ACCESS_DELAY_MS.min(self.rtt.as_secs_f64() * 250.0);
        let delay_ms = (self.rtt.as_secs_f64() * 500.0 - 2.0 * access_ms).max(0.0);
        let direction = WanDirection::default();
        let wan = Wan {
            rate_mbps: Some(self.rate_mbps),
            delay_ms: Some(delay_ms),
            packet_bytes: Some(PACKET_BYTES),
            down: Some(direction.clone()),
            up: Some(direction),
            ..self.queue()
        };
        Scenario {
            name: format!("dumbbell-{}-{}", self.rate_mbps, self.queue),
            duration_s,
            warmup_s,
            seed,
            runs: 1,
            wifi: None,
            wan: Some(wan),
            access: Some(Access {
                delay_ms: self.access_delays(access_ms),
                processing_ms: self.processing.as_secs_f64() * 1e3,
                ..Access::uniform(self.pairs, self.access_mbps, access_ms)
            }),
            flow,
        }
    }

    fn queue(&self) -> Wan {
        let (kind, bdp) = match self.queue {
            Queue::DropTail(bdp) => (QueueKind::DropTail, bdp),
            // Gentle RED drops everything at twice its upper threshold: room for that.
            Queue::Red => (QueueKind::Red, 2.5),
            Queue::Codel => (QueueKind::Codel, 4.0),
        };
        let red = kind == QueueKind::Red;
        Wan {
            queue: Some(kind),
            buffer_bdp: Some(bdp),
            red_bdp: red.then_some((0.25, 1.25)),
            red_max_p: red.then_some(0.1),
            ..Wan::default()
        }
    }

    /// Up to half a mean more and less, the same for pairs 2n and 2n + 1.
    fn access_delays(&self, mean_ms: f64) -> PerPair {
        if !self.staggered {
            return PerPair::All(mean_ms);
        }
        let groups = self.pairs.div_ceil(2).max(1);
        let offset = |pair: u32| (f64::from(pair / 2) + 0.5) / f64::from(groups) - 0.5;
        PerPair::Each((0..self.pairs).map(|pair| mean_ms * (1.0 + offset(pair))).collect())
    }
}

/// A bulk flow as ns-2's: 1000-byte segments, unpaced, with this strategy and controller.
pub fn flow(strategy: Strategy, cc: Algorithm) -> Flow {
    Flow { cc, segment_bytes: Some(SEGMENT_BYTES), paced: false, ..Flow::bulk(strategy) }
}
