//! Wired paths: two independent directions, each a queue before a bottleneck before a medium.
//!
//! ```text
//! offer -> queue -> bottleneck -> blackout? loss? damage? copies? -> delay + jitter -> deliver
//!                   rate, steps,                                     (or held back: reordering)
//!                   or a trace; holds
//! ```
//!
//! What the medium loses has crossed the bottleneck and used its capacity, as on a real path.
//! Every event has an exact modelled time: a driver that polls late gets the same packets in the
//! same order, and lateness never accumulates. So the same link serves a simulation and a relay in
//! real time:
//!
//! ```
//! use core::time::Duration;
//! use tack_link::loss::LossConfig;
//! use tack_link::queue::Limit;
//! use tack_link::wired::{DirectionConfig, Wired};
//! use tack_link::{End, Link, Output, Packet, PacketKind};
//! use tack_units::{Instant, Rate};
//!
//! let down = DirectionConfig::clean(
//!     Rate::from_mbps(100),
//!     Duration::from_millis(40),
//!     Limit::Bytes(1_000_000),
//! );
//! let up = DirectionConfig { loss: LossConfig::Bernoulli(0.0), ..down.clone() };
//! let mut link = Wired::new(down, up, 42)?;
//! let now = Instant::from_secs(1);
//! let packet = Packet { dst: 1, ip_bytes: 1_250, sent_at: now, ..Packet::default() };
//! link.offer(End::A, packet, now);
//! // 0.1 ms on the wire and 40 ms of delay; a driver that wakes late gets it then.
//! let Output::Wait(Some(mut due)) = link.poll(now) else { panic!("nothing is due yet") };
//! let arrival = loop {
//!     match link.poll(due) {
//!         Output::Deliver { end: End::B, .. } => break due,
//!         Output::Wait(Some(later)) => due = later,
//!         other => panic!("{other:?}"),
//!     }
//! };
//! assert_eq!(arrival, now + Duration::from_micros(40_100));
//! # Ok::<(), tack_link::wired::ConfigError>(())
//! ```

mod bottleneck;
mod capacity;
mod config;
mod delay;
mod direction;
mod flight;
mod jitter;
mod medium;
mod outage;

use tack_units::{Instant, earliest};

pub use crate::counters::{Counters, Tally};
pub use crate::error::ConfigError;
use crate::link::{End, Link, Output, Packet};
pub use capacity::{Capacity, RateStep};
pub use config::{Corruption, DirectionConfig, Reordering};
pub use delay::DelayStep;
use direction::Direction;
pub use jitter::Jitter;
pub use outage::Outages;

/// A wired link: what enters at one end leaves at the other, later, or not at all.
#[derive(Debug)]
pub struct Wired {
    from_a: Direction,
    from_b: Direction,
    now: Instant,
}

impl Wired {
    /// A link with one configuration per direction, named by the end where packets enter. All
    /// its randomness comes from `seed`, with a stream for each impairment of each direction.
    ///
    /// # Errors
    /// When a setting is out of its range.
    pub fn new(
        from_a: DirectionConfig,
        from_b: DirectionConfig,
        seed: u64,
    ) -> Result<Wired, ConfigError> {
        Ok(Wired {
            from_a: Direction::new(from_a, seed, 0)?,
            from_b: Direction::new(from_b, seed, 1)?,
            now: Instant::ZERO,
        })
    }

    /// The same configuration in both directions.
    ///
    /// # Errors
    /// When a setting is out of its range.
    pub fn symmetric(config: DirectionConfig, seed: u64) -> Result<Wired, ConfigError> {
        Wired::new(config.clone(), config, seed)
    }

    /// Asks to be polled when something may arrive at the far end, and no more when a packet only leaves its
    /// queue: that has a time of its own, and is worked off by whoever polls later. What arrives when is the
    /// same, for half of the polls. Where equal wires have events at one instant, a world may take those in
    /// another order.
    #[must_use]
    pub fn for_arrivals(mut self) -> Wired {
        self.from_a.set_for_arrivals();
        self.from_b.set_for_arrivals();
        self
    }

    /// What became of the packets that entered at `end`, as of the last call.
    pub fn counters(&self, end: End) -> Counters {
        self.direction(end).counters()
    }

    /// IP-level bytes waiting at the bottleneck behind `end`, without the packet in service.
    pub fn queue_bytes(&self, end: End) -> u64 {
        self.direction(end).queue_bytes()
    }

    fn direction(&self, end: End) -> &Direction {
        match end {
            End::A => &self.from_a,
            End::B => &self.from_b,
        }
    }
}

impl Link for Wired {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        self.now = self.now.max(now);
        match end {
            End::A => self.from_a.offer(packet, self.now),
            End::B => self.from_b.offer(packet, self.now),
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        self.now = self.now.max(now);
        let due_at_b = self.from_a.advance(self.now);
        let due_at_a = self.from_b.advance(self.now);
        // A late poll releases both directions merged by their modelled times.
        let (direction, end) = match (due_at_b, due_at_a) {
            (Some(b), Some(a)) if a < b => (&mut self.from_b, End::A),
            (Some(_), _) => (&mut self.from_a, End::B),
            (None, Some(_)) => (&mut self.from_b, End::A),
            (None, None) => {
                return Output::Wait(earliest(self.from_a.deadline(), self.from_b.deadline()));
            }
        };
        let packet = direction.deliver().expect("this direction has a packet due");
        Output::Deliver { end, packet }
    }
}

#[cfg(test)]
mod tests;
