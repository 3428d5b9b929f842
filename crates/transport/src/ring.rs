//! A byte ring addressed by stream offset: what both buffers are made of.
//!
//! Offsets never wrap (64 bits); `(offset - origin) % capacity` is a byte's place. The ring holds
//! any bytes within `capacity` of its base; which of them mean something is the owner's business.
//! Memory is taken when bytes need it, doubling, and given back by [`Ring::release`] and
//! [`Ring::fit`].
//!
//! A stream walks through all memory of its ring, however few bytes it holds at a time, and what
//! exceeds the processor's second-level cache is slow twice: when it is written and when it is
//! read. Hence rings shrink again, and an empty one may begin anew at its first byte
//! ([`Ring::restart`]): a reader that keeps up meets the same few pages again and again.

/// Smallest allocation: a page.
const LEAST: usize = 4_096;

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    /// The offset whose place is the first byte.
    origin: u64,
}

impl Ring {
    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for `span` bytes from `base` on, keeping the `kept` bytes that follow `base`.
    /// No more than `most` will be asked for soon.
    pub(crate) fn reserve(&mut self, base: u64, kept: usize, span: usize, most: usize) {
        if span > self.bytes.len() {
            let doubled = span.next_power_of_two();
            self.resize(base, kept, doubled.min(rounded(most.max(span))).max(LEAST));
        }
        if span > 0 && base - self.origin >= self.bytes.len() as u64 {
            // The same places, counted from a round later.
            self.origin = base - self.place(base) as u64;
        }
    }

    /// Gives memory back that `most` bytes do not need, keeping the `kept` bytes from `base` on.
    pub(crate) fn fit(&mut self, base: u64, kept: usize, most: usize) {
        let fitting = rounded(most.max(kept)).max(LEAST);
        if fitting + fitting / 2 < self.bytes.len() {
            self.resize(base, kept, fitting);
        }
    }

    fn resize(&mut self, base: u64, kept: usize, grown: usize) {
        let mut next = Ring { bytes: vec![0; grown].into_boxed_slice(), origin: base };
        let (a, b) = self.slices(base, kept.min(self.bytes.len()));
        next.write(base, a);
        next.write(base + a.len() as u64, b);
        *self = next;
    }

    /// Gives all memory back.
    pub(crate) fn release(&mut self) {
        self.bytes = Box::default();
    }

    /// Nothing is held, and the next byte is that of `offset`.
    pub(crate) fn restart(&mut self, offset: u64) {
        self.origin = offset;
    }

    /// The caller knows that there is memory. Nearly all lies within two rounds of the origin, and needs no division.
    fn place(&self, offset: u64) -> usize {
        let (at, len) = (offset.wrapping_sub(self.origin) as usize, self.bytes.len());
        match at.checked_sub(len) {
            None => at,
            Some(beyond) if beyond < len => beyond,
            Some(beyond) => beyond % len,
        }
    }

    /// Copies `data` to `offset`; the caller has reserved the room.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        assert!(data.len() <= self.bytes.len(), "room is reserved before it is written");
        let at = self.place(offset);
        let first = data.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&data[..first]);
        self.bytes[..data.len() - first].copy_from_slice(&data[first..]);
    }

    /// The `len` bytes from `offset`, in order.
    pub(crate) fn slices(&self, offset: u64, len: usize) -> (&[u8], &[u8]) {
        if len == 0 {
            return (&[], &[]);
        }
        assert!(len <= self.bytes.len(), "no more is read than the ring holds");
        let at = self.place(offset);
        let first = len.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..len - first])
    }
}

/// Steps of an eighth of what it is: a bound that creeps up does not move the bytes each time.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.checked_next_power_of_two().unwrap_or(1) / 16).max(1);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_growing_shrinking_and_starting_anew_at_any_offset() {
        let mut x: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = move |below: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % below
        };
        for base in [0, 5, u64::from(u32::MAX) - 10_000, u64::MAX / 2] {
            let mut ring = Ring::default();
            let (mut start, mut held) = (base, Vec::new());
            for _ in 0..2_000 {
                let more: Vec<u8> = (0..next(9_000)).map(|_| next(256) as u8).collect();
                let most = 10_000 << next(4);
                if held.len() + more.len() <= 80_000 {
                    ring.reserve(start, held.len(), held.len() + more.len(), most);
                    let behind = start - ring.origin;
                    assert!(ring.capacity() == 0 || behind < ring.capacity() as u64, "{behind}");
                    ring.write(start + held.len() as u64, &more);
                    held.extend(more);
                }
                let gone = next(held.len() as u64 * 5 / 4 + 1).min(held.len() as u64);
                held.drain(..gone as usize);
                start += gone;
                if held.is_empty() {
                    ring.restart(start);
                }
                ring.fit(start, held.len(), most);
                assert!(ring.capacity() <= 2 * held.len().max(most).max(LEAST));
                let (a, b) = ring.slices(start, held.len());
                assert_eq!([a, b].concat(), held);
            }
        }
    }

    #[test]
    fn a_bound_that_creeps_up_moves_the_bytes_a_few_times_per_doubling() {
        let mut ring = Ring::default();
        let (mut moves, mut before) = (0, 0);
        for most in (1 << 20)..(2 << 20) {
            ring.reserve(0, 0, most, most);
            moves += u32::from(ring.capacity() != before);
            before = ring.capacity();
        }
        assert!(moves <= 10, "{moves}");
    }
}
