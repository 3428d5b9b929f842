//! What should have come while the receiver waited: nothing behind it shows a hole.
//!
//! A TACK says how long ago the packet that it times had arrived, by `dt*`, and a later one that nothing came since. What
//! left soon after that packet and is not there yet is lost, unless a queue of others came in between: half of the wait is
//! left for that.

use core::cell::Cell;
use core::time::Duration;

use tack_units::Instant;

use super::Sender;
use super::log::{Records, Segment};
use super::timer::GRANULARITY;
use crate::feedback::{Acked, Tack, Timing};

impl<L: Records> Sender<L> {
    /// Whether the receiver waited for more than came until its timer sent this TACK.
    pub(super) fn look_for_missed(&mut self, timing: Option<Timing>, acked: &Acked, now: Instant) {
        if acked.acked_bytes > 0 {
            self.timer.on_told_by_tack();
        }
        let few = (1..self.quota()).contains(&acked.acked_bytes);
        if let (true, Some(timing), Some(rtt), Some(sent_at)) =
            (few, timing, acked.rtt, acked.newest_sent_at)
        {
            // What is timed came before what this TACK is for where data in return has acknowledged since the last.
            let waited = timing.delay.min((now - sent_at).saturating_sub(rtt));
            // Stamps are rounded, to a microsecond or the millisecond of a host's clock.
            if timing.delay >= self.params.flush && waited + GRANULARITY >= self.params.flush {
                self.timer.on_waited_for();
                self.timer.on_missed(now - rtt - (waited / 2).max(timing.queued));
            }
        }
    }

    /// Where a TACK tells a loss, the last packets are lost as well if all of them are overdue: a queue that overflows at the
    /// end of a file drops some of its last ones, too, and each waited for a probe after the repair of the others.
    pub(super) fn lose_overdue(&mut self, tack: &Tack, acked: &mut Acked, now: Instant) {
        let largest = tack.largest_pkt_seq;
        let Some(newest) = self.sent.when_sent(largest) else { return };
        if self.newest_arrived.0 != largest {
            let timed = tack.timing.zip(acked.rtt).map(|(timing, rtt)| (timing.delay, rtt));
            let is_newest = |(delay, rtt)| now - newest.sent_at + GRANULARITY >= rtt + delay;
            let ago =
                timed.filter(|timed| is_newest(*timed)).map_or(Duration::ZERO, |(delay, _)| delay);
            self.newest_arrived = (largest, now - ago);
        }
        if acked.lost_bytes == 0 {
            return;
        }
        let half = (now - self.newest_arrived.1) / 2;
        // Packets that the path brings in that time, as far as is known: they come one behind the other.
        let rate = tack.delivery_rate.or(self.delivery_rate);
        let most = rate.map_or(0, |rate| rate.bytes_in(half)) / u64::from(self.params.mss);
        let (first, next) = (largest + 1, self.sent.next_pkt_seq());
        let is_due = |n| self.sent.when_sent(n).is_none_or(|p| p.sent_at <= newest.sent_at + half);
        if next - first <= most && (first..next).all(is_due) {
            let (guard, lost) = (self.guard(), Cell::new(acked.lost_sent_at));
            let allows = |s: &Segment| guard.judges(s, &lost, now);
            acked.lost_bytes += self.sent.lose_packets(first..next, allows);
            acked.lost_sent_at = lost.get();
        }
    }
}
