//! The receiving part of a stream [RFC 9000 §3.2].

use tack_transport::RecvBuffer;
use tack_units::Instant;

use super::limits::{Offer, With};
use crate::error::{UseError, Violation, code};

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct RecvStream {
    buffer: RecvBuffer,
    /// What was read, or given up, and told to the peer.
    offer: Offer,
    /// One past the highest byte that is known to exist.
    highest: u64,
    final_size: Option<u64>,
    /// The peer gave it up.
    reset: Option<u64>,
    /// We want no more of it.
    stopped: Option<u64>,
    /// The application knows that it can read.
    pub(crate) told_readable: bool,
    /// The application knows the end, or that there is none.
    ended: bool,
}

impl RecvStream {
    pub(crate) fn new(window: u64, max_window: u64, now: Instant) -> RecvStream {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        RecvStream {
            buffer: RecvBuffer::new(0, size(window), size(max_window), now),
            offer: Offer::new(window),
            highest: 0,
            final_size: None,
            reset: None,
            stopped: None,
            told_readable: false,
            ended: false,
        }
    }

    /// Bytes in order that were not read.
    pub(crate) fn readable(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        self.buffer.memory() as u64
    }

    /// How far `end` is beyond what is known to exist; `fin`: the stream ends there.
    fn extend(&mut self, end: u64, fin: bool) -> Result<u64, Violation> {
        let changes = match self.final_size {
            Some(size) => end > size || fin && end != size,
            None => fin && end < self.highest,
        };
        if changes {
            return Err(Violation::new(code::FINAL_SIZE_ERROR, "a stream has two lengths"));
        }
        if end > self.offer.told() {
            return Err(Violation::new(code::FLOW_CONTROL_ERROR, "a stream exceeds its limit"));
        }
        if fin {
            self.final_size = Some(end);
        }
        let more = end.saturating_sub(self.highest);
        self.highest = self.highest.max(end);
        Ok(more)
    }

    /// STREAM came. Returns bytes that count for the connection's limit.
    pub(crate) fn on_data(
        &mut self,
        offset: u64,
        data: &[u8],
        fin: bool,
    ) -> Result<u64, Violation> {
        let more = self.extend(offset + data.len() as u64, fin)?;
        if self.reset.is_some() || self.stopped.is_some() {
            return Ok(more);
        }
        let inserted = self.buffer.insert(offset, data, fin);
        if inserted.refused {
            return Err(Violation::new(code::INTERNAL_ERROR, "a stream comes in too many pieces"));
        }
        Ok(more)
    }

    /// RESET_STREAM came. Returns bytes that count for the connection's limit.
    pub(crate) fn on_reset(&mut self, reset: u64, final_size: u64) -> Result<u64, Violation> {
        let more = self.extend(final_size, true)?;
        if !self.buffer.is_complete() {
            self.reset.get_or_insert(reset);
            self.buffer.release();
        }
        Ok(more)
    }

    /// We want no more of it; true if the peer must be told.
    pub(crate) fn stop(&mut self, reason: u64) -> bool {
        let news = self.stopped.is_none() && self.reset.is_none() && !self.buffer.is_complete();
        self.stopped.get_or_insert(reason);
        self.ended = true;
        news
    }

    pub(crate) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    /// Copies what can be read into `out`; `None` at the end.
    ///
    /// # Errors
    /// The peer reset it, or this side stopped it.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, UseError> {
        if self.stopped.is_some() {
            return Err(UseError::Finished);
        }
        if let Some(code) = self.reset {
            self.ended = true;
            return Err(UseError::Reset(code));
        }
        let (a, b) = self.buffer.readable();
        let first = a.len().min(out.len());
        let second = b.len().min(out.len() - first);
        out[..first].copy_from_slice(&a[..first]);
        out[first..first + second].copy_from_slice(&b[..second]);
        let taken = self.buffer.consume(first + second);
        self.offer.on_consumed(taken as u64);
        if taken == 0 && self.buffer.at_end() {
            self.ended = true;
            return Ok(None);
        }
        if self.buffer.is_empty() {
            self.told_readable = false;
        }
        Ok(Some(taken))
    }

    /// There is something to read, or the end.
    pub(crate) fn is_readable(&self) -> bool {
        self.stopped.is_none()
            && !self.ended
            && (self.reset.is_some() || !self.buffer.is_empty() || self.buffer.at_end())
    }

    /// Some of it will never be read, or nothing is left to be read.
    pub(crate) fn is_left(&self) -> bool {
        self.ended || self.stopped.is_some() || self.reset.is_some()
    }

    /// Bytes that will never be read, of those that count for the connection's limit; told once.
    pub(crate) fn take_unread(&mut self) -> u64 {
        if self.reset.is_none() && self.stopped.is_none() {
            return 0;
        }
        let unread = self.highest - self.offer.consumed();
        self.offer.on_consumed(unread);
        unread
    }

    /// The application is done with it, and nothing of it can come that matters.
    pub(crate) fn is_done(&self) -> bool {
        self.ended && (self.final_size.is_some())
    }

    /// See [`Offer::limit_to_tell`].
    pub(crate) fn limit_to_tell(&self, with: With) -> Option<u64> {
        if self.final_size.is_some() || self.stopped.is_some() {
            return None;
        }
        self.offer.limit_to_tell(&self.buffer.offered, with)
    }

    /// See [`Offer::tell`].
    pub(crate) fn tell_limit(&mut self) -> u64 {
        self.offer.tell(&self.buffer.offered)
    }

    /// See [`RecvWindow::allow_for_tacks`](tack_transport::RecvWindow::allow_for_tacks).
    pub(crate) fn allow_for_tacks(&mut self, beta: u32) {
        self.buffer.offered.allow_for_tacks(beta);
    }

    /// See [`RecvBuffer::tune`].
    pub(crate) fn tune(&mut self, rtt: Option<core::time::Duration>, now: Instant) -> bool {
        self.buffer.tune(rtt, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> RecvStream {
        RecvStream::new(1_000, 4_000, Instant::ZERO)
    }

    #[test]
    fn pieces_in_any_order_are_read_in_order_up_to_the_end() {
        let mut stream = stream();
        assert_eq!(stream.on_data(3, b"lo", true), Ok(5));
        assert!(!stream.is_readable());
        assert_eq!(stream.on_data(0, b"hello", false), Ok(0));
        let mut out = [0; 3];
        assert_eq!(stream.read(&mut out), Ok(Some(3)));
        assert_eq!(&out, b"hel");
        assert_eq!(stream.read(&mut out), Ok(Some(2)));
        assert_eq!(stream.read(&mut out), Ok(None));
        assert!(stream.is_done());
    }

    #[test]
    fn two_lengths_and_bytes_beyond_the_limit_are_breaches() {
        let code = |result: Result<u64, Violation>| result.unwrap_err().code;
        let mut s = stream();
        s.on_data(0, b"hello", true).unwrap();
        assert_eq!(code(s.on_data(0, b"hello!", false)), code::FINAL_SIZE_ERROR);
        assert_eq!(code(s.on_data(0, b"hell", true)), code::FINAL_SIZE_ERROR);
        assert_eq!(code(s.on_reset(7, 6)), code::FINAL_SIZE_ERROR);
        let mut s = stream();
        s.on_data(990, b"0123456789", false).unwrap();
        assert_eq!(code(s.on_data(995, b"012345", false)), code::FLOW_CONTROL_ERROR);
        assert_eq!(code(s.on_data(0, b"", true)), code::FINAL_SIZE_ERROR);
    }

    #[test]
    fn a_reset_stream_gives_back_what_nobody_will_read() {
        let mut s = stream();
        s.on_data(0, b"hello", false).unwrap();
        let mut out = [0; 2];
        s.read(&mut out).unwrap();
        assert_eq!(s.take_unread(), 0);
        assert_eq!(s.on_reset(9, 100), Ok(95));
        assert_eq!(s.read(&mut out), Err(UseError::Reset(9)));
        assert_eq!(s.take_unread(), 98);
        assert_eq!(s.take_unread(), 0);
        assert!(s.is_done());
    }

    #[test]
    fn a_limit_is_told_once_half_a_window_was_read() {
        let mut s = stream();
        s.on_data(0, &[1; 600], false).unwrap();
        let mut out = [0; 499];
        s.read(&mut out).unwrap();
        assert_eq!(
            (s.limit_to_tell(With::Nothing), s.limit_to_tell(With::Data)),
            (None, Some(1_499))
        );
        s.read(&mut out[..1]).unwrap();
        assert_eq!(s.limit_to_tell(With::Nothing), Some(1_500));
        assert_eq!(s.tell_limit(), 1_500);
        assert_eq!(s.limit_to_tell(With::Data), None);
    }
}
