//! What of the stream leaves next, and when: what is lost first, then what is new, while the
//! windows, the pacer and the strategy's rule allow.

use core::time::Duration;

use tack_units::Instant;

use crate::conn::send_half::SendHalf;
use crate::conn::send_half::size::HEADER;
use crate::conn::snd::Span;
use crate::seq::SeqNum;
use crate::wire::ip::Ecn;
use crate::wire::{Flags, Form};
use tack_strategies::{Last, Leaving};
use tack_transport::Limit;

/// What the rest of the connection would have in front of the next text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// Header of text that goes again.
    pub(crate) again: Form,
    /// Header of new text.
    pub(crate) fresh: Form,
    /// Bytes of SACK blocks in a whole header.
    pub(crate) sack_len: usize,
}

/// A segment as it would leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) span: Span,
    /// SEG.SEQ
    pub(crate) seq: SeqNum,
    /// It was sent before.
    pub(crate) again: bool,
    pub(crate) form: Form,
    /// Bytes of its TCP header.
    pub(crate) header_len: usize,
    pub(crate) ecn: Ecn,
    /// It asks for an acknowledgment.
    pub(crate) marked: bool,
    /// As the choice of marks saw it; `None` where nobody agreed to marks.
    leaving: Option<Leaving>,
    /// It tries whether packets of this MSS pass.
    probe: Option<u16>,
}

impl Next {
    /// It tries a larger packet size.
    pub(crate) fn is_size_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// Bytes by which its header is longer than one without options.
    pub(crate) fn options_len(&self) -> usize {
        self.header_len.saturating_sub(HEADER)
    }
}

/// Whether a segment may leave now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// `Err`: what holds it.
    pub(crate) leaves: Result<(), Limit>,
    /// More may leave at this time; `None`: that depends on the peer alone.
    pub(crate) wake: Option<Instant>,
}

/// What the header of a segment that leaves must say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// FIN, PSH, CWR and the poll mark.
    pub(crate) flags: Flags,
    pub(crate) pkt_seq: Option<u32>,
}

impl SendHalf {
    /// The next segment with text or FIN, or what there is to wait for.
    pub(crate) fn next_segment(
        &self,
        front: &Front,
        nodelay: bool,
        now: Instant,
    ) -> Result<Next, Limit> {
        let Some(lost) = self.recovery.next_lost(now) else {
            return self.next_fresh(front, nodelay, now);
        };
        let payload = self.payload_in(front.again, front.sack_len);
        let end = lost.end.min(lost.start + payload as u64);
        // FIN rides on a full segment: it takes no room.
        let end = if lost.end == end + 1 { lost.end } else { end };
        Ok(self.ready(self.snd.again(lost.start, end), true, front.again, front))
    }

    fn next_fresh(&self, front: &Front, nodelay: bool, now: Instant) -> Result<Next, Limit> {
        let payload = self.payload_in(front.fresh, front.sack_len);
        if let Some((span, mss)) = self.size_probe(payload, now) {
            let next = self.ready(span, false, front.fresh, front);
            return Ok(Next { probe: Some(mss), ..next });
        }
        match self.snd.fresh(payload, nodelay, self.persist.overrides()) {
            Some(span) => Ok(self.ready(span, false, front.fresh, front)),
            None if self.snd.unsent() > self.snd.usable() => Err(Limit::Rwnd),
            None if self.snd.has_fresh() && self.snd.usable() == 0 => Err(Limit::Rwnd),
            None => Err(Limit::App),
        }
    }

    /// Everything sent is acknowledged, and nothing waits.
    pub(crate) fn has_nothing(&self) -> bool {
        self.snd.is_idle() && !self.snd.has_fresh()
    }

    /// It was asked for the next segment while it [has none](Self::has_nothing).
    pub(crate) fn on_nothing(&mut self, now: Instant) {
        self.congestion.note_limit(None, self.recovery.in_flight(), now);
    }

    /// A tail loss probe: new data if any may leave, else the last segment again. `None`: nothing
    /// is outstanding.
    ///
    /// Deviation: where TACKs are lost, the last segment goes again. A TACK receiver holds the answer to a
    /// lone new segment back, and repeats the answer to one that it has.
    pub(crate) fn loss_probe(&self, front: &Front) -> Option<Next> {
        let form = front.again;
        let fresh = self.snd.fresh(self.payload_in(form, front.sack_len), true, false);
        if let Some(span) = fresh.filter(|_| !self.recovery.loses_acks()) {
            return Some(self.ready(span, false, form, front));
        }
        if self.snd.is_idle() {
            return None;
        }
        // The end of all, with its FIN if there was one.
        let form = if self.snd.fin_is_sent() { Form::Full } else { form };
        let payload = self.payload_in(form, front.sack_len) as u64;
        let from = self.snd.nxt().saturating_sub(payload).max(self.snd.una());
        Some(self.ready(self.snd.again(from, self.snd.nxt()), true, form, front))
    }

    /// FIN needs a whole header, and follows alone where its text leaves no room for one.
    #[inline]
    fn ready(&self, mut span: Span, again: bool, mut form: Form, front: &Front) -> Next {
        if span.fin && form == Form::Compact {
            if span.len <= self.payload_in(Form::Full, front.sack_len) {
                form = Form::Full;
            } else {
                span.fin = false;
            }
        }
        let leaving = self.leaving(span, again);
        Next {
            span,
            seq: self.snd.seq_num(span.seq),
            again,
            form,
            header_len: self.header_len(form, front.sack_len),
            ecn: self.ecn.codepoint(!again),
            marked: leaving.as_ref().is_some_and(|leaving| self.rule.marks(leaving)),
            leaving,
            probe: None,
        }
    }

    fn leaving(&self, span: Span, again: bool) -> Option<Leaving> {
        if !self.agreed.polls {
            return None;
        }
        let (len, mss) = (span.len as u64, u64::from(self.payload_mss()));
        let cwnd = self.congestion.window();
        let new = if again { 0 } else { len };
        let room = cwnd.saturating_sub(self.recovery.in_flight() + len);
        let usable = self.snd.usable().saturating_sub(new);
        let last = if self.snd.unsent() == new {
            Last::OfData
        } else if room < mss || usable < mss {
            Last::OfWindow
        } else {
            Last::No
        };
        Some(Leaving {
            end: span.seq + len + u64::from(span.fin),
            len,
            una: self.snd.una(),
            mss,
            window: cwnd.min(self.snd.wnd()),
            last,
        })
    }

    /// Whether window, rule and pacer let `next` leave. `budget`: bytes that the pacer still grants
    /// to this burst; `None`: it was not asked yet.
    pub(crate) fn admit(
        &mut self,
        next: &Next,
        budget: &mut Option<u64>,
        now: Instant,
    ) -> Admission {
        let len = next.span.len as u64;
        let in_flight = self.recovery.in_flight();
        let mut room = self.congestion.window().saturating_sub(in_flight);
        let mut wake = None;
        if let Some((held, until)) = self.rule.held(now) {
            wake = Some(until);
            if next.again {
                return Admission { leaves: Err(Limit::Cwnd), wake };
            }
            room = room.saturating_sub(held);
        }
        if room < len && in_flight > 0 {
            return Admission { leaves: Err(Limit::Cwnd), wake };
        }
        if budget.is_none() {
            let waiting = room.min(self.waiting(next)).max(len);
            // The first segment of a burst may be more than the burst: a probe for longer ones is.
            *budget = self.congestion.budget(waiting, now).map(|budget| budget.max(len));
        }
        match budget {
            Some(left) if *left >= len => {
                *left = left.saturating_sub(len);
                Admission { leaves: Ok(()), wake }
            }
            _ => {
                let wake = Some(self.congestion.next_departure(now));
                Admission { leaves: Err(Limit::Pacing), wake }
            }
        }
    }

    /// Bytes that wait to leave, `next` included: at least; only its order of size matters.
    fn waiting(&self, next: &Next) -> u64 {
        if next.again {
            u64::from(self.payload_mss())
        } else {
            self.snd.unsent().min(self.snd.usable())
        }
    }

    /// `next` leaves.
    pub(crate) fn on_sent(&mut self, next: &Next, now: Instant) -> Sent {
        let Next { span, again, .. } = *next;
        let len = span.len as u64 + u64::from(span.fin);
        let range = span.seq..span.seq + len;
        match next.probe {
            Some(mss) => self.mtu.on_probe_sent(mss, range.clone()),
            None if again => self.mtu.on_lost(range.start, now),
            None => {}
        }
        let mut flags = self.ecn.flags(!again);
        if span.fin {
            flags = flags | Flags::FIN;
        }
        // To a receiver of TACK what has more behind it is full-sized, so that whatever is short must say so.
        let is_short = self.is_tack() && span.len < self.payload_in(next.form, 0);
        if span.len > 0 && (range.end >= self.snd.buffer.end() || is_short) {
            flags = flags | Flags::PSH;
        }
        if next.marked {
            flags = flags | Flags::POLL;
        }
        if let Some(leaving) = &next.leaving {
            self.rule.on_sent(leaving, next.marked);
        }
        let pkt_seq = self.recovery.on_sent(range, span.fin, now).map(|pkt_seq| pkt_seq as u32);
        if !again {
            self.snd.on_fresh_sent(span);
            self.persist.on_fresh_sent();
        }
        let app_limited = self.snd.unsent() == 0 && !self.snd.buffer.is_limiting();
        self.congestion.on_sent(len, self.recovery.in_flight(), app_limited, now);
        Sent { flags, pkt_seq }
    }

    /// The text of a segment.
    pub(crate) fn text(&self, span: Span) -> (&[u8], &[u8]) {
        self.snd.buffer.slices(span.seq, span.len)
    }

    /// Nothing more leaves for now, because of `limit`. Returns how long to wait for the peer to
    /// open its window before it must be asked, if that is what there is to wait for.
    pub(crate) fn on_stopped(&mut self, limit: Limit, now: Instant) -> Option<Duration> {
        let limit = Some(limit).filter(|_| !self.snd.is_idle() || self.snd.has_fresh());
        // A full buffer is no pause of the application: a rate measured then is the best that this
        // host can do, and Startup must end with it.
        if limit == Some(Limit::App) && !self.snd.buffer.is_limiting() {
            self.recovery.on_app_limited();
        }
        self.congestion.note_limit(limit, self.recovery.in_flight(), now);
        let shut = limit == Some(Limit::Rwnd) && self.recovery.in_flight() == 0;
        shut.then(|| self.persist.interval(self.recovery.rto()))
    }

    /// A probe of the closed window leaves.
    pub(crate) fn on_window_probe(&mut self) {
        self.persist.on_sent();
    }

    /// SEG.SEQ and PKT.SEQ of an empty segment that must be answered: one before SND.UNA, and the
    /// number of the latest transmission, which says nothing new, but is there.
    pub(crate) fn probe_numbers(&self) -> (SeqNum, Option<u32>) {
        let latest = self.recovery.latest_pkt_seq();
        (self.snd.seq_num(self.snd.una() - 1), latest.map(|latest| latest as u32))
    }

    /// SEG.SEQ of a body of `len` bytes: text the peer acknowledged, see
    /// [`negotiate`](crate::conn::negotiate).
    pub(crate) fn body_num(&self, len: usize) -> SeqNum {
        self.snd.seq_num(self.snd.una().wrapping_sub(len as u64))
    }
}
