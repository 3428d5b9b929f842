//! What was sent and is not cumulatively acknowledged: one entry per segment, in order.
//!
//! ```text
//!  snd_una                                                        snd_nxt
//!     |  in flight  |  lost  | in flight (again) | sacked |  in flight |
//!     +------ entries cover this without a gap, in sequence order -----+
//! ```
//!
//! Every transmission has a serial number, and an entry carries that of its latest one. A second
//! queue holds the transmissions in the order of sending; it is cleaned lazily, so that the oldest
//! one still in flight is found in O(1) amortised and loss detection never walks the window.
//!
//! An entry is split when part of it is retransmitted. A SACK block that covers an entry in part
//! does not split it: edges of honest blocks are edges of segments, and hostile ones must not be
//! able to cut the window into single bytes.

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};

use tack_transport::Snapshot;
use tack_units::Instant;

/// Where a segment is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its latest transmission is on the way.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Its latest transmission is lost; it waits for retransmission.
    Lost,
}

#[derive(Clone, Debug)]
struct Entry {
    start: u64,
    end: u64,
    state: State,
    /// Serial number of the latest transmission.
    xmit: u64,
    sent_at: Instant,
    /// When it first left, if it left again since.
    first_sent: Option<Instant>,
    /// In flight to repair a loss.
    repairs: bool,
    /// Its bytes are in `delivered` already; stays set when the receiver reneges.
    counted: bool,
    snapshot: Snapshot,
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// What is reported of it when its bytes before `end` are known to have arrived.
    fn delivered(&self, end: u64) -> Delivered {
        Delivered {
            end,
            new_bytes: if self.counted { 0 } else { end - self.start },
            was_sacked: self.state == State::Sacked,
            first_sent: self.first_sent,
            xmit: self.xmit,
            sent_at: self.sent_at,
            snapshot: self.snapshot,
        }
    }
}

/// A transmission in the order of sending.
#[derive(Clone, Debug)]
pub(super) struct Transmission {
    start: u64,
    end: u64,
    /// Serial number; greater means later.
    pub(super) xmit: u64,
    pub(super) sent_at: Instant,
}

/// A segment, or the front part of one, that is now known to have arrived.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    /// End of it in sequence space.
    pub(super) end: u64,
    /// Bytes that were not known to have arrived before.
    pub(super) new_bytes: u64,
    /// It had been selectively acknowledged before.
    pub(super) was_sacked: bool,
    /// When it first left, if it left again since: no RTT can be taken from it without a timestamp [RFC 6298 §3].
    pub(super) first_sent: Option<Instant>,
    /// Serial number of the latest transmission.
    pub(super) xmit: u64,
    /// When that left.
    pub(super) sent_at: Instant,
    pub(super) snapshot: Snapshot,
}

/// See the file header.
#[derive(Debug)]
pub(super) struct Sent {
    entries: VecDeque<Entry>,
    by_time: VecDeque<Transmission>,
    /// Starts of the entries that are lost.
    lost: BTreeSet<u64>,
    snd_una: u64,
    snd_nxt: u64,
    next_xmit: u64,
    in_flight: u64,
    sacked_segments: usize,
    /// Entries that were declared lost, left again and are not known to have arrived.
    repairs: usize,
}

impl Sent {
    pub(super) fn new(first_seq: u64) -> Sent {
        Sent {
            entries: VecDeque::new(),
            by_time: VecDeque::new(),
            lost: BTreeSet::new(),
            snd_una: first_seq,
            snd_nxt: first_seq,
            next_xmit: 1,
            in_flight: 0,
            sacked_segments: 0,
            repairs: 0,
        }
    }

    pub(super) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub(super) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    /// Bytes whose latest transmission is neither known to have arrived nor lost.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn segments(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn sacked_segments(&self) -> usize {
        self.sacked_segments
    }

    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Something was declared lost and nothing of it is known to have arrived since, whether or
    /// not it left again.
    pub(super) fn has_unrepaired(&self) -> bool {
        self.has_lost() || self.repairs > 0
    }

    /// The lowest segment that waits for retransmission.
    pub(super) fn first_lost(&self) -> Option<Range<u64>> {
        let entry = &self.entries[self.position(*self.lost.first()?)];
        Some(entry.start..entry.end)
    }

    /// The segment that ends the sequence space.
    pub(super) fn last(&self) -> Option<Range<u64>> {
        self.entries.back().map(|entry| entry.start..entry.end)
    }

    /// The receiver took back what it had selectively acknowledged: the very byte it waits for
    /// is among it [RFC 2018 §8].
    pub(super) fn head_is_sacked(&self) -> bool {
        self.entries.front().is_some_and(|head| head.state == State::Sacked)
    }

    /// The first segment is in flight for the first time.
    pub(super) fn head_is_fresh(&self) -> bool {
        self.entries.front().is_some_and(|h| h.state == State::InFlight && h.first_sent.is_none())
    }

    /// New data `snd_nxt..end` leaves.
    pub(super) fn push(&mut self, end: u64, snapshot: Snapshot, now: Instant) {
        let start = self.snd_nxt;
        let xmit = self.note_transmission(start..end, now);
        self.snd_nxt = end;
        self.in_flight += end - start;
        self.entries.push_back(Entry {
            start,
            end,
            state: State::InFlight,
            xmit,
            sent_at: now,
            first_sent: None,
            repairs: false,
            counted: false,
            snapshot,
        });
    }

    /// `snd_nxt..end` was sent and has arrived before we knew of it (a takeover from TACK).
    pub(super) fn push_arrived(&mut self, end: u64, now: Instant) {
        self.push(end, Snapshot::at(now), now);
        let last = self.entries.len() - 1;
        self.entries[last].counted = true;
        self.set_state(last, State::Sacked);
    }

    /// The last entry pushed was sent before, and is lost.
    pub(super) fn amend_last(&mut self, retransmitted: bool, lost: bool) {
        let Some(last) = self.entries.len().checked_sub(1) else { return };
        self.entries[last].first_sent = retransmitted.then_some(self.entries[last].sent_at);
        if lost {
            self.set_state(last, State::Lost);
        }
    }

    /// Numbers the transmissions by the time they left: entries were pushed in sequence order.
    pub(super) fn number_by_time(&mut self) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&i| self.entries[i].sent_at);
        for i in order {
            self.entries[i].xmit = self.next_xmit;
            self.next_xmit += 1;
        }
        self.rebuild_by_time();
    }

    /// The stream starts at `snd_una`; nothing may be outstanding.
    pub(super) fn restart_at(&mut self, snd_una: u64) {
        debug_assert!(self.entries.is_empty());
        (self.snd_una, self.snd_nxt) = (snd_una, snd_una);
    }

    /// Part of what is outstanding leaves again. What of it has arrived stays as it is.
    pub(super) fn retransmit(&mut self, range: Range<u64>, snapshot: Snapshot, now: Instant) {
        let range = range.start.max(self.snd_una)..range.end.min(self.snd_nxt);
        if range.is_empty() {
            return;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        let xmit = self.note_transmission(range.clone(), now);
        for i in self.position(range.start)..self.entries.len() {
            if self.entries[i].start >= range.end {
                break;
            }
            if self.entries[i].state != State::Sacked {
                let repairs = self.entries[i].repairs || self.entries[i].state == State::Lost;
                self.set_state(i, State::InFlight);
                self.repairs += usize::from(repairs);
                let entry = &mut self.entries[i];
                entry.repairs = repairs;
                entry.xmit = xmit;
                entry.first_sent.get_or_insert(entry.sent_at);
                entry.sent_at = now;
                entry.snapshot = snapshot;
            }
        }
    }

    /// Takes out everything below `cum_ack` and reports each segment.
    pub(super) fn ack_to(&mut self, cum_ack: u64, mut report: impl FnMut(Delivered)) {
        while self.snd_una < cum_ack
            && let Some(head) = self.entries.front()
        {
            let end = head.end.min(cum_ack);
            report(head.delivered(end));
            self.trim_head(end);
        }
    }

    /// Marks the segments that `range` completes; `covered` tells whether all of a segment whose
    /// edge lies outside `range` is selectively acknowledged by now. Reports each segment.
    pub(super) fn sack(
        &mut self,
        range: Range<u64>,
        covered: impl Fn(&Range<u64>) -> bool,
        mut report: impl FnMut(Delivered),
    ) {
        for i in self.position(range.start)..self.entries.len() {
            let entry = &self.entries[i];
            let span = entry.start..entry.end;
            if span.start >= range.end {
                break;
            }
            let inside = range.start <= span.start && span.end <= range.end;
            if entry.state == State::Sacked || !(inside || covered(&span)) {
                continue;
            }
            report(entry.delivered(span.end));
            self.set_state(i, State::Sacked);
            self.entries[i].counted = true;
        }
    }

    /// The earliest transmission still in flight.
    pub(super) fn oldest(&mut self) -> Option<Transmission> {
        while let Some(front) = self.by_time.front() {
            if self.is_current(front) {
                return Some(front.clone());
            }
            self.by_time.pop_front();
        }
        None
    }

    /// Declares lost what is left of a transmission; returns the bytes.
    pub(super) fn mark_lost(&mut self, transmission: &Transmission) -> u64 {
        self.lose(transmission.start..transmission.end, |entry| {
            entry.xmit == transmission.xmit && entry.state == State::InFlight
        })
    }

    /// Declares lost what in `range` was sent once only and is in flight: the bytes, and when the
    /// newest of it left.
    pub(super) fn mark_fresh_lost(&mut self, range: Range<u64>) -> (u64, Option<Instant>) {
        let mut newest = None;
        let bytes = self.lose(range.clone(), |entry| {
            let fresh = entry.state == State::InFlight && entry.first_sent.is_none();
            let lost = fresh && entry.end <= range.end;
            if lost {
                newest = newest.max(Some(entry.sent_at));
            }
            lost
        });
        (bytes, newest)
    }

    /// Declares the first segment lost; returns its bytes.
    pub(super) fn mark_head_lost(&mut self) -> u64 {
        self.lose(self.snd_una..self.snd_una + 1, |head| head.state == State::InFlight)
    }

    /// Declares lost everything that is in flight; returns the bytes.
    pub(super) fn mark_all_lost(&mut self) -> u64 {
        self.lose(self.all(), |entry| entry.state == State::InFlight)
    }

    /// Declares lost every segment in flight that is longer than `bytes`.
    pub(super) fn mark_longer_lost(&mut self, bytes: u64) {
        self.lose(self.all(), |entry| entry.state == State::InFlight && entry.bytes() > bytes);
    }

    /// What was selectively acknowledged is not any more, and is lost; returns the bytes.
    pub(super) fn renege(&mut self) -> u64 {
        self.lose(self.all(), |entry| entry.state == State::Sacked)
    }

    fn all(&self) -> Range<u64> {
        self.snd_una..self.snd_nxt
    }

    /// Declares lost every such segment of which some is in `range`; returns the bytes.
    fn lose(&mut self, range: Range<u64>, mut which: impl FnMut(&Entry) -> bool) -> u64 {
        let mut bytes = 0;
        for i in self.position(range.start)..self.entries.len() {
            let entry = &self.entries[i];
            if entry.start >= range.end {
                break;
            }
            if which(entry) {
                bytes += entry.bytes();
                self.set_state(i, State::Lost);
            }
        }
        bytes
    }

    /// What was declared lost is on the way after all.
    pub(super) fn restore_lost(&mut self) {
        for i in 0..self.entries.len() {
            if self.entries[i].state == State::Lost {
                self.set_state(i, State::InFlight);
            }
            self.entries[i].repairs = false;
        }
        self.repairs = 0;
        self.rebuild_by_time();
    }

    fn note_transmission(&mut self, range: Range<u64>, now: Instant) -> u64 {
        let xmit = self.next_xmit;
        self.next_xmit += 1;
        // Stale ones go when they are the majority: amortised O(1), and the queue stays bounded
        // by the number of entries however long its front stays in flight.
        if self.by_time.len() > 2 * self.entries.len() + 64 {
            let mut by_time = core::mem::take(&mut self.by_time);
            by_time.retain(|transmission| self.is_current(transmission));
            self.by_time = by_time;
        }
        self.by_time.push_back(Transmission {
            start: range.start,
            end: range.end,
            xmit,
            sent_at: now,
        });
        xmit
    }

    fn rebuild_by_time(&mut self) {
        let mut all: Vec<Transmission> = self
            .entries
            .iter()
            .filter(|entry| entry.state == State::InFlight)
            .map(|e| Transmission { start: e.start, end: e.end, xmit: e.xmit, sent_at: e.sent_at })
            .collect();
        all.sort_unstable_by_key(|transmission| transmission.xmit);
        self.by_time = all.into();
    }

    /// Some of the transmission, of which most is acknowledged, is still in flight and was not sent again since.
    fn is_current(&self, transmission: &Transmission) -> bool {
        let entries = || self.entries.range(self.position(transmission.start)..);
        transmission.end > self.snd_una
            && entries()
                .take_while(|entry| entry.start < transmission.end)
                .any(|entry| entry.xmit == transmission.xmit && entry.state == State::InFlight)
    }

    /// Index of the entry that holds `seq`, mostly the oldest, or of the first one behind it.
    fn position(&self, seq: u64) -> usize {
        match self.entries.front() {
            Some(head) if seq < head.end => 0,
            _ => self.entries.partition_point(|entry| entry.end <= seq),
        }
    }

    fn split_at(&mut self, seq: u64) {
        let i = self.position(seq);
        let Some(entry) = self.entries.get_mut(i) else { return };
        if entry.start >= seq {
            return;
        }
        let mut behind = entry.clone();
        entry.end = seq;
        behind.start = seq;
        match behind.state {
            State::Lost => {
                self.lost.insert(seq);
            }
            State::Sacked => self.sacked_segments += 1,
            State::InFlight => self.repairs += usize::from(behind.repairs),
        }
        self.entries.insert(i + 1, behind);
    }

    /// Takes the head out up to `end`, which lies in it.
    fn trim_head(&mut self, end: u64) {
        let Some(head) = self.entries.front_mut() else { return };
        let (start, state) = (head.start, head.state);
        let whole = head.end == end;
        head.start = end;
        self.snd_una = end;
        match state {
            State::InFlight => self.in_flight -= end - start,
            State::Lost => {
                self.lost.remove(&start);
                if !whole {
                    self.lost.insert(end);
                }
            }
            State::Sacked if whole => self.sacked_segments -= 1,
            State::Sacked => {}
        }
        if whole && let Some(head) = self.entries.pop_front() {
            self.repairs -= usize::from(head.repairs);
        }
    }

    /// The only place a state changes: the counters follow it.
    fn set_state(&mut self, i: usize, next: State) {
        let entry = &mut self.entries[i];
        let (bytes, start, previous) = (entry.bytes(), entry.start, entry.state);
        entry.state = next;
        self.repairs -= usize::from(core::mem::take(&mut entry.repairs));
        match previous {
            State::InFlight => self.in_flight -= bytes,
            State::Sacked => self.sacked_segments -= 1,
            State::Lost => {
                self.lost.remove(&start);
            }
        }
        match next {
            State::InFlight => self.in_flight += bytes,
            State::Sacked => self.sacked_segments += 1,
            State::Lost => {
                self.lost.insert(start);
            }
        }
    }
}

#[cfg(test)]
#[path = "sent_tests.rs"]
mod tests;
