//! Full-sized segments counted, and a bound on the delay of the first: what most strategies are
//! made of.

use core::time::Duration;

use tack_units::Instant;

use super::Arrival;

/// The peer's full-sized segment is never taken to be smaller, or a peer that types would be
/// acknowledged byte by byte. The default MSS [RFC 9293 §3.7.1].
const LEAST_FULL_SIZE: u32 = 536;

/// Why an acknowledgment is due when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something must be answered at once.
    Asked,
    /// As much as the rule lets wait has come.
    Count,
    /// The first of what waits has waited as long as the rule lets it.
    Delay,
}

/// What waits for an acknowledgment.
#[derive(Debug)]
pub(crate) struct Counter {
    /// MSS we announced: no segment is larger, though an arrival may be that somebody merged
    /// without telling.
    mss: u32,
    /// The largest segment seen so far. The peer's options make its full size less than our MSS,
    /// and counting with the MSS would acknowledge every third segment instead of every second.
    full_size: u32,
    /// Bytes that no acknowledgment covers yet.
    unacked_bytes: u64,
    /// When an acknowledgment is due; `None` when nothing waits.
    due_at: Option<Instant>,
    cause: Cause,
}

impl Counter {
    /// Nothing to acknowledge yet. `mss` in bytes, as announced to the peer.
    pub(crate) fn new(mss: u32) -> Counter {
        let mss = mss.max(1);
        let (full_size, cause) = (LEAST_FULL_SIZE.min(mss), Cause::Delay);
        Counter { mss, full_size, unacked_bytes: 0, due_at: None, cause }
    }

    /// `arrival` came: an acknowledgment is due when as many full-sized segments wait as `rule`
    /// says, or as late after this arrival as it says, unless one is due before. `rule` hears
    /// how many full-sized segments the arrival makes, begun ones included.
    pub(crate) fn on_data(
        &mut self,
        arrival: &Arrival,
        rule: impl FnOnce(u32) -> (u32, Duration),
        now: Instant,
    ) {
        if arrival.bytes == 0 && !arrival.immediate {
            return;
        }
        self.full_size = self.full_size.max(arrival.segment.min(self.mss));
        self.unacked_bytes += u64::from(arrival.bytes);
        let (segments, max_delay) = rule(arrival.bytes.div_ceil(self.full_size));
        let limit = u64::from(segments) * u64::from(self.full_size);
        let cause = match self.unacked_bytes >= limit {
            _ if arrival.immediate => Cause::Asked,
            true => Cause::Count,
            false => Cause::Delay,
        };
        let by = if cause == Cause::Delay { now + max_delay } else { now };
        if cause != Cause::Delay || self.due_at.is_none() {
            self.cause = cause;
        }
        self.due_at = Some(self.due_at.map_or(by, |due| due.min(by)));
    }

    /// Text of a full-sized segment, as far as is known.
    pub(crate) fn full_size(&self) -> u32 {
        self.full_size
    }

    /// An acknowledgment left, alone or on data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.unacked_bytes = 0;
        self.due_at = None;
    }

    /// Why one is due at [`Self::deadline`]; means nothing while nothing waits.
    pub(crate) fn cause(&self) -> Cause {
        self.cause
    }

    /// When one will be due; `None` when nothing waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due_at
    }
}
