//! What is outstanding where packets are retired: a number is sent once, arrives or does not, and
//! what it carried goes on under another one (QUIC).
//!
//! ```text
//! PKT.SEQ   first          una                      next
//!             | a | l | a | a | f | f | l | f | s | f |     a arrived, l lost, f in flight,
//!                                                           s skipped or not counted
//! ```
//!
//! One record per number, in a ring. Up to `una` everything is settled one way or the other; what was
//! lost there is remembered for a while, to tell a packet that was only late. Each change of a
//! packet's fate is told to the host once, by [`Sender::poll_fate`](super::Sender::poll_fate): it
//! alone knows what the packet carried.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use tack_units::Instant;

use super::Sender;
use super::log::{Newest, Receipts, Records, Segment};
use crate::{Acked, Params, Ranges};

/// Settled packets that are remembered because one of them was lost and may only be late.
const REMEMBERED: u64 = 4_096;
/// Numbers from the oldest packet in flight to the newest. A peer that acknowledges all but one
/// would otherwise have us remember everything since.
const MOST: usize = 1 << 18;

/// What became of a packet. The host has what it carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived; maybe after it was told to be lost, and then what it carried need not be sent again.
    Arrived(u64),
    /// It is lost: what it carried is to be packed anew.
    Lost(u64),
    /// The peer says that it has a number that was skipped: it acknowledges what it has not seen
    /// [RFC 9000 §21.4].
    Forged(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sent, and not counted in flight: it asks for no acknowledgment.
    Uncounted,
    /// Never sent.
    Skipped,
    InFlight,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    state: State,
    bytes: u32,
    sent_at: Instant,
    /// Bytes delivered on the connection when it was sent.
    delivered: u64,
}

/// The log of a host that numbers packets and packs anew what was lost.
#[derive(Debug)]
pub struct Packets {
    first: u64,
    ring: VecDeque<Packet>,
    una: u64,
    /// Packets and bytes in flight.
    outstanding: usize,
    in_flight: u64,
    delivered: u64,
    /// Lost packets that are remembered.
    lost: BTreeSet<u64>,
    fates: VecDeque<Fate>,
    /// Lost since it was last asked.
    repacked: Vec<(u64, u32)>,
}

impl Packets {
    pub(super) fn new(first_pkt_seq: u64) -> Self {
        Packets {
            first: first_pkt_seq,
            ring: VecDeque::new(),
            una: first_pkt_seq,
            outstanding: 0,
            in_flight: 0,
            delivered: 0,
            lost: BTreeSet::new(),
            fates: VecDeque::new(),
            repacked: Vec::new(),
        }
    }

    pub(super) fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.pop_front()
    }

    /// A packet of `bytes` leaves that is to be acknowledged.
    pub(super) fn on_sent(&mut self, bytes: u32, delivered: u64, now: Instant) -> u64 {
        self.outstanding += 1;
        self.in_flight += u64::from(bytes);
        self.push(State::InFlight, bytes, delivered, now)
    }

    /// A packet leaves that asks for no acknowledgment.
    pub(super) fn on_uncounted(&mut self, now: Instant) -> u64 {
        self.push(State::Uncounted, 0, 0, now)
    }

    /// The next number is not used.
    pub(super) fn skip(&mut self, now: Instant) {
        self.push(State::Skipped, 0, 0, now);
    }

    fn push(&mut self, state: State, bytes: u32, delivered: u64, now: Instant) -> u64 {
        if self.ring.len() >= MOST {
            self.lose(self.una..self.una + 1, |_| true);
        }
        let pkt_seq = self.next_pkt_seq();
        self.ring.push_back(Packet { state, bytes, sent_at: now, delivered });
        self.settle();
        pkt_seq
    }

    fn get(&self, pkt_seq: u64) -> Option<&Packet> {
        self.ring.get(usize::try_from(pkt_seq.checked_sub(self.first)?).ok()?)
    }

    fn segment(&self, pkt_seq: u64) -> Option<Segment> {
        let p = self.get(pkt_seq)?;
        let (sent_at, delivered) = (p.sent_at, p.delivered);
        let (start, end) = (pkt_seq, pkt_seq + 1);
        Some(Segment { start, end, pkt_seq, sent_at, delivered, retransmitted: false })
    }

    /// The only place where a packet's state changes.
    fn enter(&mut self, pkt_seq: u64, next: State) {
        let i = (pkt_seq - self.first) as usize;
        let p = &mut self.ring[i];
        let size = p.bytes;
        let bytes = u64::from(size);
        match (p.state, next) {
            (State::InFlight, State::Arrived | State::Lost) => {
                self.in_flight -= bytes;
                self.outstanding -= 1;
            }
            (State::Lost, State::Arrived) => {
                self.lost.remove(&pkt_seq);
            }
            (from, to) => unreachable!("{from:?} -> {to:?} of packet {pkt_seq}"),
        }
        p.state = next;
        if next == State::Lost {
            self.lost.insert(pkt_seq);
            self.repacked.push((pkt_seq, size));
            self.fates.push_back(Fate::Lost(pkt_seq));
        } else {
            self.delivered += bytes;
            self.fates.push_back(Fate::Arrived(pkt_seq));
        }
    }

    /// What of `range` may be in flight.
    fn open(&self, range: Range<u64>) -> Range<u64> {
        range.start.max(self.una)..range.end.min(self.next_pkt_seq())
    }

    /// Declares lost what of `range` is in flight; returns its bytes.
    fn lose(&mut self, range: Range<u64>, allows: impl Fn(&Segment) -> bool) -> u64 {
        let before = self.in_flight;
        for pkt_seq in self.open(range) {
            let is_lost = self.get(pkt_seq).is_some_and(|p| p.state == State::InFlight)
                && self.segment(pkt_seq).is_some_and(|s| allows(&s));
            if is_lost {
                self.enter(pkt_seq, State::Lost);
            }
        }
        self.settle();
        before - self.in_flight
    }

    /// Moves `una` past what is settled, and forgets what need not be remembered.
    fn settle(&mut self) {
        while self.get(self.una).is_some_and(|p| p.state != State::InFlight) {
            self.una += 1;
        }
        let remember_from = self.una.saturating_sub(REMEMBERED);
        while self.first < self.una && (self.first < remember_from || !self.is_lost(self.first)) {
            self.ring.pop_front();
            self.lost.remove(&self.first);
            self.first += 1;
        }
    }

    fn is_lost(&self, pkt_seq: u64) -> bool {
        self.get(pkt_seq).is_some_and(|p| p.state == State::Lost)
    }
}

impl Records for Packets {
    const PROBED_AGAIN: bool = true;

    fn una(&self) -> u64 {
        self.una
    }

    fn nxt(&self) -> u64 {
        self.next_pkt_seq()
    }

    fn next_pkt_seq(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.outstanding == 0
    }

    fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// What is lost waits at the host.
    fn lost_bytes(&self) -> u64 {
        0
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `cum_ack` is the peer's floor. It never has news of what is in flight below it: that is lost.
    fn acknowledge(&mut self, cum_ack: u64, _largest: Option<u64>) -> Receipts {
        if cum_ack > self.una {
            self.lose(0..cum_ack, |_| true);
        }
        Receipts::default()
    }

    /// Each packet is told of.
    fn set_queued_at_peer(&mut self, _cum_ack: u64, _bytes: u64) {}

    fn receive(&mut self, range: Range<u64>, _largest: Option<u64>, receipts: &mut Receipts) {
        // A peer may say anything.
        if range.is_empty() {
            return;
        }
        let late: Vec<u64> = self.lost.range(range.clone()).copied().collect();
        receipts.needless += late.len() as u64;
        let before = self.delivered;
        for pkt_seq in late.into_iter().chain(self.open(range)) {
            match self.get(pkt_seq).map(|p| p.state) {
                Some(State::InFlight | State::Lost) => {
                    if let Some(segment) = self.segment(pkt_seq) {
                        receipts.note(&segment);
                    }
                    self.enter(pkt_seq, State::Arrived);
                }
                Some(State::Skipped) => {
                    self.ring[(pkt_seq - self.first) as usize].state = State::Uncounted;
                    self.fates.push_back(Fate::Forged(pkt_seq));
                }
                Some(State::Uncounted | State::Arrived) | None => {}
            }
        }
        receipts.bytes += self.delivered - before;
        self.settle();
    }

    fn lose_packets(&mut self, pkt_seqs: Range<u64>, allows: impl Fn(&Segment) -> bool) -> u64 {
        self.lose(pkt_seqs, allows)
    }

    fn lose_hole(
        &mut self,
        hole: Range<u64>,
        largest: u64,
        allows: impl Fn(&Segment) -> bool,
    ) -> u64 {
        self.lose(hole.start..hole.end.min(largest), allows)
    }

    /// Nothing that was lost waits here.
    fn lose_everything(&mut self) -> Ranges {
        self.lose(0..u64::MAX, |_| true);
        Ranges::new()
    }

    /// The host has been told, and hears of each packet that was only late.
    fn restore_lost(&mut self, _before: &Ranges) {}

    fn when_sent(&self, pkt_seq: u64) -> Option<Newest> {
        let p = self.get(pkt_seq)?;
        let counts = !matches!(p.state, State::Uncounted | State::Skipped);
        counts.then_some(Newest { pkt_seq, delivered: p.delivered, sent_at: p.sent_at })
    }

    fn take_repacked(&mut self) -> Vec<(u64, u32)> {
        core::mem::take(&mut self.repacked)
    }
}

impl Sender<Packets> {
    /// `first_pkt_seq` as in [`Sender::new`]: a host that numbers packets from 0 adds 1.
    pub fn of_packets(params: Params, first_pkt_seq: u64, now: Instant) -> Self {
        Sender::with_log(params, Packets::new(first_pkt_seq.max(1)), now)
    }

    /// A packet of `bytes`, 1 at least, leaves now that asks to be acknowledged; returns its PKT.SEQ.
    /// What counts as its bytes is the host's choice, the same throughout. O(1).
    pub fn on_packet(&mut self, bytes: u32, now: Instant) -> u64 {
        self.timer.on_sent(self.sent.is_empty(), now);
        let pkt_seq = self.sent.on_sent(bytes.max(1), self.delivered, now);
        self.recovery.on_packet(pkt_seq, bytes);
        self.fill_timer(now);
        pkt_seq
    }

    /// A packet leaves now that asks for no acknowledgment; returns its PKT.SEQ.
    pub fn on_uncounted(&mut self, now: Instant) -> u64 {
        self.sent.on_uncounted(now)
    }

    /// Leaves out one PKT.SEQ, to find out a peer that acknowledges what it has not seen.
    pub fn skip(&mut self, now: Instant) {
        self.sent.skip(now);
    }

    /// An acknowledgment came that is neither TACK nor IACK: `ranges` of PKT.SEQ, ascending, have arrived,
    /// and of others it says nothing. The peer waited for `delay` after the largest.
    pub fn on_ranges(
        &mut self,
        ranges: impl Iterator<Item = Range<u64>>,
        delay: Duration,
        now: Instant,
    ) -> Acked {
        let mut acked = self.before();
        let mut receipts = Receipts::default();
        let (mut largest, next) = (None, self.sent.next_pkt_seq());
        for range in ranges.take_while(|range| range.end <= next) {
            largest = range.end.checked_sub(1);
            self.sent.receive(range, None, &mut receipts);
        }
        // Only the largest was not acknowledged before for certain, and has a delay.
        if let Some(newest) = receipts.newest.filter(|newest| Some(newest.pkt_seq) == largest) {
            let rtt = now.saturating_since(newest.sent_at).saturating_sub(delay);
            if !rtt.is_zero() {
                self.on_rtt(rtt, now);
                acked.rtt = Some(rtt);
            }
        }
        self.after_data(acked, receipts, now)
    }

    /// What became of packets, in the order it became known; call until `None` after every input.
    pub fn poll_fate(&mut self) -> Option<Fate> {
        self.sent.poll_fate()
    }

    /// Below this PKT.SEQ nothing is in flight.
    pub fn settled_below(&self) -> u64 {
        self.sent.una()
    }

    /// Of packets below this PKT.SEQ no fate is told any more: what they carried can be forgotten.
    pub fn forgotten_below(&self) -> u64 {
        self.sent.first
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
