//! When and how we acknowledge: the seam under study.
//!
//! Plain TCP acknowledges by one of the strategies of [`crate::ack`]; TACK's receiver decides by
//! itself. What is common is here: an acknowledgment that is owed at once for the protocol's sake (challenge,
//! probe, old duplicate, handshake) leaves as a bare ACK of plain TCP, and as a window IACK under
//! TACK, so that a bare ACK of an established TACK connection always means stripped options.

use core::ops::Range;

use tack_units::Instant;

use crate::ack::{Acknowledge, Arrival, News, PathSeen, Receiver};
use crate::conn::rcv::Rcv;
use crate::conn::sack_gen::SackGenerator;

/// Acknowledgment state of one connection.
#[derive(Debug)]
pub(crate) struct Acknowledging {
    policy: AckPolicy,
    /// An acknowledgment is owed whatever the policy says.
    owed: bool,
    pub(crate) sack: SackGenerator,
}

/// Who decides.
#[derive(Debug)]
pub(crate) enum AckPolicy {
    /// One of the strategies of plain acknowledgment.
    Plain(Receiver),
    /// [TON §IV].
    Tack(Box<TackReceiver>),
}

/// TACK's receiver and what the host must know of it.
#[derive(Debug)]
pub(crate) struct TackReceiver {
    pub(crate) receiver: tack::Receiver,
    /// Highest PKT.SEQ received, near which others are expanded.
    pub(crate) highest_seen: u64,
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
    /// It lies behind a hole or filled one.
    pub(crate) out_of_order: bool,
    /// RCV.NXT moved.
    pub(crate) advanced: bool,
}

impl Acknowledging {
    pub(crate) fn plain(receiver: Receiver) -> Self {
        let policy = AckPolicy::Plain(receiver);
        Acknowledging { policy, owed: false, sack: SackGenerator::default() }
    }

    pub(crate) fn tack(params: tack::Params, first_pkt_seq: u64) -> Self {
        let receiver = tack::Receiver::new(params, first_pkt_seq);
        let policy =
            AckPolicy::Tack(Box::new(TackReceiver { receiver, highest_seen: first_pkt_seq }));
        Acknowledging { policy, owed: false, sack: SackGenerator::default() }
    }

    pub(crate) fn is_tack(&self) -> bool {
        matches!(self.policy, AckPolicy::Tack(_))
    }

    pub(crate) fn tack_mut(&mut self) -> Option<&mut TackReceiver> {
        match &mut self.policy {
            AckPolicy::Plain(_) => None,
            AckPolicy::Tack(side) => Some(side),
        }
    }

    /// TACK is given up; what is not acknowledged is owed at once.
    pub(crate) fn fall_back(&mut self, receiver: Receiver) {
        if self.is_tack() {
            self.policy = AckPolicy::Plain(receiver);
            self.owed = true;
        }
    }

    /// An acknowledgment is owed at once.
    pub(crate) fn owe(&mut self) {
        self.owed = true;
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Text or FIN arrived and is stored.
    pub(crate) fn on_text(&mut self, a: &TextArrival, rcv: &Rcv, path: PathSeen, now: Instant) {
        let len = a.seq.end - a.seq.start;
        let duplicate = a.new_bytes == 0;
        if a.new_bytes < len {
            self.sack.on_duplicate(a.seq.start..a.seq.end.min(rcv.buffer.high()));
        }
        if !rcv.buffer.queued().is_empty() && a.new_bytes > 0 {
            self.sack.on_island(rcv, a.seq.end - 1);
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
                receiver.on_data(&arrival, &path, now);
            }
            AckPolicy::Tack(side) => {
                let Some(wire) = a.pkt_seq else { return };
                let pkt_seq = tack::PktSeq(wire).expand(side.highest_seen);
                side.highest_seen = side.highest_seen.max(pkt_seq);
                let arrival = tack::Arrival {
                    pkt_seq,
                    seq: a.seq.clone(),
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

    /// Reading made room.
    pub(crate) fn on_read(&mut self, rcv: &Rcv, now: Instant) {
        match &mut self.policy {
            AckPolicy::Plain(_) => self.owed |= rcv.owes_update(),
            AckPolicy::Tack(side) => side.receiver.on_window(buffer_of(rcv), now),
        }
    }

    /// A segment with SEG.ACK left.
    pub(crate) fn on_ack_sent(&mut self, now: Instant) {
        if let AckPolicy::Plain(receiver) = &mut self.policy {
            receiver.on_ack_sent(now);
            self.owed = false;
        }
    }

    /// The acknowledgment that was owed left.
    pub(crate) fn on_owed_sent(&mut self, now: Instant) {
        self.owed = false;
        self.on_ack_sent(now);
    }

    /// Data left, and SEG.ACK with it. Under TACK, what is owed by the protocol is not thereby
    /// said: the peer's probe wants to hear of the window now, and does.
    pub(crate) fn on_owed_sent_on_data(&mut self, now: Instant) {
        self.owed = false;
        self.on_ack_sent(now);
    }

    /// Plain TCP: an acknowledgment must leave now, alone if no data does.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.owed || matches!(&self.policy, AckPolicy::Plain(receiver) if receiver.is_due(now))
    }

    /// TACK: the next body.
    pub(crate) fn poll_feedback(
        &mut self,
        rcv: &Rcv,
        max_holes: usize,
        now: Instant,
    ) -> Option<tack::Feedback> {
        self.tack_mut()?.receiver.poll(buffer_of(rcv), max_holes, now)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.policy {
            AckPolicy::Plain(receiver) => receiver.deadline(),
            AckPolicy::Tack(side) => side.receiver.deadline(),
        }
    }
}

/// What TACK's receiver may know of the receive buffer.
fn buffer_of(rcv: &Rcv) -> tack::Buffer<'_> {
    tack::Buffer {
        rcv_nxt: rcv.nxt(),
        queued: rcv.buffer.queued(),
        window: rcv.offer(),
        capacity: rcv.buffer.limit() as u64,
    }
}
