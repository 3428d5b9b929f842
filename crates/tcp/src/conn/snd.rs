//! SND.*: what we have sent, what the peer has taken, how much it will take.

use crate::conn::acceptable::{FIRST_BYTE, ISN_OFFSET};
use crate::conn::paws::Stamp;
use crate::seq::SeqNum;
use tack_transport::SendBuffer;

/// Send sequence variables [RFC 9293 §3.3.1] and the send buffer.
#[derive(Debug)]
pub(crate) struct Snd {
    iss: SeqNum,
    una: u64,
    nxt: u64,
    /// Window offered, from `una` on.
    wnd: u64,
    /// Largest window ever offered.
    max_wnd: u64,
    shift: u8,
    latest: WindowSource,
    fin: Fin,
    pub(crate) buffer: SendBuffer,
}

/// The segment SND.WND was taken from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowSource {
    /// SND.WL1
    pub(crate) seq: u64,
    /// SND.WL2
    pub(crate) ack: u64,
    /// Its TSval, and when it came.
    pub(crate) stamp: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    /// The stream goes on.
    Open,
    /// FIN follows the last byte.
    Queued,
    /// It was sent.
    Sent,
}

/// What of the stream one segment carries, for the first time or again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset.
    pub(crate) seq: u64,
    /// Bytes of text.
    pub(crate) len: usize,
    /// FIN goes with it.
    pub(crate) fin: bool,
}

impl Snd {
    pub(crate) fn new(iss: SeqNum, buffer_max: usize) -> Snd {
        Snd {
            iss,
            una: ISN_OFFSET,
            nxt: FIRST_BYTE,
            wnd: 0,
            max_wnd: 0,
            shift: 0,
            latest: WindowSource::default(),
            fin: Fin::Open,
            buffer: SendBuffer::new(FIRST_BYTE, buffer_max),
        }
    }

    pub(crate) fn iss(&self) -> SeqNum {
        self.iss
    }

    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(crate) fn wnd(&self) -> u64 {
        self.wnd
    }

    pub(crate) fn max_wnd(&self) -> u64 {
        self.max_wnd
    }

    pub(crate) fn set_shift(&mut self, shift: u8) {
        self.shift = shift;
    }

    /// An offset as it travels.
    pub(crate) fn seq_num(&self, offset: u64) -> SeqNum {
        SeqNum::from_offset(self.iss, offset)
    }

    /// SEG.ACK as offset.
    pub(crate) fn ack_offset(&self, ack: SeqNum) -> u64 {
        ack.to_offset(self.iss, self.una).unwrap_or(0)
    }

    /// SEG.WND of an ordinary segment in bytes.
    pub(crate) fn scaled(&self, window: u16) -> u64 {
        u64::from(window) << self.shift
    }

    /// The peer acknowledged everything below `ack`, which was sent.
    pub(crate) fn acknowledge(&mut self, ack: u64) {
        assert!(ack <= self.nxt, "acknowledged is what was sent");
        // SND.WND counts from SND.UNA; its right edge stays until the peer names another.
        self.wnd = self.wnd.saturating_sub(ack.saturating_sub(self.una));
        self.una = self.una.max(ack);
        self.buffer.acknowledge(ack);
    }

    /// Takes the window of a segment, as its right edge, if it is the newest seen. Returns whether
    /// it grew.
    ///
    /// With timestamps the newest segment has the newest stamp, or comes after so long a silence that no older
    /// one is under way; without, the rule of [RFC 9293 §3.10.7.4] by SND.WL1 and SND.WL2. Stamps are preferred
    /// because the body of a TACK travels at an old sequence number.
    pub(crate) fn offer_window(&mut self, edge: u64, from: WindowSource) -> bool {
        let wnd = edge.saturating_sub(self.una);
        let newest = match (from.stamp, self.latest.stamp) {
            (Some(new), Some(old)) if new.val != old.val => new.follows(old),
            (Some(_), Some(_)) if from.ack == self.latest.ack => wnd >= self.wnd,
            (Some(_), Some(_)) => from.ack > self.latest.ack,
            (Some(_), None) => true,
            (None, _) => {
                self.latest.seq < from.seq
                    || self.latest.seq == from.seq && self.latest.ack <= from.ack
            }
        };
        if !newest {
            return false;
        }
        let grew = wnd > self.wnd;
        self.wnd = wnd;
        self.max_wnd = self.max_wnd.max(wnd);
        self.latest = from;
        grew
    }

    /// Whether a segment with this stamp left before the newest seen.
    pub(crate) fn is_overtaken(&self, stamp: Option<Stamp>) -> bool {
        let overtaken =
            |(new, latest): (Stamp, Stamp)| new.val == latest.val || !new.follows(latest);
        stamp.zip(self.latest.stamp).is_some_and(overtaken)
    }

    /// Takes the window of a SYN, which is never scaled [RFC 7323 §2.2].
    pub(crate) fn offer_unscaled_window(&mut self, window: u16, seq: u64) {
        self.wnd = u64::from(window);
        self.max_wnd = self.wnd;
        self.latest = WindowSource { seq, ack: self.una, stamp: None };
    }

    /// FIN waits for its turn.
    pub(crate) fn fin_is_queued(&self) -> bool {
        self.fin == Fin::Queued
    }

    /// FIN goes after the last byte.
    pub(crate) fn queue_fin(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Queued;
        }
    }

    /// FIN was sent.
    pub(crate) fn fin_is_sent(&self) -> bool {
        self.fin == Fin::Sent
    }

    /// FIN was sent and acknowledged.
    pub(crate) fn fin_is_acked(&self) -> bool {
        self.fin == Fin::Sent && self.una > self.buffer.end()
    }

    /// Written and never sent, in bytes.
    pub(crate) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt)
    }

    /// Something new waits: text, or FIN.
    pub(crate) fn has_fresh(&self) -> bool {
        self.unsent() > 0 || self.fin == Fin::Queued
    }

    /// Everything sent, FIN included, is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.nxt
    }

    /// No text was ever sent or written, and no FIN.
    pub(crate) fn is_untouched(&self) -> bool {
        self.una == FIRST_BYTE && self.nxt == FIRST_BYTE && !self.has_fresh()
    }

    /// Window left for new data.
    pub(crate) fn usable(&self) -> u64 {
        (self.una + self.wnd).saturating_sub(self.nxt)
    }

    /// The next new segment of at most `max` bytes within the peer's window, sender's silly window
    /// avoidance and Nagle applied [RFC 9293 §3.8.6.2.1, §3.7.4].
    /// `anyway`: the override timeout has passed.
    pub(crate) fn fresh(&self, max: usize, nodelay: bool, anyway: bool) -> Option<Span> {
        let (unsent, usable) = (self.unsent(), self.usable());
        let len = unsent.min(usable).min(max as u64);
        let takes_all = len == unsent;
        let fin = takes_all && self.fin == Fin::Queued && (usable > len || len == 0 && usable > 0);
        if len == 0 && !fin {
            return None;
        }
        let full = len == max as u64;
        let pushes = takes_all && (nodelay || self.is_idle() || self.fin == Fin::Queued);
        let large = len >= self.max_wnd / 2;
        (full || pushes || fin || large || anyway).then_some(Span {
            seq: self.nxt,
            len: len as usize,
            fin,
        })
    }

    /// New text, and FIN, left.
    pub(crate) fn on_fresh_sent(&mut self, span: Span) {
        debug_assert_eq!(span.seq, self.nxt, "new data continues the stream");
        self.nxt += span.len as u64 + u64::from(span.fin);
        if span.fin {
            self.fin = Fin::Sent;
        }
    }

    /// The segment `[seq, end)` of what was sent before, as text length and FIN.
    pub(crate) fn again(&self, seq: u64, end: u64) -> Span {
        let text_end = end.min(self.buffer.end());
        let fin = self.fin == Fin::Sent && end > self.buffer.end();
        Span { seq, len: text_end.saturating_sub(seq) as usize, fin }
    }
}
