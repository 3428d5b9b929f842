//! What the host derives from its secret: ISNs, timestamp offsets, cookies, hash keys.

use siphasher::sip::SipHasher24;

use tack_units::Instant;

use crate::host::demux::Key;
use crate::seq::SeqNum;

/// The host's secret.
#[derive(Clone)]
pub(crate) struct Secret {
    k0: u64,
    k1: u64,
    k2: u64,
    k3: u64,
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a hash is for: hashes for different uses must not be comparable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Isn = 1,
    Clock = 2,
    Cookie = 3,
    Port = 4,
    Seed = 5,
    FlowLabel = 6,
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        let word = |i: usize| {
            u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("eight of 32 bytes"))
        };
        Secret { k0: word(0), k1: word(1), k2: word(2), k3: word(3) }
    }

    /// Keys for hash tables.
    pub(crate) fn table_keys(&self) -> (u64, u64) {
        (self.k2, self.k3)
    }

    pub(crate) fn hash(&self, usage: Use, key: &Key, extra: u64) -> u64 {
        let mut bytes = [0; 56];
        bytes[..40].copy_from_slice(&key.bytes());
        bytes[40..48].copy_from_slice(&extra.to_le_bytes());
        bytes[48] = usage as u8;
        SipHasher24::new_with_keys(self.k0, self.k1).hash(&bytes)
    }

    /// ISN = M + F(4-tuple, secret), M counting 4 us [RFC 6528 §3].
    pub(crate) fn isn(&self, key: &Key, now: Instant) -> SeqNum {
        SeqNum((now.as_micros() / 4) as u32).add(self.hash(Use::Isn, key, 0) as u32)
    }

    /// Start of the timestamp clock: the same for every connection of a 4-tuple, so that a later
    /// one continues the clock of an earlier one [RFC 7323 §5.4, RFC 6191].
    pub(crate) fn clock_offset(&self, key: &Key) -> u32 {
        self.hash(Use::Clock, key, 0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isns_of_one_tuple_rise_with_time_and_tuples_tell_nothing_of_each_other() {
        let secret = Secret::new([7; 32]);
        let at = |us| secret.isn(&Key::of_port(1), Instant::from_micros(us));
        assert_eq!(at(4_000).since(at(0)), 1_000);
        let other = secret.isn(&Key::of_port(2), Instant::ZERO);
        assert_ne!(other, at(0));
        assert_ne!(Secret::new([8; 32]).isn(&Key::of_port(1), Instant::ZERO), at(0));
    }
}
