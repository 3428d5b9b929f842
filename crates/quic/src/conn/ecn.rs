//! Marks of congestion [RFC 9000 §13.4, RFC 9002 §7.1].

use crate::wire::{Ack, EcnCounts};

/// What is put on packets that may be marked.
const ECT0: u8 = 2;
/// Timeouts in a row after which a path is suspected to drop marked packets although some got through.
const SUSPICIOUS: u32 = 3;

/// Whether packets are marked ECN-capable, and what the peer says of marks.
///
/// Only 1-RTT packets are marked, and while no mark is known to get through, only those that ask for an
/// acknowledgment: of the others nobody would notice that all are lost.
#[derive(Debug)]
pub(crate) struct Ecn {
    on: bool,
    /// Marked packets may all be lost here: none is marked until one turns out to have arrived
    /// [RFC 9000 §13.4.2.2].
    in_doubt: bool,
    /// A packet that was marked on this path has arrived.
    passes: bool,
    /// Packets that left with the mark, on all paths: so the peer counts them.
    marked: u64,
    /// As last told.
    seen: EcnCounts,
    /// One reaction per round trip: not before a number beyond this is acknowledged.
    reacted_at: Option<u64>,
}

impl Ecn {
    pub(crate) fn new(on: bool) -> Ecn {
        let (in_doubt, passes, marked, reacted_at) = (false, false, 0, None);
        Ecn { on, in_doubt, passes, marked, seen: EcnCounts::default(), reacted_at }
    }

    /// Packets take another path from now on, which may treat marks otherwise.
    pub(crate) fn begin_path(&mut self, on: bool) {
        (self.on, self.in_doubt, self.passes) = (on, false, false);
    }

    /// Marks arrive, and the peer tells of them.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.on && self.passes && !self.in_doubt
    }

    /// The field of a 1-RTT packet that leaves; `eliciting`: it asks for an acknowledgment.
    pub(crate) fn mark(&mut self, eliciting: bool) -> u8 {
        if !self.on || self.in_doubt || !self.passes && !eliciting {
            return 0;
        }
        self.marked += 1;
        ECT0
    }

    /// Nothing was heard of 1-RTT packets for so long, so many times in a row.
    pub(crate) fn on_timeout(&mut self, in_a_row: u32) {
        self.in_doubt |= self.marked > 0 && (!self.passes || in_a_row >= SUSPICIOUS);
    }

    /// An acknowledgment of 1-RTT packets came that has a larger number than those before; `news`: of so many
    /// packets that were marked on this path it is the first. `next` is the number of the next packet.
    /// True: the sender must slow down.
    pub(crate) fn on_ack(&mut self, ack: &Ack, news: u64, next: u64) -> bool {
        if news > 0 {
            (self.passes, self.in_doubt) = (true, false);
        }
        if !self.on {
            self.seen = ack.ecn.unwrap_or(self.seen);
            return false;
        }
        let Some(counts) = ack.ecn else {
            // The path or the peer takes the marks off [RFC 9000 §13.4.2.1].
            self.on = news == 0;
            return false;
        };
        let seen = core::mem::replace(&mut self.seen, counts);
        let sum = |counts: EcnCounts| counts.ect0 + counts.ce;
        let grew = sum(counts).checked_sub(sum(seen)).is_some_and(|by| by >= news);
        let is_sound = grew && counts.ce >= seen.ce && sum(counts) <= self.marked;
        if !is_sound || counts.ect1 > 0 {
            self.on = false;
            return false;
        }
        let reacts = counts.ce > seen.ce && self.reacted_at.is_none_or(|at| ack.largest() >= at);
        if reacts {
            self.reacted_at = Some(next);
        }
        reacts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(largest: u64, ecn: Option<(u64, u64)>) -> Ack {
        let ecn = ecn.map(|(ect0, ce)| EcnCounts { ect0, ect1: 0, ce });
        #[allow(clippy::single_range_in_vec_init)]
        Ack { delay: 0, ranges: vec![0..largest + 1], ecn }
    }

    fn after(marked: u64) -> Ecn {
        let mut ecn = Ecn::new(true);
        (0..marked).for_each(|_| assert_eq!(ecn.mark(true), ECT0));
        ecn
    }

    #[test]
    fn a_mark_is_heeded_once_per_round_trip() {
        let mut ecn = after(100);
        assert!(!ecn.on_ack(&ack(9, Some((10, 0))), 10, 100));
        assert!(ecn.on_ack(&ack(19, Some((19, 1))), 10, 100));
        assert!(!ecn.on_ack(&ack(29, Some((28, 2))), 10, 110));
        assert!(ecn.on_ack(&ack(100, Some((80, 3))), 50, 200));
    }

    #[test]
    fn a_path_that_takes_marks_off_gets_none() {
        let mut ecn = after(1);
        ecn.on_ack(&ack(0, None), 1, 1);
        assert_eq!(ecn.mark(true), 0);
        let mut ecn = after(1);
        ecn.on_ack(&ack(0, Some((2, 0))), 1, 1);
        assert_eq!(ecn.mark(true), 0, "more are counted than left");
    }

    #[test]
    fn fewer_marks_than_marked_packets_arrived_switch_them_off() {
        let mut ecn = after(20);
        ecn.on_ack(&ack(9, Some((10, 0))), 10, 20);
        assert!(ecn.is_confirmed());
        ecn.on_ack(&ack(19, Some((14, 0))), 5, 20);
        assert_eq!(ecn.mark(true), 0, "four marks of five");
        let mut ecn = after(20);
        ecn.on_ack(&ack(9, Some((8, 2))), 10, 20);
        ecn.on_ack(&ack(19, Some((19, 1))), 10, 20);
        assert_eq!(ecn.mark(true), 0, "congestion is not taken back");
    }

    #[test]
    fn an_acknowledgment_of_packets_that_were_not_marked_says_nothing_of_marks() {
        let mut ecn = after(5);
        ecn.on_ack(&ack(3, None), 0, 9);
        assert_eq!(ecn.mark(true), ECT0);
    }

    #[test]
    fn on_another_path_the_counts_go_on() {
        let mut ecn = after(20);
        ecn.on_ack(&ack(9, Some((10, 0))), 10, 20);
        ecn.begin_path(true);
        assert!(!ecn.is_confirmed());
        (0..5).for_each(|_| assert_eq!(ecn.mark(true), ECT0));
        ecn.on_ack(&ack(24, Some((25, 0))), 5, 25);
        assert!(ecn.is_confirmed());
    }

    #[test]
    fn where_no_marked_packet_arrives_the_next_go_without() {
        let mut ecn = after(5);
        assert_eq!(ecn.mark(false), 0, "its loss would not be noticed");
        ecn.on_timeout(1);
        assert_eq!(ecn.mark(true), 0);
        ecn.on_ack(&ack(5, Some((1, 0))), 1, 6);
        assert_eq!(ecn.mark(false), ECT0, "one was only late");
        ecn.on_timeout(2);
        assert_eq!(ecn.mark(true), ECT0);
        ecn.on_timeout(3);
        assert_eq!(ecn.mark(true), 0);
    }
}
