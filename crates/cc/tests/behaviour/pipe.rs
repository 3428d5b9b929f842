//! A path in virtual time: one sender, a bottleneck, a receiver with a feedback policy.
//!
//! ```text
//! controller + pacer -> [loss] -> queue -> bottleneck -> delay -> receiver
//!        ^                                                           |
//!        +------------------ delay <- [feedback loss] <--------------+
//! ```
//!
//! Packets are numbered like PKT.SEQ: never reused, so a gap is a loss and nothing is ambiguous.
//! Feedback is cumulative in information: what a lost one told, the next one tells.

mod engine;
mod policed;

use core::time::Duration;

use tack_cc::{Algorithm, Config, CongestionControl, Snapshot};
use tack_units::{Instant, Rate};

use self::engine::Pipe;

pub(crate) const MSS: u64 = 1_500;

/// When the receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Feedback {
    /// Every `n` packets, or after 40 ms.
    Every(u64),
    /// Eq. 4 with beta = 4 and L = 2, per packet in Startup.
    Tack,
}

#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    /// `(from, rate)`, in order: the bottleneck changes.
    pub(crate) changes: Vec<(Instant, Rate)>,
    pub(crate) rtt: Duration,
    pub(crate) buffer_bytes: u64,
    pub(crate) loss: f64,
    /// Every so many packets, one is lost, whatever `loss` says.
    pub(crate) lose_every: Option<u64>,
    pub(crate) feedback_loss: f64,
    pub(crate) feedback: Feedback,
    /// Packets that leave the bottleneck at one instant, at most; 1 is no aggregation.
    pub(crate) aggregate: usize,
    /// Contention before each aggregate: uniform up to twice this.
    pub(crate) contention: Duration,
    /// Times at which the bottleneck stands still.
    pub(crate) suspended: Vec<(Instant, Instant)>,
    /// The application pauses: nothing is sent in these times.
    pub(crate) idle: Vec<(Instant, Instant)>,
    /// The receiver marks instead of the queue dropping when more than this is queued.
    pub(crate) mark_above: Option<u64>,
    /// A token bucket before the queue, of this rate and depth in bytes, that drops what exceeds
    /// it.
    pub(crate) police: Option<(Rate, u64)>,
    pub(crate) seed: u64,
}

impl Path {
    /// Clean, with a buffer of one bdp.
    pub(crate) fn new(mbps: u64, rtt_ms: u64, feedback: Feedback) -> Self {
        let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
        Self {
            rate,
            changes: Vec::new(),
            rtt,
            buffer_bytes: rate.bytes_in(rtt).max(20 * MSS),
            loss: 0.0,
            lose_every: None,
            feedback_loss: 0.0,
            feedback,
            aggregate: 1,
            contention: Duration::ZERO,
            suspended: Vec::new(),
            idle: Vec::new(),
            mark_above: None,
            police: None,
            seed: 1,
        }
    }

    pub(crate) fn run(self, algorithm: Algorithm, until: Duration) -> Trace {
        let mut config = Config::new(MSS as u32);
        config.seed = self.seed;
        self.run_with(algorithm, config, until)
    }

    pub(crate) fn run_with(self, algorithm: Algorithm, config: Config, until: Duration) -> Trace {
        let controller = CongestionControl::new(algorithm, config, Instant::ZERO);
        Pipe::new(self, controller).run(Instant::ZERO + until)
    }
}

/// What was seen at one acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) at: Instant,
    pub(crate) snapshot: Snapshot,
    pub(crate) in_flight: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) rtt: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// `(when, bytes)` of every arrival.
    pub(crate) arrivals: Vec<(Instant, u64)>,
    pub(crate) sights: Vec<Sight>,
    pub(crate) feedbacks: u64,
    pub(crate) losses: u64,
    pub(crate) timeouts: u64,
}

impl Trace {
    /// Goodput from `from` to `to`, in seconds.
    pub(crate) fn goodput(&self, from: f64, to: f64) -> Rate {
        let inside = |at: Instant| (from..to).contains(&at.as_secs_f64());
        let bytes = self.arrivals.iter().filter(|a| inside(a.0)).map(|a| a.1).sum();
        Rate::from_bytes_over(bytes, Duration::from_secs_f64(to - from)).expect("time passes")
    }

    pub(crate) fn sights_in(&self, from: f64, to: f64) -> impl Iterator<Item = &Sight> {
        self.sights.iter().filter(move |s| (from..to).contains(&s.at.as_secs_f64()))
    }

    pub(crate) fn median<T: Ord + Copy>(
        &self,
        from: f64,
        to: f64,
        what: impl Fn(&Sight) -> T,
    ) -> T {
        self.quantile(from, to, 0.5, what)
    }

    pub(crate) fn quantile<T: Ord + Copy>(
        &self,
        from: f64,
        to: f64,
        part: f64,
        what: impl Fn(&Sight) -> T,
    ) -> T {
        let mut all: Vec<T> = self.sights_in(from, to).map(what).collect();
        all.sort_unstable();
        all[((all.len() as f64 * part) as usize).min(all.len() - 1)]
    }

    /// First time, in seconds, from `from` on at which `what` holds.
    pub(crate) fn first(&self, from: f64, what: impl Fn(&Sight) -> bool) -> Option<f64> {
        self.sights_in(from, f64::MAX).find(|s| what(s)).map(|s| s.at.as_secs_f64())
    }
}
