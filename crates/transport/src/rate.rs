//! Delivery-rate samples at the sender [draft-cheng-iccrg-delivery-rate-estimation-00 §3].
//!
//! ```text
//! rate = delivered since the packet left / max(send interval, ack interval)
//! ```
//!
//! Every packet carries what was delivered when it left; the newest packet that an acknowledgment
//! covers decides. The longer interval counts, so that neither a burst of sending nor a
//! compressed run of acknowledgments shows a rate the path does not have.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// The state a packet left in (`P.*` of the draft).
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    delivered: u64,
    delivered_at: Instant,
    /// Departure of the packet that the send interval is counted from.
    first_sent_at: Instant,
    app_limited: bool,
}

impl Snapshot {
    /// Of a packet about which nothing is known but that it left.
    pub fn at(now: Instant) -> Snapshot {
        Snapshot { delivered: 0, delivered_at: now, first_sent_at: now, app_limited: true }
    }
}

/// The connection's state (`C.*` of the draft).
#[derive(Debug)]
pub struct RateEstimator {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Samples are application-limited until `delivered` exceeds this.
    app_limited_until: Option<u64>,
    /// The newest packet that the acknowledgment under way covers (`rs.*` of the draft).
    newest: Option<Departure>,
}

/// How a packet left.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Later packets have greater ones: PKT.SEQ, a packet number, or a serial number.
    pub xmit: u64,
    /// When.
    pub sent_at: Instant,
    /// What [`RateEstimator::on_sent`] said then.
    pub snapshot: Snapshot,
}

/// What an acknowledgment yielded.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Departure of the newest packet covered.
    pub sent_at: Instant,
    /// Bytes delivered when it left.
    pub prior_delivered: u64,
    /// `None`: the times allow none.
    pub rate: Option<Rate>,
    /// That it was measured over; zero without one.
    pub interval: Duration,
    /// The sender had nothing to send meanwhile.
    pub app_limited: bool,
}

impl RateEstimator {
    /// Nothing delivered yet.
    pub fn new(now: Instant) -> Self {
        RateEstimator {
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            app_limited_until: None,
            newest: None,
        }
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A packet leaves while `in_flight` bytes (without it) are outstanding.
    pub fn on_sent(&mut self, in_flight: u64, now: Instant) -> Snapshot {
        if in_flight == 0 {
            // After idle both intervals start over.
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// There is no more to send while `in_flight` bytes are outstanding.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    /// A packet is now known to have arrived, and `new_bytes` by it.
    pub fn on_delivered(&mut self, new_bytes: u64, packet: Departure, now: Instant) {
        self.add_delivered(new_bytes, now);
        if self.newest.is_none_or(|newest| packet.xmit > newest.xmit) {
            self.newest = Some(packet);
        }
    }

    /// Bytes arrived that no segment can be named for (duplicate acknowledgments without SACK).
    pub fn add_delivered(&mut self, bytes: u64, now: Instant) {
        if bytes > 0 {
            self.delivered += bytes;
            self.delivered_at = now;
        }
    }

    /// Ends the acknowledgment; `None` when it covered no packet anew.
    pub fn sample(&mut self, rtt_min: Option<Duration>, now: Instant) -> Option<Sample> {
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        let Departure { sent_at, snapshot, .. } = self.newest.take()?;
        self.first_sent_at = sent_at;
        let send_interval = sent_at - snapshot.first_sent_at;
        let ack_interval = now - snapshot.delivered_at;
        let interval = send_interval.max(ack_interval);
        // Data cannot be delivered and acknowledged within less than a round trip: the sample
        // stems from a needless retransmission, or the clock did not move.
        let valid = rtt_min.is_none_or(|least| interval >= least);
        let bytes = self.delivered - snapshot.delivered;
        let rate = if valid { Rate::from_bytes_over(bytes, interval) } else { None };
        Some(Sample {
            sent_at,
            prior_delivered: snapshot.delivered,
            rate,
            interval: if rate.is_some() { interval } else { Duration::ZERO },
            app_limited: snapshot.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn segment(xmit: u64, sent_at: Instant, snapshot: Snapshot) -> Departure {
        Departure { xmit, sent_at, snapshot }
    }

    /// 1000 bytes a millisecond leave and are acknowledged `rtt` later.
    fn run(estimator: &mut RateEstimator, acks_ms: impl Fn(u64) -> u64) -> Vec<Sample> {
        let mut sent = Vec::new();
        let mut samples = Vec::new();
        let mut acked = 0;
        for ms in 0..200u64 {
            let now = Instant::from_millis(ms);
            while acked < sent.len() && acks_ms(acked as u64) <= ms {
                let (at, snapshot) = sent[acked];
                estimator.on_delivered(1_000, segment(acked as u64 + 1, at, snapshot), now);
                samples.extend(estimator.sample(Some(20 * MS), now));
                acked += 1;
            }
            let in_flight = 1_000 * (sent.len() - acked) as u64;
            sent.push((now, estimator.on_sent(in_flight, now)));
        }
        samples
    }

    #[test]
    fn a_steady_stream_shows_its_own_rate() {
        let mut estimator = RateEstimator::new(Instant::ZERO);
        let samples = run(&mut estimator, |i| i + 20);
        let last = samples.last().expect("acknowledged");
        assert_eq!(last.rate, Some(Rate::from_mbps(8)));
        assert_eq!(last.interval, 20 * MS);
        assert!(!last.app_limited);
    }

    #[test]
    fn compressed_acknowledgments_do_not_raise_the_rate() {
        let mut estimator = RateEstimator::new(Instant::ZERO);
        // All acknowledgments of 10 ms arrive at once.
        let samples = run(&mut estimator, |i| i / 10 * 10 + 30);
        for sample in samples {
            assert!(sample.rate.is_none_or(|r| r <= Rate::from_mbps(8)), "{sample:?}");
        }
    }

    #[test]
    fn samples_are_app_limited_until_what_was_in_flight_is_delivered() {
        let mut estimator = RateEstimator::new(Instant::ZERO);
        estimator.on_app_limited(0);
        let now = Instant::from_millis(1);
        let limited = estimator.on_sent(0, now);
        let then = now + 20 * MS;
        estimator.on_delivered(1_000, segment(1, now, limited), then);
        assert!(estimator.sample(None, then).expect("one packet").app_limited);
        let free = estimator.on_sent(0, then);
        estimator.on_delivered(1_000, segment(2, then, free), then + 20 * MS);
        assert!(!estimator.sample(None, then + 20 * MS).expect("one packet").app_limited);
    }

    #[test]
    fn an_interval_below_the_least_rtt_gives_no_rate() {
        let mut estimator = RateEstimator::new(Instant::ZERO);
        let snapshot = estimator.on_sent(0, Instant::ZERO);
        let now = Instant::from_millis(5);
        estimator.on_delivered(1_000, segment(1, Instant::ZERO, snapshot), now);
        let sample = estimator.sample(Some(20 * MS), now).expect("one packet");
        assert_eq!((sample.rate, sample.interval), (None, Duration::ZERO));
    }
}
