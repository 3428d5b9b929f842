//! RCV.*: what we expect, what we offer, and how the offer grows.
//!
//! [`RecvBuffer`] says how much to offer; memory is taken only for what arrives.

use tack_units::Instant;

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::rcv_path::RcvPath;
use crate::seq::SeqNum;
use tack_transport::RecvBuffer;

/// Receive sequence variables [RFC 9293 §3.3.1] and the receive buffer.
#[derive(Debug)]
pub(crate) struct Rcv {
    irs: SeqNum,
    shift: u8,
    mss: u32,
    /// Right edge of the window last announced; never moves left.
    edge: u64,
    /// RCV.NXT in the last segment sent.
    last_ack_sent: u64,
    /// What arrivals tell of the path.
    pub(crate) path: RcvPath,
    pub(crate) buffer: RecvBuffer,
}

impl Rcv {
    pub(crate) fn new(irs: SeqNum, initial: usize, max: usize, now: Instant) -> Rcv {
        Rcv {
            irs,
            shift: 0,
            mss: 536,
            edge: FIRST_BYTE,
            last_ack_sent: FIRST_BYTE,
            path: RcvPath::new(),
            buffer: RecvBuffer::new(FIRST_BYTE, initial, max, now),
        }
    }

    /// The peer's SYN names its ISN.
    pub(crate) fn synchronize(&mut self, irs: SeqNum) {
        self.irs = irs;
    }

    pub(crate) fn configure(&mut self, shift: u8, mss: u32) {
        self.shift = shift;
        self.mss = mss;
    }

    pub(crate) fn irs(&self) -> SeqNum {
        self.irs
    }

    pub(crate) fn nxt(&self) -> u64 {
        self.buffer.nxt()
    }

    pub(crate) fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    /// SEG.SEQ as offset.
    pub(crate) fn offset(&self, seq: SeqNum) -> u64 {
        seq.to_offset(self.irs, self.nxt()).unwrap_or(0)
    }

    /// RCV.NXT as it travels.
    pub(crate) fn ack_num(&self) -> SeqNum {
        SeqNum::from_offset(self.irs, self.nxt())
    }

    /// An offset of the peer's stream as it travels.
    pub(crate) fn seq_num(&self, offset: u64) -> SeqNum {
        SeqNum::from_offset(self.irs, offset)
    }

    /// Window already announced: what is acceptable. Reading may have made more room since.
    pub(crate) fn wnd(&self) -> u64 {
        self.edge.saturating_sub(self.nxt())
    }

    /// The right edge that may be announced now, receiver's silly window avoidance applied
    /// [RFC 9293 §3.8.6.2.2].
    fn next_edge(&self) -> u64 {
        let room = self.nxt() + (self.buffer.window() >> self.shift << self.shift);
        let worth = u64::from(self.mss).min(self.buffer.limit() as u64 / 2).max(1);
        if room >= self.edge + worth { room } else { self.edge }
    }

    /// Window that may be announced now, in bytes.
    pub(crate) fn offer(&self) -> u64 {
        let window = self.next_edge().saturating_sub(self.nxt());
        window.min(u64::from(u16::MAX) << self.shift)
    }

    /// SEG.ACK or SEG.WND would say something that no segment has said.
    pub(crate) fn has_news(&self) -> bool {
        self.nxt() != self.last_ack_sent || self.nxt() + self.offer() > self.edge
    }

    /// SEG.ACK and SEG.WND leave in a segment.
    pub(crate) fn announce(&mut self) -> (SeqNum, u16) {
        // Rounded down: the edge may seem to move left by less than the scale's unit
        // [RFC 7323 §2.4], but never beyond what there is room for. What was announced before is
        // accepted all the same.
        let window = (self.offer() >> self.shift).min(u64::from(u16::MAX)) as u16;
        self.edge = self.edge.max(self.nxt() + (u64::from(window) << self.shift));
        self.last_ack_sent = self.nxt();
        (self.ack_num(), window)
    }

    /// SEG.WND of a SYN, never scaled.
    pub(crate) fn announce_unscaled(&mut self) -> u16 {
        let window = self.buffer.window().min(u64::from(u16::MAX)) as u16;
        self.edge = self.edge.max(self.nxt() + u64::from(window));
        window
    }

    /// Reading made enough room for an update without data to carry it: half the buffer, or two
    /// segments while the peer can send nothing.
    pub(crate) fn owes_update(&self) -> bool {
        let gain = self.next_edge().saturating_sub(self.edge);
        let half = self.buffer.limit() as u64 / 2;
        let blocked = self.wnd() < u64::from(self.mss);
        gain >= half || blocked && gain >= u64::from(2 * self.mss).min(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_always_fits_the_buffer() {
        let mut rcv = Rcv::new(SeqNum(7), 1_000, 1_000, Instant::ZERO);
        rcv.configure(3, 100);
        let mut x = 1u32;
        for _ in 0..10_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = (x >> 24).min(rcv.wnd() as u32) as usize;
            let inserted = rcv.buffer.insert(rcv.nxt(), &[1; 256][..len], false);
            assert_eq!(inserted.new_bytes, len as u64, "what was announced is taken");
            if x & 3 == 0 {
                rcv.buffer.consume((x >> 22) as usize & 255);
            }
            let (_, window) = rcv.announce();
            assert!(u64::from(window) << 3 <= rcv.buffer.window());
            assert!(rcv.wnd() <= rcv.buffer.window());
        }
    }
}
