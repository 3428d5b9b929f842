//! How a connection ends [RFC 9000 §10].

use core::time::Duration;

use tack_units::Instant;

use super::datagrams::Datagrams;
use super::space::SpaceId;
use super::{Connection, Event, State};
use crate::error::{ConnectionError, Violation, code};
use crate::wire::{Close, Frame, MAX_VARINT, Reader};

/// A CONNECTION_CLOSE goes again for the 1st, 2nd, 4th, ... packet that comes after it.
#[derive(Debug)]
pub(super) struct Closing {
    /// What is told; `None`: the peer knows already.
    notice: Option<Notice>,
    owed: bool,
    /// Packets since it was told.
    heard: u64,
    pub(super) until: Instant,
}

#[derive(Clone, Debug)]
struct Notice {
    code: u64,
    /// The application's code.
    by_application: bool,
    reason: Vec<u8>,
}

/// Type, code, a frame's type and the length of the reason, at most.
const CLOSE_HEADER: usize = 1 + 8 + 8 + 2;
/// A reason in words is no longer, bytes.
const MAX_REASON: usize = 256;
/// A peer that does not read holds a connection that was [left](Connection::leave) no longer.
pub const MOST_LEAVING: Duration = Duration::from_secs(60);

impl Connection {
    /// Ends the connection, and tells the peer with the application's `code` (2^62 - 1 at most) and
    /// `reason` (256 bytes of it). What was not acknowledged may be lost.
    pub fn close(&mut self, code: u64, reason: &[u8], now: Instant) {
        if self.is_ending() {
            return;
        }
        let reason = reason[..reason.len().min(MAX_REASON)].to_vec();
        let code = code.min(MAX_VARINT);
        self.end(Some(Notice { code, by_application: true, reason }), ConnectionError::Closed, now);
    }

    /// Nobody here uses the connection any more: it is closed with code 0 as soon as what was written has
    /// arrived, and after a minute whatever has.
    pub fn leave(&mut self, now: Instant) {
        let patience = if self.is_established() { MOST_LEAVING } else { Duration::ZERO };
        self.leaving.get_or_insert(now + patience);
        self.close_if_left(now);
    }

    /// See [`Self::leave`].
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Closes a connection that was left, if it is time.
    pub(super) fn close_if_left(&mut self, now: Instant) {
        if self.leaving.is_some_and(|until| until <= now || self.streams.is_delivered()) {
            self.close(0, &[], now);
        }
    }

    /// The peer broke the protocol.
    pub(super) fn fail(&mut self, violation: Violation, now: Instant) {
        if self.is_ending() {
            return;
        }
        let Violation { code, reason } = violation;
        let notice = Notice { code, by_application: false, reason: reason.as_bytes().to_vec() };
        self.end(Some(notice), ConnectionError::Violation { code, reason }, now);
    }

    /// There is nobody who would accept the connection.
    pub(crate) fn refuse(&mut self, now: Instant) {
        self.fail(Violation::new(code::CONNECTION_REFUSED, "nobody accepts connections"), now);
    }

    /// CONNECTION_CLOSE came.
    pub(super) fn on_close(&mut self, close: &Close<'_>, now: Instant) {
        let (code, reason) =
            (close.code, close.reason[..close.reason.len().min(MAX_REASON)].to_vec());
        let error = match close.frame_type {
            None => ConnectionError::ClosedByApplication { code, reason },
            Some(_) => ConnectionError::ClosedByPeer { code, reason },
        };
        self.end(None, error, now);
    }

    fn end(&mut self, notice: Option<Notice>, error: ConnectionError, now: Instant) {
        let until = now + self.three_pto();
        let owed = notice.is_some();
        self.state = State::Ending(Closing { notice, owed, heard: 0, until });
        self.ended = Some(error.clone());
        self.events.push_back(Event::Closed(error));
        self.held.clear();
        self.datagrams_out = Datagrams::default();
    }

    /// It is over at once, and nothing is said.
    pub(super) fn enter_over(&mut self, error: ConnectionError) {
        if !self.is_ending() {
            self.ended = Some(error.clone());
            self.events.push_back(Event::Closed(error));
        }
        self.state = State::Over;
    }

    /// A packet came though the connection has ended.
    pub(super) fn on_packet_at_end(
        &mut self,
        frames: &[u8],
        _now: Instant,
    ) -> Result<(), Violation> {
        let State::Ending(closing) = &mut self.state else { return Ok(()) };
        let mut reader = Reader::new(frames);
        while let Ok(frame) = Frame::parse(&mut reader) {
            if matches!(frame, Frame::Close(_)) {
                // Both know: draining.
                (closing.notice, closing.owed) = (None, false);
                return Ok(());
            }
        }
        closing.heard += 1;
        // What has not left yet stays owed: packets may come in one batch with that which ended it.
        closing.owed |= closing.notice.is_some() && closing.heard.is_power_of_two();
        Ok(())
    }

    /// Bytes that the CONNECTION_CLOSE takes which is owed, at most: it is short, and may leave where full
    /// datagrams may not.
    pub(super) fn notice_len(&self) -> Option<u64> {
        let State::Ending(Closing { notice: Some(notice), owed: true, .. }) = &self.state else {
            return None;
        };
        let [initial, handshake, data] = SpaceId::ALL.map(|space| self.overhead(space));
        let packets = [
            (self.initial_keys.is_some(), initial),
            (self.handshake_keys.is_some(), handshake),
            (self.one_rtt.is_some(), data),
        ];
        let frame = CLOSE_HEADER + notice.reason.len();
        let of_each = packets.into_iter().filter(|(has_keys, _)| *has_keys);
        Some(of_each.map(|(_, overhead)| (overhead + frame) as u64).sum())
    }

    /// The CONNECTION_CLOSE that is owed, for packets of the handshake and for others.
    pub(super) fn take_notice(&mut self) -> Option<[Vec<u8>; 2]> {
        let State::Ending(closing) = &mut self.state else { return None };
        if !core::mem::take(&mut closing.owed) {
            return None;
        }
        let Notice { code, by_application, reason } = closing.notice.clone()?;
        let frame = |code, frame_type, reason: &[u8]| {
            let mut bytes = Vec::new();
            Frame::Close(Close { code, frame_type, reason }).emit(&mut bytes);
            bytes
        };
        // In the handshake nothing of the application is shown [RFC 9000 §10.2.3].
        Some(match by_application {
            true => [frame(code::APPLICATION_ERROR, Some(0), &[]), frame(code, None, &reason)],
            false => [frame(code, Some(0), &reason), frame(code, Some(0), &reason)],
        })
    }
}
