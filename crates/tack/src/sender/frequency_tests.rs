//! When the frequency is told, and how rarely.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn estimates(mbps: u64, rtt_min: Duration, startup: bool) -> Estimates {
    let bw = Rate::from_mbps(mbps);
    Estimates { bw, rtt_min, srtt: rtt_min, rho_prime: 0.0, startup }
}

fn poll(sync: &mut FrequencySync, e: Estimates, now: Instant) -> Option<Frequency> {
    sync.poll(&Params::default(), e, now)
}

#[test]
fn the_first_one_is_told_as_soon_as_there_is_an_rtt() {
    let mut sync = FrequencySync::default();
    let f = poll(&mut sync, estimates(0, ms(80), true), at(0)).unwrap();
    assert_eq!((f.regime, f.interval, f.segments_per_ack), (Regime::Startup, ms(20), 2));
    assert_eq!(poll(&mut sync, estimates(0, ms(80), true), at(500)), None);
}

#[test]
fn a_regime_change_is_told_at_once() {
    let mut sync = FrequencySync::default();
    poll(&mut sync, estimates(100, ms(80), true), at(0));
    let f = poll(&mut sync, estimates(100, ms(80), false), at(1)).unwrap();
    assert_eq!((f.regime, f.bdp), (Regime::Steady, 1_000_000));
}

#[test]
fn doubling_and_halving_are_told_at_once_and_drift_after_a_while() {
    let mut sync = FrequencySync::default();
    poll(&mut sync, estimates(100, ms(80), false), at(0));
    assert!(poll(&mut sync, estimates(100, ms(40), false), at(1)).is_some(), "doubled");
    assert!(poll(&mut sync, estimates(100, ms(80), false), at(2)).is_some(), "halved");
    let drifted = estimates(100, ms(82), false);
    assert_eq!(poll(&mut sync, drifted, at(50)), None, "too soon");
    assert!(poll(&mut sync, drifted, at(90)).is_some());
    let close = estimates(100, Duration::from_micros(82_900), false);
    assert_eq!(poll(&mut sync, close, at(10_000)), None, "1.1 %");
}

#[test]
fn a_bandwidth_that_jumps_about_is_not_told_more_than_every_fifty_milliseconds() {
    let mut sync = FrequencySync::default();
    let jumps = |t: u64| Estimates {
        bw: Rate::from_kbps(if t.is_multiple_of(2) { 100 } else { 900 }),
        ..estimates(0, ms(10), false)
    };
    let told = (0..1_000).filter(|t| poll(&mut sync, jumps(*t), at(*t)).is_some()).count();
    assert!((2..=20).contains(&told), "{told}");
}

#[test]
fn random_walks_keep_the_receiver_within_three_percent_with_few_updates() {
    let mut sync = FrequencySync::default();
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let (mut rtt_us, mut told, mut updates) = (80_000f64, Duration::ZERO, 0);
    for t in 0..100_000u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        rtt_us *= 1.0 + ((x >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 1e-3;
        let rtt = Duration::from_secs_f64(rtt_us / 1e6);
        if let Some(f) = poll(&mut sync, estimates(100, rtt, false), at(t)) {
            (told, updates) = (f.interval, updates + 1);
        }
        let error = told.as_secs_f64() * 4.0 / rtt.as_secs_f64() - 1.0;
        assert!(error.abs() < 0.03, "{error} at {t}");
    }
    assert!((2..1_000).contains(&updates), "{updates}");
}

#[test]
fn a_lost_one_is_repeated_when_tacks_still_echo_the_old() {
    let mut sync = FrequencySync::default();
    let e = estimates(100, ms(80), false);
    poll(&mut sync, e, at(0));
    sync.on_echo(Duration::ZERO, Regime::Startup, at(100));
    assert_eq!(poll(&mut sync, e, at(100)), None, "that TACK may have left before");
    sync.on_echo(Duration::ZERO, Regime::Startup, at(170));
    assert!(poll(&mut sync, e, at(170)).is_some());
    assert_eq!(poll(&mut sync, e, at(300)), None, "the echo is older than the repetition");
    sync.on_echo(ms(20) + Duration::from_micros(1), Regime::Steady, at(400));
    assert_eq!(poll(&mut sync, e, at(1_000)), None, "rounding on the wire");
}

#[test]
fn what_equation_5_needs_is_kept_up_to_date() {
    let mut sync = FrequencySync::default();
    let e = estimates(100, ms(80), false);
    poll(&mut sync, e, at(0));
    let lossy = |rho_prime| Estimates { rho_prime, ..e };
    assert_eq!(poll(&mut sync, lossy(0.0015), at(1_000)), None);
    assert!(poll(&mut sync, lossy(0.1), at(1_000)).is_some());
    assert_eq!(poll(&mut sync, lossy(0.14), at(2_000)), None);
    assert!(poll(&mut sync, estimates(250, ms(80), false), at(3_000)).is_some(), "bdp, rho'");
}
