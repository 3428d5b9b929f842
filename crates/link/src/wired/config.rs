//! A direction's settings, checked once.

use core::time::Duration;

use tack_units::Rate;

use super::capacity::Capacity;
use super::delay::DelayStep;
use super::jitter::Jitter;
use super::outage::Outages;
use crate::error::ConfigError;
use crate::loss::LossConfig;
use crate::queue::{Limit, QueueConfig};

/// Bit errors that the lower layers did not catch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Corruption {
    /// Per packet, in `0..=1`.
    pub probability: f64,
    /// Between one bit and this many are flipped, anywhere in the packet's bytes; 0 counts as 1.
    /// A packet without bytes is dropped instead, as a receiver's checksum would.
    pub max_flips: u32,
}

/// Reordering on demand: some packets are held back and later ones overtake them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reordering {
    /// Share of packets held back, in `0..=1`.
    pub probability: f64,
    /// Least extra delay of those.
    pub min: Duration,
    /// Greatest extra delay of those.
    pub max: Duration,
}

/// One direction of a wired link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionConfig {
    /// How fast the bottleneck serves.
    pub capacity: Capacity,
    /// What waits for it.
    pub queue: QueueConfig,
    /// Times when the bottleneck stands still and packets wait, as during a Wi-Fi scan.
    pub holds: Outages,
    /// Times when the medium is cut and packets that leave the bottleneck are lost.
    pub blackouts: Outages,
    /// Random loss.
    pub loss: LossConfig,
    /// Bit errors.
    pub corruption: Corruption,
    /// Share of packets delivered twice, in `0..=1`.
    pub duplication: f64,
    /// Propagation time.
    pub delay: Duration,
    /// Propagation time from moments on, ascending; `delay` before the first. Order is kept.
    pub delay_steps: Vec<DelayStep>,
    /// Extra delay that varies.
    pub jitter: Jitter,
    /// Packets held back.
    pub reordering: Reordering,
}

impl DirectionConfig {
    /// A clean path: constant rate, propagation delay, drop-tail buffer.
    pub fn clean(rate: Rate, delay: Duration, limit: Limit) -> DirectionConfig {
        DirectionConfig {
            capacity: Capacity::Constant(rate),
            queue: QueueConfig::drop_tail(limit),
            delay,
            ..DirectionConfig::default()
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.capacity.validate()?;
        self.queue.validate()?;
        self.holds.validate()?;
        self.blackouts.validate()?;
        self.loss.validate()?;
        self.jitter.validate()?;
        if !self.delay_steps.windows(2).all(|w| w[0].at < w[1].at) {
            return Err(ConfigError::Unsorted("delay steps"));
        }
        ConfigError::check_probability("corruption", self.corruption.probability)?;
        ConfigError::check_probability("duplication", self.duplication)?;
        ConfigError::check_probability("reordering", self.reordering.probability)?;
        if self.reordering.min > self.reordering.max {
            return Err(ConfigError::EmptyRange("reordering"));
        }
        Ok(())
    }
}
