//! Conversations of our QUIC with itself and with quinn, over paths that lose, double, delay, damage and rebind.
//! Each is a seed; every byte is compared.
//!
//! `TACK_SEEDS=100000` runs more of them.

mod end;
mod ours;
mod quinn;
mod tls;
mod world;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_quic::Config;

use end::End;
use ours::Ours;
use quinn::Quinn;
use world::{Path, World};

fn seeds(usual: u64) -> u64 {
    std::env::var("TACK_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

/// Runs a conversation per seed; a failing one is named.
fn converse(usual: u64, ends: impl Fn(u64) -> [Box<dyn End>; 2] + std::panic::RefUnwindSafe) {
    for seed in 0..seeds(usual) {
        let run = || {
            let mut rng = Pcg64::seed_from_u64(seed);
            let path = Path::of(&mut rng);
            let (streams, most) = (rng.random_range(1..12), rng.random_range(1..60_000));
            let mut world = World::new(seed, path, streams, most, ends(seed));
            let now = world.run();
            world.close(now);
        };
        if std::panic::catch_unwind(run).is_err() {
            panic!("seed {seed} fails");
        }
    }
}

fn plain() -> Config {
    Config { tack: None, ask_frequency: false, ..Config::default() }
}

#[test]
fn ours_and_quinn_hear_each_other_when_ours_connects() {
    converse(120, |seed| {
        let config = if seed % 2 == 0 { plain() } else { Config::default() };
        [Box::new(Ours::new(config, seed)), Box::new(Quinn::new(true, seed))]
    });
}

#[test]
fn ours_and_quinn_hear_each_other_when_quinn_connects() {
    converse(120, |seed| {
        let config = if seed % 2 == 0 { plain() } else { Config::default() };
        [Box::new(Quinn::new(false, seed)), Box::new(Ours::new(config, seed))]
    });
}

#[test]
fn two_of_ours_hear_each_other_without_tack() {
    converse(120, |seed| {
        [Box::new(Ours::new(plain(), seed)), Box::new(Ours::new(plain(), seed + (1 << 40)))]
    });
}

#[test]
fn two_of_ours_hear_each_other_with_tack() {
    converse(120, |seed| {
        let config = Config::default();
        let server = Ours::new(config.clone(), seed + (1 << 40));
        [Box::new(Ours::new(config, seed)), Box::new(server)]
    });
}
