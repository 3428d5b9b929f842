//! Option words under construction.

/// Most option bytes a header holds [RFC 9293 §3.1].
pub const MAX_OPTION_BYTES: usize = 40;

/// On the stack.
#[derive(Debug)]
pub(super) struct Words {
    bytes: [u8; MAX_OPTION_BYTES],
    len: usize,
}

impl Default for Words {
    fn default() -> Self {
        Words { bytes: [0; MAX_OPTION_BYTES], len: 0 }
    }
}

impl Words {
    /// Appends one word. There is always room: see the sums in [`options`](crate::wire::options).
    pub(super) fn word(&mut self, word: [u8; 4]) {
        self.bytes[self.len..self.len + 4].copy_from_slice(&word);
        self.len += 4;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
