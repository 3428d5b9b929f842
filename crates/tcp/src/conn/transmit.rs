//! What leaves next, in the order of the [agenda](crate::conn::agenda).

use tack::{Feedback, Iack, IackReason};
use tack_units::Instant;

use crate::conn::Connection;
use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::agenda::Owed;
use crate::conn::burst::BurstBuilder;
use crate::conn::send_half::{Front, Next};
use crate::conn::timers::Timer;
use crate::wire::body;
use crate::wire::ip::Ecn;
use crate::wire::{AckType, Flags, Form, Header, Options, Series};

/// Buffers unused this long give their memory back.
const IDLE_RELEASE: core::time::Duration = core::time::Duration::from_secs(2);

impl Connection {
    /// Adds what may leave now to `burst`: the first of what is owed that has something to say, and
    /// what may join it. Nothing added means nothing to send.
    pub(crate) fn transmit(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        for owed in self.agenda.turns(self.state.get()) {
            self.send(owed, burst, now);
            if !burst.is_empty() {
                return;
            }
        }
    }

    fn send(&mut self, owed: Owed, burst: &mut BurstBuilder<'_>, now: Instant) {
        match owed {
            Owed::Reset => self.send_reset(burst, now),
            Owed::Syn => {
                let header = self.syn_header(now);
                self.push(burst, &header, Ecn::NotEct, &[]);
            }
            Owed::HandshakeAck => self.send_handshake_ack(burst, now),
            Owed::Feedback => self.send_feedback(burst, now),
            Owed::WindowProbe => {
                self.send.on_window_probe();
                self.send_probe(owed, burst, now);
            }
            Owed::Keepalive => self.send_probe(owed, burst, now),
            Owed::Data | Owed::LossProbe => {
                self.send_data(burst, now);
                self.arm_idle(now);
            }
            Owed::Ack => {
                if self.agenda.owes(Owed::Ack) || self.acks.is_due(now) {
                    self.send_bare_ack(burst, now);
                }
            }
        }
    }

    fn send_reset(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let Some(reset) = self.agenda.take_reset() else { return };
        let mut header = reset.header(self.ports.local, self.ports.remote);
        header.options.timestamps = self.clock.option(now);
        self.push(burst, &header, Ecn::NotEct, &[]);
    }

    /// The handshake's end. Data that came meanwhile is acknowledged in the manner agreed, the
    /// handshake with it.
    fn send_handshake_ack(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        self.agenda.strike(Owed::HandshakeAck);
        if self.rcv.nxt() == FIRST_BYTE {
            self.send_bare_ack(burst, now);
        } else {
            self.agenda.owe(Owed::Ack);
        }
    }

    /// A segment with SEG.ACK and SEG.WND left: so did whatever acknowledgment was owed.
    fn on_ack_sent(&mut self, now: Instant) {
        self.agenda.strike(Owed::Ack);
        self.acks.on_ack_sent(now);
    }

    fn push(&mut self, burst: &mut BurstBuilder<'_>, header: &Header, ecn: Ecn, payload: &[u8]) {
        burst.push(header, ecn, (payload, &[]));
        self.counters.segments_sent += 1;
    }

    /// An ordinary header at SND.NXT with ACK, window and timestamps.
    #[inline]
    fn header(&mut self, now: Instant) -> Header {
        let (ack, window) = self.rcv.announce();
        self.refresh.on_full(now);
        let timestamps = self.clock.option(now);
        if let Some(stamp) = timestamps {
            self.rcv.path.on_sent(stamp.val, now);
        }
        Header {
            src_port: self.ports.local,
            dst_port: self.ports.remote,
            seq: self.send.nxt_num(),
            ack,
            flags: Flags::ACK | self.ecn.flags(),
            window,
            urgent: 0,
            options: Options { timestamps, ..Options::default() },
        }
    }

    /// A bare ACK of plain TCP, with SACK blocks.
    fn send_bare_ack(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let mut header = self.header(now);
        self.add_sack(&mut header.options);
        self.counters.acks_sent.plain += 1;
        self.push(burst, &header, Ecn::NotEct, &[]);
        self.on_ack_sent(now);
        if self.send.agreed().sack && self.acks.is_behind(&self.rcv) {
            self.agenda.owe(Owed::Ack);
        }
    }

    fn add_sack(&mut self, options: &mut Options) {
        if self.send.agreed().sack && self.acks.has_sack(&self.rcv) {
            let most = if options.timestamps.is_some() { 3 } else { 4 };
            options.sack = self.acks.take_sack(&self.rcv, most);
        }
    }

    /// The next TACK or IACK of either half.
    fn send_feedback(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let max_body = self.send.max_body();
        let mut bytes = core::mem::take(burst.scratch);
        bytes.clear();
        if let Some(kind) = self.next_body(max_body, &mut bytes, now) {
            let mut header = self.header(now);
            header.options.ack_type = Some(kind);
            header.seq = self.send.body_num(bytes.len());
            self.push(burst, &header, Ecn::NotEct, &bytes);
            self.on_ack_sent(now);
        }
        *burst.scratch = bytes;
    }

    fn next_body(&mut self, max_body: usize, out: &mut Vec<u8>, now: Instant) -> Option<AckType> {
        let isn = self.rcv.irs();
        let sent = &mut self.counters.acks_sent;
        match self.acks.poll_feedback(&self.rcv, body::max_holes(max_body), now) {
            Some(Feedback::Tack(tack)) => {
                sent.count_tack(&tack);
                body::emit_tack(&tack, isn, out);
                return Some(AckType::Tack);
            }
            Some(Feedback::Iack(iack)) => {
                let kind = body::emit_iack(&iack, out);
                match kind {
                    AckType::LossIack => sent.loss += 1,
                    AckType::CeIack => sent.ce += 1,
                    _ => sent.window += 1,
                }
                return Some(kind);
            }
            None => {}
        }
        if let Some(frequency) = self.send.poll_frequency(now) {
            let (cum_ack, window) = (self.rcv.nxt(), self.rcv.offer());
            let reason = IackReason::Frequency(frequency);
            self.counters.acks_sent.frequency += 1;
            return Some(body::emit_iack(&Iack { cum_ack, window, reason }, out));
        }
        let owed = self.acks.owed_body().filter(|_| self.agenda.owes(Owed::Ack));
        self.counters.acks_sent.window += u64::from(owed.is_some());
        owed
    }

    /// Zero-window and keepalive probes: empty, one before SND.UNA, so that they must be answered.
    fn send_probe(&mut self, owed: Owed, burst: &mut BurstBuilder<'_>, now: Instant) {
        self.agenda.strike(owed);
        let mut header = self.header(now);
        let (seq, pkt_seq) = self.send.probe_numbers();
        (header.seq, header.options.pkt_seq) = (seq, pkt_seq);
        self.push(burst, &header, Ecn::NotEct, &[]);
        self.on_ack_sent(now);
    }

    /// Retransmissions first, then new data, while windows and pacer allow.
    fn send_data(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let probes = self.agenda.strike(Owed::LossProbe);
        if self.send.has_nothing() {
            return self.send.on_nothing(now);
        }
        if probes && let Some(next) = self.send.loss_probe(&self.front(now)) {
            self.counters.probes += 1;
            self.push_text(burst, &next, now);
        }
        let mut budget = None;
        let limit = loop {
            let next = match self.send.next_segment(&self.front(now), self.config.nodelay, now) {
                Ok(next) => next,
                Err(limit) => break limit,
            };
            let admission = self.send.admit(&next, &mut budget, now);
            if let Some(at) = admission.wake {
                self.timers.set(Timer::Pacing, at);
            }
            if let Err(limit) = admission.leaves {
                break limit;
            }
            if !self.push_text(burst, &next, now) {
                return;
            }
        };
        let wait = self.send.on_stopped(limit, now);
        if let Some(wait) = wait.filter(|_| self.timers.get(Timer::Persist).is_none()) {
            self.timers.set(Timer::Persist, now + wait);
            // What waits for the window is not acknowledged, either.
            if self.timers.get(Timer::User).is_none() {
                self.set_user_timer(now);
            }
        }
    }

    /// What goes in front of the next text.
    #[inline]
    fn front(&self, now: Instant) -> Front {
        Front {
            again: self.next_form(true, now),
            fresh: self.next_form(false, now),
            sack_len: self.sack_len(),
        }
    }

    /// Bytes of SACK blocks in the next whole header.
    fn sack_len(&self) -> usize {
        let agreed = self.send.agreed();
        if !agreed.sack || !self.acks.has_sack(&self.rcv) {
            return 0;
        }
        4 + 8 * if agreed.timestamps { 3 } else { 4 }
    }

    /// Sends text or FIN. False: the burst is full, and the segment is still to be sent.
    fn push_text(&mut self, burst: &mut BurstBuilder<'_>, next: &Next, now: Instant) -> bool {
        let len = next.span.len;
        let joins = burst.continues(next.seq, next.options_len(), len)
            && burst.has_room(next.header_len + len, next.ecn)
            && !(next.marked && burst.joins());
        if !burst.is_empty() && !joins {
            return false;
        }
        let was_idle = self.send.is_idle();
        let sent = self.send.on_sent(next, now);
        if next.form == Form::Compact {
            self.push_compact(burst, next, sent, now);
        } else {
            let mut header = self.header(now);
            header.seq = next.seq;
            header.flags = header.flags | sent.flags;
            header.options.pkt_seq = sent.pkt_seq;
            header.options.series = self.series(next);
            self.add_sack(&mut header.options);
            burst.push(&header, next.ecn, self.send.text(next.span));
            self.on_ack_sent(now);
            self.acks.on_acknowledged_by_data(&self.rcv, now);
        }
        self.count_sent(next);
        if was_idle {
            self.restart_user_timer(now);
        }
        true
    }

    /// The series that a segment begins, where numbers are told in series.
    fn series(&self, next: &Next) -> Option<Series> {
        let told = self.send.is_tack() && self.send.agreed().series;
        told.then(|| Series::beginning(next.seq, next.span.len))
    }

    fn count_sent(&mut self, next: &Next) {
        let bytes = next.span.len as u64;
        let counters = &mut self.counters;
        counters.segments_sent += 1;
        counters.data_segments_sent += u64::from(bytes > 0);
        counters.compact_segments_sent += u64::from(next.form == Form::Compact);
        counters.mtu_probes += u64::from(next.is_size_probe());
        if next.again {
            counters.retransmissions += 1;
            counters.retransmitted_bytes += bytes;
        } else {
            counters.bytes_sent += bytes;
        }
    }

    fn arm_idle(&mut self, now: Instant) {
        let memory = self.send.memory() + self.rcv.buffer.memory();
        if memory > 0 && self.send.is_idle() && self.timers.get(Timer::Idle).is_none() {
            self.timers.set(Timer::Idle, now + IDLE_RELEASE);
        }
    }
}
