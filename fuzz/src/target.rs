//! A fuzz target, and how an ordinary test tries all of them on a stable compiler.

use rand::SeedableRng;
use rand_pcg::Pcg64;

/// A fuzz target, and a maker of input worth mutating.
pub struct Target {
    /// Its name, as `cargo fuzz run` knows it.
    pub name: &'static str,
    /// Panics when a promise breaks; whether the input was well-formed.
    pub run: fn(&[u8]) -> bool,
    /// Valid input, different for every state of the generator.
    pub valid: fn(&mut Pcg64) -> Vec<u8>,
    /// How much dearer a run is than the cheapest: so much fewer are made in tests.
    pub cost: u64,
}

/// Inputs of each kind for a target of cost 1: a second or two in all.
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

/// Runs each of `targets` on what `make` gives; `least`: percentage of it that must be well-formed.
pub fn try_all(targets: &[Target], least: u64, make: impl Fn(&Target, &mut Pcg64) -> Vec<u8>) {
    for target in targets {
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
