//! Thousands of random conversations. A failure prints its seed and the command that repeats it.
//!
//! `TACK_SEED=n` runs that one seed; `TACK_FIRST=n TACK_COUNT=m` runs m of each kind from n on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tack_cc::Algorithm;
use tack_tcp::AckStrategy;

use crate::conversation::{Conversation, Kind};

/// Of each of four kinds: 14 000 conversations.
const COUNT: u64 = 3_500;
/// Of each strategy with each controller.
const COUNT_PER_PAIR: u64 = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().expect("a number"))
}

fn run_all(kind: Kind, test: &str) {
    run_some(kind, COUNT, test);
}

fn run_some(kind: Kind, count: u64, test: &str) {
    let seeds = match number("TACK_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("TACK_FIRST").unwrap_or(0);
            first..first + number("TACK_COUNT").unwrap_or(count)
        }
    };
    for seed in seeds {
        let mut conversation = Conversation::new(kind, seed);
        let result = catch_unwind(AssertUnwindSafe(|| conversation.run()));
        if let Err(panic) = result {
            eprintln!("{}", conversation.summary);
            eprintln!("seed {seed} of {kind:?} failed; repeat it with");
            eprintln!("  TACK_SEED={seed} cargo test -p tack-tcp --test harness {test}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn tack_conversations_deliver_every_byte_in_both_directions() {
    run_all(Kind::Tack, "tack_conversations");
}

#[test]
fn plain_conversations_deliver_every_byte_in_both_directions() {
    run_all(Kind::Plain, "plain_conversations");
}

#[test]
fn stripped_conversations_fall_back_without_losing_a_byte() {
    run_all(Kind::Stripped, "stripped_conversations");
}

#[test]
fn conversations_over_devices_that_cut_and_merge_deliver_every_byte_under_tack() {
    run_all(Kind::Offload, "conversations_over_devices");
}

#[test]
fn conversations_by_every_strategy_and_controller_deliver_every_byte() {
    for ack in AckStrategy::ALL {
        for algorithm in Algorithm::ALL {
            let kind = Kind::Strategy(*ack, *algorithm);
            run_some(kind, COUNT_PER_PAIR, "conversations_by_every_strategy");
        }
    }
}
