//! When and how we acknowledge: the seam under study.
//!
//! Plain TCP acknowledges by one of the strategies of [`tack_strategies`]; TACK's receiver decides by
//! itself. What is common is here: an acknowledgment that is owed at once for the protocol's sake (challenge,
//! probe, old duplicate, handshake) leaves as a bare ACK of plain TCP, and as a window IACK under
//! TACK, so that a bare ACK of an established TACK connection always means stripped options.

use core::ops::Range;
use core::time::Duration;

use tack_units::Instant;

use crate::conn::full_size::FullSize;
use crate::conn::rcv::Rcv;
use crate::conn::sack_gen::SackGenerator;
use crate::wire::{AckType, SackBlocks};
use tack_strategies::{Acknowledge, Arrival, News, PathSeen, Receiver};

/// Acknowledgment state of one connection.
#[derive(Debug)]
pub(crate) struct Acknowledging {
    policy: AckPolicy,
    sack: SackGenerator,
}

/// Who decides.
#[derive(Debug)]
enum AckPolicy {
    /// One of the strategies of plain acknowledgment.
    Plain(Receiver),
    /// [TON §IV].
    Tack(Box<TackReceiver>),
}

/// TACK's receiver and what the host must know of it.
#[derive(Debug)]
struct TackReceiver {
    receiver: tack::Receiver,
    /// Highest PKT.SEQ received, near which others are expanded.
    highest_seen: u64,
    /// What the receiver counts by.
    full: FullSize,
}

/// An arriving segment with text or FIN, as acknowledgment policies see it.
#[derive(Clone, Debug)]
pub(crate) struct TextArrival {
    /// Its place.
    pub(crate) seq: Range<u64>,
    /// PKT.SEQ, if it had one.
    pub(crate) pkt_seq: Option<u32>,
    /// TSval, microseconds under TACK.
    pub(crate) departure_us: u32,
    pub(crate) push: bool,
    pub(crate) fin: bool,
    pub(crate) ce: bool,
    /// It has a poll mark that was agreed on.
    pub(crate) polled: bool,
    /// Segments that the device merged into it.
    pub(crate) segments: u32,
    /// New bytes among it.
    pub(crate) new_bytes: u64,
    /// Some of its new bytes were not taken.
    pub(crate) refused: bool,
    /// It lies behind a hole or filled one.
    pub(crate) out_of_order: bool,
    /// RCV.NXT moved.
    pub(crate) advanced: bool,
}

impl Acknowledging {
    pub(crate) fn plain(receiver: Receiver) -> Self {
        let policy = AckPolicy::Plain(receiver);
        Acknowledging { policy, sack: SackGenerator::default() }
    }

    pub(crate) fn tack(
        params: tack::Params,
        first_pkt_seq: u64,
        handshake: Option<Duration>,
    ) -> Self {
        let mut receiver = tack::Receiver::new(params, first_pkt_seq);
        if let Some(rtt) = handshake {
            receiver.on_handshake(rtt);
        }
        let full = FullSize::new(params.mss);
        let side = TackReceiver { receiver, highest_seen: first_pkt_seq, full };
        let policy = AckPolicy::Tack(Box::new(side));
        Acknowledging { policy, sack: SackGenerator::default() }
    }

    /// TACK is given up.
    pub(crate) fn fall_back(&mut self, receiver: Receiver) {
        self.policy = AckPolicy::Plain(receiver);
    }

    /// The peer says how often it wants to hear of us.
    pub(crate) fn on_frequency(&mut self, frequency: &tack::Frequency, now: Instant) {
        if let AckPolicy::Tack(side) = &mut self.policy {
            side.receiver.on_frequency(frequency, now);
        }
    }

    /// A PKT.SEQ is within `reach` of the highest seen; anything is where none is expected.
    pub(crate) fn is_near(&self, wire: u32, reach: u64) -> bool {
        match &self.policy {
            AckPolicy::Plain(_) => true,
            AckPolicy::Tack(side) => {
                let pkt_seq = tack::PktSeq(wire).expand(side.highest_seen);
                pkt_seq.abs_diff(side.highest_seen) <= reach
            }
        }
    }

    /// A round trip as it is now, which text shows that `echoed` a stamp of ours. Under TACK a sender may echo
    /// the same stamp for ever, and tells RTTmin instead.
    pub(crate) fn round_trip(&self, echoed: Option<Duration>) -> Option<Duration> {
        match &self.policy {
            AckPolicy::Plain(_) => echoed,
            AckPolicy::Tack(side) => side.receiver.round_trip(),
        }
    }

    /// The next acknowledgment should have SACK blocks. TACK says such things in its bodies.
    pub(crate) fn has_sack(&self, rcv: &Rcv) -> bool {
        matches!(self.policy, AckPolicy::Plain(_)) && self.sack.is_pending(rcv)
    }

    /// At most `most` SACK blocks for an acknowledgment that leaves now.
    pub(crate) fn take_sack(&mut self, rcv: &Rcv, most: usize) -> SackBlocks {
        self.sack.take(rcv, most)
    }

    /// One acknowledgment could not say all that is new.
    pub(crate) fn is_behind(&self, rcv: &Rcv) -> bool {
        matches!(self.policy, AckPolicy::Plain(_)) && self.sack.is_behind(rcv)
    }

    /// Text or FIN arrived and is stored. TACK does not ask for `path`.
    pub(crate) fn on_text(
        &mut self,
        a: &TextArrival,
        rcv: &Rcv,
        path: impl FnOnce() -> PathSeen,
        now: Instant,
    ) {
        let len = a.seq.end - a.seq.start;
        let duplicate = a.new_bytes == 0;
        if a.new_bytes < len && !a.refused {
            self.sack.on_duplicate(a.seq.start..a.seq.end.min(rcv.buffer.high()));
        }
        if !rcv.buffer.queued().is_empty() && a.new_bytes > 0 {
            self.sack.on_island(rcv, a.seq.end.min(rcv.buffer.high()) - 1);
        }
        match &mut self.policy {
            AckPolicy::Plain(receiver) => {
                let immediate = a.out_of_order || a.new_bytes < len || a.fin;
                let bytes = u32::try_from(len).unwrap_or(u32::MAX);
                let segment = bytes.div_ceil(a.segments.max(1));
                let news = match (a.advanced, duplicate) {
                    (true, _) => News::InOrder,
                    (false, true) => News::Nothing,
                    (false, false) => News::Island,
                };
                let arrival = Arrival { bytes, segment, immediate, news, polled: a.polled };
                receiver.on_data(&arrival, &path(), now);
            }
            AckPolicy::Tack(side) => {
                let Some(wire) = a.pkt_seq else { return };
                // Not received: its PKT.SEQ stays a gap, or nobody would ever repair it.
                if a.refused {
                    return;
                }
                let pkt_seq = tack::PktSeq(wire).expand(side.highest_seen);
                side.highest_seen = side.highest_seen.max(pkt_seq);
                let has_more = !a.push && !a.fin && a.new_bytes == len;
                if let Some(mss) = has_more.then(|| side.full.on_text(len)).flatten() {
                    side.receiver.set_mss(mss);
                }
                let arrival = tack::Arrival {
                    pkt_seq,
                    bytes: len,
                    departure_us: a.departure_us,
                    arrival_us: now.as_micros() as u32,
                    push: a.push,
                    immediate: a.fin,
                    ce: a.ce,
                    duplicate,
                };
                side.receiver.on_data(&arrival, buffer_of(rcv), now);
            }
        }
    }

    /// Reading made room. True: the peer must be told at once.
    pub(crate) fn on_read(&mut self, rcv: &Rcv, now: Instant) -> bool {
        match &mut self.policy {
            AckPolicy::Plain(_) => rcv.owes_update(),
            AckPolicy::Tack(side) => {
                side.receiver.on_window(buffer_of(rcv), now);
                false
            }
        }
    }

    /// A segment with SEG.ACK left.
    pub(crate) fn on_ack_sent(&mut self, now: Instant) {
        if let AckPolicy::Plain(receiver) = &mut self.policy {
            receiver.on_ack_sent(now);
        }
    }

    /// Data left, and SEG.ACK with it.
    pub(crate) fn on_acknowledged_by_data(&mut self, rcv: &Rcv, now: Instant) {
        if let AckPolicy::Tack(side) = &mut self.policy {
            side.receiver.on_acknowledged_by_data(rcv.buffer.queued().is_empty(), now);
        }
    }

    /// A bare ACK must leave now, unless data does. Never under TACK.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        matches!(&self.policy, AckPolicy::Plain(receiver) if receiver.is_due(now))
    }

    /// The body that an acknowledgment owed for the protocol's sake has; `None`: none, and it waits
    /// for data to go with.
    pub(crate) fn owed_body(&self) -> Option<AckType> {
        match &self.policy {
            AckPolicy::Plain(_) => None,
            AckPolicy::Tack(_) => Some(AckType::WindowIack),
        }
    }

    /// TACK: the next body.
    pub(crate) fn poll_feedback(
        &mut self,
        rcv: &Rcv,
        max_holes: usize,
        now: Instant,
    ) -> Option<tack::Feedback> {
        match &mut self.policy {
            AckPolicy::Plain(_) => None,
            AckPolicy::Tack(side) => side.receiver.poll(buffer_of(rcv), max_holes, now),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.policy {
            AckPolicy::Plain(receiver) => receiver.deadline(),
            AckPolicy::Tack(side) => side.receiver.deadline(),
        }
    }

    /// How long what arrives may lie unread. A sender that hears of every other segment is held up by
    /// any delay.
    pub(crate) fn leeway(&self) -> Duration {
        match &self.policy {
            AckPolicy::Plain(_) => Duration::ZERO,
            AckPolicy::Tack(side) => side.receiver.leeway(),
        }
    }
}

/// What TACK's receiver may know of the receive buffer.
fn buffer_of(rcv: &Rcv) -> tack::Buffer<'_> {
    let (rcv_nxt, queued) = (rcv.nxt(), rcv.buffer.queued());
    tack::Buffer {
        rcv_nxt,
        queued,
        delivered: rcv_nxt.saturating_add(queued.covered()),
        window: rcv.offer(),
        capacity: rcv.buffer.limit() as u64,
    }
}
