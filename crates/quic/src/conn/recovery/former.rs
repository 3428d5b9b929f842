//! What went by a path that was left says nothing of the one that is there now: no round trip, no rate, and
//! neither its arrival nor its loss is congestion control's business [RFC 9000 §9.4]. What it carried is.

use tack_units::Instant;

use super::{Became, Recovery};
use crate::conn::space::SpaceId;
use crate::wire::Report;

/// Where one path ended: the packets below a number, and the moment before the first of the next path's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Former {
    below: u64,
    until: Option<Instant>,
}

impl Former {
    /// A packet went by a path that was left. Those of the handshake tell congestion control nothing anyway.
    pub(super) fn has(self, space: SpaceId, number: u64) -> bool {
        space == SpaceId::Data && number < self.below
    }
}

impl Recovery {
    /// 1-RTT packets go elsewhere from now on. Whether that is another path is found out yet.
    pub(crate) fn on_move(&mut self, now: Instant) {
        let (below, _) = self.next_number(SpaceId::Data);
        self.moved = Former { below, until: Some(now) };
    }

    /// It is.
    pub(super) fn leave_former_path(&mut self) {
        let before = core::mem::replace(&mut self.former, self.moved);
        self.logs[SpaceId::Data as usize].leave_path(before.below..self.former.below);
    }

    /// Bytes in flight on the path that was left.
    pub(super) fn former_in_flight(&self) -> u64 {
        self.logs[SpaceId::Data as usize].former
    }

    /// Bytes of such packets of which it is about to be told that they have arrived, and that they are lost.
    pub(crate) fn of_former_path(&self) -> [u64; 2] {
        let mut bytes = [0; 2];
        for fate in &self.fates {
            let is_former = |number| self.former.has(fate.space, number);
            match fate.became {
                Became::Arrived(number) if is_former(number) => {
                    bytes[0] += u64::from(fate.bytes);
                }
                Became::Lost(number, _) if is_former(number) => {
                    bytes[1] += u64::from(fate.bytes);
                }
                _ => {}
            }
        }
        bytes
    }

    /// What a TACK times and measures is of a path that was left.
    pub(super) fn is_of_former_path(&self, report: &Report, now: Instant) -> bool {
        let departed = report.timing.zip(self.former.until);
        departed.is_some_and(|(timing, until)| {
            // Both on our own clock, modulo 2^32 microseconds.
            let ago_us = (now.as_micros() as u32).wrapping_sub(timing.departure_us);
            u128::from(ago_us) > (now - until).as_micros()
        })
    }
}
