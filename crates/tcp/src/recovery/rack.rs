//! RACK: a segment is lost when one sent later has arrived and enough time has passed since
//! [RFC 8985 §6].
//!
//! ```text
//! lost when   sent before RACK.segment   and   now >= sent_at + RACK.rtt + reo_wnd
//! reo_wnd  =  0                                     no reordering seen, and in recovery or
//!                                                   three segments selectively acknowledged
//!             min(mult * RTTmin / 4, SRTT)          otherwise; mult grows with DSACKs
//! ```

use core::time::Duration;

use tack_units::Instant;

use crate::recovery::sent::{Delivered, Transmission};

/// Segments selectively acknowledged that stand for a loss when no reordering was ever seen.
const DUP_THRESH: usize = 3;

/// Recoveries without a DSACK after which the window shrinks back [RFC 8985 §6.2 step 4].
const REO_WND_PERSIST: u32 = 16;

/// The most `mult` grows to: the window is bounded by SRTT long before.
const MAX_MULT: u32 = 1 << 10;

/// The state of RACK.
#[derive(Debug)]
pub(super) struct Rack {
    /// Serial number of the newest transmission that arrived; 0 before any.
    xmit: u64,
    /// Its round trip.
    rtt: Duration,
    /// Highest sequence number that arrived.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// The window has grown in this round trip, which ends here.
    dsack_round: Option<u64>,
}

/// What the reordering window depends on beside RACK's own state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) rtt_min: Option<Duration>,
    pub(super) srtt: Option<Duration>,
    pub(super) in_recovery: bool,
    pub(super) sacked_segments: usize,
}

impl Rack {
    pub(super) fn new(first_seq: u64) -> Rack {
        Rack {
            xmit: 0,
            rtt: Duration::ZERO,
            fack: first_seq,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
        }
    }

    /// A segment arrived. `echoes_original`: the timestamp shows that it was not the latest
    /// transmission that did.
    pub(super) fn on_delivered(
        &mut self,
        segment: &Delivered,
        echoes_original: bool,
        rtt_min: Option<Duration>,
        now: Instant,
    ) {
        if segment.was_sacked {
            return;
        }
        let rtt = now - segment.sent_at;
        let ambiguous =
            segment.retransmitted && (echoes_original || rtt_min.is_some_and(|least| rtt < least));
        if !ambiguous && segment.xmit > self.xmit {
            (self.xmit, self.rtt) = (segment.xmit, rtt);
        }
        if segment.end >= self.fack {
            self.fack = segment.end;
        } else if !segment.retransmitted {
            self.reordering_seen = true;
        }
    }

    /// Reordering showed in another way: what was declared lost arrived.
    pub(super) fn on_spurious(&mut self) {
        self.reordering_seen = true;
    }

    /// An acknowledgment came, with or without a DSACK: the window grows at most once per round
    /// trip.
    pub(super) fn on_ack(&mut self, dsack: bool, snd_una: u64, snd_nxt: u64) {
        if self.dsack_round.is_some_and(|end| snd_una >= end) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(snd_nxt);
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(MAX_MULT);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// When the transmission counts as lost; `None` while nothing sent after it has arrived.
    pub(super) fn lost_at(&self, transmission: &Transmission, path: Path) -> Option<Instant> {
        (transmission.xmit < self.xmit)
            .then(|| transmission.sent_at + self.rtt + self.reo_wnd(path))
    }

    /// When the transmission counts as lost at a retransmission timeout [RFC 8985 §6.3].
    pub(super) fn lost_at_timeout(&self, transmission: &Transmission, path: Path) -> Instant {
        transmission.sent_at + self.rtt + self.reo_wnd(path)
    }

    fn reo_wnd(&self, path: Path) -> Duration {
        let eager = path.in_recovery || path.sacked_segments >= DUP_THRESH;
        if !self.reordering_seen && eager {
            return Duration::ZERO;
        }
        let (Some(rtt_min), Some(srtt)) = (path.rtt_min, path.srtt) else {
            return Duration::ZERO;
        };
        (rtt_min / 4).saturating_mul(self.reo_wnd_mult).min(srtt)
    }
}
