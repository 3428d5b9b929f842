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

/// A report that lists few of a thousand holes undid each timeout: a segment per timeout, for ever.
#[test]
fn a_timeout_amid_thousands_of_holes_is_followed_by_more_than_one_segment() {
    let input = [0x26, 0x5d, 0x71, 0x51, 0x47, 0xc9, 0x7a, 0xde, 0x2a, 0xa3, 0x7a];
    assert!(tack_fuzz::islands(&input), "the buffer kept all there were");
}
