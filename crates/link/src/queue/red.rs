//! Random early detection, gentle, with ECN [Floyd & Jacobson 1993; Floyd 2000].
//!
//! ```text
//! avg  = (1 - w) avg + w q                    on arrival at a busy queue of q packets
//! avg  = (1 - w)^(idle / packet_time) avg     on arrival at an empty one
//!
//! p_b  = 0                                    avg <  min
//!      = max_p (avg - min) / (max - min)      min <= avg < max
//!      = max_p + (1 - max_p)(avg - max) / max max <= avg < 2 max   ("gentle")
//!      = 1                                    2 max <= avg
//! p    = p_b / (1 - count p_b)                count: packets since the last drop or mark
//! ```
//!
//! The last line spaces drops evenly, between 1 and 1/p_b packets apart: about `2 p_b` are struck.

use core::time::Duration;

use rand_pcg::Pcg64;
use tack_units::{Instant, math};

use crate::draw;
use crate::error::ConfigError;

/// RED's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average queue in packets below which nothing is dropped.
    pub min_packets: f64,
    /// Average queue in packets at which `max_p` is reached; everything is dropped at twice this.
    pub max_packets: f64,
    /// Probability at `max_packets`, in `0..=1`.
    pub max_p: f64,
    /// Weight of a new sample in the average, in `0..=1`.
    pub weight: f64,
    /// Time a typical packet takes to transmit: how fast the average decays over an idle queue.
    pub packet_time: Duration,
    /// Mark ECN-capable packets instead of dropping them, as long as the average is below
    /// `max_packets` [RFC 3168 §7].
    pub ecn: bool,
}

impl Default for RedConfig {
    /// Thresholds 5 and 15 packets, `max_p` 0.1, weight 0.002: ns-2's and Floyd's advice; packet
    /// time of 1500 bytes at 100 Mbit/s; dropping.
    fn default() -> Self {
        RedConfig {
            min_packets: 5.0,
            max_packets: 15.0,
            max_p: 0.1,
            weight: 0.002,
            packet_time: Duration::from_micros(120),
            ecn: false,
        }
    }
}

impl RedConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_probability("RED max_p", self.max_p)?;
        ConfigError::check_probability("RED weight", self.weight)?;
        let ordered = 0.0 <= self.min_packets && self.min_packets < self.max_packets;
        if !ordered || !self.max_packets.is_finite() {
            return Err(ConfigError::RedThresholds);
        }
        if self.packet_time.is_zero() {
            return Err(ConfigError::NotPositive("RED's packet time"));
        }
        Ok(())
    }
}

/// What RED thinks of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Mark,
    Drop,
}

#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    rng: Pcg64,
    avg: f64,
    /// Packets since the last drop or mark; `None` while the average is below the minimum.
    count: Option<u32>,
    /// Since when the queue is empty; `None` while it is not.
    idle_since: Option<Instant>,
}

impl Red {
    pub(super) fn new(config: RedConfig, rng: Pcg64) -> Self {
        Red { config, rng, avg: 0.0, count: None, idle_since: Some(Instant::ZERO) }
    }

    /// The queue has just emptied.
    pub(super) fn emptied(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// A packet arrives while `queued` wait.
    pub(super) fn arrival(&mut self, queued: usize, ecn: u8, now: Instant) -> Verdict {
        self.update_average(queued, now);
        let p_b = self.probability();
        if p_b <= 0.0 {
            self.count = if self.avg < self.config.min_packets { None } else { self.count };
            return Verdict::Accept;
        }
        let count = self.count.map_or(0, |c| c.saturating_add(1));
        let left = 1.0 - f64::from(count) * p_b;
        let p = if left <= p_b { 1.0 } else { p_b / left };
        if !draw::chance(&mut self.rng, p) {
            self.count = Some(count);
            return Verdict::Accept;
        }
        self.count = Some(0);
        let mark = self.config.ecn && ecn != 0 && self.avg < self.config.max_packets;
        if mark { Verdict::Mark } else { Verdict::Drop }
    }

    fn update_average(&mut self, queued: usize, now: Instant) {
        let w = self.config.weight;
        match self.idle_since.take() {
            Some(since) if queued == 0 => {
                let packets = (now - since).as_secs_f64() / self.config.packet_time.as_secs_f64();
                self.avg *= math::pow(1.0 - w, packets);
                // Should the packet be dropped, the queue goes on being empty from here.
                self.idle_since = Some(now);
            }
            _ => self.avg += w * (queued as f64 - self.avg),
        }
    }

    fn probability(&self) -> f64 {
        let RedConfig { min_packets: min, max_packets: max, max_p, .. } = self.config;
        match self.avg {
            avg if avg < min => 0.0,
            avg if avg < max => max_p * (avg - min) / (max - min),
            avg if avg < 2.0 * max => max_p + (1.0 - max_p) * (avg - max) / max,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_average(avg: f64, ecn: bool) -> Red {
        // Weight zero pins the average, so that the curve can be measured point by point.
        let config = RedConfig { weight: 0.0, ecn, ..RedConfig::default() };
        config.validate().unwrap();
        Red { avg, idle_since: None, ..Red::new(config, draw::stream(1, 0)) }
    }

    #[test]
    fn mean_drop_rate_follows_the_gentle_curve() {
        let n = 200_000;
        for (avg, p_b) in
            [(4.9, 0.0), (7.5, 0.025), (10.0, 0.05), (14.0, 0.09), (18.0, 0.28), (30.0, 1.0)]
        {
            let mut red = at_average(avg, false);
            let drops =
                (0..n).filter(|_| red.arrival(1, 0, Instant::ZERO) == Verdict::Drop).count();
            let share = drops as f64 / f64::from(n);
            // Gaps are uniform on whole numbers up to 1/p_b; rounding that up bends the curve.
            let expected = if p_b == 0.0 { 0.0 } else { mean_share(p_b) };
            assert!((share - expected).abs() <= 0.02 * expected, "avg {avg}: {share} {expected}");
        }
    }

    /// The naive oracle: the mean gap from the probabilities of each gap length.
    fn mean_share(p_b: f64) -> f64 {
        let (mut mean, mut alive, mut count) = (0.0, 1.0, 1.0);
        while alive > 1e-12 {
            let left = 1.0 - count * p_b;
            let p = if left <= p_b { 1.0 } else { p_b / left };
            mean += alive * p * count;
            count += 1.0;
            alive *= 1.0 - p;
        }
        1.0 / mean
    }

    #[test]
    fn drops_are_never_further_apart_than_the_inverse_probability() {
        let mut red = at_average(10.0, false);
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            if red.arrival(1, 0, Instant::ZERO) == Verdict::Drop {
                assert!(gap <= 19, "{gap} packets at p_b = 0.05");
                gap = 0;
            }
        }
    }

    #[test]
    fn ecn_capable_packets_are_marked_below_the_upper_threshold_and_dropped_above() {
        let struck = |avg, ecn| {
            let mut red = at_average(avg, true);
            let mut verdicts = (0..1_000).map(|_| red.arrival(1, ecn, Instant::ZERO));
            verdicts.find(|v| *v != Verdict::Accept).unwrap()
        };
        assert_eq!(struck(10.0, 2), Verdict::Mark);
        assert_eq!(struck(10.0, 0), Verdict::Drop);
        assert_eq!(struck(20.0, 2), Verdict::Drop);
    }

    #[test]
    fn the_average_is_the_ewma_of_the_queue_and_decays_when_idle() {
        let mut red = Red::new(RedConfig::default(), draw::stream(1, 0));
        red.idle_since = None;
        let mut oracle = 0.0;
        for q in 0..100usize {
            red.arrival(q, 0, Instant::ZERO);
            oracle = 0.998 * oracle + 0.002 * q as f64;
        }
        assert!((red.avg - oracle).abs() < 1e-9);
        red.emptied(Instant::from_secs(1));
        // 100 packet times of 120 us.
        red.arrival(0, 0, Instant::from_secs(1) + Duration::from_millis(12));
        assert!((red.avg - oracle * 0.998f64.powi(100)).abs() < 1e-9);
    }
}
