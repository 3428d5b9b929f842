//! What the application wrote and the peer has not acknowledged, by stream offset.

use core::time::Duration;

use tack_units::{Instant, WindowedMax};

use crate::ring::Ring;

/// Bytes `[start, end)` of our stream.
#[derive(Debug)]
pub struct SendBuffer {
    ring: Ring,
    start: u64,
    end: u64,
    /// Bound that autotuning may reach.
    max: usize,
    /// Bound in force.
    limit: usize,
    /// The bound that the path asked for lately: its greatest, so that memory does not come and
    /// go with every acknowledgment.
    wanted: WindowedMax<u64>,
    /// A write found no room since the last [`SendBuffer::take_writable`].
    starved: bool,
}

/// Bound before the congestion window is known to need more: what a LAN needs.
const INITIAL_LIMIT: usize = 128 << 10;
/// How long a wish is remembered: longer than a probe for RTTmin lasts.
const MEMORY: Duration = Duration::from_millis(300);

impl SendBuffer {
    /// An empty buffer whose first byte will have offset `start`.
    pub fn new(start: u64, max: usize) -> Self {
        let max = max.max(1);
        SendBuffer {
            ring: Ring::default(),
            start,
            end: start,
            max,
            limit: max.min(INITIAL_LIMIT),
            wanted: WindowedMax::new(MEMORY.as_nanos() as u64),
            starved: false,
        }
    }

    /// Takes as much of `data` as there is room for.
    pub fn write(&mut self, data: &[u8]) -> usize {
        let n = data.len().min(self.space());
        if n < data.len() {
            self.starved = true;
        }
        if n > 0 {
            let len = self.len();
            self.ring.reserve(self.start, len, len + n, self.limit);
            self.ring.write(self.end, &data[..n]);
            self.end += n as u64;
        }
        n
    }

    /// The buffer, not the application, holds back what could be sent: it is full, or its writer
    /// found it full and waits to be told of room.
    pub fn is_limiting(&self) -> bool {
        self.starved || self.space() == 0
    }

    /// Room left.
    pub fn space(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Memory held.
    pub fn memory(&self) -> usize {
        self.ring.capacity()
    }

    /// Everything below `offset` is acknowledged.
    pub fn acknowledge(&mut self, offset: u64) {
        self.start = offset.clamp(self.start, self.end);
    }

    /// Follows what the path needs, within the bound: one window travels while half of the next
    /// is written. `outstanding` is what was sent and not acknowledged as an acknowledgment came:
    /// behind a hole, more than a window.
    pub fn tune(&mut self, window: u64, outstanding: u64, now: Instant) {
        // A window of more than twice of what is ever out is an allowance, not a need.
        let needs = window.min(outstanding.saturating_mul(2));
        let wanted = needs.max(outstanding).saturating_add(needs / 2);
        let wanted = self.wanted.update(now.as_nanos(), wanted);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.limit = wanted.max(INITIAL_LIMIT).min(self.max);
        self.ring.fit(self.start, self.len(), self.limit);
    }

    /// The `len` bytes from `offset`, which the caller knows to be held.
    pub fn slices(&self, offset: u64, len: usize) -> (&[u8], &[u8]) {
        assert!(
            offset >= self.start && offset + len as u64 <= self.end,
            "only held bytes are sent"
        );
        self.ring.slices(offset, len)
    }

    /// A writer waits and a sixth of the buffer is free again: tell it once. That is a quarter of
    /// the window, and another quarter is still unsent: at four TACKs per round trip, the writer
    /// has time until the next.
    pub fn take_writable(&mut self) -> bool {
        let ready = self.starved && self.space() >= self.limit.div_ceil(6);
        self.starved &= !ready;
        ready
    }

    /// Gives memory back while nothing is held.
    pub fn release(&mut self) {
        if self.is_empty() {
            self.ring.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_writes_and_acknowledgments_agree_with_a_list_of_bytes() {
        let mut x: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for _ in 0..50 {
            let base = next();
            let base = base >> 1;
            let mut buffer = SendBuffer::new(base, 20_000);
            let (mut all, mut acked) = (Vec::new(), 0usize);
            for _ in 0..200 {
                let data: Vec<u8> = (0..next() % 6_000).map(|_| next() as u8).collect();
                let n = buffer.write(&data);
                assert_eq!(n, data.len().min(20_000 - (all.len() - acked)));
                all.extend_from_slice(&data[..n]);
                acked += (next() as usize % 5_000).min(all.len() - acked);
                buffer.acknowledge(base + acked as u64);
                assert_eq!(buffer.len(), all.len() - acked);
                let from = acked + (next() as usize % (all.len() - acked + 1));
                let len = next() as usize % (all.len() - from + 1);
                let (a, b) = buffer.slices(base + from as u64, len);
                assert_eq!([a, b].concat(), all[from..from + len]);
            }
            buffer.acknowledge(buffer.end());
            buffer.release();
            assert_eq!(buffer.memory(), 0);
        }
    }

    #[test]
    fn the_bound_and_the_memory_follow_what_is_in_flight_up_at_once_and_down_in_a_while() {
        let (ms, window) = (Instant::from_millis, 1 << 20);
        let mut buffer = SendBuffer::new(0, 16 << 20);
        assert_eq!(buffer.space(), INITIAL_LIMIT);
        buffer.tune(window, window, ms(0));
        assert_eq!(buffer.space() as u64, window + window / 2);
        let _all = buffer.write(&vec![1; 4 << 20]);
        assert!(buffer.memory() as u64 <= window + window * 5 / 8);
        buffer.acknowledge(buffer.end());
        // A probe for RTTmin passes, and a window that nobody uses is no need.
        buffer.tune(4 * 1_454, 4 * 1_454, ms(200));
        assert_eq!(buffer.space() as u64, window + window / 2);
        buffer.tune(1 << 30, 100_000, ms(301));
        buffer.tune(1 << 30, 100_000, ms(502));
        assert_eq!(buffer.space(), 300_000);
        assert!(buffer.memory() <= 2 * 300_000);
        // Behind a hole, twice as much is out.
        buffer.tune(window, 2 * window, ms(503));
        assert_eq!(buffer.space() as u64, 2 * window + window / 2);
    }

    #[test]
    fn a_starved_writer_is_told_once_when_a_sixth_is_free() {
        let mut buffer = SendBuffer::new(0, 90);
        assert_eq!(buffer.write(&[1; 100]), 90);
        buffer.acknowledge(14);
        assert!(!buffer.take_writable());
        buffer.acknowledge(15);
        assert!(buffer.take_writable());
        assert!(!buffer.take_writable());
    }
}
