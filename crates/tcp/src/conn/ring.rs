//! A byte ring addressed by stream offset: what both buffers are made of.
//!
//! Offsets never wrap (64 bits); `offset & (capacity - 1)` is a byte's place. The ring holds any
//! bytes within `capacity` of its base; which of them mean something is the owner's business.
//! Memory is taken when bytes need it, doubling, and given back by [`Ring::release`].

/// Smallest allocation: a page.
const LEAST: usize = 4_096;

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// Length zero or a power of two.
    bytes: Box<[u8]>,
}

impl Ring {
    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for `span` bytes from `base` on, keeping the `kept` bytes that follow `base`.
    pub(crate) fn reserve(&mut self, base: u64, kept: usize, span: usize) {
        if span <= self.bytes.len() {
            return;
        }
        let grown = span.next_power_of_two().max(LEAST);
        let mut next = Ring { bytes: vec![0; grown].into_boxed_slice() };
        let (a, b) = self.slices(base, kept.min(self.bytes.len()));
        next.write(base, a);
        next.write(base + a.len() as u64, b);
        *self = next;
    }

    /// Gives all memory back.
    pub(crate) fn release(&mut self) {
        self.bytes = Box::default();
    }

    fn place(&self, offset: u64) -> usize {
        offset as usize & self.bytes.len().wrapping_sub(1)
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
