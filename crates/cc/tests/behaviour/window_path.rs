//! NewReno and CUBIC against their response functions.

use core::time::Duration;

use tack_cc::Algorithm;

use crate::pipe::{Feedback, MSS, Path, Trace};

const WINDOW_BASED: [Algorithm; 3] = [Algorithm::NewReno, Algorithm::Cubic, Algorithm::CubicLinux];

/// Mean window, in segments, that a goodput amounts to.
fn window(trace: &Trace, from: f64, to: f64, rtt: Duration) -> f64 {
    trace.goodput(from, to).bytes_in(rtt) as f64 / MSS as f64
}

/// A path nobody fills: only `loss` limits the window.
fn wide(rtt_ms: u64, feedback: Feedback) -> Path {
    let mut path = Path::new(1_000, rtt_ms, feedback);
    path.buffer_bytes = 1 << 30;
    path
}

#[test]
fn one_bdp_of_buffer_is_enough_with_every_feedback() {
    for algorithm in WINDOW_BASED {
        for feedback in [Feedback::Every(1), Feedback::Every(2), Feedback::Tack] {
            for (mbps, rtt_ms) in [(10, 20), (10, 80), (100, 20)] {
                let trace =
                    Path::new(mbps, rtt_ms, feedback).run(algorithm, Duration::from_secs(8));
                let share = trace.goodput(3.0, 8.0).as_mbps_f64() / mbps as f64;
                assert!(share >= 0.95, "{algorithm} {feedback:?} {mbps} {rtt_ms}: {share}");
            }
        }
    }
}

#[test]
fn newreno_under_random_loss_follows_its_response_function() {
    // W = sqrt(3/2p), here 38.7 segments: [RFC 5348 §3.1] without its timeout term. Mean of seeds.
    let (p, rtt) = (0.001f64, Duration::from_millis(20));
    let seeds = [11, 12, 13];
    let windows = seeds.map(|seed| {
        let mut path = wide(20, Feedback::Every(1));
        (path.loss, path.seed) = (p, seed);
        window(&path.run(Algorithm::NewReno, Duration::from_secs(80)), 5.0, 80.0, rtt)
    });
    let (mean, expected) = (windows.iter().sum::<f64>() / 3.0, (1.5 / p).sqrt());
    assert!((mean / expected - 1.0).abs() <= 0.1, "{windows:?} of {expected}, seeds {seeds:?}");
}

#[test]
fn cubic_under_regular_loss_follows_its_response_function() {
    // [RFC 9438 §5.1]: W = (C (3 + beta) / (4 (1 - beta)))^(1/4) * RTT^(3/4) / p^(3/4), derived for
    // one loss every 1/p segments, which is what the path does.
    let (p, rtt) = (0.001f64, Duration::from_millis(200));
    let mut path = wide(200, Feedback::Every(1));
    path.lose_every = Some(1_000);
    let trace = path.run(Algorithm::Cubic, Duration::from_secs(600));
    let constant = tack_units::math::pow(0.4 * 3.7 / (4.0 * 0.3), 0.25);
    let expected =
        constant * tack_units::math::pow(rtt.as_secs_f64(), 0.75) / tack_units::math::pow(p, 0.75);
    let got = window(&trace, 50.0, 600.0, rtt);
    assert!((got / expected - 1.0).abs() <= 0.1, "{got} of {expected} segments");
}

#[test]
fn cubic_on_short_paths_is_as_fast_as_newreno() {
    // [RFC 9438 §4.3]: the Reno-friendly region.
    let rtt = Duration::from_millis(20);
    let windows = WINDOW_BASED.map(|algorithm| {
        let mut path = wide(20, Feedback::Every(1));
        path.lose_every = Some(1_000);
        window(&path.run(algorithm, Duration::from_secs(60)), 5.0, 60.0, rtt)
    });
    for friendly in &windows[1..] {
        assert!((0.9..=1.1).contains(&(friendly / windows[0])), "{windows:?}");
    }
}

#[test]
fn a_marked_path_is_filled_without_losing_anything() {
    // [RFC 3168]: marks above half a bdp, room for two.
    for algorithm in WINDOW_BASED {
        let mut path = Path::new(20, 40, Feedback::Every(2));
        let bdp = path.buffer_bytes;
        (path.mark_above, path.buffer_bytes) = (Some(bdp / 2), 4 * bdp);
        let trace = path.run(algorithm, Duration::from_secs(15));
        assert_eq!(trace.losses, 0, "{algorithm}");
        let share = trace.goodput(3.0, 15.0).as_mbps_f64() / 20.0;
        assert!(share >= 0.9, "{algorithm} {share}");
        let queue = trace.sights_in(5.0, 15.0).map(|s| s.queue_bytes).max();
        assert!(queue <= Some(bdp), "{algorithm} {queue:?} of {bdp}");
    }
}

#[test]
fn a_blackout_ends_in_slow_start() {
    for algorithm in WINDOW_BASED {
        let mut path = Path::new(20, 40, Feedback::Every(2));
        let (from, to) = (3_000, 5_000);
        path.suspended =
            vec![(tack_units::Instant::from_millis(from), tack_units::Instant::from_millis(to))];
        let trace = path.run(algorithm, Duration::from_secs(8));
        assert!(trace.timeouts > 0);
        let share = trace.goodput(6.5, 8.0).as_mbps_f64() / 20.0;
        assert!(share >= 0.8, "{algorithm} {share}");
    }
}

#[test]
fn the_kernels_cubic_is_slower_than_the_rfcs_under_random_loss_and_as_fast_as_newreno() {
    // Reno's estimate never grows by a whole segment per round, is whole segments, and is looked at
    // every 31 ms: 10.7 segments by a trace of Linux 6.18 where the RFC's gets 12.8.
    let rtt = Duration::from_millis(20);
    let seeds = [11, 12, 13];
    let [rfc, linux] = [Algorithm::Cubic, Algorithm::CubicLinux].map(|algorithm| {
        let windows = seeds.map(|seed| {
            let mut path = wide(20, Feedback::Every(2));
            (path.loss, path.seed) = (0.01, seed);
            window(&path.run(algorithm, Duration::from_secs(60)), 5.0, 60.0, rtt)
        });
        windows.iter().sum::<f64>() / 3.0
    });
    assert!((9.6..=11.8).contains(&linux), "{linux} segments, seeds {seeds:?}");
    assert!((0.72..=0.9).contains(&(linux / rfc)), "{linux} of {rfc} segments");
}
