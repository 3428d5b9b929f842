//! Which changes of the window are told at once, and how rarely.

use super::*;

const MSS: u64 = 1_000;
const CAPACITY: u64 = 64_000;

/// A buffer from which the application takes what it is told to, and nothing is out of order.
struct Host {
    watch: WindowWatch,
    rcv_nxt: u64,
    held: u64,
    iacks: u32,
}

impl Host {
    fn new() -> Self {
        let mut host = Host { watch: WindowWatch::new(MSS as u32), rcv_nxt: 0, held: 0, iacks: 0 };
        host.tack();
        host
    }

    fn offer(&self) -> Offer {
        Offer {
            rcv_nxt: self.rcv_nxt,
            rcv_high: self.rcv_nxt,
            window: CAPACITY - self.held,
            capacity: CAPACITY,
        }
    }

    fn poll(&mut self) -> bool {
        self.watch.update(self.offer());
        let wanted = self.watch.wanted();
        if wanted {
            self.iacks += 1;
            self.watch.on_told(self.offer());
            assert!(!self.watch.wanted());
            self.watch.update(self.offer());
            assert!(!self.watch.wanted(), "nothing is told twice");
        }
        wanted
    }

    fn arrive(&mut self, bytes: u64) -> bool {
        self.rcv_nxt += bytes;
        self.held += bytes;
        self.poll()
    }

    fn take(&mut self, bytes: u64) -> bool {
        self.held -= bytes;
        self.poll()
    }

    fn tack(&mut self) {
        self.watch.on_told(self.offer());
    }
}

#[test]
fn nearly_full_and_zero_are_told_once_each() {
    let mut h = Host::new();
    let told: Vec<u64> = (1..=64).filter(|_| h.arrive(MSS)).collect();
    // Less than an eighth, then less than an MSS.
    assert_eq!(told, [57, 64]);
}

#[test]
fn the_first_useful_space_after_zero_is_told_and_then_half_the_buffer() {
    let mut h = Host::new();
    h.arrive(CAPACITY);
    let told: Vec<u64> = (1..=64).filter(|_| h.take(MSS)).collect();
    assert_eq!(told, [2, 34]);
}

#[test]
fn a_sender_at_the_edge_is_told_of_two_segments() {
    let mut h = Host::new();
    h.arrive(40 * MSS);
    h.tack();
    h.arrive(24 * MSS - 500);
    // The edge is used up to less than an MSS; the window itself was told as nearly full.
    assert!(!h.take(MSS));
    assert!(h.take(MSS + 500), "2 MSS beyond the edge last told");
}

#[test]
fn a_flow_that_is_read_as_it_arrives_causes_no_window_iack() {
    let mut h = Host::new();
    for i in 0..10_000 {
        h.arrive(MSS);
        h.take(MSS);
        if i % 20 == 19 {
            h.tack();
        }
    }
    assert_eq!(h.iacks, 0);
}

#[test]
fn a_slow_reader_causes_few_iacks() {
    // The sender fills the window at once; the reader takes a segment at a time.
    let mut h = Host::new();
    let mut edge = CAPACITY;
    let segments = 2_000;
    for _ in 0..segments {
        let fits = edge - h.rcv_nxt;
        if fits > 0 && h.arrive(fits) {
            edge = h.rcv_nxt + CAPACITY - h.held;
        }
        if h.take(MSS.min(h.held)) {
            edge = h.rcv_nxt + CAPACITY - h.held;
        }
    }
    // Open and shut for every two segments at worst.
    assert!(h.iacks <= segments + 2, "{}", h.iacks);
}

#[test]
fn tiny_and_absurd_buffers_do_not_panic() {
    for capacity in [0, 1, 500, u64::MAX] {
        let mut w = WindowWatch::new(0);
        for window in [0, 1, capacity, u64::MAX] {
            for rcv_nxt in [0, u64::MAX] {
                let offer = Offer { rcv_nxt, rcv_high: rcv_nxt, window, capacity };
                w.update(offer);
                w.on_told(offer);
            }
        }
    }
}

#[test]
fn a_sender_blocked_behind_a_hole_is_told_of_two_segments_and_another_is_not() {
    for (rcv_high, told) in [(10 * MSS, true), (5 * MSS, false)] {
        let mut w = WindowWatch::new(MSS as u32);
        let offer = |rcv_nxt, rcv_high| {
            let (window, capacity) = (10 * MSS, CAPACITY);
            Offer { rcv_nxt, rcv_high, window, capacity }
        };
        w.on_told(offer(0, 0));
        w.update(offer(2 * MSS - 1, rcv_high));
        assert!(!w.wanted(), "a byte short");
        w.update(offer(2 * MSS, rcv_high));
        assert_eq!(w.wanted(), told);
    }
}
