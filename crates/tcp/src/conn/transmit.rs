//! What leaves next: RST, SYN, acknowledgment, retransmission, new data, probe.

use tack::Feedback;
use tack_units::{Instant, Rate};

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::burst::BurstBuilder;
use crate::conn::congestion::Limit;
use crate::conn::recovery_mode::Recovery;
use crate::conn::snd::Fresh;
use crate::conn::timers::Timer;
use crate::conn::{Connection, State};
use crate::stats::Mode;
use crate::wire::body;
use crate::wire::compact::COMPACT_LEN;
use crate::wire::ip::Ecn;
use crate::wire::{AckType, Flags, Form, Header, Options};

/// Bytes of a TCP header without options.
const HEADER: usize = 20;
/// Buffers unused this long give their memory back.
const IDLE_RELEASE: core::time::Duration = core::time::Duration::from_secs(2);

impl Connection {
    /// Adds what may leave now to `burst`; nothing added means nothing to send.
    pub(crate) fn transmit(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        if let Some(reset) = self.ending.reset.take() {
            let mut header = reset.header(self.ports.local, self.ports.remote);
            header.options.timestamps = self.clock.option(now);
            return self.push(burst, &header, Ecn::NotEct, &[]);
        }
        match self.state.get() {
            State::Closed => return,
            State::SynSent | State::SynReceived => {
                if self.open.is_due() {
                    let header = self.syn_header(now);
                    self.push(burst, &header, Ecn::NotEct, &[]);
                }
                return;
            }
            _ => {}
        }
        // Data that came meanwhile is acknowledged in the manner agreed, the handshake with it.
        let untouched = self.rcv.nxt() == FIRST_BYTE;
        if core::mem::take(&mut self.handshake_ack) {
            if untouched {
                return self.send_bare_ack(burst, now);
            }
            self.acks.owe();
        }
        if self.acks.is_tack() && self.send_feedback(burst, now) {
            return;
        }
        self.send_probes(burst, now);
        if burst.is_empty() {
            self.send_data(burst, now);
        }
        if burst.is_empty() && !self.acks.is_tack() && self.acks.is_due(now) {
            self.acks.on_owed_sent(now);
            self.send_bare_ack(burst, now);
        }
        self.arm_idle(now);
    }

    fn push(&mut self, burst: &mut BurstBuilder<'_>, header: &Header, ecn: Ecn, payload: &[u8]) {
        burst.push(header, ecn, (payload, &[]));
        self.counters.segments_sent += 1;
    }

    /// An ordinary header at SND.NXT with ACK, window and timestamps.
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
            seq: self.snd.seq_num(self.snd.nxt()),
            ack,
            flags: Flags::ACK | self.ecn.flags(false),
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
        self.acks.on_ack_sent(now);
        if self.agreed.sack && !self.acks.is_tack() && self.acks.sack.is_behind(&self.rcv) {
            self.acks.owe();
        }
    }

    fn add_sack(&mut self, options: &mut Options) {
        if self.agreed.sack && self.acks.sack.is_pending(&self.rcv) {
            let most = if options.timestamps.is_some() { 3 } else { 4 };
            options.sack = self.acks.sack.take(&self.rcv, most);
        }
    }

    /// The next TACK or IACK of either half. True if one left.
    fn send_feedback(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) -> bool {
        let max_body = usize::from(self.mtu.feedback_mss()) - 20;
        let mut bytes = core::mem::take(&mut burst.scratch);
        bytes.clear();
        let kind = self.next_body(max_body, &mut bytes, now);
        if let Some(kind) = kind {
            let mut header = self.header(now);
            header.options.ack_type = Some(kind);
            // Text the peer acknowledged: see `negotiate`.
            let behind = self.snd.una().wrapping_sub(bytes.len() as u64);
            header.seq = self.snd.seq_num(behind);
            self.push(burst, &header, Ecn::NotEct, &bytes);
            self.acks.on_owed_sent(now);
        }
        burst.scratch = bytes;
        kind.is_some()
    }

    fn next_body(&mut self, max_body: usize, out: &mut Vec<u8>, now: Instant) -> Option<AckType> {
        let isn = self.rcv.irs();
        let sent = &mut self.counters.acks_sent;
        match self.acks.poll_feedback(&self.rcv, body::max_holes(max_body), now) {
            Some(Feedback::Tack(tack)) => {
                sent.tack += 1;
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
        if let Some(iack) = self.poll_frequency(now) {
            self.counters.acks_sent.frequency += 1;
            return Some(body::emit_iack(&iack, out));
        }
        if self.acks.is_owed() {
            self.counters.acks_sent.window += 1;
            return Some(AckType::WindowIack);
        }
        None
    }

    /// The frequency the peer should acknowledge at, when it must be told.
    fn poll_frequency(&mut self, now: Instant) -> Option<tack::Iack> {
        let Recovery::Tack(side) = &mut self.recovery else { return None };
        let snapshot = self.congestion.snapshot();
        // Before the first rate sample, which the receiver makes only once it knows a frequency.
        let guess = || Rate::from_bytes_over(snapshot.cwnd, side.sender.srtt()?);
        let bw = snapshot.bandwidth.or_else(guess)?;
        let frequency = side.sender.poll_frequency(bw, snapshot.startup, now)?;
        Some(tack::Iack {
            cum_ack: self.rcv.nxt(),
            window: self.rcv.offer(),
            reason: tack::IackReason::Frequency(frequency),
        })
    }

    /// Zero-window and keepalive probes: empty, one before SND.UNA, so that they must be answered.
    fn send_probes(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let persist = self.persist.take_due();
        if !persist && !self.liveness.take_probe_due() {
            return;
        }
        if persist {
            self.persist.on_sent();
        }
        let mut header = self.header(now);
        header.seq = self.snd.seq_num(self.snd.una() - 1);
        if let Recovery::Tack(side) = &self.recovery {
            // The number of the latest transmission: says nothing new, but is there.
            header.options.pkt_seq = Some(side.highest_sent as u32);
        }
        self.push(burst, &header, Ecn::NotEct, &[]);
        self.acks.on_ack_sent(now);
    }

    /// Retransmissions first, then new data, while windows and pacer allow.
    fn send_data(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        if core::mem::take(&mut self.loss_probe_due) {
            self.send_loss_probe(burst, now);
        }
        let mut budget = None;
        let limit = loop {
            let next = match self.next_segment(now) {
                Ok(next) => next,
                Err(limit) => break limit,
            };
            let Some(room) = self.room(next.again, now) else { break Some(Limit::Cwnd) };
            if room < next.fresh.len as u64 && self.recovery.in_flight() > 0 {
                break Some(Limit::Cwnd);
            }
            if budget.is_none() {
                let waiting = room.min(self.waiting(&next));
                budget = self.congestion.budget(waiting.max(next.fresh.len as u64), now);
            }
            let Some(left) = &mut budget else {
                let departure = self.congestion.next_departure(now);
                self.timers.set(Timer::Pacing, departure);
                break Some(Limit::Cwnd);
            };
            // A probe may be more than a burst of the segments that are known to pass.
            if *left < next.fresh.len as u64 && next.probe.is_none() {
                let departure = self.congestion.next_departure(now);
                self.timers.set(Timer::Pacing, departure);
                break Some(Limit::Cwnd);
            }
            *left = left.saturating_sub(next.fresh.len as u64);
            if !self.push_text(burst, next, now) {
                return;
            }
        };
        self.after_data(limit, now);
    }

    /// Bytes that wait to leave, `next` included: at least; only its order of size matters.
    fn waiting(&self, next: &Next) -> u64 {
        if next.again {
            u64::from(self.payload_mss())
        } else {
            self.snd.unsent().min(self.snd.usable())
        }
    }

    fn after_data(&mut self, limit: Option<Limit>, now: Instant) {
        let limit = limit.filter(|_| !self.snd.is_idle() || self.snd.has_fresh());
        // A full buffer is no pause of the application: a rate measured then is the best that this
        // host can do, and Startup must end with it.
        if limit == Some(Limit::App) && !self.snd.buffer.is_limiting() {
            self.recovery.on_app_limited();
        }
        self.congestion.note_limit(limit, now);
        let closed = limit == Some(Limit::Rwnd) && self.recovery.in_flight() == 0;
        if closed && self.timers.get(Timer::Persist).is_none() {
            let wait = self.persist.interval(self.recovery.rto());
            self.timers.set(Timer::Persist, now + wait);
        }
    }

    /// The next segment with text or FIN, or what there is to wait for.
    fn next_segment(&self, now: Instant) -> Result<Next, Option<Limit>> {
        let lost = self.recovery.next_lost(now);
        let form = self.next_form(lost.is_some(), now);
        let payload = self.payload_in(form);
        if let Some(lost) = lost {
            let end = lost.end.min(lost.start + payload as u64);
            // FIN rides on a full segment: it takes no room.
            let end = if lost.end == end + 1 { lost.end } else { end };
            let fresh = self.snd.again(lost.start, end);
            return Ok(self.fit_fin(Next::new(fresh, true, form)));
        }
        if let Some((fresh, mss)) = self.probe_segment(payload, now) {
            return Ok(Next { probe: Some(mss), ..Next::new(fresh, false, form) });
        }
        match self.snd.fresh(payload, self.config.nodelay, self.persist.overrides()) {
            Some(fresh) => Ok(self.fit_fin(Next::new(fresh, false, form))),
            None if self.snd.unsent() > self.snd.usable() => Err(Some(Limit::Rwnd)),
            None if self.snd.has_fresh() && self.snd.usable() == 0 => Err(Some(Limit::Rwnd)),
            None => Err(Some(Limit::App)),
        }
    }

    /// A tail loss probe: new data if any may leave, else the last segment again.
    fn send_loss_probe(&mut self, burst: &mut BurstBuilder<'_>, now: Instant) {
        let mut form = self.next_form(true, now);
        let next = match self.snd.fresh(self.payload_in(form), true, false) {
            Some(fresh) => Next::new(fresh, false, form),
            None if self.snd.is_idle() => return,
            None => {
                // The end of all, with its FIN if there was one.
                form = if self.snd.fin_is_sent() { Form::Full } else { form };
                let payload = self.payload_in(form) as u64;
                let from = self.snd.nxt().saturating_sub(payload).max(self.snd.una());
                Next::new(self.snd.again(from, self.snd.nxt()), true, form)
            }
        };
        self.counters.probes += 1;
        self.push_text(burst, self.fit_fin(next), now);
    }

    /// Text per full segment of a connection at rest, options that are always there taken off.
    pub(crate) fn payload_mss(&self) -> u32 {
        if self.agreed.compact && !matches!(self.mode, Mode::FellBack(_)) {
            return self.payload_in(Form::Compact) as u32;
        }
        let timestamps = if self.agreed.timestamps { 12 } else { 0 };
        let pkt_seq = if self.agreed.tack { 8 } else { 0 };
        u32::from(self.mtu.mss()) - timestamps - pkt_seq
    }

    /// Text that fits the next segment: SACK blocks may take some.
    pub(super) fn payload_in(&self, form: Form) -> usize {
        if form == Form::Compact {
            return HEADER + usize::from(self.mtu.mss()) - COMPACT_LEN;
        }
        let timestamps = if self.agreed.timestamps { 12 } else { 0 };
        let extra = if self.recovery.is_tack() {
            8
        } else if self.agreed.sack && self.acks.sack.is_pending(&self.rcv) {
            4 + 8 * if timestamps > 0 { 3 } else { 4 }
        } else {
            0
        };
        usize::from(self.mtu.mss()) - timestamps - extra
    }

    /// Sends text or FIN. False: the burst is full, and the segment is still to be sent.
    fn push_text(&mut self, burst: &mut BurstBuilder<'_>, next: Next, now: Instant) -> bool {
        let Next { fresh, again, form, probe } = next;
        let range = fresh.seq..fresh.seq + fresh.len as u64 + u64::from(fresh.fin);
        let ecn = self.ecn.codepoint(!again);
        let seq = self.snd.seq_num(fresh.seq);
        let header_len = HEADER + usize::from(self.mtu.mss()) - self.payload_in(form);
        let leaving = self.leaving(&next);
        let marked = leaving.as_ref().is_some_and(|leaving| self.sending.marks(leaving));
        let joins = burst.continues(seq, header_len.saturating_sub(HEADER), fresh.len)
            && burst.has_room(header_len + fresh.len, ecn)
            && !(marked && burst.joins());
        if !burst.is_empty() && !joins {
            return false;
        }
        match probe {
            Some(mss) => {
                self.counters.mtu_probes += 1;
                self.mtu.on_probe_sent(mss, range.clone());
            }
            None if again => self.mtu.on_lost(range.start, now),
            None => {}
        }
        let mut flags = Flags::ACK | self.ecn.flags(!again);
        if fresh.fin {
            flags = flags | Flags::FIN;
        }
        if range.end >= self.snd.buffer.end() && fresh.len > 0 {
            flags = flags | Flags::PSH;
        }
        if let Some(leaving) = &leaving {
            self.sending.on_sent(leaving, marked);
        }
        if marked {
            flags = flags | Flags::POLL;
        }
        if form == Form::Compact {
            self.push_compact(burst, next, flags, ecn, now);
            return true;
        }
        let mut header = self.header(now);
        header.seq = seq;
        header.flags = flags;
        if !self.acks.is_tack() {
            self.add_sack(&mut header.options);
        }
        if let Some(pkt_seq) = self.recovery.on_sent(range, now) {
            header.options.pkt_seq = Some(pkt_seq as u32);
        }
        burst.push(&header, ecn, self.snd.buffer.slices(fresh.seq, fresh.len));
        self.acks.on_owed_sent_on_data(now);
        self.on_text_sent(next, now);
        true
    }

    pub(super) fn on_text_sent(&mut self, next: Next, now: Instant) {
        let Next { fresh, again, form, .. } = next;
        let was_idle = self.snd.is_idle();
        let bytes = fresh.len as u64;
        let counters = &mut self.counters;
        counters.segments_sent += 1;
        counters.data_segments_sent += u64::from(fresh.len > 0);
        counters.compact_segments_sent += u64::from(form == Form::Compact);
        if again {
            counters.retransmissions += 1;
            counters.retransmitted_bytes += bytes;
        } else {
            counters.bytes_sent += bytes;
            self.snd.on_fresh_sent(fresh);
            self.persist.on_fresh_sent();
        }
        if was_idle {
            self.restart_user_timer(now);
        }
        let app_limited = self.snd.unsent() == 0 && !self.snd.buffer.is_limiting();
        let in_flight = self.recovery.in_flight();
        self.congestion.on_sent(bytes + u64::from(fresh.fin), in_flight, app_limited, now);
    }

    fn arm_idle(&mut self, now: Instant) {
        let memory = self.snd.buffer.memory() + self.rcv.buffer.memory();
        if memory > 0 && self.snd.is_idle() && self.timers.get(Timer::Idle).is_none() {
            self.timers.set(Timer::Idle, now + IDLE_RELEASE);
        }
    }
}

/// A segment about to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) fresh: Fresh,
    /// It was sent before.
    pub(super) again: bool,
    pub(super) form: Form,
    /// It tries whether packets of this MSS pass.
    probe: Option<u16>,
}

impl Next {
    fn new(fresh: Fresh, again: bool, form: Form) -> Next {
        Next { fresh, again, form, probe: None }
    }
}
