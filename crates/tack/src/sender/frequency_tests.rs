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
    Estimates {
        bw,
        delivery_rate: None,
        rtt_min,
        srtt: rtt_min,
        without_queue: rtt_min,
        rho_prime: 0.0,
        startup,
    }
}

fn poll(sync: &mut FrequencySync, e: Estimates, now: Instant) -> Option<Frequency> {
    sync.poll(&Params::default(), e, now)
}

/// Past the first one: the receiver assumed the other regime and was told.
fn told(e: Estimates) -> FrequencySync {
    let mut sync = FrequencySync::default();
    let other = if e.startup { Regime::Steady } else { Regime::Startup };
    sync.on_echo(Duration::ZERO, other, at(0));
    let f = poll(&mut sync, e, at(0)).unwrap();
    sync.on_echo(f.interval, f.regime, at(0));
    sync
}

#[test]
fn nothing_is_told_before_the_receiver_showed_what_it_assumes() {
    let mut sync = FrequencySync::default();
    for t in 0..1_000 {
        assert_eq!(poll(&mut sync, estimates(t, ms(80), t < 500), at(t)), None);
    }
}

#[test]
fn no_first_one_is_told_when_the_handshake_told_the_receiver_enough() {
    // RTTmin 80 ms: 5 ms. The handshake took up to an eighth more or less.
    for (echoed_us, told) in [(5_000, false), (5_600, false), (4_400, false)].into_iter().chain([
        (5_700, true),
        (4_300, true),
        (0, true),
    ]) {
        let mut sync = FrequencySync::default();
        sync.on_echo(Duration::from_micros(echoed_us), Regime::Startup, at(80));
        let f = poll(&mut sync, estimates(10, ms(80), true), at(80));
        assert_eq!(f.map(|f| (f.regime, f.interval)), told.then_some((Regime::Startup, ms(5))));
    }
}

#[test]
fn an_interval_shorter_than_l_segments_take_is_not_told() {
    // 1 Mbit/s: 23 ms for two segments. RTTmin falls from 80 to 4 ms, then rises to 200.
    let mut sync = told(estimates(1, ms(80), false));
    assert_eq!(poll(&mut sync, estimates(1, ms(4), false), at(1_000)), None);
    assert_eq!(poll(&mut sync, estimates(1, ms(90), false), at(2_000)), None);
    let f = poll(&mut sync, estimates(1, ms(200), false), at(3_000)).unwrap();
    assert_eq!(f.interval, ms(50));
}

#[test]
fn a_window_that_grows_into_a_queue_is_no_growth() {
    let mut sync = told(estimates(10, ms(40), true));
    let mut regime = Regime::Startup;
    for t in 0..400 {
        // The controller's estimate doubles every round trip, what arrives does not.
        let delivery_rate = Some(Rate::from_mbps(10));
        let e = Estimates { delivery_rate, ..estimates(10 << (t / 80), ms(40), true) };
        if let Some(f) = poll(&mut sync, Estimates { srtt: ms(40 + t), ..e }, at(t)) {
            regime = f.regime;
            assert!((60..=121).contains(&t), "{t}");
        }
    }
    assert_eq!(regime, Regime::Steady);
}

#[test]
fn per_packet_is_told_unless_it_is_in_force() {
    let params = Params { startup: crate::StartupAcks::PerPacket, ..Params::default() };
    for (echoed, told) in [(ms(0), false), (ms(5), true)] {
        let mut sync = FrequencySync::default();
        sync.on_echo(echoed, Regime::Startup, at(80));
        let f = sync.poll(&params, estimates(10, ms(80), true), at(80));
        assert_eq!(f.map(|f| (f.interval, f.rtt_min)), told.then_some((ms(0), ms(80))));
    }
}

#[test]
fn a_regime_change_is_told_at_once() {
    let mut sync = FrequencySync::default();
    sync.on_echo(ms(5), Regime::Startup, at(80));
    assert_eq!(poll(&mut sync, estimates(100, ms(80), true), at(80)), None);
    let f = poll(&mut sync, estimates(100, ms(80), false), at(81)).unwrap();
    assert_eq!((f.regime, f.interval, f.rtt_min), (Regime::Steady, ms(20), ms(80)));
    assert_eq!((f.segments_per_ack, f.bdp), (2, 1_000_000));
    assert_eq!(poll(&mut sync, estimates(100, ms(80), false), at(82)), None);
    // Growth, and the controller looks for more again.
    let f = poll(&mut sync, estimates(200, ms(80), true), at(83)).unwrap();
    assert_eq!((f.regime, f.interval), (Regime::Startup, ms(5)));
}

/// The regime that is told or in force at each millisecond.
fn regimes(bw: impl Fn(u64) -> u64, startup: impl Fn(u64) -> bool, upto: u64) -> Vec<Regime> {
    let at_time = |t| Estimates { bw: Rate::from_kbps(bw(t)), ..estimates(0, ms(40), startup(t)) };
    let mut sync = told(at_time(0));
    let mut regime = sync.told.unwrap().frequency.regime;
    let regimes = (0..upto).map(|t| {
        let e = at_time(t);
        if let Some(f) = poll(&mut sync, e, at(t)) {
            regime = f.regime;
            sync.on_echo(f.interval, f.regime, at(t));
        }
        regime
    });
    regimes.collect()
}

#[test]
fn startup_without_growth_pauses_after_three_round_trips_and_returns_with_growth() {
    // An application at 10 Mbit/s, from 1 000 ms on at 12.4, from 2 000 ms on at 12.5.
    let bw = |t| {
        if t < 1_000 {
            10_000
        } else if t < 2_000 {
            12_400
        } else {
            12_500
        }
    };
    let regimes = regimes(bw, |_| true, 3_000);
    let runs: Vec<(Regime, usize)> =
        regimes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    let three = 3 * 40 + 1;
    let (probing, steady) = (Regime::Startup, Regime::Steady);
    let expected =
        [(probing, three), (steady, 2_000 - three), (probing, three), (steady, 1_000 - three)];
    assert_eq!(runs, expected);
}

#[test]
fn startup_lasts_while_the_estimate_doubles_every_two_round_trips() {
    let doubling = |t: u64| 1_000 << (t / 80);
    assert!(regimes(doubling, |_| true, 800).iter().all(|r| *r == Regime::Startup));
    let left = regimes(doubling, |t| t < 400, 800);
    assert_eq!(left.iter().filter(|r| **r == Regime::Startup).count(), 400, "as it says itself");
}

#[test]
fn a_flow_that_never_gets_an_estimate_stays_in_startup() {
    assert!(regimes(|_| 0, |_| true, 2_000).iter().all(|r| *r == Regime::Startup));
}

#[test]
fn doubling_and_halving_are_told_a_round_trip_apart_and_drift_after_four() {
    let mut sync = told(estimates(100, ms(80), false));
    assert_eq!(poll(&mut sync, estimates(100, ms(40), false), at(39)), None, "a round trip apart");
    assert!(poll(&mut sync, estimates(100, ms(40), false), at(40)).is_some(), "doubled");
    assert!(poll(&mut sync, estimates(100, ms(80), false), at(120)).is_some(), "halved");
    let drifted = estimates(100, ms(82), false);
    assert_eq!(poll(&mut sync, drifted, at(120 + 4 * 82 - 1)), None, "too soon");
    assert!(poll(&mut sync, drifted, at(120 + 4 * 82)).is_some());
    let close = estimates(100, Duration::from_micros(83_600), false);
    assert_eq!(poll(&mut sync, close, at(10_000)), None, "1.95 %");
}

#[test]
fn a_bandwidth_that_jumps_about_is_told_every_200_ms_where_acknowledgments_are_lost_else_never() {
    for (rho_prime, least, most) in [(0.0, 0, 0), (0.1, 2, 5)] {
        let jumps = |t: u64| Estimates {
            bw: Rate::from_kbps(if t.is_multiple_of(2) { 100 } else { 900 }),
            rho_prime,
            ..estimates(0, ms(10), false)
        };
        let mut sync = told(jumps(0));
        let count = (0..1_000).filter(|t| poll(&mut sync, jumps(*t), at(*t)).is_some()).count();
        assert!((least..=most).contains(&count), "{count}");
    }
}

#[test]
fn random_walks_keep_the_receiver_within_five_percent_with_few_updates() {
    // 2 % are not told, and in 320 ms the walk goes 0.5 % (one sigma) further.
    let mut sync = told(estimates(100, ms(80), false));
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let (mut rtt_us, mut told, mut updates) = (80_000f64, ms(20), 0);
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
        assert!(error.abs() < 0.05, "{error} at {t}");
    }
    assert!((2..313).contains(&updates), "{updates}");
}

#[test]
fn a_lost_one_is_repeated_when_tacks_still_echo_the_old() {
    let e = estimates(100, ms(80), false);
    let mut sync = told(e);
    sync.on_echo(Duration::ZERO, Regime::Startup, at(100));
    assert_eq!(poll(&mut sync, e, at(400)), None, "that TACK may have left before");
    sync.on_echo(Duration::ZERO, Regime::Startup, at(170));
    assert_eq!(poll(&mut sync, e, at(319)), None, "corrections are four round trips apart");
    assert!(poll(&mut sync, e, at(320)).is_some());
    assert_eq!(poll(&mut sync, e, at(700)), None, "the echo is older than the repetition");
    sync.on_echo(ms(20) + Duration::from_micros(1), Regime::Steady, at(800));
    assert_eq!(poll(&mut sync, e, at(1_000)), None, "rounding on the wire");
}

#[test]
fn what_equation_5_needs_is_kept_up_to_date_while_acknowledgments_are_lost() {
    let e = estimates(100, ms(80), false);
    let mut sync = told(e);
    let lossy = |mbps, rho_prime| Estimates { rho_prime, ..estimates(mbps, ms(80), false) };
    assert_eq!(poll(&mut sync, lossy(250, 0.0), at(1_000)), None, "Eq. 5 is far");
    assert_eq!(poll(&mut sync, lossy(100, 0.0015), at(1_000)), None);
    assert!(poll(&mut sync, lossy(100, 0.1), at(1_000)).is_some());
    assert_eq!(poll(&mut sync, lossy(100, 0.14), at(2_000)), None);
    assert!(poll(&mut sync, lossy(250, 0.1), at(3_000)).is_some(), "bdp");
    assert!(poll(&mut sync, lossy(250, 0.04), at(4_000)).is_some(), "rho'");
}

#[test]
fn a_flow_so_slow_that_counting_rules_is_not_told_to_probe_again() {
    // 0.1 Mbit/s over 40 ms is less than beta * L * MSS.
    let bw = |t| if t < 1_000 { 100 } else { 200 };
    let regimes = regimes(bw, |_| true, 2_000);
    assert_eq!(regimes.last(), Some(&Regime::Steady));
    assert_eq!(regimes.chunk_by(|a, b| a == b).count(), 2, "{regimes:?}");
}

#[test]
fn a_thin_return_path_makes_the_interval_longer_until_it_has_long_been_free() {
    let mut sync = told(estimates(100, ms(20), false));
    let full = Estimates { rho_prime: 0.05, ..estimates(100, ms(20), false) };
    let thin = Estimates { without_queue: ms(45), srtt: ms(45), ..full };
    let f = poll(&mut sync, thin, at(1_000)).expect("four times as long");
    assert_eq!(f.interval, ms(20));
    let free = estimates(100, ms(20), false);
    assert_eq!(poll(&mut sync, free, at(2_000)), None);
    let told: Vec<_> = (2_000..6_000).filter_map(|t| poll(&mut sync, free, at(t))).collect();
    assert_eq!(told.iter().map(|f| f.interval).collect::<Vec<_>>(), [ms(10), ms(5)]);
}

#[test]
fn a_search_after_a_timeout_is_measured_by_what_it_found_itself() {
    // 100 Mbit/s once, then a timeout on a path that carries 5 by now.
    let mut sync = told(estimates(100, ms(40), true));
    poll(&mut sync, estimates(100, ms(40), false), at(1_000));
    let mut regimes = vec![];
    for t in 0..400 {
        let e = estimates(5 + t / 40, ms(40), t < 300);
        regimes.extend(poll(&mut sync, e, at(10_000 + t)).map(|f| (t, f.regime)));
    }
    assert_eq!(regimes, [(0, Regime::Startup), (300, Regime::Steady)]);
}

#[test]
fn an_application_that_sends_now_and_then_is_no_search() {
    let mut sync = told(estimates(10, ms(40), true));
    let told: Vec<_> = (0..10_000)
        .filter_map(|t| poll(&mut sync, estimates(10, ms(40), true), at(t)))
        .map(|f| f.regime)
        .collect();
    assert_eq!(told, [Regime::Steady]);
}
