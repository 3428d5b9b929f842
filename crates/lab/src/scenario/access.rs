//! Hosts of their own behind `[wan]`: what `[access]` may say.
//!
//! ```text
//! client 0 --┐                     ┌-- server 0
//! client 1 --┼-- A [wan] B --------┼-- server 1        station i of a flow: client i, server i
//! client n --┘                     └-- server n
//! ```

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tack_link::queue::Limit;
use tack_link::wired::{Capacity, DirectionConfig, Jitter};
use tack_units::Rate;

use super::error::{Problem, within};
use super::keys::{is_zero, one};

/// Most pairs of hosts.
const MAX_PAIRS: f64 = 512.0;

/// Pairs of hosts, each host on a link of its own to the router at its end of `[wan]`: a dumbbell.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// How many clients, and as many servers.
    #[serde(default = "one")]
    pub pairs: u32,
    /// Mbit/s of every access link; left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// One way over one access link, milliseconds: one value for all, or a list with one per pair.
    #[serde(default)]
    pub delay_ms: PerPair,
    /// Spread of the access links' delays from pair to pair, as a share of the mean: the least is
    /// half of this below, the greatest half of it above; the same for pairs 2n and 2n + 1. Equal
    /// delays put flows in lockstep: microseconds decide who loses at a full drop-tail queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_spread: f64,
    /// Buffer of every access link in packets.
    #[serde(default = "thousand")]
    pub buffer_packets: u32,
    /// Longest time a host takes over a packet before it goes out on its link, milliseconds: each
    /// packet its own, uniform from 0, in order. Without it, flows through a drop-tail queue lock
    /// to each other's phase [Floyd & Jacobson 1992 §3.3].
    #[serde(default)]
    pub processing_ms: f64,
}

fn thousand() -> u32 {
    1_000
}

/// A number for all pairs, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum PerPair {
    /// The same for all.
    All(f64),
    /// By pair.
    Each(Vec<f64>),
}

impl Default for PerPair {
    fn default() -> Self {
        PerPair::All(0.0)
    }
}

impl PerPair {
    /// That of one pair.
    pub fn of(&self, pair: u32) -> f64 {
        match self {
            PerPair::All(v) => *v,
            PerPair::Each(list) => list.get(pair as usize).copied().unwrap_or(0.0),
        }
    }

    fn values(&self) -> &[f64] {
        match self {
            PerPair::All(v) => core::slice::from_ref(v),
            PerPair::Each(list) => list,
        }
    }
}

impl Access {
    /// `pairs` pairs on links of `rate_mbps` and `delay_ms` each way.
    pub fn uniform(pairs: u32, rate_mbps: f64, delay_ms: f64) -> Access {
        Access {
            pairs,
            rate_mbps: Some(rate_mbps),
            delay_ms: PerPair::All(delay_ms),
            delay_spread: 0.0,
            buffer_packets: thousand(),
            processing_ms: 0.0,
        }
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        within("pairs", f64::from(self.pairs), 1.0, MAX_PAIRS)?;
        within("rate_mbps", self.rate_mbps, 1e-3, 1e6)?;
        if let PerPair::Each(list) = &self.delay_ms
            && list.len() != self.pairs as usize
        {
            let (n, pairs) = (list.len(), self.pairs);
            let what = format!("lists {n} values for {pairs} pairs: one number, or one per pair");
            return Err(Problem::new("delay_ms", what));
        }
        let mut delays = self.delay_ms.values().iter();
        delays.try_for_each(|v| within("delay_ms", *v, 0.0, 1e5))?;
        within("delay_spread", self.delay_spread, 0.0, 2.0)?;
        within("processing_ms", self.processing_ms, 0.0, 1e4)?;
        if self.buffer_packets == 0 {
            return Err(Problem::new("buffer_packets", "must hold something"));
        }
        Ok(())
    }

    /// Mean delay of one access link over the pairs.
    pub fn mean_delay(&self) -> Duration {
        let sum: f64 = (0..self.pairs).map(|pair| self.delay_of(pair)).sum();
        Duration::from_secs_f64(sum / f64::from(self.pairs.max(1)) / 1e3)
    }

    /// One way over each link of `pair`, milliseconds.
    fn delay_of(&self, pair: u32) -> f64 {
        let groups = f64::from(self.pairs.div_ceil(2).max(1));
        let offset = (f64::from(pair / 2) + 0.5) / groups - 0.5;
        self.delay_ms.of(pair) * (1.0 + self.delay_spread * offset)
    }

    /// Both directions of both links of `pair`.
    pub fn config(&self, pair: u32) -> DirectionConfig {
        let delay = Duration::from_secs_f64(self.delay_of(pair) / 1e3);
        let limit = Limit::Packets(self.buffer_packets);
        let rate = self.rate_mbps.map(|mbps| Rate::from_bps((mbps * 1e6) as u64));
        DirectionConfig {
            capacity: rate.map_or(Capacity::Unlimited, Capacity::Constant),
            jitter: match Duration::from_secs_f64(self.processing_ms / 1e3) {
                Duration::ZERO => Jitter::None,
                max => Jitter::Uniform { max },
            },
            ..DirectionConfig::clean(Rate::from_mbps(1), delay, limit)
        }
    }
}
