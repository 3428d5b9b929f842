//! The sending part of a stream [RFC 9000 §3.1]: what was written, sent, acknowledged and lost.
//!
//! ```text
//!  start of buffer        nxt              end
//!    |  a  |  l  |  f  |   |     not sent    |       a acknowledged, l lost, f in flight
//! ```

use core::ops::Range;

use tack::Ranges;
use tack_transport::SendBuffer;
use tack_units::Instant;

use super::limits::Credit;

/// No handshake of TLS is longer.
const HANDSHAKE_BYTES: usize = 1 << 20;

/// Where the end of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    /// The application may write more.
    Open,
    /// To be told with the last byte, or alone.
    Pending,
    Sent,
    Acked,
}

/// A reset of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reset {
    pub(crate) code: u64,
    pub(crate) final_size: u64,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct SendStream {
    buffer: SendBuffer,
    /// Next byte that was never sent.
    nxt: u64,
    /// What the peer allows.
    pub(crate) limit: Credit,
    /// Arrived, beyond the start of the buffer.
    acked: Ranges,
    /// To be sent again.
    lost: Ranges,
    fin: Fin,
    reset: Option<Reset>,
    /// The peer wants no more, for this reason.
    stopped: Option<u64>,
    /// Nobody will ask what became of it.
    pub(crate) is_let_go: bool,
    /// Greater ones go first.
    pub(crate) priority: i32,
    /// For which it waits.
    pub(crate) turn: Option<Turn>,
    /// It is among those with bytes under way.
    pub(crate) flies: bool,
}

/// A place in line: what was lost goes before what is new [RFC 9000 §13.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) is_new: bool,
    pub(crate) number: u64,
}

/// A part of a stream that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) range: Range<u64>,
    pub(crate) fin: bool,
    /// Bytes that leave for the first time: they count for flow control.
    pub(crate) fresh: u64,
}

impl SendStream {
    pub(crate) fn new(max_data: u64, most: usize) -> SendStream {
        SendStream {
            buffer: SendBuffer::new(0, most),
            nxt: 0,
            limit: Credit::new(max_data),
            acked: Ranges::new(),
            lost: Ranges::new(),
            fin: Fin::Open,
            reset: None,
            stopped: None,
            is_let_go: false,
            priority: 0,
            turn: None,
            flies: false,
        }
    }

    /// The CRYPTO stream of a packet number space: nobody's limit applies.
    pub(crate) fn of_handshake() -> SendStream {
        let mut stream = SendStream::new(u64::MAX, HANDSHAKE_BYTES);
        stream.buffer.tune(HANDSHAKE_BYTES as u64, HANDSHAKE_BYTES as u64, Instant::ZERO);
        stream
    }

    /// As much of `data` as there is room for.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        self.buffer.write(data)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.fin == Fin::Open && self.reset.is_none()
    }

    pub(crate) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    pub(crate) fn reset(&self) -> Option<Reset> {
        self.reset
    }

    /// Bytes written and not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        self.buffer.memory() as u64
    }

    /// Bytes written and never sent; of what was given up, none.
    pub(crate) fn unsent(&self) -> u64 {
        if self.reset.is_some() { 0 } else { self.buffer.end() - self.nxt }
    }

    pub(crate) fn finish(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Pending;
        }
    }

    /// Nothing more of it is sent; true if that is news.
    pub(crate) fn give_up(&mut self, code: u64) -> bool {
        if self.reset.is_some() || self.is_done() {
            return false;
        }
        self.reset = Some(Reset { code, final_size: self.nxt });
        self.lost = Ranges::new();
        self.acked = Ranges::new();
        self.buffer.acknowledge(self.buffer.end());
        self.buffer.release();
        true
    }

    /// STOP_SENDING came. True if the stream is to be reset.
    pub(crate) fn on_stop(&mut self, code: u64) -> bool {
        self.stopped.get_or_insert(code);
        self.give_up(code)
    }

    /// The peer's limit holds back what was written.
    pub(crate) fn is_blocked(&self) -> bool {
        self.reset.is_none() && self.unsent() > 0 && self.limit.beyond(self.nxt) == 0
    }

    /// It does, and the peer does not know.
    pub(crate) fn is_blocked_unheard(&self) -> bool {
        self.is_blocked() && self.limit.is_unheard()
    }

    /// It has something to send, given that the connection allows `credit` fresh bytes.
    pub(crate) fn has_data(&self, credit: u64) -> bool {
        if self.reset.is_some() {
            return false;
        }
        !self.lost.is_empty()
            || self.fresh_end(credit) > self.nxt
            || self.fin == Fin::Pending && self.nxt == self.buffer.end()
    }

    /// Bytes that may leave now, what is lost or else what is new; `credit` as in [`Self::has_data`].
    pub(crate) fn waiting(&self, credit: u64) -> u64 {
        match self.first_lost() {
            0 => self.fresh_end(credit) - self.nxt,
            lost => lost,
        }
    }

    /// Bytes of the first range that is to be sent again; 0: none is.
    pub(crate) fn first_lost(&self) -> u64 {
        self.lost.first().map_or(0, |lost| lost.end - lost.start)
    }

    /// What goes next has left before, or is an end without a byte, which takes no room.
    pub(crate) fn repairs(&self) -> bool {
        !self.lost.is_empty() || self.fin == Fin::Pending && self.nxt == self.buffer.end()
    }

    fn fresh_end(&self, credit: u64) -> u64 {
        let credit = credit.min(self.limit.beyond(self.nxt));
        self.buffer.end().min(self.nxt.saturating_add(credit))
    }

    /// Where what [`Self::next`] gives next begins.
    pub(crate) fn next_offset(&self) -> u64 {
        self.lost.first().map_or(self.nxt, |lost| lost.start)
    }

    /// At most `room` bytes to send, what is lost first; `credit` as in [`Self::has_data`].
    pub(crate) fn next(&mut self, room: u64, credit: u64) -> Option<Part> {
        if self.reset.is_some() {
            return None;
        }
        if let Some(lost) = self.lost.first().filter(|_| room > 0) {
            let range = lost.start..lost.end.min(lost.start + room);
            self.lost.remove(range.clone());
            return Some(self.part(range, 0));
        }
        let range = self.nxt..self.fresh_end(credit).min(self.nxt + room);
        let fresh = range.end - range.start;
        if fresh == 0 && !(self.fin == Fin::Pending && self.nxt == self.buffer.end()) {
            return None;
        }
        self.nxt = range.end;
        Some(self.part(range, fresh))
    }

    fn part(&mut self, range: Range<u64>, fresh: u64) -> Part {
        let ends = matches!(self.fin, Fin::Pending | Fin::Sent) && range.end == self.buffer.end();
        if ends {
            self.fin = Fin::Sent;
        }
        Part { range, fin: ends, fresh }
    }

    /// The bytes of `range`, which [`Self::next`] gave.
    pub(crate) fn slices(&self, range: &Range<u64>) -> (&[u8], &[u8]) {
        self.buffer.slices(range.start, (range.end - range.start) as usize)
    }

    /// A packet with `range`, and the end if `fin`, has arrived.
    pub(crate) fn on_acked(&mut self, range: Range<u64>, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin {
            self.fin = Fin::Acked;
        }
        self.lost.remove(range.clone());
        let start = self.buffer.end() - self.buffer.len() as u64;
        if self.acked.is_empty() && range.start <= start {
            // In order, as nearly always.
            self.buffer.acknowledge(range.end);
        } else {
            self.acked.insert(range);
        }
        if let Some(first) = self.acked.first().filter(|first| first.start <= start) {
            self.buffer.acknowledge(first.end);
            self.acked.remove_below(first.end);
        }
        if self.buffer.is_empty() {
            self.buffer.release();
        }
    }

    /// A packet with it is lost.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Pending;
        }
        let start = self.buffer.end() - self.buffer.len() as u64;
        let range = range.start.max(start)..range.end;
        let missing: Vec<Range<u64>> = self.acked.gaps_in(range).collect();
        for part in missing {
            self.lost.insert(part);
        }
    }

    /// Nothing of what was sent is known to the peer, which allows so many bytes.
    pub(crate) fn begin_anew(&mut self, max_data: u64) {
        self.nxt = self.buffer.end() - self.buffer.len() as u64;
        self.limit = Credit::new(max_data);
        (self.acked, self.lost) = (Ranges::new(), Ranges::new());
        if self.fin == Fin::Sent {
            self.fin = Fin::Pending;
        }
        if let Some(reset) = &mut self.reset {
            reset.final_size = 0;
        }
        self.turn = None;
    }

    /// Everything has arrived, the end included.
    pub(crate) fn is_done(&self) -> bool {
        self.fin == Fin::Acked && self.buffer.is_empty()
    }

    /// Nothing is left to be delivered, and no end that was told.
    pub(crate) fn is_delivered(&self) -> bool {
        let ends = matches!(self.fin, Fin::Pending | Fin::Sent);
        self.reset.is_some() || self.buffer.is_empty() && !ends
    }

    /// A writer found no room, and there is some again: tell it once.
    pub(crate) fn take_writable(&mut self) -> bool {
        self.buffer.take_writable()
    }

    /// See [`SendBuffer::tune`]; false: nothing of it was under way.
    pub(crate) fn tune(&mut self, window: u64, now: Instant) -> bool {
        let outstanding = self.held() - self.unsent();
        self.buffer.tune(window, outstanding, now);
        outstanding > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_goes_again_before_what_is_new_and_the_end_with_the_last_byte() {
        let mut stream = SendStream::new(1_000, 1_000);
        assert_eq!(stream.write(&[7; 100]), 100);
        stream.finish();
        let first = stream.next(60, u64::MAX).unwrap();
        assert_eq!(first, Part { range: 0..60, fin: false, fresh: 60 });
        stream.on_lost(0..60, false);
        assert_eq!(stream.next(50, 0).unwrap(), Part { range: 0..50, fin: false, fresh: 0 });
        assert_eq!(stream.next(50, 0).unwrap(), Part { range: 50..60, fin: false, fresh: 0 });
        assert_eq!(stream.next(50, 0), None);
        let last = stream.next(50, 40).unwrap();
        assert_eq!(last, Part { range: 60..100, fin: true, fresh: 40 });
        stream.on_lost(60..100, true);
        assert!(stream.next(40, 0).unwrap().fin);
        stream.on_acked(60..100, true);
        assert!(!stream.is_done());
        stream.on_acked(0..60, false);
        assert!(stream.is_done() && !stream.has_data(100));
    }

    #[test]
    fn an_end_without_a_byte_leaves_alone_and_again_when_it_is_lost() {
        let mut stream = SendStream::new(0, 1_000);
        stream.finish();
        let end = Part { range: 0..0, fin: true, fresh: 0 };
        assert_eq!(stream.next(10, 0), Some(end.clone()));
        assert_eq!(stream.next(10, 0), None);
        stream.on_lost(0..0, true);
        assert_eq!(stream.next(10, 0), Some(end));
        stream.on_acked(0..0, true);
        assert!(stream.is_done());
    }

    #[test]
    fn what_is_given_up_before_it_was_sent_waits_for_nothing() {
        let mut stream = SendStream::new(1_000, 1_000);
        stream.write(&[7; 100]);
        stream.next(60, u64::MAX).unwrap();
        assert!(stream.give_up(1));
        assert_eq!((stream.held(), stream.unsent()), (0, 0));
        stream.tune(10_000, Instant::ZERO);
        assert_eq!(stream.reset().unwrap().final_size, 60);
    }

    #[test]
    fn what_arrived_after_all_is_not_sent_again() {
        let mut stream = SendStream::new(1_000, 1_000);
        stream.write(&[7; 100]);
        while stream.next(10, u64::MAX).is_some() {}
        stream.on_acked(20..30, false);
        stream.on_lost(0..100, false);
        stream.on_acked(0..10, false);
        assert_eq!(stream.next(100, 0).unwrap().range, 10..20);
        assert_eq!(stream.next(100, 0).unwrap().range, 30..100);
    }
}
