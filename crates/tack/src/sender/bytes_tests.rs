//! The table of outstanding segments against an oracle that keeps one record per byte.

use super::*;

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn any(_: &Segment) -> bool {
    true
}

/// Everything about one byte.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    /// A segment begins here.
    first: bool,
    pkt_seq: u64,
    received: bool,
    lost: bool,
}

/// The table and the oracle, which go through the same operations.
struct Pair {
    sent: Bytes,
    una: u64,
    bytes: Vec<Byte>,
}

impl Pair {
    fn nxt(&self) -> u64 {
        self.una + self.bytes.len() as u64
    }

    fn range(&mut self, r: Range<u64>) -> &mut [Byte] {
        let (una, nxt) = (self.una, self.nxt());
        let clip = |s: u64| (s.clamp(una, nxt) - una) as usize;
        let (start, end) = (clip(r.start), clip(r.end));
        &mut self.bytes[start..end.max(start)]
    }

    fn count(&self, f: impl Fn(&Byte) -> bool) -> u64 {
        self.bytes.iter().filter(|b| f(b)).count() as u64
    }

    fn send(&mut self, seq: Range<u64>, now: Instant) {
        let old = seq.start < self.nxt() && !seq.is_empty();
        let (pkt_seq, again) = self.sent.on_sent(seq.clone(), 0, now);
        assert_eq!(again, old);
        let fresh = Byte { pkt_seq, ..Byte::default() };
        for byte in self.range(seq.clone()) {
            (byte.pkt_seq, byte.lost) = (pkt_seq, false);
        }
        let before = self.nxt();
        let len = self.bytes.len().max((seq.end - self.una) as usize);
        self.bytes.resize(len, fresh);
        let cuts = [seq.start.min(before), seq.end.min(before), before];
        for cut in cuts.into_iter().filter(|_| !seq.is_empty()) {
            if let Some(byte) = self.range(cut..cut + 1).first_mut() {
                byte.first = true;
            }
        }
    }

    fn is_boundary(&self, seq: u64) -> bool {
        seq <= self.una || seq >= self.nxt() || self.bytes[(seq - self.una) as usize].first
    }

    /// What whole segments `seq` covers.
    fn within(&self, seq: Range<u64>) -> Range<u64> {
        let start = (seq.start..=self.nxt()).find(|at| self.is_boundary(*at));
        let end = (self.una..=seq.end).rev().find(|at| self.is_boundary(*at));
        start.unwrap_or(self.nxt())..end.unwrap_or(self.una)
    }

    /// The segments of which `seq` has a part.
    fn around(&self, seq: Range<u64>) -> Range<u64> {
        if seq.is_empty() {
            return seq;
        }
        let start = (self.una..=seq.start).rev().find(|at| self.is_boundary(*at));
        let end = (seq.end..=self.nxt()).find(|at| self.is_boundary(*at));
        start.unwrap_or(self.una)..end.unwrap_or(self.nxt())
    }

    fn acknowledge(&mut self, to: u64) {
        let n = (to - self.una) as usize;
        let receipts = self.sent.acknowledge(to, None);
        // A partly known segment is counted as a whole when its part is passed.
        let unknown = self.bytes[..n].iter().filter(|b| !b.received).count();
        assert!(receipts.bytes >= unknown as u64);
        self.bytes.drain(..n);
        self.una = to;
    }

    fn receive(&mut self, seq: Range<u64>) {
        let mut receipts = Receipts::default();
        self.sent.receive(seq.clone(), None, &mut receipts);
        let mut new = 0;
        for byte in self.range(self.within(seq)) {
            new += u64::from(!byte.received);
            (byte.received, byte.lost) = (true, false);
        }
        assert_eq!(receipts.bytes, new);
    }

    fn lose_packets(&mut self, packets: Range<u64>) {
        let lost = self.sent.lose_packets(packets.clone(), any);
        let told = |b: &Byte| packets.contains(&b.pkt_seq) && !b.received && !b.lost;
        // A transmission is announced lost once only: less may be lost, nothing else.
        assert!(lost <= self.count(told));
        let before = self.count(|b| b.lost);
        for r in self.sent.lost.clone().iter() {
            for byte in self.range(r) {
                assert!(byte.lost || packets.contains(&byte.pkt_seq));
                byte.lost = true;
            }
        }
        assert_eq!(self.count(|b| b.lost), before + lost);
    }

    fn lose_hole(&mut self, seq: Range<u64>, largest: u64) {
        let lost = self.sent.lose_hole(seq.clone(), largest, any);
        let mut newly = 0;
        for byte in self.range(self.around(seq)) {
            byte.received = false;
            newly += u64::from(byte.pkt_seq < largest && !byte.lost);
            byte.lost |= byte.pkt_seq < largest;
        }
        assert_eq!(lost, newly);
    }

    fn check(&self) {
        self.sent.check();
        assert_eq!((self.sent.una(), self.sent.nxt()), (self.una, self.nxt()));
        assert_eq!(self.sent.in_flight(), self.count(|b| !b.received && !b.lost));
        assert_eq!(self.sent.lost_bytes(), self.count(|b| b.lost));
        assert_eq!(self.sent.arrived_beyond(), self.count(|b| b.received));
    }
}

#[test]
fn random_operations_agree_with_a_record_per_byte() {
    for seed in 1..=400u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n.max(1)
        };
        let una = next(1 << 40);
        let sent = Bytes::new(1 + next(1 << 33), una);
        let mut pair = Pair { sent, una, bytes: Vec::new() };
        for step in 0..200 {
            let (span, top) = (pair.nxt() - pair.una, pair.sent.next_pkt_seq());
            let a = pair.una + next(span + 1);
            let b = (a + next(40)).min(pair.nxt());
            // The seed of a failure is in the operation printed last.
            let operation = next(8);
            let context = format!("seed {seed} step {step} operation {operation} {a}..{b}");
            let run = std::panic::AssertUnwindSafe(|| {
                match operation {
                    0 | 1 => pair.send(pair.nxt()..pair.nxt() + 1 + next(15), at(step)),
                    2 => pair.send(a..b, at(step)),
                    3 => pair.send(a..pair.nxt() + next(15), at(step)),
                    4 => pair.acknowledge(pair.una + next(span + 1) / 4),
                    5 => pair.receive(a..b),
                    6 => {
                        let low = (top + 3).saturating_sub(next(40));
                        pair.lose_packets(low..low + next(20));
                    }
                    _ => pair.lose_hole(a..b, top.saturating_sub(next(10))),
                }
                pair.check();
            });
            assert!(std::panic::catch_unwind(run).is_ok(), "{context}");
        }
    }
}

#[test]
fn a_retransmission_may_cover_part_of_a_segment_or_several() {
    let mut s = Bytes::new(1, 0);
    for i in 0..4 {
        s.on_sent(i * 100..i * 100 + 100, 0, at(0));
    }
    assert_eq!(s.lose_packets(1..4, any), 300);
    assert_eq!(s.first_lost(), Some(0..100));
    let (p, again) = s.on_sent(50..250, 0, at(1));
    assert_eq!((p, again), (5, true));
    assert_eq!((s.lost_bytes(), s.first_lost()), (100, Some(0..50)));
    s.check();
    assert_eq!(s.lose_packets(5..6, any), 200, "all it carried");
    assert_eq!(s.lose_packets(4..5, any), 100);
    assert_eq!(s.in_flight(), 0);
}

#[test]
fn a_transmission_may_carry_old_and_new_data_together() {
    let mut s = Bytes::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    assert_eq!(s.on_sent(50..150, 0, at(1)), (2, true));
    assert_eq!((s.nxt(), s.in_flight()), (150, 150));
    s.check();
    assert_eq!(s.lose_packets(1..2, any), 50);
    assert_eq!(s.lose_packets(2..3, any), 100);
}

#[test]
fn segments_too_long_for_the_path_are_lost_unless_they_have_arrived() {
    let mut s = Bytes::new(1, 0);
    for range in [0..100, 100..160, 160..200, 200..260, 260..360] {
        s.on_sent(range, 0, at(0));
    }
    s.receive(200..360, None, &mut Receipts::default());
    s.lose_longer_than(60);
    assert_eq!((s.lost_bytes(), s.first_lost()), (100, Some(0..100)));
    s.check();
    // In pieces that pass, each under a number of its own.
    for (i, range) in [0..60, 60..100].into_iter().enumerate() {
        assert_eq!(s.on_sent(range, 0, at(1)), (6 + i as u64, true));
    }
    s.lose_longer_than(60);
    assert_eq!((s.lost_bytes(), s.in_flight()), (0, 200));
    s.check();
}

#[test]
fn only_the_latest_transmission_of_a_segment_counts() {
    // [TON §V-A]: the tuple's PKT.SEQ is replaced.
    let mut s = Bytes::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    s.on_sent(0..100, 0, at(1));
    assert_eq!(s.lose_packets(1..2, any), 0);
    assert_eq!(s.lose_hole(0..100, 2, any), 0, "sent again after what the peer has seen");
    assert_eq!(s.lose_hole(0..100, 3, any), 100);
}

#[test]
fn a_peer_that_tells_of_single_bytes_makes_no_list_longer_than_the_segments() {
    let mut s = Bytes::new(1, 0);
    for i in 0..100 {
        s.on_sent(i * 1_000..i * 1_000 + 1_000, 0, at(i));
    }
    for byte in (1..100_000).step_by(2) {
        s.receive(byte..byte + 1, None, &mut Receipts::default());
        s.lose_hole(byte + 1..byte + 2, 102, any);
    }
    assert!(s.received.is_empty());
    assert_eq!((s.lost.len(), s.first_lost()), (1, Some(0..1_000)), "and whole segments are sent");
    s.receive(500..2_500, None, &mut Receipts::default());
    assert_eq!(s.received.first(), Some(1_000..2_000));
    s.check();
}

#[test]
fn a_peer_that_has_all_but_the_lowest_sent_again_for_ever_makes_no_list_longer() {
    let mut s = Bytes::new(1, 0);
    for i in 0..100 {
        s.on_sent(i * 1_000..i * 1_000 + 1_000, 0, at(i));
    }
    for round in 0..1_000 {
        s.lose_packets(2..s.next_pkt_seq(), any);
        while let Some(lost) = s.first_lost() {
            s.on_sent(lost, 0, at(round));
        }
        assert!(s.remembered() <= PER_SEGMENT * 100 + SPARE);
    }
    assert_eq!(s.next_pkt_seq(), 100 + 99 * 1_000 + 1);
    assert_eq!(s.lose_hole(0..1_000, s.next_pkt_seq() - 1, any), 1_000, "the hole tells");
    s.check();
}

#[test]
fn memory_is_bounded_by_what_is_outstanding() {
    let mut s = Bytes::new(1, 0);
    for i in 0..100_000u64 {
        s.on_sent(i * 10..i * 10 + 10, 0, at(i));
        if i % 3 == 0 && i > 50 {
            s.lose_packets(s.next_pkt_seq() - 5..s.next_pkt_seq() - 1, any);
            while let Some(lost) = s.first_lost() {
                s.on_sent(lost, 0, at(i));
            }
        }
        s.acknowledge((i * 10).saturating_sub(500), None);
        assert!(s.segments.len() <= 60 && s.remembered() <= 250, "{}", s.remembered());
    }
    let end = s.nxt();
    s.acknowledge(end, None);
    assert_eq!((s.segments.len(), s.remembered(), s.in_flight()), (0, 0, 0));
}

#[test]
fn a_needless_retransmission_is_told_by_its_number() {
    let mut s = Bytes::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    s.on_sent(0..100, 0, at(1));
    // Packets up to 1 have arrived, and everything is acknowledged: it was the original.
    assert_eq!(s.acknowledge(100, Some(1)).needless, 1);
    s.on_sent(100..200, 0, at(2));
    s.on_sent(100..200, 0, at(3));
    assert_eq!(s.acknowledge(200, Some(4)).needless, 0);
}

#[test]
fn a_needless_retransmission_acknowledged_in_parts_counts_once() {
    let mut s = Bytes::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    s.on_sent(0..100, 0, at(1));
    assert_eq!(s.acknowledge(50, Some(1)).needless, 1);
    assert_eq!(s.acknowledge(100, Some(1)).needless, 0);
}
