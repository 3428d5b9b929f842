//! The two ends of a BlockAck agreement.
//!
//! ```text
//! originator   win_start = oldest MPDU not acknowledged; may send win_start .. win_start + W
//! recipient    win_start = next MPDU to hand up; holds what came early, in order, until
//!              the gap is filled, the window is pushed by a newer MPDU, or a BlockAckReq
//!              names a later start
//! ```
//!
//! Sequence numbers are unbounded integers here: real ones count modulo 4096, and windows of at
//! most 1024 make the two indistinguishable.

use std::collections::VecDeque;

use crate::link::Packet;

/// A recipient's reorder buffer.
#[derive(Debug, Default)]
pub(crate) struct Reorder {
    win_start: u64,
    /// `held[i]` is MPDU `win_start + i`; `held[0]` is always a gap (or nothing is held).
    held: VecDeque<Option<Packet>>,
    held_packets: usize,
}

impl Reorder {
    /// Packets that came early and wait.
    pub(crate) fn held_packets(&self) -> usize {
        self.held_packets
    }

    /// MPDU `seq` arrived with `packet`, under a window of `window` MPDUs; everything that is in
    /// order now goes to `up`.
    pub(crate) fn on_mpdu(
        &mut self,
        seq: u64,
        packet: Packet,
        window: u16,
        mut up: impl FnMut(Packet),
    ) {
        debug_assert!(seq >= self.win_start, "the originator keeps no packet handed up already");
        if seq == self.win_start && self.held.is_empty() {
            self.win_start += 1;
            up(packet);
            return;
        }
        // A newer MPDU than the window allows moves the window up to itself.
        let pushed = (seq + 1).saturating_sub(u64::from(window));
        self.move_to(pushed, &mut up);
        let Ok(at) = usize::try_from(seq - self.win_start) else { return };
        if self.held.len() <= at {
            self.held.resize_with(at + 1, || None);
        }
        self.held_packets += usize::from(self.held[at].is_none());
        self.held[at] = Some(packet);
        self.release(&mut up);
    }

    /// The originator gave up everything before `start`: what is held goes up to there.
    pub(crate) fn move_to(&mut self, start: u64, up: &mut impl FnMut(Packet)) {
        while self.win_start < start {
            match self.held.pop_front() {
                Some(Some(packet)) => {
                    self.held_packets -= 1;
                    up(packet);
                }
                Some(None) => {}
                None => {
                    self.win_start = start;
                    return;
                }
            }
            self.win_start += 1;
        }
        self.release(up);
    }

    fn release(&mut self, up: &mut impl FnMut(Packet)) {
        while let Some(Some(_)) = self.held.front() {
            let packet = self.held.pop_front().flatten().expect("the front was just seen");
            self.held_packets -= 1;
            self.win_start += 1;
            up(packet);
        }
        // Keep the invariant that nothing held means an empty buffer.
        if self.held_packets == 0 {
            self.held.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::draw::{below, stream};

    fn packet(id: u64) -> Packet {
        Packet { id, dst: 1, ip_bytes: 1500, ..Packet::default() }
    }

    #[test]
    fn early_mpdus_wait_for_the_gap_and_then_come_in_order() {
        let mut r = Reorder::default();
        let mut up = Vec::new();
        for seq in [0, 2, 3, 1, 4] {
            r.on_mpdu(seq, packet(seq), 64, |p| up.push(p.id));
        }
        assert_eq!(up, [0, 1, 2, 3, 4]);
        assert_eq!(r.held_packets(), 0);
    }

    #[test]
    fn a_block_ack_request_skips_what_the_originator_gave_up() {
        let mut r = Reorder::default();
        let mut up = Vec::new();
        for seq in [1, 2, 5] {
            r.on_mpdu(seq, packet(seq), 64, |p| up.push(p.id));
        }
        r.move_to(1, &mut |p| up.push(p.id));
        assert_eq!((up.as_slice(), r.held_packets()), (&[1, 2][..], 1));
        r.move_to(9, &mut |p| up.push(p.id));
        assert_eq!((up.as_slice(), r.held_packets()), (&[1, 2, 5][..], 0));
        r.on_mpdu(9, packet(9), 64, |p| up.push(p.id));
        assert_eq!(up, [1, 2, 5, 9]);
    }

    /// The naive recipient: a map, a start, and the three rules.
    #[derive(Default)]
    struct Oracle {
        start: u64,
        held: BTreeMap<u64, u64>,
        up: Vec<u64>,
    }

    impl Oracle {
        fn move_to(&mut self, start: u64) {
            self.start = self.start.max(start);
            while let Some((&seq, _)) = self.held.first_key_value() {
                if seq > self.start {
                    return;
                }
                self.start = self.start.max(seq + 1);
                let (_, id) = self.held.pop_first().expect("just seen");
                self.up.push(id);
            }
        }
    }

    #[test]
    fn any_order_of_mpdus_and_requests_agrees_with_a_map() {
        for seed in 0..200 {
            let mut rng = stream(seed, 0);
            let (mut r, mut o, mut up) = (Reorder::default(), Oracle::default(), Vec::new());
            for _ in 0..300 {
                let seq = r.win_start + below(&mut rng, 90);
                if below(&mut rng, 20) == 0 {
                    r.move_to(seq, &mut |p| up.push(p.id));
                    o.move_to(seq);
                } else if !o.held.contains_key(&seq) {
                    r.on_mpdu(seq, packet(seq), 64, |p| up.push(p.id));
                    o.move_to((seq + 1).saturating_sub(64));
                    o.held.insert(seq, seq);
                    o.move_to(o.start);
                }
                assert_eq!(up, o.up, "seed {seed}");
                assert_eq!((r.win_start, r.held_packets), (o.start, o.held.len()), "seed {seed}");
            }
        }
    }
}
