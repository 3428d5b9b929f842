//! SACK blocks we send: the most recent island first [RFC 2018 §4], a duplicate before it
//! [RFC 2883 §4].
//!
//! Packets arrive by the batch and are answered by the batch, but an acknowledgment has room for
//! three blocks. What a batch brought beyond that is said in further acknowledgments, the oldest
//! first, as if each packet had been answered by itself: a sender takes for lost what was sent
//! before something reported and is not reported itself [RFC 8985 §6.2].

use core::ops::Range;
use std::collections::VecDeque;

use crate::conn::rcv::Rcv;
use crate::wire::SackBlocks;

/// Blocks that fit without timestamps; three with them.
const MOST: usize = 4;
/// Islands remembered: those that 64 packets, a batch, can make of every other packet lost.
const MAX_ISLANDS: usize = 32;
/// Duplicates remembered; of more in one batch the oldest stay unsaid.
const MAX_DUPLICATES: usize = 16;

/// Which blocks were reported last, and duplicates not yet reported.
#[derive(Debug, Default)]
pub(crate) struct SackGenerator {
    /// Islands that changed, the most recent first.
    recent: VecDeque<Island>,
    duplicates: VecDeque<Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Island {
    /// A byte of it: it may grow, or be filled up to.
    at: u64,
    /// No acknowledgment left since it changed.
    unsaid: bool,
}

impl SackGenerator {
    /// Text arrived, and its byte `at` lies in an island, which takes in whatever it touches. Nothing is said
    /// of one that was not stored.
    pub(crate) fn on_island(&mut self, rcv: &Rcv, at: u64) {
        let Some(island) = rcv.buffer.island_at(at) else { return };
        let within = |other: &Island| island.contains(&other.at);
        // Most often the most recent one grows, and takes in no other.
        if self.recent.front().is_some_and(within) {
            self.recent.pop_front();
        }
        if self.recent.iter().any(within) {
            self.recent.retain(|other| !within(other));
        }
        self.recent.truncate(MAX_ISLANDS - 1);
        self.recent.push_front(Island { at, unsaid: true });
    }

    /// `range` arrived again.
    pub(crate) fn on_duplicate(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if self.duplicates.len() == MAX_DUPLICATES {
            self.duplicates.pop_front();
        }
        self.duplicates.push_back(range);
    }

    /// The next acknowledgment has something to say beyond SEG.ACK.
    pub(crate) fn is_pending(&self, rcv: &Rcv) -> bool {
        !self.duplicates.is_empty() || !rcv.buffer.queued().is_empty()
    }

    /// One acknowledgment could not say all that is new.
    pub(crate) fn is_behind(&self, rcv: &Rcv) -> bool {
        self.is_pending(rcv)
            && (!self.duplicates.is_empty() || self.recent.iter().any(|island| island.unsaid))
    }

    /// At most `max` blocks for an acknowledgment that leaves now.
    pub(crate) fn take(&mut self, rcv: &Rcv, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let max = max.min(MOST);
        if let Some(range) = self.duplicates.pop_front().filter(|_| max > 0) {
            push(&mut blocks, rcv, &range);
        }
        // What the stream has reached is no island any more.
        self.recent.retain(|island| island.at >= rcv.nxt());
        let room = max - usize::from(blocks.len);
        // Those that were said are behind all that were not, or between them.
        let unsaid = self.recent.iter().filter(|island| island.unsaid).count();
        let mut skip = unsaid.saturating_sub(room);
        for island in &mut self.recent {
            if island.unsaid && skip > 0 {
                skip -= 1;
                continue;
            }
            if usize::from(blocks.len) == max || (unsaid > room && !island.unsaid) {
                continue;
            }
            // Whatever has become of it: an acknowledgment that is owed for ever never ends.
            island.unsaid = false;
            if let Some(range) = rcv.buffer.island_at(island.at) {
                push(&mut blocks, rcv, &range);
            }
        }
        blocks
    }
}

fn push(blocks: &mut SackBlocks, rcv: &Rcv, range: &Range<u64>) {
    blocks.blocks[usize::from(blocks.len)] = (rcv.seq_num(range.start), rcv.seq_num(range.end));
    blocks.len += 1;
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::conn::acceptable::FIRST_BYTE;
    use crate::seq::SeqNum;
    use tack_units::Instant;

    fn arrive(rcv: &mut Rcv, sack: &mut SackGenerator, at: u64) {
        rcv.buffer.insert(FIRST_BYTE + at, &[0; 10], false);
        sack.on_island(rcv, FIRST_BYTE + at);
    }

    fn starts(blocks: &SackBlocks) -> Vec<u32> {
        blocks.as_slice().iter().map(|b| b.0.0 - 1).collect()
    }

    #[test]
    fn the_most_recent_island_comes_first_and_each_once() {
        let mut rcv = Rcv::new(SeqNum(0), 10_000, 10_000, Instant::ZERO);
        let mut sack = SackGenerator::default();
        for at in [100, 200, 300, 400, 500, 410, 200] {
            arrive(&mut rcv, &mut sack, at);
        }
        assert_eq!(starts(&sack.take(&rcv, 3)), [500, 300, 100], "the oldest of the unsaid");
        let blocks = sack.take(&rcv, 3);
        assert_eq!(starts(&blocks), [200, 400, 500], "the rest, and what was said lately");
        assert_eq!(blocks.as_slice()[1].1.0 - 1, 420);
        assert!(!sack.is_behind(&rcv));
        assert_eq!(starts(&sack.take(&rcv, 3)), [200, 400, 500]);
    }

    #[test]
    fn an_island_that_grows_displaces_no_other() {
        let mut rcv = Rcv::new(SeqNum(0), 10_000, 10_000, Instant::ZERO);
        let mut sack = SackGenerator::default();
        for at in [100, 200].into_iter().chain((300..3_000).step_by(10)) {
            arrive(&mut rcv, &mut sack, at);
        }
        assert_eq!(starts(&sack.take(&rcv, 3)), [300, 200, 100]);
        assert!(!sack.is_behind(&rcv));
    }

    #[test]
    fn whatever_a_batch_brings_is_said_once_in_few_acknowledgments() {
        let mut rcv = Rcv::new(SeqNum(0), 100_000, 100_000, Instant::ZERO);
        let mut sack = SackGenerator::default();
        for at in (0..MAX_ISLANDS as u64).map(|n| 100 + 20 * n) {
            arrive(&mut rcv, &mut sack, at);
        }
        sack.on_duplicate(FIRST_BYTE..FIRST_BYTE + 5);
        sack.on_duplicate(FIRST_BYTE + 5..FIRST_BYTE + 9);
        let mut said = std::collections::BTreeSet::new();
        let mut acknowledgments = 0;
        while sack.is_behind(&rcv) {
            said.extend(starts(&sack.take(&rcv, 3)));
            acknowledgments += 1;
        }
        assert_eq!(said.len(), MAX_ISLANDS + 2);
        assert_eq!(acknowledgments, 12, "34 blocks, three at a time");
        // What the stream reached needs no word.
        rcv.buffer.insert(FIRST_BYTE, &[0; 100], false);
        assert_eq!(starts(&sack.take(&rcv, 3)).len(), 3);
        sack.on_island(&rcv, FIRST_BYTE + 120);
        assert!(sack.is_behind(&rcv));
        rcv.buffer.insert(FIRST_BYTE, &[0; 2_000], false);
        assert!(!sack.is_behind(&rcv), "nothing is left to say, and nobody asks for blocks");
        assert!(sack.take(&rcv, 3).as_slice().is_empty());
    }

    #[test]
    fn each_arrival_is_answered_with_the_islands_of_the_latest_arrivals() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(7);
        for _ in 0..100 {
            let mut rcv = Rcv::new(SeqNum(0), 10_000, 10_000, Instant::ZERO);
            let mut sack = SackGenerator::default();
            let mut arrived = Vec::new();
            for _ in 0..80 {
                let at = 10 * rng.random_range(0..60);
                if rcv.buffer.insert(FIRST_BYTE + at, &[0; 10], false).new_bytes > 0 {
                    sack.on_island(&rcv, FIRST_BYTE + at);
                    arrived.push(FIRST_BYTE + at);
                }
                let mut latest: Vec<Range<u64>> = Vec::new();
                for island in arrived.iter().rev().filter_map(|at| rcv.buffer.island_at(*at)) {
                    if latest.len() < 3 && !latest.contains(&island) {
                        latest.push(island);
                    }
                }
                let blocks = sack.take(&rcv, 3);
                let numbers = |it: Range<u64>| (rcv.seq_num(it.start), rcv.seq_num(it.end));
                let expected: Vec<_> = latest.into_iter().map(numbers).collect();
                assert_eq!(blocks.as_slice(), expected);
            }
        }
    }

    #[test]
    fn a_byte_that_was_not_stored_is_nothing_to_say() {
        let mut rcv = Rcv::new(SeqNum(0), 10_000, 10_000, Instant::ZERO);
        let mut sack = SackGenerator::default();
        arrive(&mut rcv, &mut sack, 100);
        sack.on_island(&rcv, FIRST_BYTE + 50);
        assert_eq!(starts(&sack.take(&rcv, 3)), [100]);
        assert!(!sack.is_behind(&rcv));
    }

    #[test]
    fn a_duplicate_is_reported_once_in_front() {
        let mut rcv = Rcv::new(SeqNum(0), 10_000, 10_000, Instant::ZERO);
        let mut sack = SackGenerator::default();
        arrive(&mut rcv, &mut sack, 100);
        sack.on_duplicate(FIRST_BYTE + 104..FIRST_BYTE + 106);
        assert_eq!(starts(&sack.take(&rcv, 3)), [104, 100]);
        assert_eq!(starts(&sack.take(&rcv, 3)), [100]);
    }
}
