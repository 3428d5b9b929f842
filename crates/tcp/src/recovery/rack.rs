//! RACK: a segment is lost when one sent later has arrived and enough time has passed since
//! [RFC 8985 §6].
//!
//! ```text
//! lost when   sent before RACK.segment   and   now >= sent_at + RACK.rtt + reo_wnd
//! reo_wnd  =  0                                     no reordering seen, and in recovery or
//!                                                   three segments selectively acknowledged
//!             min(mult * RTTmin / 4, SRTT)          otherwise; mult grows with DSACKs
//! ```
//!
//! Deviation: where RACK.segment had been sent again, RACK.rtt is no less than SRTT + 4 RTTVAR.
//! [RFC 8985 §6.2 step 2] takes an arrival for the repair's if RTTmin has passed since that left. Behind a
//! queue of some RTTmin it may well be the original's, which came late; then all that left between the two,
//! a whole window, counted as lost.

use core::time::Duration;

use tack_units::Instant;

use crate::recovery::sack::DUP_THRESH;
use crate::recovery::sent::{Delivered, Transmission};

/// Recoveries without a DSACK after which the window shrinks back [RFC 8985 §6.2 step 4].
const REO_WND_PERSIST: u32 = 16;

/// The most `mult` grows to: the window is bounded by SRTT long before.
const MAX_MULT: u32 = 1 << 10;

/// The state of RACK.
#[derive(Debug)]
pub(super) struct Rack {
    /// Serial number of the newest transmission that arrived; 0 before any.
    xmit: u64,
    /// Its round trip.
    rtt: Duration,
    /// It had been sent again: which of its transmissions arrived is a guess.
    is_repair: bool,
    /// Highest sequence number that arrived.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// The window has grown in this round trip, which ends here.
    dsack_round: Option<u64>,
}

/// What the reordering window depends on beside RACK's own state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) rtt_min: Option<Duration>,
    pub(super) srtt: Option<Duration>,
    /// SRTT and four times its variation: nearly every round trip is shorter.
    pub(super) rtt_most: Duration,
    pub(super) in_recovery: bool,
    pub(super) sacked_segments: usize,
}

impl Rack {
    pub(super) fn new(first_seq: u64) -> Rack {
        Rack {
            xmit: 0,
            rtt: Duration::ZERO,
            is_repair: false,
            fack: first_seq,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
        }
    }

    /// A segment arrived. `echoes_original`: the timestamp shows that it was not the latest
    /// transmission that did.
    pub(super) fn on_delivered(
        &mut self,
        segment: &Delivered,
        echoes_original: bool,
        rtt_min: Option<Duration>,
        now: Instant,
    ) {
        if segment.was_sacked {
            return;
        }
        let rtt = now - segment.sent_at;
        let ambiguous = segment.first_sent.is_some()
            && (echoes_original || rtt_min.is_some_and(|least| rtt < least));
        if !ambiguous && segment.xmit > self.xmit {
            (self.xmit, self.rtt, self.is_repair) =
                (segment.xmit, rtt, segment.first_sent.is_some());
        }
        if segment.end >= self.fack {
            self.fack = segment.end;
        } else if segment.first_sent.is_none() {
            self.reordering_seen = true;
        }
    }

    /// Reordering showed in another way: what was declared lost arrived.
    pub(super) fn on_spurious(&mut self) {
        self.reordering_seen = true;
    }

    /// An acknowledgment came, with or without a DSACK: the window grows at most once per round
    /// trip.
    pub(super) fn on_ack(&mut self, dsack: bool, snd_una: u64, snd_nxt: u64) {
        if self.dsack_round.is_some_and(|end| snd_una >= end) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(snd_nxt);
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(MAX_MULT);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// When the transmission counts as lost; `None` while nothing sent after it has arrived.
    pub(super) fn lost_at(&self, transmission: &Transmission, path: Path) -> Option<Instant> {
        (transmission.xmit < self.xmit)
            .then(|| transmission.sent_at + self.rtt(path) + self.reo_wnd(path))
    }

    /// When the transmission counts as lost at a retransmission timeout [RFC 8985 §6.3].
    pub(super) fn lost_at_timeout(&self, transmission: &Transmission, path: Path) -> Instant {
        transmission.sent_at + self.rtt(path) + self.reo_wnd(path)
    }

    fn rtt(&self, path: Path) -> Duration {
        if self.is_repair { self.rtt.max(path.rtt_most) } else { self.rtt }
    }

    fn reo_wnd(&self, path: Path) -> Duration {
        let eager = path.in_recovery || path.sacked_segments >= DUP_THRESH;
        if !self.reordering_seen && eager {
            return Duration::ZERO;
        }
        let (Some(rtt_min), Some(srtt)) = (path.rtt_min, path.srtt) else {
            return Duration::ZERO;
        };
        (rtt_min / 4).saturating_mul(self.reo_wnd_mult).min(srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::sent::Sent;
    use tack_transport::Snapshot;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Ten segments of 1000 bytes, 1 ms apart.
    fn sent() -> Sent {
        let mut sent = Sent::new(0);
        for i in 1..=10 {
            sent.push(1_000 * i, Snapshot::at(at(i)), at(i));
        }
        sent
    }

    fn path() -> Path {
        Path {
            rtt_min: Some(40 * MS),
            srtt: Some(44 * MS),
            rtt_most: 46 * MS,
            in_recovery: false,
            sacked_segments: 1,
        }
    }

    /// The segment that ends at `end` arrives, its acknowledgment at `now`.
    fn deliver(sent: &mut Sent, rack: &mut Rack, end: u64, now: Instant) {
        let mut segments = Vec::new();
        sent.sack(end - 1_000..end, |_| false, |segment| segments.push(segment));
        for segment in segments {
            rack.on_delivered(&segment, false, Some(40 * MS), now);
        }
    }

    #[test]
    fn what_was_sent_before_an_arrival_is_lost_a_round_trip_and_a_window_after_it_left() {
        let (mut sent, mut rack) = (sent(), Rack::new(0));
        let first = sent.oldest().expect("in flight");
        assert_eq!(rack.lost_at(&first, path()), None, "nothing arrived");
        deliver(&mut sent, &mut rack, 2_000, at(45));
        // RACK.rtt = 45 - 2; the window is a quarter of 40 ms.
        assert_eq!(rack.lost_at(&first, path()), Some(at(1 + 43 + 10)));
        sent.mark_lost(&first);
        let third = sent.oldest().expect("in flight");
        assert_eq!(rack.lost_at(&third, path()), None, "sent later than what arrived");
    }

    /// A queue of 60 ms stands at the bottleneck. The third segment came out of it late, and was sent again
    /// before it did: nine tenths of the window are still under way.
    #[test]
    fn what_waits_in_a_queue_is_not_lost_since_a_segment_sent_again_was_quick() {
        let (mut sent, mut rack) = (sent(), Rack::new(0));
        for (end, now) in [(1_000, 101), (2_000, 102), (4_000, 104)] {
            deliver(&mut sent, &mut rack, end, at(now));
        }
        sent.retransmit(2_000..3_000, Snapshot::at(at(104)), at(104));
        deliver(&mut sent, &mut rack, 3_000, at(104 + 45));
        let fifth = sent.oldest().expect("in flight");
        let queued = Path { srtt: Some(100 * MS), rtt_most: 103 * MS, ..path() };
        assert_eq!(rack.lost_at(&fifth, queued), Some(at(5 + 103 + 10)), "not 5 + 45 + 10");
    }

    #[test]
    fn without_reordering_three_segments_or_a_recovery_need_no_window() {
        let (mut sent, mut rack) = (sent(), Rack::new(0));
        let first = sent.oldest().expect("in flight");
        deliver(&mut sent, &mut rack, 2_000, at(45));
        for eager in [Path { in_recovery: true, ..path() }, Path { sacked_segments: 3, ..path() }] {
            assert_eq!(rack.lost_at(&first, eager), Some(at(44)));
        }
        deliver(&mut sent, &mut rack, 4_000, at(47));
        deliver(&mut sent, &mut rack, 3_000, at(48));
        let reordered = Path { in_recovery: true, ..path() };
        assert_eq!(rack.lost_at(&first, reordered), Some(at(1 + 43 + 10)), "seen now");
    }

    #[test]
    fn needless_retransmissions_widen_the_window_once_a_round_up_to_srtt() {
        let (mut sent, mut rack) = (sent(), Rack::new(0));
        let first = sent.oldest().expect("in flight");
        deliver(&mut sent, &mut rack, 2_000, at(45));
        let window = |rack: &Rack| rack.lost_at(&first, path()).expect("older") - at(44);
        for _ in 0..5 {
            rack.on_ack(true, 0, 10_000);
        }
        assert_eq!(window(&rack), 20 * MS, "five in one round count once");
        rack.on_ack(true, 10_000, 20_000);
        assert_eq!(window(&rack), 30 * MS);
        for round in 2..100 {
            rack.on_ack(true, 10_000 * round, 10_000 * (round + 1));
        }
        assert_eq!(window(&rack), 44 * MS, "SRTT");
        for _ in 0..16 {
            assert_eq!(window(&rack), 44 * MS);
            rack.on_recovered();
        }
        assert_eq!(window(&rack), 10 * MS, "16 recoveries without a DSACK");
    }

    /// [RFC 8985 §6.2 step 2]: too early, or with the timestamp of the original.
    #[test]
    fn an_acknowledgment_of_the_original_says_nothing_about_the_retransmission() {
        for (echoes_original, now) in [(false, at(60)), (true, at(100))] {
            let (mut sent, mut rack) = (sent(), Rack::new(0));
            sent.retransmit(0..1_000, Snapshot::at(at(50)), at(50));
            let second = sent.oldest().expect("in flight");
            let mut segments = Vec::new();
            sent.ack_to(1_000, |segment| segments.push(segment));
            rack.on_delivered(&segments[0], echoes_original, Some(40 * MS), now);
            assert_eq!(rack.lost_at(&second, path()), None);
            rack.on_delivered(&segments[0], false, Some(40 * MS), at(100));
            assert!(rack.lost_at(&second, path()).is_some());
        }
    }
}
