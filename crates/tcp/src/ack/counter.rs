//! Full-sized segments counted, and a bound on the delay of the first: what most strategies are
//! made of.

use core::time::Duration;

use tack_units::Instant;

use super::Arrival;

/// The peer's full-sized segment is never taken to be smaller, or a peer that types would be
/// acknowledged byte by byte. The default MSS [RFC 9293 §3.7.1].
const LEAST_FULL_SIZE: u32 = 536;

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
}

impl Counter {
    /// Nothing to acknowledge yet. `mss` in bytes, as announced to the peer.
    pub(crate) fn new(mss: u32) -> Counter {
        let mss = mss.max(1);
        Counter { mss, full_size: LEAST_FULL_SIZE.min(mss), unacked_bytes: 0, due_at: None }
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
        let full = arrival.immediate || self.unacked_bytes >= limit;
        let by = if full { now } else { now + max_delay };
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

    /// When one will be due; `None` when nothing waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due_at
    }
}
