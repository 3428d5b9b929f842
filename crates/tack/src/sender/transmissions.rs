//! From a PKT.SEQ to the range of SEQ space that it carried.
//!
//! A ring indexed by PKT.SEQ. An entry dies when what it carried is lost, acknowledged or sent
//! again; dead entries at the front go, dead ones inside point past the run they belong to, so
//! that a peer that announces the same enormous range again and again costs O(1) each time.

use core::ops::Range;
use std::collections::VecDeque;

/// `Entry::start` of a dead entry; `end` is then the PKT.SEQ at which to go on looking.
const DEAD: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
}

/// What each transmission carried.
#[derive(Debug)]
pub(super) struct Transmissions {
    first: u64,
    entries: VecDeque<Entry>,
}

impl Transmissions {
    pub(super) fn new(first_pkt_seq: u64) -> Self {
        Transmissions { first: first_pkt_seq, entries: VecDeque::new() }
    }

    /// The PKT.SEQ of the next transmission.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn push(&mut self, range: Range<u64>) -> u64 {
        let pkt_seq = self.next();
        let entry = if range.is_empty() {
            Entry { start: DEAD, end: pkt_seq + 1 }
        } else {
            Entry { start: range.start, end: range.end }
        };
        self.entries.push_back(entry);
        pkt_seq
    }

    fn index(&self, pkt_seq: u64) -> Option<usize> {
        let i = usize::try_from(pkt_seq.checked_sub(self.first)?).ok()?;
        (i < self.entries.len()).then_some(i)
    }

    /// What `pkt_seq` carried, while that matters.
    pub(super) fn range_of(&self, pkt_seq: u64) -> Option<Range<u64>> {
        let e = self.entries[self.index(pkt_seq)?];
        (e.start != DEAD).then_some(e.start..e.end)
    }

    /// The first live transmission in `from..end`.
    pub(super) fn next_live(&mut self, from: u64, end: u64) -> Option<(u64, Range<u64>)> {
        let start = from.max(self.first);
        let mut at = start;
        let end = end.min(self.next());
        while at < end {
            let e = self.entries[self.index(at)?];
            if e.start != DEAD {
                self.shorten(start, at);
                return Some((at, e.start..e.end));
            }
            at = e.end;
        }
        self.shorten(start, at);
        None
    }

    /// Points every dead entry on the way from `at` to `to` directly at `to`.
    fn shorten(&mut self, mut at: u64, to: u64) {
        while at < to {
            let Some(i) = self.index(at) else { return };
            at = core::mem::replace(&mut self.entries[i].end, to);
        }
    }

    /// `pkt_seq` does not matter any more.
    pub(super) fn forget(&mut self, pkt_seq: u64) {
        if let Some(i) = self.index(pkt_seq)
            && self.entries[i].start != DEAD
        {
            self.entries[i] = Entry { start: DEAD, end: pkt_seq + 1 };
        }
    }

    /// Forgets `pkt_seq` if all it carried lies in `range`, which was sent again.
    pub(super) fn supersede(&mut self, pkt_seq: u64, range: &Range<u64>) {
        if self.range_of(pkt_seq).is_some_and(|r| r.start >= range.start && r.end <= range.end) {
            self.forget(pkt_seq);
        }
    }

    /// Drops what is dead or entirely below `una` from the front.
    pub(super) fn trim(&mut self, una: u64) {
        while self.entries.front().is_some_and(|e| e.start == DEAD || e.end <= una) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// Drops what is dead from the front, and the oldest beyond `most`, whatever they carry.
    pub(super) fn keep(&mut self, most: usize) {
        while self.entries.len() > most || self.entries.front().is_some_and(|e| e.start == DEAD) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_transmissions_are_found_over_long_dead_runs() {
        let mut t = Transmissions::new(7);
        for i in 0..1_000u64 {
            assert_eq!(t.push(i * 10..i * 10 + 10), 7 + i);
        }
        for p in 100..900 {
            t.forget(p);
        }
        assert_eq!(t.next_live(0, u64::MAX), Some((7, 0..10)));
        for _ in 0..3 {
            assert_eq!(t.next_live(100, u64::MAX), Some((900, 8_930..8_940)));
            assert_eq!(t.next_live(100, 900), None);
        }
        assert_eq!(t.entries[500 - 7].end, 900, "the walk shortened the way");
        t.trim(1_000);
        assert_eq!(t.range_of(106), None);
        assert_eq!(t.range_of(900), Some(8_930..8_940));
        assert_eq!(t.len(), 1_007 - 900);
    }

    #[test]
    fn numbers_never_sent_or_long_gone_are_unknown() {
        let mut t = Transmissions::new(1);
        t.push(0..10);
        t.push(10..10);
        t.trim(10);
        assert_eq!((t.len(), t.next()), (0, 3));
        assert_eq!(t.range_of(0), None);
        assert_eq!(t.range_of(3), None);
        assert_eq!(t.next_live(0, u64::MAX), None);
        assert_eq!(t.push(10..20), 3);
    }
}
