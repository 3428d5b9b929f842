//! Every fuzz target on a stable compiler: seeded noise, and mutations of valid input.
//!
//! `cargo fuzz run <target>` looks deeper; this finds what a change breaks at once.

#[allow(unreachable_pub, dead_code, reason = "the library of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/lib.rs"]
mod tack_fuzz;

use tack_fuzz::target::try_all;
use tack_fuzz::{TARGETS, corpus};

#[test]
fn noise_breaks_no_promise() {
    try_all(TARGETS, 0, |_, rng| corpus::noise(rng));
}

#[test]
fn valid_input_breaks_no_promise() {
    try_all(TARGETS, 50, |target, rng| (target.valid)(rng));
}

#[test]
fn mutated_input_breaks_no_promise() {
    try_all(TARGETS, 10, |target, rng| {
        let mut input = (target.valid)(rng);
        corpus::mutate(rng, &mut input);
        input
    });
}
