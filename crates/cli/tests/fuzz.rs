//! The fuzz targets above the transport, on a stable compiler: valid input, mutations of it, noise.
//!
//! `cargo fuzz run <target>` looks deeper; this finds what a change breaks at once.

#![cfg(target_os = "linux")]

#[allow(unreachable_pub, reason = "a module of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/commands.rs"]
mod commands;

use commands::target::try_all;
use commands::{TARGETS, mutate, noise};

#[test]
fn noise_breaks_no_promise() {
    try_all(TARGETS, 0, |_, rng| noise(rng));
}

#[test]
fn valid_input_breaks_no_promise() {
    try_all(TARGETS, 20, |target, rng| (target.valid)(rng));
}

#[test]
fn mutated_input_breaks_no_promise() {
    // Of a whole session almost none ends well.
    try_all(TARGETS, 0, |target, rng| {
        let mut input = (target.valid)(rng);
        mutate(rng, &mut input);
        input
    });
}
