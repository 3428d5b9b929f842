//! Paths that hold fewer packets than the window, and how much of it they take.
//!
//! BBR keeps four packets in flight at least, and what offload may hold back comes on top. Where bandwidth
//! times RTTmin is a packet or two and the buffer holds four, two flows with such windows are more than both,
//! whatever their rate: every third packet is lost, for ever. Plain BBR conserves packets after each loss.
//! Here loss alone says nothing, so it is compared:
//!
//! ```text
//! few        the greatest bandwidth ever * RTTmin <= 8 packets; judged whenever 32 arrived or were lost
//! congested  the least RTT among them >= 5/4 RTTmin + MSS/bandwidth, and of them was lost
//!            more than 2 % and twice what is random
//! overfull   on any path, the least RTT >= 17/16 RTTmin + MSS/bandwidth, and more than a fifth and twice what is
//!            random was lost; of at most 8 packets, whatever the RTT, more than a third
//! either     flight <= max( what a round brought, 0.7 * the bound before ), and four packets, or two if overfull
//! else       the bound is an eighth higher, and gone where it bounds nothing any more
//! random     what is lost without a queue, or with four packets in flight
//! ```
//!
//! The greatest, since a small share of a path that holds many packets is a few, too, and a bound kept it small.
//! A flow that was never alone has seen no more than its share: there, four packets lose what others lose, and
//! the bound is given up as soon as that is known.
//!
//! RTTmin may be that of a handshake, and a full packet takes longer by what it takes to send it: 4 ms at 3 Mbit/s.
//! Without room for that, random loss of a seventh and more was an overflow for ever. The bandwidth is the greatest
//! again.
//!
//! Not fewer than four, though two would lose less: where what is lost is random after all, the rate of two
//! packets in flight is all that is measured from then on, a quarter of the path's. But no random loss takes a
//! fifth for long; where that much is lost, the buffer is shorter than what many flows put in, and too short
//! for a wait to be seen.
//!
//! Deviation: [TON §VI-D] knows no such bound.

use core::time::Duration;

use tack_units::Rate;

/// Packets that such a path holds at most.
pub(crate) const FEW: u64 = 8;
/// Packets that are judged together: of fewer, one lost is a large share.
const PERIOD: u64 = 32;
/// Share of them that may be lost.
const LOSS: f64 = 0.02;
/// Share of them that no random loss takes for long.
const OVERFULL: f64 = 0.2;
/// Share of few packets that is an overflow whatever round trips say: where others keep a queue full, RTTmin is that
/// of the full queue.
const HOPELESS: f64 = 1.0 / 3.0;
/// What a bound keeps of itself at least.
const BETA: f64 = 0.7;
/// What it gains where nothing speaks against it.
const GROWTH: f64 = 1.125;
/// Packets in flight that every path is given.
const LEAST: u64 = 4;
/// The same where more than [`OVERFULL`] is lost.
const LEAST_OVERFULL: u64 = 2;

/// Of what was sent, `lost` and what was `brought`.
fn share(lost: u64, brought: u64) -> f64 {
    lost as f64 / (brought.saturating_add(lost) as f64).max(1.0)
}

/// The bound, and what is to be judged next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FewPackets {
    /// Bytes.
    flight: Option<u64>,
    rounds: u64,
    /// Delivered on the connection when the period began, in bytes.
    delivered: u64,
    lost: u64,
    least_rtt: Option<Duration>,
    /// Share lost whatever is in flight, smoothed.
    random_loss: f64,
    /// Most that the path was ever seen to carry.
    greatest: Rate,
}

/// Where the estimates stand at the end of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Delivered on the connection, in bytes.
    pub(crate) delivered: u64,
    pub(crate) rtt_min: Duration,
    pub(crate) bandwidth: Rate,
    /// Window in force, in bytes.
    pub(crate) cwnd: u64,
    pub(crate) mss: u64,
}

impl FewPackets {
    /// An acknowledgment.
    pub(crate) fn on_ack(&mut self, rtt: Option<Duration>, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        self.least_rtt = self.least_rtt.into_iter().chain(rtt).min();
    }

    /// A round ends.
    pub(crate) fn on_round(&mut self, path: &Path) {
        self.greatest = self.greatest.max(path.bandwidth);
        let holds_few = self.greatest.bytes_in(path.rtt_min) <= FEW.saturating_mul(path.mss);
        let brought = path.delivered.saturating_sub(self.delivered);
        self.rounds += 1;
        if holds_few || self.flight.is_some() || share(self.lost, brought) > OVERFULL {
            if brought.saturating_add(self.lost) < PERIOD.saturating_mul(path.mss) {
                return;
            }
            self.judge(path, brought, holds_few);
        }
        (self.rounds, self.delivered) = (0, path.delivered);
        (self.lost, self.least_rtt) = (0, None);
    }

    fn judge(&mut self, path: &Path, brought: u64, holds_few: bool) {
        let loss = share(self.lost, brought);
        let least = if loss > OVERFULL { LEAST_OVERFULL } else { LEAST }.saturating_mul(path.mss);
        let has_waited = |part: u32| {
            let own = self.greatest.time_for(path.mss).unwrap_or(Duration::ZERO);
            let queued = path.rtt_min.saturating_add(path.rtt_min / part).saturating_add(own);
            self.least_rtt.is_some_and(|rtt| rtt >= queued)
        };
        let is_queued = has_waited(4);
        let is_overfull = loss > OVERFULL && has_waited(16) || holds_few && loss > HOPELESS;
        let is_least = self.flight.is_some_and(|flight| flight <= least);
        let gain = if is_least { 1.0 / 4.0 } else { 1.0 / 16.0 };
        if !is_overfull && (is_least || !is_queued) {
            self.random_loss += (loss - self.random_loss) * gain;
        }
        let is_congested =
            loss > LOSS + 2.0 * self.random_loss && (is_overfull || holds_few && is_queued);
        self.flight = if is_congested {
            let before = self.flight.unwrap_or(path.cwnd) as f64 * BETA;
            Some((brought / self.rounds.max(1)).max(before as u64).max(least))
        } else {
            let grown = self.flight.map(|flight| (flight as f64 * GROWTH) as u64);
            grown.filter(|flight| *flight < path.cwnd.saturating_mul(2))
        };
    }

    /// No more than this should be in flight, in bytes; `None`: unbounded.
    pub(crate) fn flight(&self) -> Option<u64> {
        self.flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(700);
    const MSS: u64 = 1_500;

    /// Rounds at this round trip, of a path that holds so many packets: what is in flight arrives, but for the
    /// share that is lost of so many packets.
    fn after(
        few: &mut FewPackets,
        holds: u64,
        rounds: u64,
        rtt_us: u64,
        lost: impl Fn(u64) -> f64,
    ) {
        let mut delivered = few.delivered;
        for _ in 0..rounds {
            let cwnd = few.flight().unwrap_or(u64::MAX).min(9 * MSS);
            let lost = (cwnd as f64 * lost(cwnd / MSS)) as u64;
            delivered += cwnd - lost;
            few.on_ack(Some(Duration::from_micros(rtt_us)), lost);
            let bandwidth = Rate::from_bytes_over(holds * MSS, RTT).unwrap();
            few.on_round(&Path { delivered, rtt_min: RTT, bandwidth, cwnd, mss: MSS });
        }
    }

    #[test]
    fn where_a_path_holds_few_packets_a_lasting_overflow_leaves_the_least_window() {
        let mut few = FewPackets::default();
        let overflow = |flight: u64| if flight > 4 { 0.3 } else { 0.0 };
        after(&mut few, 2, 500, 1_300, overflow);
        assert!(few.flight().is_some_and(|flight| flight <= 5 * MSS), "{few:?}");
    }

    #[test]
    fn what_is_lost_whatever_is_in_flight_bounds_nothing() {
        let mut few = FewPackets::default();
        after(&mut few, 2, 2_000, 1_300, |_| 0.06);
        assert_eq!(few.flight(), None, "{few:?}");
    }

    #[test]
    fn a_small_share_of_a_path_that_carried_more_is_bounded_by_nothing() {
        let mut few = FewPackets::default();
        after(&mut few, 20, 1, 1_300, |_| 0.0);
        after(&mut few, 2, 500, 1_300, |_| 0.18);
        assert_eq!(few.flight(), None, "{few:?}");
    }

    #[test]
    fn a_bound_under_which_as_much_is_lost_is_given_up_within_a_dozen_periods() {
        let mut few = FewPackets::default();
        let rounds = |rounds, few: &mut FewPackets| after(few, 2, rounds, 1_300, |_| 0.15);
        rounds(40, &mut few);
        assert!(few.flight().is_some_and(|flight| flight <= 5 * MSS), "{few:?}");
        // Eight rounds of four packets are a period.
        rounds(8 * 12, &mut few);
        assert!(few.flight().is_none_or(|flight| flight >= 6 * MSS), "{few:?}");
    }

    #[test]
    fn loss_without_a_queue_bounds_nothing_and_neither_does_a_path_of_many_packets() {
        for (holds, rtt_us, loss) in [(2, 740, 0.3), (20, 740, 0.3), (20, 1_300, 0.15)] {
            let mut few = FewPackets::default();
            after(&mut few, holds, 500, rtt_us, |_| loss);
            assert_eq!(few.flight(), None, "{holds} packets, {rtt_us} us");
        }
    }

    #[test]
    fn the_time_that_a_full_packet_takes_is_no_wait_where_rtt_min_is_that_of_a_short_one() {
        let mut few = FewPackets::default();
        after(&mut few, 2, 500, 700 + 350, |_| 0.3);
        assert_eq!(few.flight(), None, "{few:?}");
    }

    #[test]
    fn a_fifth_lost_on_any_path_whose_packets_waited_at_all_bounds_until_it_is_less() {
        let mut few = FewPackets::default();
        let overflow = |flight: u64| if flight > 6 { 0.25 } else { 0.0 };
        for _ in 0..50 {
            after(&mut few, 20, 10, 800, overflow);
            assert!(few.flight().is_none_or(|flight| flight > 4 * MSS), "{few:?}");
        }
        after(&mut few, 20, 500, 800, |_| 0.25);
        assert_eq!(few.flight(), Some(2 * MSS));
        after(&mut few, 20, 500, 800, |_| 0.1);
        assert_eq!(few.flight(), None);
    }
}
