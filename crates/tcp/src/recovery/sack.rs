//! What the receiver says it holds: SACK's scoreboard [RFC 2018, RFC 6675], or a count of
//! duplicate acknowledgments where SACK was not negotiated [RFC 5681 §3.2, RFC 6582].

use core::ops::Range;

use tack::Ranges;

use crate::recovery::sent::{Delivered, Sent};

/// Blocks looked at in one acknowledgment: more than any option holds.
const MAX_BLOCKS: usize = 8;

/// Ranges kept beyond two per segment outstanding. Honest blocks make one per segment at most;
/// a peer that acknowledges every other byte is not listened to.
const SPARE_RANGES: usize = 16;

/// Duplicates, or segments above, that stand for a loss [RFC 5681 §3.2, RFC 6675 §2].
pub(super) const DUP_THRESH: usize = 3;

/// Bytes selectively acknowledged above `snd_una`.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    ranges: Ranges,
}

impl Scoreboard {
    /// Enters the blocks of one acknowledgment and reports the segments they complete. Blocks
    /// that are inverted or reach outside `snd_una..snd_nxt` are ignored, their inner part too:
    /// a peer that acknowledges what was never sent is wrong about the rest as well.
    ///
    /// Costs O(log n) per block and gap it closes, not a walk over what is known already.
    pub(super) fn enter(
        &mut self,
        blocks: &[Range<u64>],
        sent: &mut Sent,
        mut report: impl FnMut(Delivered),
    ) {
        for block in blocks.iter().take(MAX_BLOCKS) {
            let block = block.start.max(sent.snd_una())..block.end;
            let crowded = self.ranges.len() > 2 * sent.segments() + SPARE_RANGES;
            if block.is_empty() || block.end > sent.snd_nxt() || crowded {
                continue;
            }
            for gap in self.ranges.gaps_in(block.clone()) {
                let covered = |span: &Range<u64>| {
                    let before = span.start..span.end.min(block.start);
                    let behind = span.start.max(block.end)..span.end;
                    self.ranges.contains(&before) && self.ranges.contains(&behind)
                };
                sent.sack(gap, covered, &mut report);
            }
            self.ranges.insert(block);
        }
    }

    /// Below this, what is not selectively acknowledged is lost: three discontiguous ranges lie above
    /// it, or more than two segments' bytes (`IsLost()` [RFC 6675 §4]).
    pub(super) fn lost_below(&self, mss: u64) -> Option<u64> {
        let mut above = 0;
        self.ranges.iter().rev().enumerate().find_map(|(count, range)| {
            above += range.end - range.start;
            let is_lost = count + 1 >= DUP_THRESH || above > (DUP_THRESH as u64 - 1) * mss;
            is_lost.then_some(range.start)
        })
    }

    /// `range` arrived before SACK was listened to.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        self.ranges.insert(range);
    }

    /// The cumulative acknowledgment advanced.
    pub(super) fn advance(&mut self, snd_una: u64) {
        if self.ranges.first().is_some_and(|first| first.start < snd_una) {
            self.ranges.remove_below(snd_una);
        }
    }

    /// The receiver reneged [RFC 2018 §8].
    pub(super) fn clear(&mut self) {
        self.ranges = Ranges::new();
    }
}

#[cfg(test)]
impl Scoreboard {
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

/// Duplicate acknowledgments, each standing for a segment that left the network.
#[derive(Debug, Default)]
pub(super) struct DupAcks {
    count: usize,
    /// Bytes counted as delivered for duplicates; the cumulative acknowledgment repays it.
    credit: u64,
    /// Of these, bytes taken off what is in flight.
    pipe_credit: u64,
    /// A new episode starts only beyond this [RFC 6582 §3.2 step 2].
    recover: Option<u64>,
}

impl DupAcks {
    pub(super) fn pipe_credit(&self) -> u64 {
        self.pipe_credit
    }

    /// A duplicate came while `outstanding` bytes are unacknowledged. Returns the bytes to count
    /// as delivered, and whether the first segment is to be declared lost.
    pub(super) fn on_duplicate(&mut self, mss: u64, outstanding: u64, snd_una: u64) -> (u64, bool) {
        self.count = self.count.saturating_add(1);
        // At least the first segment is missing: no lie takes more off than the rest.
        let bytes = mss.min(outstanding.saturating_sub(mss).saturating_sub(self.credit));
        self.credit += bytes;
        self.pipe_credit += bytes;
        let fresh_episode = self.recover.is_none_or(|recover| snd_una > recover);
        (bytes, self.count == DUP_THRESH && fresh_episode)
    }

    /// The cumulative acknowledgment advanced by `bytes` and leaves `outstanding`: how many were
    /// counted for duplicates before. One segment filled the hole, the rest repays
    /// [RFC 6582 §3.2 step 3]; nothing is owed beyond what is outstanding.
    pub(super) fn on_advance(&mut self, bytes: u64, mss: u64, outstanding: u64) -> u64 {
        self.count = 0;
        let repaid = bytes.saturating_sub(mss).min(self.credit);
        let repaid = repaid.max(self.credit.saturating_sub(outstanding));
        self.credit -= repaid;
        self.pipe_credit = self.pipe_credit.saturating_sub(repaid).min(self.credit);
        repaid
    }

    /// An episode began when everything below `snd_nxt` had been sent.
    pub(super) fn on_episode(&mut self, snd_nxt: u64) {
        self.recover = Some(snd_nxt);
    }

    /// The retransmission timer expired: what is in flight is counted anew.
    pub(super) fn on_timeout(&mut self, snd_nxt: u64) {
        self.count = 0;
        self.pipe_credit = 0;
        self.recover = Some(snd_nxt);
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use rand::{RngExt, SeedableRng};
    use tack_units::Instant;

    use super::*;
    use tack_transport::Snapshot;

    /// The naive scoreboard: a flag per byte, segments complete when all their bytes are.
    #[test]
    fn random_blocks_complete_the_segments_that_a_flag_per_byte_completes() {
        for seed in 0..200 {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
            let (mut sent, mut board) = (Sent::new(0), Scoreboard::default());
            let mut edges = vec![0u64];
            for _ in 0..20 {
                let end = edges[edges.len() - 1] + rng.random_range(1..30);
                sent.push(end, Snapshot::at(Instant::ZERO), Instant::ZERO);
                edges.push(end);
            }
            let total = edges[edges.len() - 1];
            let mut flags = vec![false; total as usize];
            let (mut expected, mut completed) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                let a = rng.random_range(0..total + 5);
                let b = rng.random_range(0..total + 5);
                board.enter(&[a..b], &mut sent, |segment| completed.push(segment.end));
                if a < b && b <= total {
                    flags[a as usize..b as usize].fill(true);
                }
                for pair in edges.windows(2) {
                    let whole = flags[pair[0] as usize..pair[1] as usize].iter().all(|&f| f);
                    if whole && !expected.contains(&pair[1]) {
                        expected.push(pair[1]);
                    }
                }
                completed.sort_unstable();
                expected.sort_unstable();
                assert_eq!(completed, expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn three_duplicates_declare_a_loss_once_an_episode() {
        let mut dup_acks = DupAcks::default();
        let mut lost = |una| dup_acks.on_duplicate(1_000, 10_000, una).1;
        assert_eq!([lost(0), lost(0), lost(0), lost(0)], [false, false, true, false]);
        dup_acks.on_episode(10_000);
        dup_acks.on_advance(10_000, 1_000, 0);
        // [RFC 6582 §3.2 step 2]: duplicates of what the episode itself sent twice.
        let mut lost = |una| dup_acks.on_duplicate(1_000, 10_000, una).1;
        assert_eq!([lost(10_000), lost(10_000), lost(10_000)], [false; 3]);
    }

    #[test]
    fn duplicates_never_count_more_than_was_sent_and_are_repaid() {
        let mut dup_acks = DupAcks::default();
        let mut credit = 0;
        for _ in 0..1_000 {
            credit += dup_acks.on_duplicate(1_000, 10_000, 0).0;
        }
        assert_eq!((credit, dup_acks.pipe_credit()), (9_000, 9_000));
        // One segment fills the hole; the rest had been counted.
        assert_eq!(dup_acks.on_advance(4_000, 1_000, 6_000), 3_000);
        assert_eq!(dup_acks.on_advance(6_000, 1_000, 0), 6_000, "nothing is owed at the end");
        assert_eq!(dup_acks.pipe_credit(), 0);
    }
}
