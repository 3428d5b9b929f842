//! What the sender asks of its log of outstanding data, whatever SEQ counts.
//!
//! - [`Bytes`](super::Bytes): one stream. What is lost is sent again and fills its hole, so that what
//!   has arrived becomes contiguous.
//! - [`Packets`](super::Packets): SEQ is PKT.SEQ. A packet that is lost never arrives; the host packs
//!   what it carried anew, and the number is done with.

use core::fmt::Debug;
use core::ops::Range;

use tack_units::Instant;

use crate::Ranges;

/// A transmission, as the sender judges it.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) pkt_seq: u64,
    pub(super) sent_at: Instant,
    /// Bytes delivered on the connection when it was sent.
    pub(super) delivered: u64,
    pub(super) retransmitted: bool,
}

/// The newest transmission that feedback covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    pub(super) pkt_seq: u64,
    /// Bytes delivered on the connection when it was sent.
    pub(super) delivered: u64,
    pub(super) sent_at: Instant,
}

impl From<&Segment> for Newest {
    fn from(s: &Segment) -> Newest {
        Newest { pkt_seq: s.pkt_seq, delivered: s.delivered, sent_at: s.sent_at }
    }
}

/// What became known to have arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receipts {
    /// Retransmissions that were needless, because the data arrived before they could have.
    pub(super) needless: u64,
    /// The newest transmission among them.
    pub(super) newest: Option<Newest>,
    /// PKT.SEQ of the oldest transmission among them.
    pub(super) oldest: Option<u64>,
    /// Bytes not known to have arrived before.
    pub(super) bytes: u64,
    /// Those of the longest transmission among them.
    pub(super) longest: u64,
}

impl Receipts {
    /// `segment` has arrived.
    pub(super) fn note(&mut self, segment: &Segment) {
        self.longest = self.longest.max(segment.end - segment.start);
        if self.newest.is_none_or(|newest| newest.pkt_seq < segment.pkt_seq) {
            self.newest = Some(segment.into());
        }
        if self.oldest.is_none_or(|pkt_seq| segment.pkt_seq < pkt_seq) {
            self.oldest = Some(segment.pkt_seq);
        }
    }
}

/// A log of what is outstanding. There are two, and no host makes a third.
pub trait Records: Debug {
    /// Its hosts know no least timeout, and probe again and again [RFC 9002 §6.2].
    const PROBED_AGAIN: bool;

    /// Below it nothing is outstanding.
    fn una(&self) -> u64;
    /// One past the highest of SEQ space that was sent.
    fn nxt(&self) -> u64;
    /// The PKT.SEQ of the next transmission.
    fn next_pkt_seq(&self) -> u64;
    /// Nothing is outstanding.
    fn is_empty(&self) -> bool;
    /// Bytes sent, neither known to have arrived nor declared lost.
    fn in_flight(&self) -> u64;
    /// Bytes declared lost that wait here to be sent again.
    fn lost_bytes(&self) -> u64;
    /// Bytes known to have arrived, ever.
    fn delivered(&self) -> u64;
    /// The peer tells nothing below `cum_ack` any more; packets up to `largest` had arrived when it
    /// said so. The caller has checked that both were sent.
    fn acknowledge(&mut self, cum_ack: u64, largest: Option<u64>) -> Receipts;
    /// The peer holds `bytes` beyond `cum_ack`.
    fn set_queued_at_peer(&mut self, cum_ack: u64, bytes: u64);
    /// `range` has arrived.
    fn receive(&mut self, range: Range<u64>, largest: Option<u64>, receipts: &mut Receipts);
    /// Transmissions `pkt_seqs` were lost, unless `allows` refuses. Returns the bytes newly lost.
    fn lose_packets(&mut self, pkt_seqs: Range<u64>, allows: impl Fn(&Segment) -> bool) -> u64;
    /// The peer misses `hole`: what of it was last sent before `largest` arrived is lost, unless
    /// `allows` refuses. Returns the bytes newly lost.
    fn lose_hole(
        &mut self,
        hole: Range<u64>,
        largest: u64,
        allows: impl Fn(&Segment) -> bool,
    ) -> u64;
    /// Everything not known to have arrived is lost. Returns what was lost before.
    fn lose_everything(&mut self) -> Ranges;
    /// Takes back [`Self::lose_everything`], as far as the host has not acted on it.
    fn restore_lost(&mut self, before: &Ranges);
    /// What is known of the transmission `pkt_seq`, if it still is.
    fn when_sent(&self, pkt_seq: u64) -> Option<Newest>;
    /// Packets lost since the last call, with their bytes, whose data the host packs anew without a word here.
    fn take_repacked(&mut self) -> Vec<(u64, u32)>;
}
