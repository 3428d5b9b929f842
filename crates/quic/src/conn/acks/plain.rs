//! Acknowledgments for a peer without TACK [RFC 9000 §13.2], at the frequency that it asks for
//! [draft-ietf-quic-ack-frequency].

use core::time::Duration;

use tack_units::Instant;

use super::Packet;
use crate::ack_frequency::{self, Request};
use crate::seen::AckReason;

/// Without ACK_FREQUENCY: every second packet, and what is missing or late is told at once.
const USUAL: Request = Request {
    ack_eliciting_threshold: 1,
    max_ack_delay: Duration::from_millis(25),
    reordering_threshold: 1,
};

/// See the [module's text](self).
#[derive(Debug)]
pub(super) struct Plain {
    request: Request,
    /// Of the newest ACK_FREQUENCY.
    sequence: Option<u64>,
    /// Packets that ask for an acknowledgment, since the last.
    waiting: u64,
    due: Option<Instant>,
    /// Why it is due then.
    reason: AckReason,
    /// The largest number that was told.
    told: Option<u64>,
}

impl Plain {
    pub(super) fn new(max_ack_delay: Duration) -> Plain {
        let request = Request { max_ack_delay, ..USUAL };
        let reason = AckReason::Delay;
        Plain { request, sequence: None, waiting: 0, due: None, reason, told: None }
    }

    /// `expected`: one past the largest number before; `missing`: there is a gap below it.
    pub(super) fn on_packet(
        &mut self,
        packet: &Packet,
        expected: u64,
        missing: bool,
        ce: bool,
        now: Instant,
    ) {
        self.waiting += 1;
        let is_late = packet.number < expected;
        // A gap that this packet made, or one below it that it does not fill.
        let is_ahead = packet.number > expected;
        let threshold = self.request.reordering_threshold;
        let out_of_order = match threshold {
            0 => false,
            1 => is_late || is_ahead,
            _ => missing && (is_late || packet.number >= self.next_report(threshold)),
        };
        let at_once = [
            (packet.immediate, AckReason::Immediate),
            (ce, AckReason::CongestionExperienced),
            (out_of_order, AckReason::Reordering),
            (self.waiting > self.request.ack_eliciting_threshold, AckReason::Count),
        ];
        if let Some((_, reason)) = at_once.into_iter().find(|(is, _)| *is) {
            (self.due, self.reason) = (Some(now), reason);
        } else if self.due.is_none() {
            (self.due, self.reason) = (Some(now + self.request.max_ack_delay), AckReason::Delay);
        }
    }

    /// Packets have arrived so far above a gap from this number on that the gap is to be told.
    fn next_report(&self, threshold: u64) -> u64 {
        self.told.map_or(threshold, |told| told + threshold)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Why it is due when it is.
    pub(super) fn reason(&self) -> AckReason {
        self.reason
    }

    /// Everything up to number `largest` was told.
    pub(super) fn on_told(&mut self, largest: u64) {
        self.told = Some(largest);
        self.waiting = 0;
        self.due = None;
    }

    pub(super) fn on_frequency(&mut self, frame: &ack_frequency::Frame) {
        if self.sequence.is_none_or(|newest| frame.sequence > newest) {
            self.sequence = Some(frame.sequence);
            self.request = frame.request;
        }
    }
}
