//! Marks of congestion [RFC 9000 §13.4, RFC 9002 §7.1].

use crate::wire::{Ack, EcnCounts};

/// What is put on packets that may be marked.
const ECT0: u8 = 2;

/// Whether packets are marked ECN-capable, and what the peer says of marks.
#[derive(Debug)]
pub(crate) struct Ecn {
    on: bool,
    /// 1-RTT packets that left with the mark.
    marked: u64,
    seen: EcnCounts,
    /// One reaction per round trip: not before a number beyond this is acknowledged.
    reacted_at: Option<u64>,
}

impl Ecn {
    pub(crate) fn new(on: bool) -> Ecn {
        Ecn { on, marked: 0, seen: EcnCounts::default(), reacted_at: None }
    }

    /// Marks arrive, and the peer tells of them.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.on && self.seen != EcnCounts::default()
    }

    /// The field of a 1-RTT packet that leaves.
    pub(crate) fn mark(&mut self) -> u8 {
        self.marked += u64::from(self.on);
        if self.on { ECT0 } else { 0 }
    }

    /// An acknowledgment of 1-RTT packets came that is newer than those before; `brings_news`: of packets.
    /// `next` is the number of the next packet. True: the sender must slow down.
    pub(crate) fn on_ack(&mut self, ack: &Ack, brings_news: bool, next: u64) -> bool {
        if !self.on {
            return false;
        }
        let Some(counts) = ack.ecn else {
            // The path or the peer takes the marks off [RFC 9000 §13.4.2.1].
            self.on = !brings_news;
            return false;
        };
        let seen = self.seen;
        let shrank = counts.ect0 < seen.ect0 || counts.ce < seen.ce;
        if counts.ect1 > 0 || counts.ect0 + counts.ce > self.marked {
            self.on = false;
            return false;
        }
        // An old acknowledgment says nothing.
        if shrank {
            return false;
        }
        self.seen = counts;
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

    #[test]
    fn a_mark_is_heeded_once_per_round_trip() {
        let mut ecn = Ecn::new(true);
        for _ in 0..100 {
            assert_eq!(ecn.mark(), ECT0);
        }
        assert!(!ecn.on_ack(&ack(9, Some((10, 0))), true, 100));
        assert!(ecn.on_ack(&ack(19, Some((19, 1))), true, 100));
        assert!(!ecn.on_ack(&ack(29, Some((28, 2))), true, 110));
        assert!(ecn.on_ack(&ack(100, Some((80, 3))), true, 200));
    }

    #[test]
    fn a_path_that_takes_marks_off_gets_none() {
        let mut ecn = Ecn::new(true);
        ecn.mark();
        ecn.on_ack(&ack(0, None), true, 1);
        assert_eq!(ecn.mark(), 0);
        let mut ecn = Ecn::new(true);
        ecn.mark();
        ecn.on_ack(&ack(0, Some((2, 0))), true, 1);
        assert_eq!(ecn.mark(), 0, "more are counted than left");
    }
}
