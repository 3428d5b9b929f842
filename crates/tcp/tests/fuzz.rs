//! Every fuzz target on a stable compiler: seeded noise, and mutations of valid input.
//!
//! `cargo fuzz run <target>` looks deeper; this finds what a change breaks at once.

#[allow(unreachable_pub, dead_code, reason = "the library of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/lib.rs"]
mod tack_fuzz;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use tack_fuzz::{TARGETS, Target, corpus};

/// Inputs of each kind for each target: a second or two in all.
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
        let mut accepted = 0;
        for seed in 0..ROUNDS / target.cost {
            let input = make(target, &mut Pcg64::seed_from_u64(seed));
            let _witness = Witness(target.name, seed, &input);
            accepted += u64::from((target.run)(&input));
        }
        let share = accepted * 100 * target.cost / ROUNDS;
        assert!(share >= least, "{}: {share} % well-formed", target.name);
    }
}

#[test]
fn noise_breaks_no_promise() {
    try_all(0, |_, rng| corpus::noise(rng));
}

#[test]
fn valid_input_breaks_no_promise() {
    try_all(50, |target, rng| (target.valid)(rng));
}

#[test]
fn mutated_input_breaks_no_promise() {
    try_all(10, |target, rng| {
        let mut input = (target.valid)(rng);
        corpus::mutate(rng, &mut input);
        input
    });
}
