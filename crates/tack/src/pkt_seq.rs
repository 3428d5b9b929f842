//! PKT.SEQ: a number per transmission, never reused [TON §V-A].
//!
//! 32 bits travel; 64 bits are kept, so that only this file knows about the wrap.

/// A PKT.SEQ as it travels: the low 32 bits of the transmission's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PktSeq(pub u32);

impl PktSeq {
    /// The low 32 bits of `full`.
    pub const fn truncate(full: u64) -> Self {
        PktSeq(full as u32)
    }

    /// The full number nearest to `near` whose low 32 bits are these.
    ///
    /// Serial-number arithmetic: right while sender and receiver are less than 2^31 transmissions
    /// apart. Numbers below zero do not exist, so near the start the answer is the next one up.
    pub const fn expand(self, near: u64) -> u64 {
        let ahead = self.0.wrapping_sub(near as u32);
        if ahead < 1 << 31 {
            near.wrapping_add(ahead as u64)
        } else {
            let back = (ahead as u64).wrapping_neg() & 0xffff_ffff;
            match near.checked_sub(back) {
                Some(full) => full,
                None => near.wrapping_add(ahead as u64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_inverts_truncation_within_half_the_space_on_either_side() {
        for near in [0, 5, 1 << 31, u64::from(u32::MAX), 1 << 32, (7 << 32) - 3] {
            for d in [0, 1, 1_000, (1 << 31) - 1] {
                assert_eq!(PktSeq::truncate(near + d).expand(near), near + d);
                if let Some(full) = near.checked_sub(d) {
                    assert_eq!(PktSeq::truncate(full).expand(near), full);
                }
            }
        }
    }
}
