//! Which segments go with a short header, and which of them are believed.
//!
//! A short header leaves out SEG.ACK, SEG.WND and TSecr. A segment has a whole one
//!
//! - when SEG.ACK or SEG.WND would say something new: within a burst only the first does, so bulk
//!   data both ways pays for one whole header per burst and tells no less than before;
//! - once in [`REFRESH`] all the same, so that whoever watches, or lost what was said, catches up;
//! - after a timeout, until the peer acknowledges something: one that forgot the connection can
//!   reset it only in answer to a SEG.ACK, and whatever else is amiss, a TCP header helps;
//! - before the peer has shown that TACK arrives, and after falling back from it;
//! - when FIN goes with it.
//!
//! Both kinds of full segments are equally long in all, so that offload takes them in one burst.
//!
//! The missing SEG.ACK is one thing less that an attacker off the path must guess
//! [RFC 5961 §5]: one in 128 at a window of 32 MiB. PKT.SEQ replaces it, see [`PKT_SEQ_REACH`].

use core::time::Duration;

use tack_units::Instant;

use crate::conn::Connection;
use crate::conn::agenda::Owed;
use crate::conn::burst::BurstBuilder;
use crate::conn::send_half::{Next, Sent};
use crate::wire::{CompactHeader, Flags, Form, Segment};

/// Longest time without a whole header while data leaves.
const REFRESH: Duration = Duration::from_millis(100);

/// Distance from the highest PKT.SEQ seen at which a short header is believed. More are never in
/// flight at once: full segments of that many are 1.5 GB. One guess in 2048 is within it.
const PKT_SEQ_REACH: u64 = 1 << 20;

/// When a whole header last left.
#[derive(Debug, Default)]
pub(crate) struct Refresh(Option<Instant>);

impl Refresh {
    pub(crate) fn on_full(&mut self, now: Instant) {
        self.0 = Some(now);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.0.is_none_or(|at| now.saturating_since(at) >= REFRESH)
    }
}

impl Connection {
    /// What is in front of the next text. What is sent again is as long as it was, hence only what
    /// is new refreshes.
    pub(super) fn next_form(&self, again: bool, now: Instant) -> Form {
        let possible = self.send.agreed().compact
            && self.send.is_tack()
            && !self.agenda.owes(Owed::Ack)
            && self.liveness.confirmed_tack
            && !self.liveness.is_in_doubt();
        let silent = again || !self.rcv.has_news() && !self.refresh.is_due(now);
        if possible && silent { Form::Compact } else { Form::Full }
    }

    /// Sends text with a short header; the burst has room.
    pub(super) fn push_compact(
        &self,
        burst: &mut BurstBuilder<'_>,
        next: &Next,
        sent: Sent,
        now: Instant,
    ) {
        let header = CompactHeader {
            src_port: self.ports.local,
            dst_port: self.ports.remote,
            seq: next.seq,
            pkt_seq: sent.pkt_seq.expect("only under TACK"),
            flags: Flags::ACK | self.ecn.flags() | sent.flags,
            ts_val: self.clock.val(now),
        };
        burst.push_compact(&header, next.ecn, self.send.text(next.span));
    }

    /// A short header was agreed on and may be the peer's.
    ///
    /// After falling back, the peer may not know yet: what is on its way counts.
    pub(super) fn understands(&self, seg: &Segment<'_>) -> bool {
        if !self.send.agreed().compact || !self.state.get().is_synchronized() {
            return false;
        }
        seg.header.options.pkt_seq.is_none_or(|wire| self.acks.is_near(wire, PKT_SEQ_REACH))
    }
}
