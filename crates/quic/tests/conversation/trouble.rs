//! Paths that go dark, take short datagrams only from some moment on, and are left by clients in the midst of
//! it; hosts that fall asleep; keys that change meanwhile. All of it follows from a seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_units::Instant;

use super::path::{Path, Seeded};
use super::world::{Act, Fate};

/// What every path takes, bytes.
const SHORT: usize = 1_200;
/// When something may happen, of a conversation that takes some seconds.
const EARLY: Duration = Duration::from_secs(3);
/// What a conversation takes longer of which an end fell asleep.
const SLEEPY: Duration = Duration::from_secs(1_800);

/// From when until when something is so, and for whom: 2 is for both.
#[derive(Clone, Copy, Debug)]
struct Spell {
    from: Instant,
    until: Instant,
    who: usize,
}

impl Spell {
    fn of(rng: &mut Pcg64, longest: Duration) -> Spell {
        let from = Instant::ZERO + EARLY.mul_f64(rng.random());
        let length = longest.mul_f64(rng.random_range(0.0_f64..1.0).powi(2));
        Spell { from, until: from + length, who: rng.random_range(0..3) }
    }

    fn holds(&self, who: usize, now: Instant) -> bool {
        (self.who == 2 || self.who == who) && (self.from..self.until).contains(&now)
    }
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Trouble {
    path: Seeded,
    rng: Pcg64,
    dark: Vec<Spell>,
    asleep: Vec<Spell>,
    /// From when on the path takes no more than [`SHORT`].
    narrow: Option<Instant>,
    /// How often keys change, of the things that happen.
    updates: f64,
    now: Instant,
}

impl Trouble {
    /// `longest`: of a blackout, and of a sleep.
    pub(crate) fn of(seed: u64, longest: [Duration; 2]) -> Trouble {
        let mut rng = Pcg64::seed_from_u64(seed);
        let path = Path { rebind: 0.0, ..Path::of(&mut rng) };
        let (blackouts, sleeps) = (rng.random_range(0..4), rng.random_range(0..3));
        Trouble {
            path: path.by(seed),
            dark: (0..blackouts).map(|_| Spell::of(&mut rng, longest[0])).collect(),
            asleep: (0..sleeps).map(|_| Spell::of(&mut rng, longest[1])).collect(),
            narrow: rng.random::<bool>().then(|| Instant::ZERO + EARLY.mul_f64(rng.random())),
            updates: if rng.random() { rng.random_range(0.0..0.1) } else { 0.0 },
            now: Instant::ZERO,
            rng,
        }
    }
}

impl Fate for Trouble {
    /// Only while it is dark, which is when a client may find itself elsewhere.
    fn moves(&mut self) -> Option<u8> {
        let is_dark = self.dark.iter().any(|spell| spell.holds(spell.who, self.now));
        let moves = is_dark && self.rng.random_bool(0.2);
        moves.then(|| self.rng.random_range(2..5))
    }

    fn carry(&mut self, to: usize, datagram: Vec<u8>, now: Instant) -> Vec<(Duration, Vec<u8>)> {
        self.now = now;
        let is_long = self.narrow.is_some_and(|from| from <= now) && datagram.len() > SHORT;
        if is_long || self.dark.iter().any(|spell| spell.holds(to, now)) {
            return Vec::new();
        }
        self.path.carry(to, datagram, now)
    }

    fn acts(&mut self) -> Option<(usize, Act)> {
        let acts = self.rng.random_bool(self.updates);
        acts.then(|| (self.rng.random_range(0..2), Act::UpdateKeys))
    }

    fn sleeps(&self, who: usize, now: Instant) -> Option<Instant> {
        self.asleep.iter().filter(|spell| spell.holds(who, now)).map(|spell| spell.until).max()
    }

    /// A round trip that an end has slept through makes its timers long.
    fn patience(&self) -> Duration {
        let all = self.dark.iter().chain(&self.asleep);
        let spells: Duration = all.map(|spell| spell.until - spell.from).sum();
        spells * 2 + if self.asleep.is_empty() { Duration::ZERO } else { SLEEPY }
    }
}
