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
    pkt_seq: u64,
    received: bool,
    lost: bool,
}

struct Oracle {
    una: u64,
    bytes: Vec<Byte>,
}

impl Oracle {
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
        let first = next(1 << 40);
        let mut sent = Sent::new(1 + next(1 << 33), first);
        let mut oracle = Oracle { una: first, bytes: Vec::new() };
        for step in 0..200 {
            let span = oracle.nxt() - oracle.una;
            let a = oracle.una + next(span + 1);
            let b = (a + next(40)).min(oracle.nxt());
            match next(7) {
                0 | 1 => {
                    let end = oracle.nxt() + 1 + next(15);
                    let (p, again) = sent.on_sent(oracle.nxt()..end, 0, at(step));
                    assert!(!again);
                    let byte = Byte { pkt_seq: p, ..Byte::default() };
                    oracle.bytes.resize((end - oracle.una) as usize, byte);
                }
                2 => {
                    let (p, again) = sent.on_sent(a..b, 0, at(step));
                    assert_eq!(again, a < b);
                    for byte in oracle.range(a..b) {
                        (byte.pkt_seq, byte.lost) = (p, false);
                    }
                }
                3 => {
                    let to = oracle.una + next(span + 1) / 4;
                    let receipts = sent.acknowledge(to, None);
                    let n = (to - oracle.una) as usize;
                    // A partly known segment is counted as a whole when its part is passed.
                    let unknown = oracle.bytes[..n].iter().filter(|b| !b.received).count();
                    assert!(receipts.bytes >= unknown as u64, "seed {seed}");
                    oracle.bytes.drain(..n);
                    oracle.una = to;
                }
                4 => {
                    let mut receipts = Receipts::default();
                    sent.receive(a..b, None, &mut receipts);
                    let new = oracle.range(a..b).iter().filter(|b| !b.received).count() as u64;
                    assert_eq!(receipts.bytes, new, "seed {seed}");
                    for byte in oracle.range(a..b) {
                        (byte.received, byte.lost) = (true, false);
                    }
                }
                5 => {
                    let top = sent.next_pkt_seq() + 3;
                    let low = top.saturating_sub(next(40));
                    let packets = low..low + next(20);
                    let lost = sent.lose_packets(packets.clone(), any);
                    let mut newly = 0;
                    for byte in &mut oracle.bytes {
                        if packets.contains(&byte.pkt_seq) && !byte.received && !byte.lost {
                            // A transmission is announced lost once only.
                            byte.lost = true;
                            newly += 1;
                        }
                    }
                    assert!(lost <= newly, "seed {seed}");
                    for byte in oracle.bytes.iter_mut().filter(|b| b.lost) {
                        byte.lost = false;
                    }
                    for r in sent.lost.iter() {
                        oracle.range(r).iter_mut().for_each(|b| b.lost = true);
                    }
                }
                _ => {
                    let largest = sent.next_pkt_seq().saturating_sub(next(10));
                    let lost = sent.lose_hole(a..b, largest, any);
                    let mut newly = 0;
                    for byte in oracle.range(a..b) {
                        byte.received = false;
                        newly += u64::from(byte.pkt_seq < largest && !byte.lost);
                        byte.lost |= byte.pkt_seq < largest;
                    }
                    assert_eq!(lost, newly, "seed {seed}");
                }
            }
            sent.check();
            assert_eq!((sent.una(), sent.nxt()), (oracle.una, oracle.nxt()));
            let flying = oracle.count(|b| !b.received && !b.lost);
            assert_eq!(sent.in_flight(), flying, "seed {seed} step {step}");
            assert_eq!(sent.lost_bytes(), oracle.count(|b| b.lost), "seed {seed}");
            assert_eq!(sent.arrived_beyond(), oracle.count(|b| b.received), "seed {seed}");
        }
    }
}

#[test]
fn a_retransmission_may_cover_part_of_a_segment_or_several() {
    let mut s = Sent::new(1, 0);
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
    let mut s = Sent::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    assert_eq!(s.on_sent(50..150, 0, at(1)), (2, true));
    assert_eq!((s.nxt(), s.in_flight()), (150, 150));
    s.check();
    assert_eq!(s.lose_packets(1..2, any), 50);
    assert_eq!(s.lose_packets(2..3, any), 100);
}

#[test]
fn only_the_latest_transmission_of_a_segment_counts() {
    // [TON §V-A]: the tuple's PKT.SEQ is replaced.
    let mut s = Sent::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    s.on_sent(0..100, 0, at(1));
    assert_eq!(s.lose_packets(1..2, any), 0);
    assert_eq!(s.lose_hole(0..100, 2, any), 0, "sent again after what the peer has seen");
    assert_eq!(s.lose_hole(0..100, 3, any), 100);
}

#[test]
fn memory_is_bounded_by_what_is_outstanding() {
    let mut s = Sent::new(1, 0);
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
    let mut s = Sent::new(1, 0);
    s.on_sent(0..100, 0, at(0));
    s.on_sent(0..100, 0, at(1));
    // Packets up to 1 have arrived, and everything is acknowledged: it was the original.
    assert_eq!(s.acknowledge(100, Some(1)).needless, 1);
    s.on_sent(100..200, 0, at(2));
    s.on_sent(100..200, 0, at(3));
    assert_eq!(s.acknowledge(200, Some(4)).needless, 0);
}
