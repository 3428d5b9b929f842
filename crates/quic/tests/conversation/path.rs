//! A path whose every mischief follows from a seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_units::Instant;

use super::world::Fate;

/// Beside the server's: addresses that the client has.
const HOSTS: u8 = 3;

/// The path, both ways alike.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    pub(crate) double: f64,
    pub(crate) late: f64,
    pub(crate) damage: f64,
    /// Of the client's datagrams, before how many of which its address becomes another, as by a NAT.
    pub(crate) rebind: f64,
}

impl Path {
    /// On which nothing happens to anything.
    pub(crate) fn clean() -> Path {
        let delay = Duration::from_millis(5);
        Path { delay, loss: 0.0, double: 0.0, late: 0.0, damage: 0.0, rebind: 0.0 }
    }

    /// Anything from a clean LAN to a bad day.
    pub(crate) fn of(rng: &mut Pcg64) -> Path {
        let mut share = |most: f64| if rng.random() { rng.random_range(0.0..most) } else { 0.0 };
        let (loss, double, late, damage) = (share(0.15), share(0.1), share(0.2), share(0.1));
        let rebind = share(0.01);
        let delay = Duration::from_micros(rng.random_range(200..60_000));
        Path { delay, loss, double, late, damage, rebind }
    }

    /// What it does by this seed.
    pub(crate) fn by(self, seed: u64) -> Seeded {
        Seeded { path: self, rng: Pcg64::seed_from_u64(seed) }
    }
}

#[derive(Debug)]
pub(crate) struct Seeded {
    path: Path,
    rng: Pcg64,
}

impl Fate for Seeded {
    fn moves(&mut self) -> Option<u8> {
        let moves = self.rng.random_bool(self.path.rebind);
        moves.then(|| self.rng.random_range(2..2 + HOSTS))
    }

    fn carry(&mut self, _to: usize, datagram: Vec<u8>, _now: Instant) -> Vec<(Duration, Vec<u8>)> {
        let copies = 1 + u32::from(self.rng.random_bool(self.path.double));
        let mut arrive = Vec::new();
        for _ in 0..copies {
            if self.rng.random_bool(self.path.loss) {
                continue;
            }
            let mut datagram = datagram.clone();
            if self.rng.random_bool(self.path.damage) {
                let at = self.rng.random_range(0..datagram.len());
                datagram[at] ^= 1 << self.rng.random_range(0..8);
            }
            let mut takes = self.path.delay;
            if self.rng.random_bool(self.path.late) {
                takes += self.path.delay.mul_f64(self.rng.random_range(0.0..2.0));
            }
            arrive.push((takes, datagram));
        }
        arrive
    }
}
