//! A cursor, and variable-length integers [RFC 9000 §16].

use super::ParseError;

/// The greatest variable-length integer.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// How many bytes [`put_varint`] takes for `value`: 1, 2, 4 or 8.
pub(crate) fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends `value` in the fewest bytes.
///
/// # Panics
/// Beyond [`MAX_VARINT`]: a bug of the caller, who bounds what it writes.
pub fn put_varint(value: u64, out: &mut Vec<u8>) {
    assert!(value <= MAX_VARINT, "{value} is no variable-length integer");
    let len = varint_len(value);
    let marked = value << (64 - 8 * len) | u64::from(len.ilog2()) << 62;
    out.extend_from_slice(&marked.to_be_bytes()[..len]);
}

/// Reads bytes from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Everything is read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `len` bytes; `what` names them in an error.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], ParseError> {
        let cut_off = ParseError::Truncated { what };
        let len = usize::try_from(len).map_err(|_| cut_off)?;
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(cut_off)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes by value.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ParseError> {
        let taken = self.take(N as u64, what)?;
        Ok(taken.try_into().expect("as many were taken"))
    }

    /// The next byte.
    ///
    /// # Errors
    /// None is left.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, ParseError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// The next variable-length integer, in however many bytes.
    ///
    /// # Errors
    /// It is cut off.
    pub fn varint(&mut self, what: &'static str) -> Result<u64, ParseError> {
        let first = *self.bytes.first().ok_or(ParseError::Truncated { what })?;
        let len = 1u64 << (first >> 6);
        let mut value = 0;
        for byte in self.take(len, what)? {
            value = value << 8 | u64::from(*byte);
        }
        // The two bits of the length go.
        Ok(value & (u64::MAX >> (66 - 8 * len)))
    }

    /// As [`Self::varint`], at most `most`.
    ///
    /// # Errors
    /// It is cut off or greater.
    pub fn varint_up_to(&mut self, most: u64, what: &'static str) -> Result<u64, ParseError> {
        let value = self.varint(what)?;
        if value > most { Err(ParseError::Value { what, value }) } else { Ok(value) }
    }

    /// Bytes behind their length.
    ///
    /// # Errors
    /// Either is cut off.
    pub fn prefixed(&mut self, what: &'static str) -> Result<&'a [u8], ParseError> {
        let len = self.varint(what)?;
        self.take(len, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_the_rfc_are_read() {
        // [RFC 9000 §A.1]
        let samples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in samples {
            assert_eq!(Reader::new(bytes).varint("x"), Ok(value));
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(Reader::new(cut).varint("x"), Err(ParseError::Truncated { what: "x" }));
        }
    }

    #[test]
    fn integers_survive_in_the_fewest_bytes() {
        for bits in 0..62 {
            for value in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let mut bytes = Vec::new();
                put_varint(value, &mut bytes);
                let fewest = [0x40, 0x4000, 0x4000_0000].iter().filter(|m| value >= **m).count();
                assert_eq!(bytes.len(), 1 << fewest, "{value}");
                assert_eq!(Reader::new(&bytes).varint("x"), Ok(value));
            }
        }
    }
}
