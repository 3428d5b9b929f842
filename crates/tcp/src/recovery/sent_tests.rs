use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const NOW: Instant = Instant::ZERO;

/// One byte of the naive model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Byte {
    state: State,
    xmit: u64,
    retransmitted: bool,
    counted: bool,
    repairs: bool,
    /// Segments are told apart, because a block counts only when it completes one.
    segment: u64,
}

/// The naive model: a state per byte, everything by walking.
#[derive(Debug, Default)]
struct Naive {
    una: u64,
    bytes: Vec<Byte>,
    next_xmit: u64,
    next_segment: u64,
}

impl Naive {
    fn nxt(&self) -> u64 {
        self.una + self.bytes.len() as u64
    }

    fn push(&mut self, len: u64) {
        (self.next_xmit, self.next_segment) = (self.next_xmit + 1, self.next_segment + 1);
        let byte = Byte {
            state: State::InFlight,
            xmit: self.next_xmit,
            retransmitted: false,
            counted: false,
            repairs: false,
            segment: self.next_segment,
        };
        self.bytes.extend((0..len).map(|_| byte));
    }

    fn slice(&mut self, range: &Range<u64>) -> &mut [Byte] {
        let (from, to) = (range.start.max(self.una), range.end.min(self.nxt()));
        if from >= to {
            return &mut [];
        }
        let una = self.una;
        &mut self.bytes[(from - una) as usize..(to - una) as usize]
    }

    /// A cut makes new segments of what lies behind it, up to the next edge.
    fn cut(&mut self, seq: u64) {
        let Some(at) = seq.checked_sub(self.una).map(|i| i as usize) else { return };
        if at == 0 || at >= self.bytes.len() {
            return;
        }
        let segment = self.bytes[at].segment;
        if self.bytes[at - 1].segment != segment {
            return;
        }
        self.next_segment += 1;
        let fresh = self.next_segment;
        for byte in self.bytes[at..].iter_mut().take_while(|byte| byte.segment == segment) {
            byte.segment = fresh;
        }
    }

    fn retransmit(&mut self, range: Range<u64>) {
        if self.slice(&range).is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        self.next_xmit += 1;
        let xmit = self.next_xmit;
        for byte in self.slice(&range) {
            if byte.state != State::Sacked {
                byte.repairs |= byte.state == State::Lost;
                (byte.state, byte.xmit, byte.retransmitted) = (State::InFlight, xmit, true);
            }
        }
    }

    /// Bytes newly counted.
    fn ack_to(&mut self, seq: u64) -> u64 {
        let n = (seq.min(self.nxt()).saturating_sub(self.una)) as usize;
        self.una += n as u64;
        self.bytes.drain(..n).filter(|byte| !byte.counted).count() as u64
    }

    fn sack(&mut self, range: Range<u64>) -> u64 {
        let una = self.una;
        let outside: Vec<u64> = (una..self.nxt())
            .filter(|seq| !range.contains(seq))
            .map(|seq| self.bytes[(seq - una) as usize].segment)
            .collect();
        let mut news = 0;
        for byte in self.slice(&range) {
            if byte.state != State::Sacked && !outside.contains(&byte.segment) {
                news += u64::from(!byte.counted);
                (byte.state, byte.counted, byte.repairs) = (State::Sacked, true, false);
            }
        }
        news
    }

    fn oldest(&self) -> Option<u64> {
        self.bytes.iter().filter(|b| b.state == State::InFlight).map(|b| b.xmit).min()
    }

    fn change(&mut self, from: State, to: State, only: impl Fn(&Byte) -> bool) -> u64 {
        let mut changed = 0;
        for byte in self.bytes.iter_mut().filter(|b| b.state == from && only(b)) {
            (byte.state, byte.repairs) = (to, false);
            changed += 1;
        }
        changed
    }

    fn count(&self, state: State) -> u64 {
        self.bytes.iter().filter(|byte| byte.state == state).count() as u64
    }
}

fn check(sent: &Sent, naive: &Naive, seed: u64) {
    assert_eq!((sent.snd_una(), sent.snd_nxt()), (naive.una, naive.nxt()), "seed {seed}");
    let mut seq = naive.una;
    for entry in &sent.entries {
        assert_eq!(entry.start, seq, "seed {seed}: entries leave no gap");
        assert!(entry.end > entry.start, "seed {seed}");
        seq = entry.end;
        for byte in &naive.bytes[(entry.start - naive.una) as usize..][..entry.bytes() as usize] {
            assert_eq!(byte.state, entry.state, "seed {seed} at {entry:?}");
            assert_eq!(byte.retransmitted, entry.first_sent.is_some(), "seed {seed} at {entry:?}");
            assert_eq!(byte.counted, entry.counted, "seed {seed} at {entry:?}");
            assert_eq!(byte.repairs, entry.repairs, "seed {seed} at {entry:?}");
            if entry.state != State::Sacked {
                assert_eq!(byte.xmit, entry.xmit, "seed {seed} at {entry:?}");
            }
        }
    }
    assert_eq!(sent.in_flight(), naive.count(State::InFlight), "seed {seed}");
    let sacked = sent.entries.iter().filter(|e| e.state == State::Sacked).count();
    assert_eq!(sent.sacked_segments(), sacked, "seed {seed}");
    let repairs = sent.entries.iter().filter(|e| e.repairs).count();
    assert_eq!(sent.repairs, repairs, "seed {seed}");
    assert_eq!(sent.has_unrepaired(), repairs > 0 || !sent.lost.is_empty(), "seed {seed}");
    let lost: Vec<u64> =
        sent.entries.iter().filter(|e| e.state == State::Lost).map(|e| e.start).collect();
    assert!(sent.lost.iter().eq(&lost), "seed {seed}");
    assert_eq!(sent.first_lost().map(|range| range.start), lost.first().copied());
    let bound = 2 * sent.entries.len() + 66;
    assert!(sent.by_time.len() <= bound.max(130), "seed {seed}: {}", sent.by_time.len());
}

#[test]
fn random_operations_agree_with_a_state_per_byte() {
    for seed in 0..300 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let first = rng.random_range(0..1 << 40);
        let (mut sent, mut naive) = (Sent::new(first), Naive { una: first, ..Naive::default() });
        for _ in 0..150 {
            let span = naive.una..naive.nxt() + 1;
            let a = rng.random_range(span.clone());
            let b = rng.random_range(span);
            let range = a.min(b)..a.max(b);
            match rng.random_range(0..20) {
                0..8 => {
                    let len = rng.random_range(1..20);
                    sent.push(sent.snd_nxt() + len, Snapshot::at(NOW), NOW);
                    naive.push(len);
                }
                8..11 => {
                    sent.retransmit(range.clone(), Snapshot::at(NOW), NOW);
                    naive.retransmit(range);
                }
                11..14 => {
                    let mut news = 0;
                    sent.sack(range.clone(), |_| false, |segment| news += segment.new_bytes);
                    assert_eq!(news, naive.sack(range), "seed {seed}");
                }
                14..16 => {
                    let to = naive.una + rng.random_range(0..60);
                    let mut news = 0;
                    sent.ack_to(to, |segment| news += segment.new_bytes);
                    assert_eq!(news, naive.ack_to(to), "seed {seed}");
                }
                16..18 => {
                    let oldest = sent.oldest();
                    assert_eq!(oldest.as_ref().map(|t| t.xmit), naive.oldest(), "seed {seed}");
                    if let Some(oldest) = oldest {
                        let xmit = oldest.xmit;
                        let lost =
                            naive.change(State::InFlight, State::Lost, |byte| byte.xmit == xmit);
                        // After an undo each piece of a transmission stands for itself.
                        let mut marked = sent.mark_lost(&oldest);
                        while let Some(piece) = sent.oldest().filter(|t| t.xmit == xmit) {
                            marked += sent.mark_lost(&piece);
                        }
                        assert_eq!(marked, lost, "seed {seed}");
                    }
                }
                18 => {
                    sent.restore_lost();
                    naive.change(State::Lost, State::InFlight, |_| true);
                    naive.bytes.iter_mut().for_each(|byte| byte.repairs = false);
                }
                _ if rng.random_bool(0.2) => {
                    let lost = naive.change(State::Sacked, State::Lost, |_| true);
                    assert_eq!(sent.renege(), lost, "seed {seed}");
                }
                _ if rng.random_bool(0.3) => {
                    let longest = rng.random_range(1..20);
                    let mut lengths = std::collections::BTreeMap::new();
                    for byte in &naive.bytes {
                        *lengths.entry(byte.segment).or_insert(0u64) += 1;
                    }
                    naive.change(State::InFlight, State::Lost, |b| lengths[&b.segment] > longest);
                    sent.mark_longer_lost(longest);
                }
                _ if rng.random_bool(0.2) => {
                    let lost = naive.change(State::InFlight, State::Lost, |_| true);
                    assert_eq!(sent.mark_all_lost(), lost, "seed {seed}");
                }
                _ => {}
            }
            check(&sent, &naive, seed);
        }
    }
}

#[test]
fn a_block_that_covers_a_segment_in_part_leaves_it_and_one_that_completes_it_takes_it() {
    let mut sent = Sent::new(0);
    sent.push(100, Snapshot::at(NOW), NOW);
    sent.sack(50..100, |_| false, |_| panic!("half a segment"));
    let mut ends = Vec::new();
    sent.sack(0..50, |span| *span == (0..100), |segment| ends.push(segment.end));
    assert_eq!((ends, sent.in_flight()), (vec![100], 0));
}

#[test]
fn transmissions_are_numbered_by_the_time_they_left_after_a_takeover() {
    let mut sent = Sent::new(0);
    for (end, ms) in [(10, 30), (20, 10), (30, 20)] {
        let at = Instant::from_millis(ms);
        sent.push(end, Snapshot::at(at), at);
    }
    sent.number_by_time();
    let mut order = Vec::new();
    while let Some(oldest) = sent.oldest() {
        order.push(oldest.sent_at);
        sent.mark_lost(&oldest);
    }
    assert_eq!(order, [10, 20, 30].map(Instant::from_millis));
}

/// The queue of transmissions must not grow while its front stays in flight.
#[test]
fn endless_retransmission_of_one_segment_costs_bounded_memory() {
    let mut sent = Sent::new(0);
    sent.push(10, Snapshot::at(NOW), NOW);
    sent.push(20, Snapshot::at(NOW), NOW);
    for _ in 0..10_000 {
        sent.retransmit(10..20, Snapshot::at(NOW), NOW);
    }
    assert!(sent.by_time.len() < 100);
    assert_eq!(sent.oldest().map(|t| t.xmit), Some(1));
}

impl Sent {
    pub(in crate::recovery) fn sacked_bytes_by_walking(&self) -> u64 {
        self.entries.iter().filter(|e| e.state == State::Sacked).map(Entry::bytes).sum()
    }

    pub(in crate::recovery) fn lost_bytes_by_walking(&self) -> u64 {
        self.entries.iter().filter(|e| e.state == State::Lost).map(Entry::bytes).sum()
    }
}
