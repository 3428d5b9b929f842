//! What a congested round leaves of the bandwidth until the next probe: a lower bound, as BBRv3's
//! `bw_shortterm` [draft-ietf-ccwg-bbr §5.5.10].
//!
//! The maximum filter keeps the best round of ten. Where many flows share a queue, each had a good
//! one, and the sum of their maxima is more than the path carries: the queue stays full, and what
//! does not fit is lost and sent again.
//!
//! ```text
//! congested  its least RTT >= RTTmin + max(RTTmin/8, 1 ms), and of it was lost
//!            more than 2 % and twice what rounds lose that did not wait
//! then       bandwidth <= max( that round's rate, 0.8 * the bound before ), once until the next probe
//! probe      the bound is a quarter higher, and gone where it bounds nothing any more
//! free       a round without loss whose least RTT < 9/8 RTTmin: gone
//! ```
//!
//! What a cycle takes at most, its probe gives back. Beside flows that yield to nothing, as BBRv1's, one
//! that gave up more with every round was left with a tenth of its share, and less; flows that all yield
//! find the loss gone, and take more with the next probe.
//!
//! Deviation: BBRv3 takes loss alone for congestion. On the links we are for, much loss is random,
//! and random loss leaves no queue behind: a round whose least delayed packet did not wait is not
//! congested, whatever it lost. And [TON §VI-D] has no such bound: for a flow alone on its path the
//! maximum is right. BBRv3 probes rarely, and forgets its bounds when it does; our cycle is BBRv1's,
//! and a probe tries a quarter more. BBRv3 bounds what is in flight as well; here that follows the bandwidth,
//! and with a bound of its own it was cut twice.

use core::time::Duration;

use tack_units::{Instant, Rate};

use super::overflow::Waiting;
use crate::sample::AckSample;

/// Share of a round's bytes that may be lost.
const LOSS: f64 = 0.02;
/// Round trips differ by so much without a queue, by jitter and 802.11 aggregates.
const RISE_MIN: Duration = Duration::from_millis(1);
/// What a bound keeps of itself at least.
const BETA: f64 = 0.8;
/// What a probe makes of a bound.
const PROBE: f64 = 1.0 / BETA;

/// A path that brings so many times less than it could has turned slower; one that is shared brings more.
const SLOWER: u64 = 2;

/// A round trip from which on a packet waited in a queue.
fn queued(rtt_min: Duration) -> Duration {
    rtt_min.saturating_add((rtt_min / 8).max(RISE_MIN))
}

/// The bound, and the round under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortTerm {
    bandwidth: Option<Rate>,
    began: Instant,
    /// Delivered on the connection when the round began, in bytes.
    delivered: u64,
    lost: u64,
    least_rtt: Option<Duration>,
    /// Share lost in rounds that did not wait, smoothed.
    random_loss: f64,
    /// A congested round has had its bound since the last probe.
    is_cut: bool,
}

/// Where the estimates stand at the end of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Delivered on the connection, in bytes.
    pub(crate) delivered: u64,
    pub(crate) rtt_min: Duration,
    /// Of the maximum filter.
    pub(crate) bandwidth: Rate,
}

impl ShortTerm {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            bandwidth: None,
            began: now,
            delivered: 0,
            lost: 0,
            least_rtt: None,
            random_loss: 0.0,
            is_cut: false,
        }
    }

    /// An acknowledgment.
    pub(crate) fn on_ack(&mut self, rtt: Option<Duration>, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        if let Some(rtt) = rtt {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// A round ends. `bounding`: congestion in it counts.
    pub(crate) fn on_round(&mut self, standing: &Standing, bounding: bool, now: Instant) {
        let brought = standing.delivered.saturating_sub(self.delivered);
        let elapsed = now.saturating_since(self.began);
        let loss = self.lost as f64 / (brought.saturating_add(self.lost) as f64).max(1.0);
        let waited = self.has_waited(standing.rtt_min);
        if bounding && !waited {
            // A queue that overflows and is gone within the round looks like it: slowly up.
            let gain = if loss > self.random_loss { 1.0 / 16.0 } else { 1.0 / 4.0 };
            self.random_loss += (loss - self.random_loss) * gain;
        }
        if bounding && waited && !self.is_cut && loss > LOSS + 2.0 * self.random_loss {
            self.is_cut = true;
            let rate = Rate::from_bytes_over(brought, elapsed).unwrap_or(Rate::ZERO);
            let before = self.bandwidth.unwrap_or(standing.bandwidth);
            self.bandwidth = Some(rate.max(before.mul_f64(BETA)));
        }
        let free = self
            .least_rtt
            .is_some_and(|least| least < standing.rtt_min.saturating_add(standing.rtt_min / 8));
        if free && self.lost == 0 {
            self.bandwidth = None;
        }
        (self.began, self.delivered) = (now, standing.delivered);
        (self.lost, self.least_rtt) = (0, None);
    }

    /// Every packet of the round waited in a queue.
    fn has_waited(&self, rtt_min: Duration) -> bool {
        self.least_rtt.is_some_and(|least| least >= queued(rtt_min))
    }

    /// Of the round under way, with this acknowledgment.
    pub(crate) fn waiting(&self, ack: &AckSample, standing: &Standing) -> Waiting {
        let brought = standing.delivered.saturating_sub(self.delivered);
        let expected = standing.bandwidth.bytes_in(ack.now.saturating_since(self.began));
        let random = 2.0 * self.random_loss * brought.saturating_add(self.lost) as f64;
        let is_slow = brought.saturating_mul(SLOWER) < expected;
        let lost = if is_slow && self.has_waited(standing.rtt_min) {
            self.lost.saturating_sub(random as u64)
        } else {
            0
        };
        Waiting { lost, is_over: ack.rtt.is_some_and(|rtt| rtt < queued(standing.rtt_min)) }
    }

    /// A probe begins, of a path whose bandwidth is this by the maximum filter.
    pub(crate) fn on_probe(&mut self, bandwidth: Rate) {
        self.is_cut = false;
        let rate = self.bandwidth.map(|bound| bound.mul_f64(PROBE));
        self.bandwidth = rate.filter(|bound| *bound < bandwidth);
    }

    /// No more than this is there; `None`: unbounded.
    pub(crate) fn bandwidth(&self) -> Option<Rate> {
        self.bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Rounds of 40 ms that bring 100 kB each and lose so many bytes, at this round trip.
    fn after(rounds: &[(u64, u64)]) -> ShortTerm {
        let mut s = ShortTerm::new(Instant::ZERO);
        for (i, (lost, rtt_ms)) in rounds.iter().enumerate() {
            s.on_ack(Some(Duration::from_millis(*rtt_ms)), *lost);
            let n = i as u64 + 1;
            let bandwidth = Rate::from_mbps(40);
            let standing = Standing { delivered: n * 100_000, rtt_min: RTT, bandwidth };
            s.on_round(&standing, true, Instant::from_millis(40 * n));
        }
        s
    }

    #[test]
    fn one_congested_round_of_a_cycle_bounds_by_what_it_brought_and_takes_a_fifth_at_most() {
        for rounds in 1..4 {
            let s = after(&[(10_000, 90), (10_000, 90), (10_000, 90)][..rounds]);
            assert_eq!(s.bandwidth(), Some(Rate::from_mbps(32)));
        }
    }

    #[test]
    fn loss_without_a_queue_and_a_queue_without_loss_bound_nothing() {
        for round in [(30_000, 41), (0, 200), (1_000, 200)] {
            let s = after(&[round; 5]);
            assert_eq!(s.bandwidth(), None, "{round:?}");
        }
    }

    #[test]
    fn what_a_path_loses_without_a_queue_is_no_congestion_behind_one() {
        let mut rounds = vec![(5_000, 41); 30];
        rounds.extend([(6_000, 200); 5]);
        assert_eq!(after(&rounds).bandwidth(), None);
        rounds.push((30_000, 200));
        assert!(after(&rounds).bandwidth().is_some());
    }

    #[test]
    fn where_loss_stays_whatever_the_flow_gives_up_each_probe_takes_it_back() {
        let mut s = ShortTerm::new(Instant::ZERO);
        for n in 1..50 {
            s.on_ack(Some(Duration::from_millis(90)), 10_000);
            let bandwidth = Rate::from_mbps(40);
            let standing = Standing { delivered: n * 100_000, rtt_min: RTT, bandwidth };
            s.on_round(&standing, true, Instant::from_millis(40 * n));
            assert_eq!(s.bandwidth(), Some(Rate::from_mbps(32)));
            s.on_probe(bandwidth);
            assert_eq!(s.bandwidth(), None);
        }
    }
}
