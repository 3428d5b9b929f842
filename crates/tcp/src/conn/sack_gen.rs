//! SACK blocks we send: the most recent island first [RFC 2018 §4], a duplicate before it
//! [RFC 2883 §4].

use core::ops::Range;

use crate::conn::rcv::Rcv;
use crate::wire::SackBlocks;

/// Blocks that fit beside timestamps; four without.
const MOST: usize = 4;

/// Which blocks were reported last, and a duplicate not yet reported.
#[derive(Debug, Default)]
pub(crate) struct SackGenerator {
    /// A byte of each island reported, the most recent first.
    recent: [u64; MOST],
    len: usize,
    duplicate: Option<Range<u64>>,
}

impl SackGenerator {
    /// Text arrived and lies in an island that holds `at`.
    pub(crate) fn on_island(&mut self, at: u64) {
        let kept = self.recent[..self.len].iter().position(|&r| r == at).unwrap_or(self.len);
        let end = kept.min(MOST - 1);
        self.recent.copy_within(0..end, 1);
        self.recent[0] = at;
        self.len = (end + 1).max(self.len);
    }

    /// `range` arrived again.
    pub(crate) fn on_duplicate(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.duplicate = Some(range);
        }
    }

    /// The next acknowledgment has something to say beyond SEG.ACK.
    pub(crate) fn is_pending(&self, rcv: &Rcv) -> bool {
        self.duplicate.is_some() || !rcv.buffer.queued().is_empty()
    }

    /// At most `max` blocks for an acknowledgment that leaves now.
    pub(crate) fn take(&mut self, rcv: &Rcv, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let max = max.min(MOST);
        if let Some(range) = self.duplicate.take().filter(|_| max > 0) {
            push(&mut blocks, rcv, &range);
        }
        let mut said: [Range<u64>; MOST] = [const { 0..0 }; MOST];
        let mut kept = 0;
        for i in 0..self.len {
            let Some(island) = rcv.buffer.island_at(self.recent[i]) else { continue };
            if said[..kept].contains(&island) {
                continue;
            }
            if usize::from(blocks.len) < max {
                push(&mut blocks, rcv, &island);
            }
            self.recent[kept] = self.recent[i];
            said[kept] = island;
            kept += 1;
        }
        self.len = kept;
        blocks
    }
}

fn push(blocks: &mut SackBlocks, rcv: &Rcv, range: &Range<u64>) {
    blocks.blocks[usize::from(blocks.len)] = (rcv.seq_num(range.start), rcv.seq_num(range.end));
    blocks.len += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::acceptable::FIRST_BYTE;
    use crate::seq::SeqNum;
    use tack_units::Instant;

    fn arrive(rcv: &mut Rcv, sack: &mut SackGenerator, at: u64) {
        rcv.insert(FIRST_BYTE + at, &[0; 10], false);
        sack.on_island(FIRST_BYTE + at);
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
        let blocks = sack.take(&rcv, 3);
        assert_eq!(starts(&blocks), [200, 400, 500]);
        assert_eq!(blocks.as_slice()[1].1.0 - 1, 420);
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
