//! Clients that go from one network to another, of which each is as far from the server as it likes: from a LAN
//! to a satellite. They know it, or find themselves elsewhere. All of it follows from a seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_units::Instant;

use super::path::{Path, Seeded};
use super::world::{Act, Fate};

/// Where the client begins, and where else it may be.
const HOSTS: u8 = 4;
/// How far the nearest of them is, one way, and how often as far as that is doubled the farthest.
const NEAREST: Duration = Duration::from_micros(100);
const DOUBLINGS: u32 = 12;

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Roaming {
    /// Of each host.
    paths: Vec<Seeded>,
    host: u8,
    /// Before how many of its datagrams it is elsewhere, and how often it goes there by itself.
    rebinds: f64,
    moves: f64,
    /// How often an end sends a datagram.
    datagrams: f64,
    rng: Pcg64,
}

impl Roaming {
    pub(crate) fn of(seed: u64) -> Roaming {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut path = |host: u8| {
            let delay = NEAREST * (1 << rng.random_range(0..=DOUBLINGS));
            Path { delay, rebind: 0.0, ..Path::of(&mut rng) }.by(seed + u64::from(host))
        };
        let paths = (0..HOSTS).map(&mut path).collect();
        let mut share = |most: f64| if rng.random() { rng.random_range(0.0..most) } else { 0.0 };
        let (rebinds, moves, datagrams) = (share(0.01), share(0.01), share(0.05));
        Roaming { paths, host: 0, rebinds, moves, datagrams, rng }
    }

    fn go(&mut self) -> u8 {
        self.host = self.rng.random_range(0..HOSTS);
        2 + self.host
    }
}

impl Fate for Roaming {
    fn moves(&mut self) -> Option<u8> {
        let moves = self.rng.random_bool(self.rebinds);
        moves.then(|| self.go())
    }

    fn carry(&mut self, to: usize, datagram: Vec<u8>, now: Instant) -> Vec<(Duration, Vec<u8>)> {
        self.paths[usize::from(self.host)].carry(to, datagram, now)
    }

    fn acts(&mut self) -> Option<(usize, Act)> {
        if self.rng.random_bool(self.moves) {
            return Some((0, Act::Move(self.go())));
        }
        let sends = self.rng.random_bool(self.datagrams);
        sends.then(|| (self.rng.random_range(0..2), Act::Datagram(self.rng.random_range(0..1_100))))
    }
}
