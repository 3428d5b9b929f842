//! Conversations that begin before the handshake is done, by what the client remembers of another one.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_quic::Config;

use super::end::End;
use super::ours::Ours;
use super::path::Path;
use super::quinn::Quinn;
use super::speech::Script;
use super::tls::Sessions;
use super::world::World;
use super::{full, plain, run, run_all, seeds};

/// More than any conversation says early.
const ENOUGH: u64 = 1 << 20;

fn early(config: Config) -> Config {
    Config { max_early_data: ENOUGH, ..config }
}

/// A conversation on a clean path, after which the client remembers the server, and then one by the seed. Of
/// one server in three the second is another, which knows no ticket of the first.
fn converse_early(seed: u64, ends: impl Fn(u64, Sessions) -> [Box<dyn End>; 2]) -> Option<bool> {
    let sessions = Sessions::early();
    let script = Script { seed, streams: 1, most: 1_000, quits: 0.0 };
    let mut before = World::new(script, Path::clean().by(seed), ends(seed, sessions.clone()));
    let now = before.run();
    assert_eq!(before.was_taken_early(), None, "nothing is remembered yet");
    before.close(now);
    let forgets = Pcg64::seed_from_u64(!seed).random_ratio(1, 3);
    let server = if forgets { Sessions::early().server } else { sessions.server };
    let taken = run(seed, 0.0, ends(seed, Sessions { server, ..sessions }));
    assert!(!(forgets && taken == Some(true)), "by a server that has no ticket of it");
    taken
}

/// Runs one per seed; what is said early is taken and is not, both often.
fn all(usual: u64, ends: impl Fn(u64, Sessions) -> [Box<dyn End>; 2] + std::panic::RefUnwindSafe) {
    let counts = [const { AtomicU64::new(0) }; 3];
    let seeds = seeds(usual);
    let most = seeds.end - seeds.start;
    run_all(seeds, |seed| {
        let index = converse_early(seed, &ends).map_or(2, usize::from);
        counts[index].fetch_add(1, Ordering::Relaxed);
    });
    let [rejected, taken, neither] = counts.map(AtomicU64::into_inner);
    let each = most / 6;
    let are_many = rejected >= each && taken >= each && neither <= each;
    assert!(are_many, "{taken} taken, {rejected} rejected, {neither} neither");
}

#[test]
fn two_of_ours_that_have_met_begin_before_the_handshake_is_done_with_tack() {
    all(120, |seed, sessions| {
        let client = Ours::with(early(full()), seed, sessions.clone());
        [Box::new(client), Box::new(Ours::with(early(full()), seed + (1 << 40), sessions))]
    });
}

#[test]
fn two_of_ours_that_have_met_begin_before_the_handshake_is_done_without_tack() {
    all(120, |seed, sessions| {
        let client = Ours::with(early(plain()), seed, sessions.clone());
        [Box::new(client), Box::new(Ours::with(early(plain()), seed + (1 << 40), sessions))]
    });
}

#[test]
fn a_quinn_server_hears_what_ours_says_before_the_handshake_is_done() {
    all(120, |seed, sessions| {
        let config = if seed % 2 == 0 { plain() } else { full() };
        let client = Ours::with(config, seed, sessions.clone());
        [Box::new(client), Box::new(Quinn::with(true, seed, sessions))]
    });
}

/// More than a quinn client says in a conversation. It sends the end of the handshake only when its window has
/// room, and with its usual window it may have none ever: packets that nobody can read before that end fill it
/// (seed 100179).
const WINDOW: u64 = 4 << 20;

#[test]
fn ours_hears_what_a_quinn_client_says_before_the_handshake_is_done() {
    all(120, |seed, sessions| {
        let config = if seed % 2 == 0 { plain() } else { full() };
        let client = Quinn::with(false, seed, sessions.clone()).with_window(WINDOW);
        [Box::new(client), Box::new(Ours::with(early(config), seed, sessions))]
    });
}

#[test]
fn a_client_whose_window_is_full_of_what_it_said_early_is_told_of_it_again() {
    // quinn sends the end of the handshake only when its window has room, and the first acknowledgment is lost.
    run_all(68..69, |seed| {
        converse_early(seed, |seed, sessions| {
            let client = Quinn::with(false, seed, sessions.clone());
            [Box::new(client), Box::new(Ours::with(early(plain()), seed, sessions))]
        });
    });
}

#[test]
fn a_server_can_say_its_handshake_again_whatever_it_has_answered_before() {
    // Its first flight is lost, and quinn's says nothing more once its own was acknowledged. With the second
    // seed only what repeats all of the flight gets the client further.
    for (seed, config) in [(201_265, full()), (302_054, plain())] {
        run_all(seed..seed + 1, |seed| {
            converse_early(seed, |seed, sessions| {
                let client = Quinn::with(false, seed, sessions.clone()).with_window(WINDOW);
                [Box::new(client), Box::new(Ours::with(early(config.clone()), seed, sessions))]
            });
        });
    }
}

#[test]
fn a_client_that_is_elsewhere_and_not_confirmed_gives_a_server_bytes_enough_to_answer() {
    // Both of its answers to quinn's challenges are damaged. From then on it has its end of the handshake to say
    // again and one PING, and quinn sends nothing to an address that gave it less than a third of a packet.
    run_all(31_656..31_657, |seed| {
        converse_early(seed, |seed, sessions| {
            let client = Ours::with(plain(), seed, sessions.clone());
            [Box::new(client), Box::new(Quinn::with(true, seed, sessions))]
        });
    });
}

#[test]
fn a_server_that_takes_little_early_has_the_rest_said_again() {
    run_all(seeds(60), |seed| {
        let taken = converse_early(seed, |seed, sessions| {
            let config = Config { max_early_data: 1 + seed * 100, ..full() };
            let client = Ours::with(full(), seed, sessions.clone());
            [Box::new(client), Box::new(Ours::with(config, seed + (1 << 40), sessions))]
        });
        assert!(taken.is_some());
    });
}

#[test]
fn a_server_takes_nothing_early_unless_it_is_told_to() {
    run_all(seeds(20), |seed| {
        let taken = converse_early(seed, |seed, sessions| {
            let client = Ours::with(full(), seed, sessions.clone());
            [Box::new(client), Box::new(Ours::with(full(), seed + (1 << 40), sessions))]
        });
        assert_eq!(taken, Some(false));
    });
}
