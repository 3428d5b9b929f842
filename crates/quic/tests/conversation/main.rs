//! Conversations of our QUIC with itself and with quinn, over paths that lose, double, delay, damage and rebind.
//! Each is a seed; every byte is compared.
//!
//! `TACK_SEEDS=100000` runs more of them, `TACK_SEEDS=910..911` one.

mod early;
mod end;
mod ours;
mod path;
mod quinn;
mod roaming;
mod seeds;
mod speech;
mod tls;
mod trouble;
mod world;

use std::ops::Range;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_cc::Algorithm;
use tack_quic::Config;

use end::End;
use ours::Ours;
use path::Path;
use quinn::{Quinn, is_quinn_s};
use roaming::Roaming;
use seeds::seeds;
use speech::Script;
use trouble::Trouble;
use world::World;

/// Failures after which no more are looked for.
const ENOUGH: usize = 10;

/// Runs a conversation per seed; those that fail are named.
fn converse(seeds: Range<u64>, ends: impl Fn(u64) -> [Box<dyn End>; 2] + RefUnwindSafe) {
    run_all(seeds, |seed| {
        run(seed, 0.0, ends(seed));
    });
}

/// One conversation over whatever path the seed says; what became of what was said early.
fn run(seed: u64, quits: f64, ends: [Box<dyn End>; 2]) -> Option<bool> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let path = Path::of(&mut rng);
    let (streams, most) = (rng.random_range(1..12), rng.random_range(1..60_000));
    let script = Script { seed, streams, most, quits };
    let mut world = World::new(script, path.by(seed), ends);
    let now = world.run();
    let was_taken_early = world.was_taken_early();
    world.close(now);
    was_taken_early
}

fn run_all(seeds: Range<u64>, run: impl Fn(u64) + RefUnwindSafe) {
    let fails = |seed: &u64| {
        let panicked = catch_unwind(|| run(*seed));
        panicked.is_err_and(|panic| !is_quinn_s(&*panic))
    };
    let failed: Vec<u64> = seeds.filter(fails).take(ENOUGH).collect();
    let Some(first) = failed.first() else { return };
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let again = format!("TACK_SEEDS={first}..{} cargo test -p tack-quic --test", first + 1);
    panic!("seeds {failed:?} fail; the first again: {again} conversation {name}");
}

/// Silence that ends a conversation. Half a minute would be too short for one in thirty thousand: quinn keeps
/// acknowledgments to itself while its window is full (seed 20450), round trips then seem to take seconds, and
/// two probes in a row are lost.
const SILENCE: Duration = Duration::from_secs(120);

fn full() -> Config {
    Config { idle_timeout: Some(SILENCE), ..Config::default() }
}

fn plain() -> Config {
    Config { tack: None, ask_frequency: false, ..full() }
}

/// As they were when a seed failed.
fn impatient() -> Config {
    Config { idle_timeout: Some(Duration::from_secs(30)), ..plain() }
}

#[test]
fn ours_and_quinn_hear_each_other_when_ours_connects() {
    converse(seeds(120), |seed| {
        let config = if seed % 2 == 0 { plain() } else { full() };
        [Box::new(Ours::new(config, seed)), Box::new(Quinn::new(true, seed))]
    });
}

#[test]
fn ours_and_quinn_hear_each_other_when_quinn_connects() {
    converse(seeds(120), |seed| {
        let config = if seed % 2 == 0 { plain() } else { full() };
        [Box::new(Quinn::new(false, seed)), Box::new(Ours::new(config, seed))]
    });
}

#[test]
fn two_of_ours_hear_each_other_without_tack() {
    converse(seeds(120), |seed| {
        [Box::new(Ours::new(plain(), seed)), Box::new(Ours::new(plain(), seed + (1 << 40)))]
    });
}

#[test]
fn two_of_ours_hear_each_other_with_tack() {
    converse(seeds(120), |seed| {
        let config = full();
        let server = Ours::new(config.clone(), seed + (1 << 40));
        [Box::new(Ours::new(config, seed)), Box::new(server)]
    });
}

/// An end with whatever limits, acknowledgments and controller.
fn drawn(rng: &mut Pcg64) -> Config {
    let params = tack::Params {
        segments_per_ack: rng.random_range(1..9),
        beta: rng.random_range(2..9),
        ..tack::Params::DEFAULT
    };
    let mut window = || 1 << rng.random_range(8..20);
    let [initial_window, initial_connection_window] = [window(), window()];
    Config {
        initial_window,
        max_window: initial_window * window().min(16),
        initial_connection_window,
        max_connection_window: initial_connection_window * window().min(16),
        send_buffer: 1 << rng.random_range(8..20),
        max_streams_bidi: rng.random_range(1..13),
        max_streams_uni: rng.random_range(1..13),
        max_udp_payload: rng.random_range(1_200..9_000),
        congestion: *Algorithm::ALL.choose(rng).unwrap(),
        tack: rng.random_bool(0.7).then_some(params),
        ask_frequency: rng.random(),
        ..full()
    }
}

#[test]
fn ends_hear_each_other_within_whatever_limits_either_has() {
    run_all(seeds(120), within_limits);
}

/// Who asked for a stream beyond the limit with each acknowledgment told of it each time, and was acknowledged: 424 000 packets.
#[test]
fn who_asks_again_and_again_for_a_stream_beyond_the_limit_says_so_once() {
    within_limits(60_042);
}

fn within_limits(seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let ours = Box::new(Ours::new(drawn(&mut rng), seed));
    let other: Box<dyn End> = match rng.random_range(0..3) {
        0 => Box::new(Quinn::new(true, seed)),
        _ => Box::new(Ours::new(drawn(&mut rng), seed + (1 << 40))),
    };
    let path = Path::of(&mut rng);
    let (streams, most) = (rng.random_range(1..12), rng.random_range(1..6_000));
    let script = Script { seed, streams, most, quits: QUITS };
    let mut world = World::new(script, path.by(seed), [ours, other]);
    let now = world.run();
    world.close(now);
}

/// Of the streams, how many are given up by who speaks, and by who hears.
const QUITS: f64 = 0.25;

#[test]
fn streams_that_ours_and_quinn_give_up_leave_the_others_whole() {
    run_all(seeds(120), |seed| {
        let config = if seed & 2 == 0 { plain() } else { full() };
        let quinn = Box::new(Quinn::new(seed & 1 == 0, seed));
        let ours = Box::new(Ours::new(config, seed));
        let ends: [Box<dyn End>; 2] = if seed & 1 == 0 { [ours, quinn] } else { [quinn, ours] };
        run(seed, QUITS, ends);
    });
}

#[test]
fn streams_that_two_of_ours_give_up_leave_the_others_whole() {
    run_all(seeds(120), |seed| {
        let config = if seed % 2 == 0 { plain() } else { full() };
        let server = Ours::new(config.clone(), seed + (1 << 40));
        run(seed, QUITS, [Box::new(Ours::new(config, seed)), Box::new(server)]);
    });
}

#[test]
fn a_server_that_went_back_to_a_client_s_old_address_follows_its_probes_to_the_new_one() {
    // The client's answer to quinn's challenge is lost, and all that it has to say again is a connection ID.
    converse(910..911, |seed| {
        [Box::new(Ours::new(impatient(), seed)), Box::new(Quinn::new(true, seed))]
    });
}

#[test]
fn a_client_that_has_moved_gives_a_server_bytes_enough_to_ask_where_it_is() {
    // quinn's first challenge is lost, and it says nothing more before it got 400 bytes from there.
    converse(3_691..3_692, |seed| {
        [Box::new(Ours::new(impatient(), seed)), Box::new(Quinn::new(true, seed))]
    });
}

#[test]
fn a_client_whose_handshake_is_not_confirmed_is_heard_by_a_server_that_has_forgotten_it() {
    // The client goes on with packets of the handshake, for which the server has no keys any more, and its
    // address is another.
    for seed in [1_865, 14_284] {
        converse(seed..seed + 1, |seed| {
            [
                Box::new(Ours::new(impatient(), seed)),
                Box::new(Ours::new(impatient(), seed + (1 << 40))),
            ]
        });
    }
}

#[test]
fn a_client_that_only_waits_and_is_elsewhere_asks_until_it_is_heard() {
    // All that it has in flight when a timeout takes it for lost is PINGs.
    for seed in [3_634, 3_838] {
        converse(seed..seed + 1, |seed| {
            let server = Ours::new(full(), seed + (1 << 40));
            [Box::new(Ours::new(full(), seed)), Box::new(server)]
        });
    }
}

#[test]
fn the_end_of_the_handshake_is_repeated_though_data_that_the_server_cannot_read_fills_the_window() {
    converse(24_109..24_110, |seed| {
        let config = Config { idle_timeout: Some(Duration::from_secs(30)), ..Config::default() };
        [Box::new(Ours::new(config, seed)), Box::new(Quinn::new(true, seed))]
    });
}

/// A conversation of two of ours in trouble: blackouts and sleep last as long at most.
fn converse_in_trouble(seed: u64, [blackout, sleep]: [Duration; 2]) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let (streams, most) = (rng.random_range(1..12), rng.random_range(1..60_000));
    let script = Script { seed, streams, most, quits: 0.0 };
    let mut end = |seed| {
        let limits = Config { idle_timeout: None, ..Config::default() };
        let congestion = *Algorithm::ALL.choose(&mut rng).unwrap();
        let max_udp_payload = rng.random_range(1_200..9_000);
        let tack = limits.tack.filter(|_| rng.random_bool(0.6));
        Box::new(Ours::new(Config { congestion, max_udp_payload, tack, ..limits }, seed))
    };
    let ends: [Box<dyn End>; 2] = [end(seed), end(seed + (1 << 40))];
    World::new(script, Trouble::of(seed, [blackout, sleep]), ends).run();
}

const SECONDS: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(10)];
const HOURS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5 * 3_600)];

#[test]
fn what_was_said_arrives_after_blackouts_moves_and_sleep_on_a_path_that_became_narrow() {
    run_all(seeds(240), |seed| converse_in_trouble(seed, SECONDS));
}

#[test]
fn ends_that_wait_for_ever_go_on_where_they_were_after_hours_of_sleep() {
    run_all(seeds(120), |seed| converse_in_trouble(seed, HOURS));
}

#[test]
fn a_path_that_has_become_narrow_is_found_out_though_what_is_short_passes_all_the_while() {
    run_all(662..663, |seed| converse_in_trouble(seed, SECONDS));
}

#[test]
fn what_is_lost_is_probed_for_though_both_ends_keep_the_connection_alive_meanwhile() {
    run_all(246..247, |seed| converse_in_trouble(seed, SECONDS));
}

#[test]
fn a_client_that_was_asleep_until_the_handshake_was_over_owes_nothing_of_it() {
    run_all(32_168..32_169, |seed| converse_in_trouble(seed, HOURS));
}

#[test]
fn what_lay_for_half_a_minute_until_there_were_keys_makes_no_probes_rare() {
    run_all(72_620..72_621, |seed| converse_in_trouble(seed, SECONDS));
}

/// A conversation with a client that goes from near to far and back.
fn converse_roaming(seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let (streams, most) = (rng.random_range(1..12), rng.random_range(1..60_000));
    let script = Script { seed, streams, most, quits: 0.0 };
    let mut ours = |seed| {
        let congestion = *Algorithm::ALL.choose(&mut rng).unwrap();
        let config = if seed % 2 == 0 { plain() } else { full() };
        Box::new(Ours::new(Config { congestion, ..config }, seed))
    };
    let [client, server] = [ours(seed), ours(seed + (1 << 40))];
    let ends: [Box<dyn End>; 2] = match seed % 5 {
        0 => [client, Box::new(Quinn::new(true, seed))],
        1 => [Box::new(Quinn::new(false, seed)), server],
        _ => [client, server],
    };
    World::new(script, Roaming::of(seed), ends).run();
}

#[test]
fn what_was_said_arrives_though_the_client_goes_from_near_to_far_and_back() {
    run_all(seeds(120), converse_roaming);
}
