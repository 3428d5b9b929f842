//! SEGMENT ARRIVES, in the order of [RFC 9293 §3.10.7.4]: sequence number, RST, SYN, ACK, text,
//! FIN; timestamps before all, and signs of stripped options once the ACK is believed.

use tack_units::Instant;

use crate::conn::acceptable::{AckPlace, FIRST_BYTE, is_acceptable};
use crate::conn::ack_policy::TextArrival;
use crate::conn::agenda::Owed;
use crate::conn::close::Reset;
use crate::conn::{Connection, ConnectionError, EventSet, State};
use crate::stats::FallbackReason;
use crate::wire::ip::Ecn;
use crate::wire::{AckType, Flags, Form, Segment};

/// What a segment's packet said of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    /// ECN field.
    pub(crate) ecn: Ecn,
    /// Segments that the device merged into this one; 1 for one as it travelled.
    pub(crate) segments: u32,
    /// A segment before it in the packet had the same acknowledgment and window.
    pub(crate) repeats: bool,
}

/// A segment with its numbers as offsets, and its payload told apart.
#[derive(Debug)]
pub(crate) struct Arriving<'a> {
    pub(crate) seg: &'a Segment<'a>,
    pub(crate) seq: u64,
    pub(crate) ack: u64,
    pub(crate) text: &'a [u8],
    /// TACK or IACK, told by ACK-Type.
    pub(crate) body: Option<(AckType, &'a [u8])>,
    pub(crate) fin: bool,
    pub(crate) carriage: Carriage,
}

impl Arriving<'_> {
    fn has(&self, flag: Flags) -> bool {
        self.seg.header.flags.has(flag)
    }

    /// Sequence space taken; SYN not counted, since no acceptable segment here has one.
    fn len(&self) -> u64 {
        self.text.len() as u64 + u64::from(self.fin)
    }

    fn end(&self) -> u64 {
        self.seq + self.len()
    }
}

impl Connection {
    /// A segment for this connection arrived. Of a series, each is a packet of its own.
    pub(crate) fn on_segment(&mut self, seg: &Segment<'_>, carriage: Carriage, now: Instant) {
        if seg.header.options.series.is_none() {
            return self.on_one(seg, carriage, now);
        }
        for (before, piece) in seg.pieces().enumerate() {
            let carriage = Carriage { segments: 1, repeats: before > 0, ..carriage };
            self.on_one(&piece, carriage, now);
        }
    }

    fn on_one(&mut self, seg: &Segment<'_>, carriage: Carriage, now: Instant) {
        self.counters.segments_received += u64::from(carriage.segments);
        if seg.form == Form::Compact && !self.understands(seg) {
            self.counters.unacceptable += 1;
            return;
        }
        match self.state.get() {
            State::Closed | State::TimeWait => {}
            State::SynSent => self.arrives_syn_sent(seg, now),
            _ => self.arrives_synchronized(seg, carriage, now),
        }
    }

    fn arrives_synchronized(&mut self, seg: &Segment<'_>, carriage: Carriage, now: Instant) {
        let body = seg.header.options.ack_type.filter(|_| self.send.agreed().tack);
        let a = Arriving {
            seg,
            seq: self.rcv.offset(seg.header.seq),
            ack: match seg.form {
                Form::Full => self.send.ack_offset(seg.header.ack),
                Form::Compact => self.send.una(),
            },
            text: if body.is_some() { &[] } else { seg.payload },
            body: body.map(|kind| (kind, seg.payload)),
            fin: body.is_none() && seg.header.flags.has(Flags::FIN),
            carriage,
        };
        if !self.clock.admits(seg.header.options.timestamps, now) && !a.has(Flags::RST) {
            self.counters.unacceptable += 1;
            return self.challenge(now);
        }
        if a.has(Flags::SYN) {
            return self.arrives_syn(&a, now);
        }
        if !self.is_acceptable(&a) {
            return self.arrives_unacceptable(&a, now);
        }
        if a.has(Flags::RST) {
            return self.arrives_rst(&a, now);
        }
        let in_order = a.body.is_none() && a.seq <= self.rcv.last_ack_sent();
        if !a.has(Flags::ACK) || !self.arrives_ack(&a, now) {
            return;
        }
        self.clock.on_accepted(seg.header.options.timestamps, in_order, now);
        self.liveness.on_heard(now);
        self.note_mode(&a, now);
        self.arrives_text(&a, now);
    }

    fn is_acceptable(&self, a: &Arriving<'_>) -> bool {
        let (nxt, wnd) = (self.rcv.nxt(), self.rcv.wnd());
        match a.body {
            // A body lies where its sender's SND.UNA is: at or below RCV.NXT, within a window.
            Some((_, bytes)) => self.is_recent_past(a.seq + bytes.len() as u64),
            // FIN may lie just behind a full window: it takes no room.
            None => is_acceptable(a.seq, a.len(), nxt, wnd.max(u64::from(a.fin))),
        }
    }

    /// `end` lies within what the peer sent lately.
    fn is_recent_past(&self, end: u64) -> bool {
        end <= self.rcv.nxt() && end + self.reach() >= self.rcv.nxt()
    }

    /// How far from RCV.NXT something of this connection may lie.
    fn reach(&self) -> u64 {
        self.rcv.buffer.limit() as u64 + (1 << 16)
    }

    /// A SYN: in answer to ours or a repetition of theirs while ours waits for its acknowledgment;
    /// challenged otherwise, whatever its number [RFC 5961 §4.2].
    fn arrives_syn(&mut self, a: &Arriving<'_>, now: Instant) {
        let waits = self.state.get() == State::SynReceived && a.seq + 1 == FIRST_BYTE;
        if !waits || a.has(Flags::RST) {
            return self.challenge(now);
        }
        if !a.has(Flags::ACK) {
            self.repeated_syn(&a.seg.header);
        } else if a.ack == FIRST_BYTE && !self.open.is_passive() {
            // Theirs crossed ours, and this is the answer to ours.
            self.send.agree(self.send.agreed().with(&a.seg.header));
            self.establish(now);
            self.agenda.owe(Owed::HandshakeAck);
        }
    }

    /// Old duplicates, probes, stripped bodies, injections: answered, and dropped but for what
    /// the acknowledgment of an old duplicate says.
    fn arrives_unacceptable(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.has(Flags::RST) {
            self.counters.unacceptable += 1;
            return;
        }
        let known = self.state.get() != State::SynReceived && a.has(Flags::ACK);
        if !known || self.send.place_ack(a.ack) == AckPlace::Impossible {
            self.counters.unacceptable += 1;
            return self.challenge(now);
        }
        if !self.is_recent_past(a.end()) {
            // [RFC 9293 §3.10.7.4]: valid ACKs are heard even if a window is closed. Without that,
            // two ends that disagree about a window would never agree again.
            self.counters.unacceptable += 1;
            if a.seq.saturating_sub(self.rcv.nxt()) <= self.reach() {
                self.liveness.on_heard(now);
                self.take_ack(a, now);
            }
            return self.challenge(now);
        }
        self.liveness.on_heard(now);
        self.note_mode(a, now);
        self.take_ack(a, now);
        if a.len() == 0 {
            // A probe must be answered, and nothing tells that it is one.
            self.challenge(now);
            return;
        }
        self.counters.duplicates_received += 1;
        self.take_text(a, now);
        self.agenda.owe(Owed::Ack);
    }

    /// [RFC 5961 §3.2]: only the exact number resets.
    fn arrives_rst(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.seq != self.rcv.nxt() {
            return self.challenge(now);
        }
        let error = match self.state.get() {
            State::SynReceived if !self.open.is_passive() => ConnectionError::Refused,
            _ => ConnectionError::Reset,
        };
        self.fail(error, now);
    }

    /// False: the segment is dropped.
    fn arrives_ack(&mut self, a: &Arriving<'_>, now: Instant) -> bool {
        let place = self.send.place_ack(a.ack);
        if self.state.get() == State::SynReceived {
            if a.ack != FIRST_BYTE {
                self.agenda.owe_reset(Reset { seq: a.seg.header.ack, ack: None });
                return false;
            }
            if self.open.is_passive() && !self.may_establish {
                return false;
            }
            let first = self.config.first_pkt_seq.max(1);
            if a.seg.header.options.pkt_seq.is_some_and(|pkt_seq| pkt_seq != first) {
                self.open.note_loss();
            }
            self.establish(now);
        }
        if place == AckPlace::Impossible {
            self.counters.unacceptable += 1;
            self.challenge(now);
            return false;
        }
        let may_be_news = a.body.is_some() && self.send.is_overtaken(a, &self.clock, now);
        if place == AckPlace::Old && !may_be_news {
            // Its text counts, its acknowledgment is known; what the body of one that was overtaken says may be news.
            return true;
        }
        self.take_ack(a, now);
        self.state.get() != State::Closed
    }

    /// Signs that the path strips our options, or that the peer has noticed that it does.
    fn note_mode(&mut self, a: &Arriving<'_>, now: Instant) {
        let options = &a.seg.header.options;
        if options.pkt_seq.is_some() || a.body.is_some() {
            self.liveness.confirmed_tack = true;
            return;
        }
        let handshake = a.seq == FIRST_BYTE && a.ack == FIRST_BYTE && a.len() == 0;
        if handshake {
            return;
        }
        let old = a.end() <= self.rcv.nxt();
        let reason = if a.len() > 0 && !old {
            FallbackReason::PktSeqMissing
        } else {
            FallbackReason::AckTypeMissing
        };
        self.fall_back(reason, now);
    }

    fn arrives_text(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.len() == 0 {
            // A keepalive at RCV.NXT, or the answer to nothing; a PKT.SEQ alone asks for one.
            if a.seg.header.options.pkt_seq.is_some() {
                self.agenda.owe(Owed::Ack);
            }
            return;
        }
        let text_is_new = a.end() > self.rcv.nxt();
        if self.ending.is_orphaned() && !a.text.is_empty() && text_is_new {
            // Nobody will read it [RFC 9293 §3.10.4]; SEQ is what the peer acknowledges.
            return self.abort(now);
        }
        if !self.state.get().may_receive() {
            return self.agenda.owe(Owed::Ack);
        }
        self.take_text(a, now);
    }

    /// Text and FIN into the buffer, acknowledgment policy told.
    fn take_text(&mut self, a: &Arriving<'_>, now: Instant) {
        let held_before = self.rcv.buffer.len();
        let was_complete = self.rcv.buffer.is_complete();
        let had_hole = !self.rcv.buffer.queued().is_empty();
        let before = self.rcv.nxt();
        let inserted = self.rcv.buffer.insert(a.seq, a.text, a.fin);
        self.ecn.on_text(a.seg.header.flags, a.carriage.ecn);
        let options = &a.seg.header.options;
        if !a.text.is_empty() {
            self.counters.data_segments_received += u64::from(a.carriage.segments);
        }
        if let Some(ts) = options.timestamps.filter(|_| self.clock.is_fine()) {
            self.owd.record((now.as_micros() as u32).wrapping_sub(ts.val));
        }
        self.counters.bytes_received += (self.rcv.buffer.len() - held_before) as u64;
        let arrival = TextArrival {
            seq: a.seq..a.end(),
            pkt_seq: options.pkt_seq,
            departure_us: options.timestamps.map_or(0, |ts| ts.val),
            push: a.has(Flags::PSH),
            fin: a.fin,
            ce: a.carriage.ecn == Ecn::Ce,
            polled: self.send.agreed().polls && a.has(Flags::POLL),
            segments: a.carriage.segments,
            new_bytes: inserted.new_bytes,
            refused: inserted.refused,
            out_of_order: had_hole || a.seq > before,
            advanced: inserted.advanced,
        };
        let echo = options.timestamps.filter(|_| self.send.agreed().timestamps).map(|ts| ts.ecr);
        self.rcv.path.on_text(echo, self.rcv.nxt(), now);
        let path = || self.rcv.path.seen(self.send.rtt_min(), self.send.rto());
        self.acks.on_text(&arrival, &self.rcv, path, now);
        if inserted.new_bytes > 0 {
            // With the queue that the sender made: what is in flight lies in it, too.
            let echoed = self.clock.rtt(options.timestamps, now);
            let round = self.send.rtt_min().max(self.acks.round_trip(echoed));
            self.rcv.buffer.tune(round, now);
        }
        if inserted.advanced && self.rcv.buffer.len() > held_before {
            self.events.add(EventSet::READABLE);
        }
        if self.rcv.buffer.is_complete() && !was_complete {
            self.on_peer_fin(now);
        }
    }
}
