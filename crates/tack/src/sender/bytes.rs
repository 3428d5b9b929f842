//! What is outstanding: one record per segment, found by SEQ and by PKT.SEQ.
//!
//! ```text
//! SEQ        una                                         nxt
//!             |  seg  |   seg   | seg |    seg    |  seg  |      segments, contiguous
//!             | lost  |      received |    in flight      |      two disjoint sets of bytes
//! PKT.SEQ      17        12       13       14        15          latest transmission only
//! ```
//!
//! A segment's PKT.SEQ is replaced by that of its latest transmission [TON §V-A]. By SEQ a segment
//! is found in O(log N); by PKT.SEQ in O(1), through a ring of the ranges that each transmission
//! carried. Both are trimmed as `una` advances, and the ring is no longer than a few times the segments: memory
//! is bounded by what is outstanding.

use core::ops::Range;
use std::collections::VecDeque;

use tack_units::Instant;

use crate::{Params, Ranges};

use super::Sender;
use super::log::{Newest, Receipts, Records, Segment};
use super::transmissions::Transmissions;

/// Transmissions remembered for each segment that is outstanding, and beyond. An honest peer tells of a loss within
/// a few round trips; one that has all but the lowest sent again and again would grow the list for ever. What is
/// forgotten is found by its hole.
const PER_SEGMENT: usize = 8;
const SPARE: usize = 1_024;

/// A segment not yet acknowledged, for handing over to plain TCP on fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Its part of SEQ space.
    pub seq: Range<u64>,
    /// When it was last sent.
    pub sent_at: Instant,
    /// It was sent more than once.
    pub retransmitted: bool,
    /// It is declared lost and waits for retransmission.
    pub lost: bool,
}

/// The log of a host that sends one stream of bytes and fills its holes.
#[derive(Debug)]
pub struct Bytes {
    segments: VecDeque<Segment>,
    transmissions: Transmissions,
    /// Where SEQ begins.
    first: u64,
    una: u64,
    nxt: u64,
    /// Arrived beyond `una`, and known where.
    received: Ranges,
    /// Declared lost and not sent again.
    lost: Ranges,
    /// Bytes arrived beyond `una` as last told; where they are is only partly known.
    queued_at_peer: u64,
    /// A timeout took for lost all below this that was not known to have arrived.
    doubted_below: u64,
}

impl Bytes {
    pub(super) fn new(first_pkt_seq: u64, first_seq: u64) -> Self {
        Bytes {
            segments: VecDeque::new(),
            transmissions: Transmissions::new(first_pkt_seq),
            first: first_seq,
            una: first_seq,
            nxt: first_seq,
            received: Ranges::new(),
            lost: Ranges::new(),
            queued_at_peer: 0,
            doubted_below: first_seq,
        }
    }

    /// Bytes known to have arrived beyond `una`.
    fn arrived_beyond(&self) -> u64 {
        self.received.covered().max(self.queued_at_peer)
    }

    /// A transmission leaves. Returns its PKT.SEQ and whether it carries anything again.
    pub(super) fn on_sent(&mut self, seq: Range<u64>, delivered: u64, now: Instant) -> (u64, bool) {
        assert!(seq.start <= self.nxt, "new data continues the SEQ space");
        let range = seq.start.max(self.una)..seq.end.max(self.una);
        let pkt_seq = self.transmissions.push(range.clone());
        let again = range.start < self.nxt && !range.is_empty();
        if again {
            let part = range.start..range.end.min(self.nxt);
            self.replace(part, pkt_seq, delivered, now);
        }
        if range.end > self.nxt {
            self.segments.push_back(Segment {
                start: self.nxt,
                end: range.end,
                pkt_seq,
                sent_at: now,
                delivered,
                retransmitted: false,
            });
            self.nxt = range.end;
        }
        self.transmissions.keep(PER_SEGMENT * self.segments.len() + SPARE);
        (pkt_seq, again)
    }

    /// `part` of what is outstanding was sent again as `pkt_seq`.
    fn replace(&mut self, part: Range<u64>, pkt_seq: u64, delivered: u64, now: Instant) {
        self.lost.remove(part.clone());
        self.split_at(part.start);
        self.split_at(part.end);
        let mut i = self.index_of(part.start);
        while let Some(s) = self.segments.get_mut(i).filter(|s| s.start < part.end) {
            self.transmissions.supersede(s.pkt_seq, &part);
            (s.pkt_seq, s.sent_at, s.delivered, s.retransmitted) = (pkt_seq, now, delivered, true);
            i += 1;
        }
    }

    /// What whole segments `range` covers. A peer that has part of one is sent all of it again: only one
    /// that lies has many such parts, and each would be remembered.
    fn whole_segments_in(&self, range: Range<u64>) -> Range<u64> {
        let (first, beyond) = (self.starting_from(range.start), self.index_of(range.end));
        self.start_of(first)..self.start_of(beyond.max(first))
    }

    /// The segments of which `range` has a part.
    fn segments_around(&self, range: Range<u64>) -> Range<u64> {
        let (first, beyond) = (self.index_of(range.start), self.starting_from(range.end));
        self.start_of(first)..self.start_of(beyond.max(first))
    }

    /// Index of the first segment that does not start before `seq`.
    fn starting_from(&self, seq: u64) -> usize {
        self.segments.partition_point(|s| s.start < seq)
    }

    fn start_of(&self, index: usize) -> u64 {
        self.segments.get(index).map_or(self.nxt, |s| s.start)
    }

    /// Makes `seq` a boundary between segments, if it lies inside one.
    fn split_at(&mut self, seq: u64) {
        let i = self.index_of(seq);
        if let Some(s) = self.segments.get_mut(i)
            && s.start < seq
        {
            let upper = Segment { start: seq, ..*s };
            s.end = seq;
            self.segments.insert(i + 1, upper);
        }
    }

    /// Index of the first segment that ends beyond `seq`.
    fn index_of(&self, seq: u64) -> usize {
        self.segments.partition_point(|s| s.end <= seq)
    }

    /// What has not arrived of segments longer than `bytes` is lost.
    pub(super) fn lose_longer_than(&mut self, bytes: u64) {
        let longer = self.segments.iter().filter(|s| s.end - s.start > bytes);
        let parts: Vec<_> = longer.flat_map(|s| self.received.gaps_in(s.start..s.end)).collect();
        for part in parts {
            self.lost.insert(part);
        }
    }

    /// The lowest lost range, within one segment.
    pub(super) fn first_lost(&self) -> Option<Range<u64>> {
        let lost = self.lost.first()?;
        let s = self.segments.get(self.index_of(lost.start))?;
        Some(lost.start..lost.end.min(s.end))
    }

    /// Segments, in SEQ order, with whether each is lost; what has arrived is left out.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = (Segment, bool)> + '_ {
        self.segments
            .iter()
            .filter(|s| !self.received.contains(&(s.start..s.end)))
            .map(|s| (*s, self.lost.gaps_in(s.start..s.end).next().is_none()))
    }

    /// Panics when the parts do not fit together. For tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut at = self.una;
        for s in &self.segments {
            assert!(s.start == at && s.end > s.start, "segments are contiguous");
            at = s.end;
        }
        assert_eq!(at, self.nxt);
        for set in [&self.received, &self.lost] {
            assert!(set.first().is_none_or(|r| r.start >= self.una));
            assert!(set.last().is_none_or(|r| r.end <= self.nxt));
        }
        for r in self.lost.iter() {
            assert_eq!(self.received.gaps_in(r.clone()).collect::<Vec<_>>(), [r]);
        }
    }

    /// Transmissions remembered. For tests of the bound.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.transmissions.len()
    }
}

impl Records for Bytes {
    const PROBED_AGAIN: bool = false;

    fn una(&self) -> u64 {
        self.una
    }

    fn nxt(&self) -> u64 {
        self.nxt
    }

    fn next_pkt_seq(&self) -> u64 {
        self.transmissions.next()
    }

    fn is_empty(&self) -> bool {
        self.una == self.nxt
    }

    fn in_flight(&self) -> u64 {
        let (lost, received) = (self.lost.covered(), self.received.covered());
        // Where the rest of what the peer has queued lies, no list said: beside what was told to be
        // lost, but within what a timeout took for it.
        let unlisted = self.queued_at_peer.saturating_sub(received);
        let in_doubt = self.una < self.doubted_below;
        let gone = if in_doubt { lost.max(unlisted) } else { lost.saturating_add(unlisted) };
        (self.nxt - self.una - received).saturating_sub(gone)
    }

    fn lost_bytes(&self) -> u64 {
        self.lost.covered()
    }

    fn delivered(&self) -> u64 {
        self.una - self.first + self.arrived_beyond()
    }

    /// Everything below `cum_ack` has arrived; the caller has checked that it was sent.
    fn acknowledge(&mut self, cum_ack: u64, largest: Option<u64>) -> Receipts {
        let mut receipts = Receipts::default();
        if cum_ack <= self.una {
            return receipts;
        }
        while let Some(s) = self.segments.front_mut().filter(|s| s.start < cum_ack) {
            let part = s.start..s.end.min(cum_ack);
            let known = !self.received.is_empty() && self.received.contains(&part);
            if !known {
                note(&mut receipts, s, largest);
                receipts.bytes += part.end - part.start;
            }
            if s.end > cum_ack {
                s.start = cum_ack;
                // The rest of it was judged with this part.
                s.retransmitted &= known;
                break;
            }
            self.segments.pop_front();
        }
        // Where the peer's queued bytes were is not known: those just passed count as all of it.
        self.queued_at_peer = self.queued_at_peer.saturating_sub(cum_ack - self.una);
        self.una = cum_ack;
        self.received.remove_below(cum_ack);
        self.lost.remove_below(cum_ack);
        self.transmissions.trim(cum_ack);
        receipts
    }

    fn set_queued_at_peer(&mut self, cum_ack: u64, bytes: u64) {
        let passed = self.una - cum_ack.min(self.una);
        self.queued_at_peer = bytes.saturating_sub(passed).min(self.nxt - self.una);
    }

    /// `range` has arrived beyond `una`.
    fn receive(&mut self, range: Range<u64>, largest: Option<u64>, receipts: &mut Receipts) {
        let range = self.whole_segments_in(range);
        if range.is_empty() || self.received.contains(&range) {
            return;
        }
        for gap in self.received.gaps_in(range.clone()) {
            let first = self.segments.partition_point(|s| s.end <= gap.start);
            for s in self.segments.range(first..).take_while(|s| s.start < gap.end) {
                note(receipts, s, largest);
            }
        }
        receipts.bytes += self.received.insert(range.clone());
        self.lost.remove(range);
    }

    /// Transmissions `pkt_seqs` were lost: what they carried is, unless it was sent again or has
    /// arrived, or `allows` refuses. Returns the bytes newly lost.
    fn lose_packets(&mut self, pkt_seqs: Range<u64>, allows: impl Fn(&Segment) -> bool) -> u64 {
        let before = self.lost.covered();
        let mut from = pkt_seqs.start;
        while let Some((pkt_seq, range)) = self.transmissions.next_live(from, pkt_seqs.end) {
            from = pkt_seq + 1;
            let first = self.index_of(range.start);
            for s in self.segments.range(first..).take_while(|s| s.start < range.end) {
                if s.pkt_seq == pkt_seq && allows(s) {
                    for part in self.received.gaps_in(s.start..s.end) {
                        self.lost.insert(part);
                    }
                }
            }
            self.transmissions.forget(pkt_seq);
        }
        self.lost.covered() - before
    }

    /// The peer misses `hole`: what of it was last sent before `largest` arrived is lost, unless
    /// `allows` refuses. Returns the bytes newly lost.
    fn lose_hole(
        &mut self,
        hole: Range<u64>,
        largest: u64,
        allows: impl Fn(&Segment) -> bool,
    ) -> u64 {
        if hole.is_empty() {
            return 0;
        }
        let hole = self.segments_around(hole);
        // The peer may have dropped what it had queued [RFC 2018 §8].
        self.received.remove(hole.clone());
        let mut parts = Vec::new();
        for gap in self.lost.gaps_in(hole) {
            let first = self.segments.partition_point(|s| s.end <= gap.start);
            for s in self.segments.range(first..).take_while(|s| s.start < gap.end) {
                if s.pkt_seq < largest && allows(s) {
                    parts.push(s.start.max(gap.start)..s.end.min(gap.end));
                }
            }
        }
        parts.into_iter().map(|part| self.lost.insert(part)).sum()
    }

    /// Everything not known to have arrived is lost. Returns what was lost before.
    fn lose_everything(&mut self) -> Ranges {
        let before = self.lost.clone();
        self.doubted_below = self.nxt;
        let all: Vec<_> = self.received.gaps_in(self.una..self.nxt).collect();
        for part in all {
            self.lost.insert(part);
        }
        before
    }

    /// Takes back [`Self::lose_everything`]: only `before` is lost, as far as it still is.
    fn restore_lost(&mut self, before: &Ranges) {
        let mut kept = Ranges::new();
        for range in before.iter() {
            let lost_still = range.start.max(self.una)..range.end.max(self.una);
            let gone: Vec<_> = self.lost.gaps_in(lost_still.clone()).collect();
            kept.insert(lost_still);
            for part in gone {
                kept.remove(part);
            }
        }
        self.lost = kept;
    }

    /// What is known of the transmission `pkt_seq`, if it still is.
    fn when_sent(&self, pkt_seq: u64) -> Option<Newest> {
        let range = self.transmissions.range_of(pkt_seq)?;
        let s = self.segments.get(self.index_of(range.start))?;
        (s.pkt_seq == pkt_seq).then_some(s.into())
    }

    /// What is lost is sent again from here.
    fn take_repacked(&mut self) -> Vec<(u64, u32)> {
        Vec::new()
    }
}

impl Sender<Bytes> {
    /// `first_pkt_seq` numbers the first transmission (0 stands for 1: a gap is named by the
    /// packet before it, so there must be room for one), `first_seq` the first byte.
    pub fn new(params: Params, first_pkt_seq: u64, first_seq: u64, now: Instant) -> Self {
        Sender::with_log(params, Bytes::new(first_pkt_seq.max(1), first_seq), now)
    }

    /// A segment leaves now; returns its PKT.SEQ. New data must continue the SEQ space; a
    /// retransmission names (part of) what is outstanding. O(1) for new data, O(log N) for
    /// retransmissions of whole segments.
    ///
    /// # Panics
    ///
    /// When `seq` starts beyond the end of what was sent: a bug of the host.
    pub fn on_sent(&mut self, seq: Range<u64>, now: Instant) -> u64 {
        self.timer.on_sent(self.sent.is_empty(), now);
        let (pkt_seq, again) = self.sent.on_sent(seq.clone(), self.delivered, now);
        self.fill_timer(now);
        self.tail_probe.on_sent(pkt_seq, seq, again);
        if again {
            self.retransmissions += 1;
            self.recovery.on_retransmitted();
        }
        pkt_seq
    }

    /// Segments in flight that are longer than `bytes` did not fit the path: they are offered by
    /// [`Self::next_lost`], each part of them under a new PKT.SEQ. No episode begins: nothing says
    /// that a queue overflowed [RFC 8201 §5.4].
    pub fn lose_longer_than(&mut self, bytes: u64) {
        self.sent.lose_longer_than(bytes);
    }

    /// The next lost segment that may be retransmitted now: each at most once per RTT however
    /// often it is told. The caller then reports [`Self::on_sent`].
    ///
    /// The lowest comes first, because delivery waits for it; the range lies within one segment,
    /// and the caller may send it in parts.
    pub fn next_lost(&self, _now: Instant) -> Option<Range<u64>> {
        self.sent.first_lost()
    }

    /// What is not acknowledged, in SEQ order: the way back to plain TCP.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        let part = |(s, lost): (Segment, bool)| Outstanding {
            seq: s.start..s.end,
            sent_at: s.sent_at,
            retransmitted: s.retransmitted,
            lost,
        };
        self.sent.unacknowledged().map(part).collect()
    }
}

/// `segment` has arrived; packets up to `largest` had arrived when that was told.
fn note(receipts: &mut Receipts, segment: &Segment, largest: Option<u64>) {
    receipts.note(segment);
    if segment.retransmitted && largest.is_some_and(|l| l < segment.pkt_seq) {
        receipts.needless += 1;
    }
}

#[cfg(test)]
#[path = "bytes_tests.rs"]
mod tests;
