//! The fuzz targets above the transport, on a stable compiler: valid input, mutations of it, noise.
//!
//! `cargo fuzz run <target>` looks deeper; this finds what a change breaks at once.

#![cfg(target_os = "linux")]

#[allow(unreachable_pub, reason = "a module of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/commands.rs"]
mod commands;

use commands::{TARGETS, Target, mutate, noise};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Inputs of each kind for each target.
const ROUNDS: u64 = 20_000;

/// Says which input it was if the target panics.
struct Witness<'a>(&'static str, u64, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("target {}, seed {}, input {:02x?}", self.0, self.1, self.2);
        }
    }
}

/// `least`: percentage of inputs that must be well-formed.
fn try_all(least: u64, make: impl Fn(&Target, &mut Pcg64) -> Vec<u8>) {
    for target in TARGETS {
        let (mut accepted, rounds) = (0, ROUNDS / target.cost);
        for seed in 0..rounds {
            let input = make(target, &mut Pcg64::seed_from_u64(seed));
            let _witness = Witness(target.name, seed, &input);
            accepted += u64::from((target.run)(&input));
        }
        let share = accepted * 100 / rounds;
        assert!(share >= least, "{}: {share} % well-formed", target.name);
    }
}

#[test]
fn noise_breaks_no_promise() {
    try_all(0, |_, rng| noise(rng));
}

#[test]
fn valid_input_breaks_no_promise() {
    try_all(20, |target, rng| (target.valid)(rng));
}

#[test]
fn mutated_input_breaks_no_promise() {
    // Of a whole session almost none ends well.
    try_all(0, |target, rng| {
        let mut input = (target.valid)(rng);
        mutate(rng, &mut input);
        input
    });
}
