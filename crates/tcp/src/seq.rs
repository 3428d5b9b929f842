//! 32-bit sequence numbers: modular comparison, and expansion to the 64-bit offsets kept inside.

/// A TCP sequence number as it travels [RFC 9293 §3.4]. Arithmetic wraps and never panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// `self + n`, modulo 2^32.
    #[must_use]
    pub const fn add(self, n: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(n))
    }

    /// Signed distance from `other` to `self`.
    pub const fn since(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The low 32 bits of `isn + offset`.
    pub const fn from_offset(isn: SeqNum, offset: u64) -> SeqNum {
        SeqNum(isn.0.wrapping_add(offset as u32))
    }

    /// The 64-bit offset from `isn` nearest to `near` that this number stands for; `None` if that
    /// lies before the ISN.
    pub const fn to_offset(self, isn: SeqNum, near: u64) -> Option<u64> {
        let near_seq = SeqNum::from_offset(isn, near);
        near.checked_add_signed(self.since(near_seq) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_survive_the_wrap_in_both_directions() {
        let isn = SeqNum(0xffff_fff0);
        for near in [0u64, 10, 40, 1 << 32, (5 << 32) + 7] {
            for d in [0u64, 1, 100, (1 << 31) - 1] {
                let s = SeqNum::from_offset(isn, near + d);
                assert_eq!(s.to_offset(isn, near), Some(near + d));
                if let Some(o) = near.checked_sub(d) {
                    assert_eq!(SeqNum::from_offset(isn, o).to_offset(isn, near), Some(o));
                }
            }
        }
        assert_eq!(isn.add(u32::MAX).to_offset(isn, 0), None);
    }
}
