//! What arrived and the application has not read: in order up to `nxt`, with holes beyond.
//!
//! ```text
//!   read            nxt           holes and islands            read + limit
//!   |---- readable ----|......#####......####...................|
//! ```
//!
//! Data out of order goes straight to its place in the ring; only the islands' edges are kept
//! aside. Memory follows the highest byte that arrived, not the window that is offered; edges take
//! [`ISLAND_MEMORY`] of it at most.

use core::ops::Range;
use core::time::Duration;

use tack::Ranges;
use tack_units::Instant;

use crate::autotune::RecvWindow;
use crate::ring::Ring;

/// The bytes of a stream that arrived and nobody has read, islands beyond a hole included.
#[derive(Debug)]
pub struct RecvBuffer {
    ring: Ring,
    /// First byte not read.
    read: u64,
    /// Next byte expected.
    nxt: u64,
    /// Islands above `nxt`.
    queued: Ranges,
    /// Offset of FIN, once it came: the byte behind the last. It is stored as a byte like any
    /// other, so that reassembly needs no case of its own, and never read.
    fin: Option<u64>,
    /// What was left to read when data arrived last.
    unread: usize,
    /// Size offered; what arrives here makes it larger, when [`Self::tune`] is called.
    pub offered: RecvWindow,
}

/// Bytes of buffer per island kept. A path that loses every other segment of 536 bytes makes one in
/// 1 072; a peer that sends every second byte would otherwise cost a tree node per byte. Data that
/// would open one more is refused.
const BYTES_PER_ISLAND: usize = 1_024;
/// Islands that the smallest buffer may have.
const LEAST_ISLANDS: usize = 256;
/// What an island's edges cost in memory, at most: two numbers in a tree that is half empty. Full of
/// islands, a buffer costs 1/32 more.
const ISLAND_MEMORY: usize = 32;

/// What became of arriving data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Bytes that were new.
    pub new_bytes: u64,
    /// `nxt` moved.
    pub advanced: bool,
    /// Some of it was new and not taken: as if it had not arrived.
    pub refused: bool,
}

impl Inserted {
    const NOTHING: Inserted = Inserted { new_bytes: 0, advanced: false, refused: false };
    const REFUSED: Inserted = Inserted { refused: true, ..Inserted::NOTHING };
}

impl RecvBuffer {
    /// An empty buffer that expects offset `start`, offering `initial` and later up to `max`.
    pub fn new(start: u64, initial: usize, max: usize, now: Instant) -> Self {
        // What a connection may yet bring, with its window behind it, is a number.
        let max = max.clamp(1, usize::MAX / 4);
        RecvBuffer {
            ring: Ring::default(),
            read: start,
            nxt: start,
            queued: Ranges::new(),
            fin: None,
            unread: 0,
            offered: RecvWindow::new(initial.max(1) as u64, max as u64, now),
        }
    }

    /// Stores `text` at `offset`, and FIN behind it. What lies outside the window, or behind a FIN
    /// that came before, is ignored; so is a FIN that contradicts what came before.
    pub fn insert(&mut self, offset: u64, text: &[u8], fin: bool) -> Inserted {
        self.unread = self.len();
        let behind = offset + text.len() as u64;
        let mut done = self.insert_text(offset, text);
        let allowed = behind <= self.read + self.offered.size() && self.high() <= behind;
        if fin && self.fin.is_none() && allowed {
            let island = self.store(behind, &[0]);
            self.fin = (island.new_bytes > 0).then_some(behind);
            done.new_bytes += island.new_bytes;
            done.advanced |= island.advanced;
            done.refused |= island.refused;
        }
        done.refused |= fin && self.fin.is_none() && !allowed;
        self.offered.on_arrived(done.new_bytes);
        done
    }

    fn insert_text(&mut self, offset: u64, text: &[u8]) -> Inserted {
        let window_end = self.read + self.offered.size();
        let text_end = (offset + text.len() as u64).min(self.fin.unwrap_or(u64::MAX));
        let end = text_end.min(window_end);
        let start = offset.max(self.nxt);
        if start >= end {
            return Inserted { refused: text_end > window_end, ..Inserted::NOTHING };
        }
        let taken = self.store(start, &text[(start - offset) as usize..(end - offset) as usize]);
        Inserted { refused: taken.refused || text_end > window_end, ..taken }
    }

    /// Puts bytes, none of them below `nxt`, into their place.
    fn store(&mut self, start: u64, bytes: &[u8]) -> Inserted {
        let end = start + bytes.len() as u64;
        if end <= self.nxt || start < self.nxt {
            return Inserted::NOTHING;
        }
        let opens_island = start > self.nxt;
        if opens_island
            && self.queued.len() >= self.max_islands()
            && !self.queued.touches(&(start..end))
        {
            return Inserted::REFUSED;
        }
        let held = self.high() - self.read;
        self.ring.reserve(self.read, held as usize, (end - self.read) as usize, self.limit());
        self.ring.write(start, bytes);
        if !opens_island && self.queued.is_empty() {
            self.nxt = end;
            return Inserted { new_bytes: end - start, advanced: true, refused: false };
        }
        let new_bytes = self.queued.insert(start..end);
        let advanced = self.absorb();
        Inserted { new_bytes, advanced, refused: false }
    }

    /// Islands that a buffer of this size may have.
    fn max_islands(&self) -> usize {
        (self.limit() / BYTES_PER_ISLAND).max(LEAST_ISLANDS)
    }

    /// Moves `nxt` over the first island if it begins there.
    fn absorb(&mut self) -> bool {
        match self.queued.first() {
            Some(first) if first.start <= self.nxt => {
                self.nxt = first.end;
                self.queued.remove_below(first.end);
                true
            }
            _ => false,
        }
    }

    /// End of the highest byte held.
    pub fn high(&self) -> u64 {
        self.queued.last().map_or(self.nxt, |last| last.end)
    }

    /// Next byte expected.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Islands above `nxt`.
    pub fn queued(&self) -> &Ranges {
        &self.queued
    }

    /// The island that holds `offset`.
    pub fn island_at(&self, offset: u64) -> Option<Range<u64>> {
        self.queued.range_at(offset)
    }

    /// Bytes in order and not read.
    pub fn len(&self) -> usize {
        (self.nxt.min(self.fin.unwrap_or(u64::MAX)) - self.read) as usize
    }

    /// Nothing can be read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// FIN came and everything before it.
    pub fn is_complete(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// FIN came, everything before it, and all was read.
    pub fn at_end(&self) -> bool {
        self.is_complete() && self.is_empty()
    }

    /// Room from `nxt` on.
    pub fn window(&self) -> u64 {
        (self.read + self.offered.size()).saturating_sub(self.nxt)
    }

    /// Size offered.
    pub fn limit(&self) -> usize {
        self.offered.size() as usize
    }

    /// Data arrived: what is offered follows it, unless it is not read. Whether it is.
    #[inline]
    pub fn tune(&mut self, rtt: Option<Duration>, now: Instant) -> bool {
        let is_read = self.offered.is_read(self.unread as u64);
        self.offered.tune(rtt, self.high() - self.nxt, is_read, now);
        is_read
    }

    /// Memory held.
    pub fn memory(&self) -> usize {
        self.ring.capacity() + self.queued.len() * ISLAND_MEMORY
    }

    /// Everything in order and not read.
    #[inline]
    pub fn readable(&self) -> (&[u8], &[u8]) {
        self.ring.slices(self.read, self.len())
    }

    /// The first `n` readable bytes were read.
    pub fn consume(&mut self, n: usize) -> usize {
        let n = n.min(self.len());
        self.read += n as u64;
        if self.read == self.nxt && self.queued.is_empty() {
            self.ring.restart(self.read);
        }
        n
    }

    /// Gives memory back while nothing is held.
    pub fn release(&mut self) {
        if self.is_empty() && self.queued.is_empty() {
            self.ring.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn segments_in_any_order_come_out_in_order() {
        let mut x: u64 = 0x2545_f491_4f6c_dd1d;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for _ in 0..100 {
            let base = next() >> 2;
            let stream: Vec<u8> = (0..40_000).map(|_| next() as u8).collect();
            let mut buffer = RecvBuffer::new(base, 9_000, 9_000, Instant::ZERO);
            let mut got = Vec::new();
            let mut oracle = vec![false; stream.len()];
            while got.len() < stream.len() {
                let near = got.len() + next() as usize % 12_000;
                let from = near.min(stream.len()).saturating_sub(next() as usize % 3_000);
                let to = (from + next() as usize % 3_000).min(stream.len());
                let limit = (got.len() + 9_000).min(stream.len());
                let inserted = buffer.insert(base + from as u64, &stream[from..to], false);
                let mut new = 0;
                for slot in &mut oracle[from.min(limit)..to.min(limit)] {
                    new += u64::from(!*slot);
                    *slot = true;
                }
                assert_eq!(inserted.new_bytes, new);
                let nxt = oracle.iter().position(|h| !h).unwrap_or(oracle.len());
                assert_eq!(buffer.nxt() - base, nxt as u64);
                assert_eq!(buffer.window(), (got.len() + 9_000 - nxt) as u64);
                if next() % 3 == 0 {
                    let (a, b) = buffer.readable();
                    let all = [a, b].concat();
                    let n = buffer.consume(next() as usize % (all.len() + 1));
                    got.extend_from_slice(&all[..n]);
                    assert_eq!(got, stream[..got.len()]);
                }
            }
        }
    }

    #[test]
    fn what_comes_behind_a_hole_is_offered_four_times_and_keeps_its_room() {
        let rtt = Some(Duration::from_millis(100));
        let mut buffer = RecvBuffer::new(1, 10_000, 1 << 20, Instant::ZERO);
        buffer.insert(1 + 100, &[1; 8_000], false);
        buffer.tune(rtt, Instant::from_millis(99));
        assert_eq!(buffer.limit(), 32_000, "as soon as it has come");
        buffer.tune(rtt, Instant::from_millis(100));
        assert_eq!(buffer.limit(), 32_000 + 8_100);
    }

    /// Most that was left to read, and what is offered, after five seconds over a path of 200 Mbit/s and 50 ms whose
    /// sender sends all that it may; `bytes` are read every so many milliseconds.
    fn read(bytes: usize, every_ms: u64) -> (usize, usize) {
        const PACKET: usize = 1_250;
        let mut buffer = RecvBuffer::new(0, 256 << 10, 32 << 20, Instant::ZERO);
        // What is offered is known to data that arrives a round trip later.
        let mut known = VecDeque::from(vec![buffer.window(); 50]);
        let (mut sent, mut held) = (0, 0);
        for ms in 0..5_000 {
            known.push_back(buffer.nxt() + buffer.window());
            let limit = known.pop_front().unwrap();
            for _ in 0..200_000_000 / 8 / 1_000 / PACKET {
                if sent + PACKET as u64 <= limit {
                    buffer.insert(sent, &[1; PACKET], false);
                    buffer.tune(Some(Duration::from_millis(50)), Instant::from_millis(ms));
                    sent += PACKET as u64;
                }
            }
            held = held.max(buffer.len());
            if ms % every_ms == 0 {
                buffer.consume(bytes);
            }
        }
        (held, buffer.limit())
    }

    #[test]
    fn a_window_grows_for_a_reader_who_keeps_up_and_not_for_one_who_does_not() {
        const BDP: usize = 200_000_000 / 8 / 20;
        for mbit in [0, 2, 20] {
            let (held, limit) = read(mbit * 125, 1);
            assert!(held <= limit && limit == 256 << 10, "{mbit} Mbit/s: {held} of {limit}");
        }
        // Half of what the path brings: no less than that takes.
        let (_, limit) = read(100 * 125, 1);
        assert!((BDP / 2..4 * BDP).contains(&limit), "{limit}");
        // All of it, at once or in gulps.
        for every_ms in [1, 10, 60] {
            let (_, limit) = read(usize::MAX, every_ms);
            assert!(limit > 4 * BDP - 25_000, "every {every_ms} ms: {limit}");
        }
    }

    #[test]
    fn every_second_byte_costs_bounded_memory_and_loses_nothing_that_was_accepted() {
        let mut buffer = RecvBuffer::new(0, 1 << 20, 1 << 20, Instant::ZERO);
        for i in 0..100_000u64 {
            buffer.insert(1 + 2 * i, &[7], false);
        }
        assert!(buffer.queued().len() <= buffer.max_islands());
        assert!(buffer.memory() <= (1 << 20) + (1 << 20) / 32);
        for i in 0..100_000u64 {
            buffer.insert(2 * i, &[7], false);
            buffer.insert(2 * i + 1, &[7], false);
        }
        assert_eq!(buffer.nxt(), 200_000);
        assert!(buffer.readable().0.iter().chain(buffer.readable().1).all(|&b| b == 7));
    }
}
