//! One seed per run, and a stream of its own for everything that draws.
//!
//! Streams are told apart by name, so adding one leaves all others as they were.

use core::hash::Hasher as _;

use rand_pcg::Pcg64;
use siphasher::sip::SipHasher24;

/// The seed of a run. Equal seeds and equal settings give equal runs, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seed(pub u64);

impl Seed {
    /// A number for something that takes a seed of its own, such as a link.
    pub fn derive(self, name: &str) -> u64 {
        self.hash(name, 0)
    }

    /// The stream called `name`.
    pub fn stream(self, name: &str) -> Pcg64 {
        let wide = |n| u128::from(self.hash(name, n)) << 64 | u128::from(self.hash(name, n + 1));
        Pcg64::new(wide(1), wide(3))
    }

    /// 32 bytes for what wants a secret.
    pub fn secret(self, name: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        for (n, chunk) in secret.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.hash(name, n as u64 + 5).to_le_bytes());
        }
        secret
    }

    fn hash(self, name: &str, number: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.0, number);
        hasher.write(name.as_bytes());
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;

    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name_and_nothing_else() {
        let draw = |seed, name| Seed(seed).stream(name).next_u64();
        assert_eq!(draw(1, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(2, "loss"));
        assert_ne!(draw(1, "loss"), draw(1, "jitter"));
        assert_ne!(Seed(1).derive("loss"), Seed(1).derive("jitter"));
        assert_ne!(Seed(1).secret("a")[..8], Seed(1).secret("a")[8..16]);
    }
}
