//! What the acknowledgment strategy changes at the sender of data: poll marks, and what the
//! acknowledgment fixes hold back. See [`crate::ack`].

use tack_units::Instant;

use crate::ack::{AckSeen, Last, Leaving};
use crate::conn::Connection;
use crate::conn::arrives::Arriving;
use crate::conn::timers::Timer;
use crate::conn::transmit::Next;

impl Connection {
    /// Room in the congestion window for a segment, in bytes. `None`: not now, what was sent before
    /// (`again`) waits too. A wait ends by the pacing timer.
    pub(super) fn room(&mut self, again: bool, now: Instant) -> Option<u64> {
        let room = self.congestion.window().saturating_sub(self.recovery.in_flight());
        let Some((held, until)) = self.sending.held(now) else { return Some(room) };
        self.timers.set(Timer::Pacing, until);
        (!again).then(|| room.saturating_sub(held))
    }

    /// `next` as the choice of marks sees it; `None` where nobody agreed to marks.
    pub(super) fn leaving(&self, next: &Next) -> Option<Leaving> {
        if !self.agreed.polls {
            return None;
        }
        let fresh = next.fresh;
        let (len, mss) = (fresh.len as u64, u64::from(self.payload_mss()));
        let cwnd = self.congestion.window();
        let new = if next.again { 0 } else { len };
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
            end: fresh.seq + len + u64::from(fresh.fin),
            len,
            una: self.snd.una(),
            mss,
            window: cwnd.min(self.snd.wnd()),
            last,
        })
    }

    /// An acknowledgment was applied; before it the sender was `in_recovery`.
    pub(super) fn note_ack(
        &mut self,
        a: &Arriving<'_>,
        advanced: bool,
        in_recovery: bool,
        now: Instant,
    ) {
        let blocks = a.seg.header.options.sack;
        let has_sack = self.agreed.sack
            && blocks.as_slice().iter().any(|&(_, end)| self.snd.ack_offset(end) > a.ack);
        let room = self.congestion.window().saturating_sub(self.recovery.in_flight());
        self.sending.on_ack(&AckSeen { advanced, has_sack, in_recovery, room }, now);
    }
}
