//! BBR by either source of rates.

use core::time::Duration;

use tack_cc::{
    AckSample, Algorithm, Config, CongestionControl, Controller, RateSample, RateSource,
};
use tack_units::{Instant, Rate};

use crate::pipe::{Feedback, MSS, Path, Trace};

/// Plain TCP with delayed ACKs, and TACK.
const SOURCES: [Feedback; 2] = [Feedback::Every(2), Feedback::Tack];
const PATHS: [(u64, u64); 4] = [(10, 20), (10, 80), (100, 20), (100, 80)];

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn bandwidth(trace: &Trace, from: f64, to: f64) -> (f64, f64) {
    let all = trace.sights_in(from, to).filter_map(|s| s.snapshot.bandwidth);
    all.fold((f64::MAX, 0.0), |(least, most), rate| {
        (rate.as_mbps_f64().min(least), rate.as_mbps_f64().max(most))
    })
}

#[test]
fn clean_paths_are_filled_without_a_standing_queue() {
    for feedback in SOURCES {
        for (mbps, rtt_ms) in PATHS {
            let path = Path::new(mbps, rtt_ms, feedback);
            // Linux allows three send quanta of 1 ms beyond the bdp; a small path has a floor.
            let bound = path.rate.bytes_in(Duration::from_millis(4)).max(10 * MSS);
            let trace = path.run(Algorithm::Bbr, secs(8));
            let share = trace.goodput(3.0, 8.0).as_mbps_f64() / mbps as f64;
            assert!(share >= 0.95, "{feedback:?} {mbps} Mbit/s {rtt_ms} ms: {share}");
            let queue = trace.median(3.0, 8.0, |s| s.queue_bytes);
            assert!(queue <= bound, "{feedback:?} {mbps} Mbit/s {rtt_ms} ms: {queue} bytes queued");
        }
    }
}

#[test]
fn tack_may_have_two_and_a_quarter_bdp_in_flight() {
    // [TON §VI-D]: 2 + 1/(RTTmin * f), and f = 4/RTTmin here.
    let trace = Path::new(100, 80, Feedback::Tack).run(Algorithm::Bbr, secs(6));
    for sight in trace.sights_in(3.0, 6.0) {
        let rtt_min = sight.snapshot.rtt_min.expect("sampled");
        let bdp = sight.snapshot.bandwidth.expect("sampled").bytes_in(rtt_min) as f64;
        let cap = sight.snapshot.cwnd as f64 / bdp;
        assert!((2.24..=2.40).contains(&cap), "{cap} bdp at {}", sight.at);
        assert!(sight.in_flight <= sight.snapshot.cwnd, "{sight:?}");
    }
}

#[test]
fn one_percent_loss_costs_less_than_ten() {
    for feedback in SOURCES {
        for (mbps, rtt_ms) in PATHS {
            let mut path = Path::new(mbps, rtt_ms, feedback);
            (path.loss, path.seed) = (0.01, mbps + rtt_ms);
            let trace = path.run(Algorithm::Bbr, secs(9));
            let share = trace.goodput(3.0, 9.0).as_mbps_f64() / mbps as f64;
            assert!(share >= 0.9, "{feedback:?} {mbps} Mbit/s {rtt_ms} ms: {share}");
        }
    }
}

#[test]
fn losing_every_tenth_tack_costs_next_to_nothing() {
    // [TON §V-A, Fig. 6b]: 1 % loss on the data path at 200 ms, 10 % on the ACK path.
    let share = |feedback_loss| {
        let mut path = Path::new(100, 200, Feedback::Tack);
        (path.loss, path.feedback_loss, path.seed) = (0.01, feedback_loss, 3);
        path.run(Algorithm::Bbr, secs(10)).goodput(4.0, 10.0).as_mbps_f64() / 100.0
    };
    let (without, with) = (share(0.0), share(0.1));
    assert!(with >= 0.9 && with >= without - 0.03, "{without} without, {with} with ACK loss");
}

/// Round trips of 40 ms until the estimate has followed `mbps` to twice of it, one for each seed.
fn round_trips_up(mbps: u64, algorithm: Algorithm, feedback: Feedback) -> Vec<f64> {
    let one = |seed| {
        let mut path = Path::new(mbps, 40, feedback);
        (path.seed, path.buffer_bytes) = (seed, 40_000 * mbps);
        path.changes = vec![(Instant::from_secs(5), Rate::from_mbps(2 * mbps))];
        let trace = path.run(algorithm, secs(7));
        let enough = Rate::from_mbps(2 * mbps).mul_f64(0.95);
        let there = trace.first(5.0, |s| s.snapshot.bandwidth >= Some(enough));
        (there.expect("converges within two seconds") - 5.0) / 0.04
    };
    (1..=6).map(one).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn doubled_bandwidth_is_found_within_a_cycle_and_a_half_by_probes_that_go_on() {
    // [TON §VII-D]: 24 round trips of BBR, half of that with cycles of 16 TACK intervals. Ours go on
    // probing while that finds bandwidth: the wait for the next probe is most of it.
    let bulk = mean(&round_trips_up(10, Algorithm::Bbr, Feedback::Tack));
    let video = mean(&round_trips_up(10, Algorithm::BbrInteractive, Feedback::Tack));
    assert!((5.0..=12.0).contains(&bulk), "{bulk} round trips");
    assert!(video <= bulk, "{video} round trips against {bulk}");
}

#[test]
fn by_the_sender_a_small_path_is_found_doubled_in_one_long_probe_as_by_linux() {
    // The 24 round trips of [TON §VII-D] are the arithmetic of a cycle whose probe lasts one round
    // trip. Linux's lasts until 1.25 bdp and three send quanta are in flight, and each round of it
    // raises the bdp: on 33 segments of bdp that is never reached before the bandwidth is, on 133
    // it sometimes is. Linux 6.18 took 5.7 to 12.6 round trips, 9.6 in the mean of 11, from 10 to
    // 20 Mbit/s over 40 ms, all in one probe; and 5.7 to 25, 13.2 in the mean of 6, from 40 to 80.
    let small = round_trips_up(10, Algorithm::Bbr, Feedback::Every(2));
    assert!(small.iter().all(|r| (5.0..=13.0).contains(r)), "{small:?}");
    assert!((8.5..=11.5).contains(&mean(&small)), "{small:?}");
    let large = round_trips_up(40, Algorithm::Bbr, Feedback::Every(2));
    assert!(large.iter().all(|r| (5.0..=26.0).contains(r)), "{large:?}");
}

#[test]
fn halved_bandwidth_is_believed_when_the_filter_has_forgotten() {
    // Filters of ten and five rounds, and a round is 40 ms at first; behind the queue that the halved
    // rate leaves it is up to 200 ms.
    for (algorithm, least, most) in
        [(Algorithm::Bbr, 0.4, 2.0), (Algorithm::BbrInteractive, 0.2, 1.0)]
    {
        let mut path = Path::new(20, 40, Feedback::Tack);
        path.buffer_bytes = 400_000;
        path.changes = vec![(Instant::from_secs(4), Rate::from_mbps(10))];
        let trace = path.run(algorithm, secs(6));
        let there = trace.first(4.0, |s| s.snapshot.bandwidth <= Some(Rate::from_mbps(11)));
        let took = there.expect("converges within two seconds") - 4.0;
        assert!((least..=most).contains(&took), "{algorithm}: {took} s");
    }
}

#[test]
fn bulk_falls_silent_for_a_moment_every_ten_seconds_and_sees_rtt_min() {
    for feedback in SOURCES {
        let trace = Path::new(10, 40, feedback).run(Algorithm::Bbr, secs(13));
        let probing: Vec<_> =
            trace.sights_in(0.0, 13.0).filter(|s| s.snapshot.state == "probe_rtt").collect();
        let (first, last) = (probing[0].at, probing[probing.len() - 1].at);
        assert!(first >= Instant::from_secs(10) - Duration::from_millis(500), "{first}");
        let lasts = last - first;
        assert!((180..=420).contains(&lasts.as_millis()), "{feedback:?} {lasts:?}");
        assert!(probing.iter().any(|s| s.queue_bytes == 0), "{feedback:?}");
        let least = probing.iter().map(|s| s.rtt).min().expect("not empty");
        assert!(least <= Duration::from_micros(42_500), "{feedback:?} {least:?}");
        let after = trace.goodput(11.5, 13.0).as_mbps_f64();
        assert!(after >= 9.5, "{feedback:?} {after} Mbit/s afterwards");
    }
}

#[test]
fn video_probes_often_and_never_falls_silent() {
    // [TON §VII-D]: 0.75 of the rate, every 2.5 s.
    let trace = Path::new(10, 40, Feedback::Tack).run(Algorithm::BbrInteractive, secs(12));
    let probes = trace.sights_in(0.0, 12.0).filter(|s| s.snapshot.state == "probe_rtt").count();
    assert!(probes > 0);
    for step in 0..40 {
        let from = 3.0 + f64::from(step) * 0.2;
        let rate = trace.goodput(from, from + 0.2).as_mbps_f64();
        assert!(rate >= 6.0, "{rate} Mbit/s at {from} s");
    }
}

#[test]
fn probing_for_rtt_min_can_be_switched_off() {
    let mut config = Config::new(MSS as u32);
    config.probe_rtt = false;
    let path = Path::new(10, 40, Feedback::Tack);
    let trace = path.run_with(Algorithm::Bbr, config, secs(12));
    assert!(trace.sights.iter().all(|s| s.snapshot.state != "probe_rtt"));
    assert!(trace.goodput(3.0, 12.0).as_mbps_f64() >= 9.5);
}

#[test]
fn aggregated_arrivals_do_not_inflate_the_estimate_without_bound() {
    // A-MPDUs of 64 after a random contention of 2 ms at 200 Mbit/s; 4 ms is less than one of them.
    for rtt_ms in [4, 10] {
        let mut path = Path::new(200, rtt_ms, Feedback::Tack);
        (path.aggregate, path.contention) = (64, Duration::from_millis(2));
        path.buffer_bytes = 1_500_000;
        let trace = path.run(Algorithm::Bbr, secs(8));
        let capacity = 64.0 * 1.5e3 * 8.0 / (64.0 * 1.5e3 * 8.0 / 200e6 + 2e-3) / 1e6;
        let got = trace.goodput(2.0, 8.0).as_mbps_f64();
        assert!(got >= 0.92 * capacity, "{got} of {capacity} Mbit/s at {rtt_ms} ms");
        let (early, late) = (bandwidth(&trace, 2.0, 5.0).1, bandwidth(&trace, 5.0, 8.0).1);
        assert!(early.max(late) <= 2.0 * capacity, "{early}, {late} of {capacity} Mbit/s");
        assert!(late <= 1.25 * early, "ratchets up: {early}, then {late}");
        // The inflight cap holds whatever the estimate: about what the same path costs plain TCP.
        let rtt = trace.median(2.0, 8.0, |s| s.rtt);
        assert!(rtt <= Duration::from_millis(rtt_ms + 30), "{rtt:?}");
    }
}

#[test]
fn wifi_scans_and_blackouts_are_survived_with_the_estimate() {
    for (pause_ms, period_ms) in [(100u64, 1_000u64), (250, 1_000), (2_000, 4_000)] {
        for algorithm in [Algorithm::Bbr, Algorithm::BbrInteractive] {
            let mut path = Path::new(50, 20, Feedback::Tack);
            path.buffer_bytes = 500_000;
            let pause = |n: u64| {
                let from = Instant::from_millis(4_000 + n * period_ms);
                (from, from + Duration::from_millis(pause_ms))
            };
            path.suspended = (0..4_000 / period_ms).map(pause).collect();
            let trace = path.run(algorithm, secs(8));
            let possible = 50.0 * (1.0 - pause_ms as f64 / period_ms as f64);
            let got = trace.goodput(4.0, 8.0).as_mbps_f64();
            assert!(got >= 0.9 * possible, "{algorithm} {pause_ms} ms: {got} of {possible}");
            let most = bandwidth(&trace, 4.0, 8.0).1;
            assert!(most <= 55.0, "{algorithm} {pause_ms} ms: {most} Mbit/s of 50");
        }
    }
}

#[test]
fn an_idle_application_finds_its_rate_again_without_a_burst() {
    for feedback in SOURCES {
        let mut path = Path::new(20, 40, feedback);
        path.idle = vec![(Instant::from_secs(3), Instant::from_secs(6))];
        let trace = path.run(Algorithm::Bbr, secs(8));
        let back = trace.goodput(6.1, 7.0).as_mbps_f64();
        assert!(back >= 18.0, "{feedback:?} {back} Mbit/s");
        let queued = trace.sights_in(6.0, 6.08).map(|s| s.queue_bytes).max();
        assert!(queued <= Some(20 * MSS), "{feedback:?} {queued:?}");
    }
}

#[test]
fn requests_and_pauses_of_any_length_keep_the_rate_that_the_path_has_shown() {
    let ms = Duration::from_millis;
    for (mbps, rtt) in [(26, 30), (100, 80), (5, 10)] {
        for (every, sending) in [(50, 5), (50, 15), (90, 15), (90, 30), (90, 60), (300, 30)] {
            let mut path = Path::new(mbps, rtt, Feedback::Tack);
            // Two seconds of bulk, then a request now and then.
            let began = |n: u64| Instant::ZERO + secs(2) + ms(every) * n as u32;
            path.idle =
                (0..6_000 / every).map(|n| (began(n) + ms(sending), began(n + 1))).collect();
            let trace = path.run(Algorithm::Bbr, secs(8));
            let (least, most) = bandwidth(&trace, 6.0, 8.0);
            let right = mbps as f64 * 0.95..=mbps as f64 * 1.05;
            let case = format!("{sending} of {every} ms at {mbps} Mbit/s, {rtt} ms");
            assert!(right.contains(&least) && right.contains(&most), "{case}: {least} to {most}");
        }
    }
}

#[test]
fn a_policer_is_found_and_obeyed() {
    // 10 Mbit/s by a bucket of 100 kB on a link of 100: the bursts it lets through look like more.
    let mut path = Path::new(100, 40, Feedback::Every(2));
    path.police = Some((Rate::from_mbps(10), 100_000));
    let trace = path.run(Algorithm::Bbr, secs(14));
    let got = trace.goodput(3.0, 14.0).as_mbps_f64();
    assert!(got >= 9.0, "{got} Mbit/s");
    let all = trace.arrivals.len() as f64 + trace.losses as f64;
    let lost = trace.losses as f64 / all;
    assert!(lost <= 0.12, "{lost} of all packets lost");
    // Found, it is sent at with gain 1 for 48 rounds.
    let policed = trace.sights_in(3.0, 14.0).filter(|s| {
        let bandwidth = s.snapshot.bandwidth.expect("sampled").as_mbps_f64();
        s.snapshot.pacing_gain == 1.0 && (9.5..=10.5).contains(&bandwidth)
    });
    let share = policed.count() as f64 / trace.sights_in(3.0, 14.0).count() as f64;
    assert!(share >= 0.6, "obeyed {share} of the time");
}

#[test]
fn where_a_path_is_won_a_few_times_a_second_bursts_grow_to_what_it_takes_at_once() {
    // A flow may be long unlucky: forty of them. Of two hundred the mean is 0.83, and a tenth has less than 0.58.
    let share = |seed| {
        let mut path = Path::new(1_000, 1, Feedback::Tack);
        (path.aggregate, path.contention) = (128, Duration::from_millis(150));
        (path.buffer_bytes, path.seed) = (1_000 * MSS, seed);
        let trace = path.run(Algorithm::Bbr, secs(40));
        trace.goodput(20.0, 40.0).as_mbps_f64() / (128.0 * 1.5e3 * 8.0 / 0.15 / 1e6)
    };
    let mut shares: Vec<f64> = (1..41).map(share).collect();
    shares.sort_by(f64::total_cmp);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean >= 0.75 && shares[4] >= 0.5, "of what the path carries: {shares:.2?}");
}

/// Windows, pacing rates and told rates of a flow of which each flight arrives as a whole after `rtt`, but the first
/// after `rtt_min`.
fn of_whole_windows(rtt_min: Duration, rtt: Duration) -> Vec<(u64, Rate, Option<Rate>)> {
    let config = Config::new(MSS as u32);
    let mut bbr = CongestionControl::new(Algorithm::Bbr, config, Instant::ZERO);
    let (mut now, mut delivered, mut seen) = (Instant::ZERO, 0, Vec::new());
    for access in 1..=6 {
        let window = bbr.window();
        let prior_delivered = delivered;
        bbr.on_sent(window, window, false, now);
        delivered += window;
        // Of the first window the receiver tells no rate yet.
        let rtt = if access == 1 { rtt_min } else { rtt };
        now += rtt;
        let told = Rate::from_bytes_over(window, rtt).filter(|_| access > 1);
        let rate = told.map(|rate| RateSample {
            delivery_rate: Some(rate),
            app_limited: false,
            source: RateSource::Receiver,
            prior_delivered,
            interval: rtt,
        });
        bbr.on_ack(&AckSample {
            now,
            acked_bytes: window,
            lost_bytes: 0,
            delivered,
            prior_in_flight: window,
            in_flight: 0,
            rtt: Some(rtt),
            srtt: Some(rtt),
            queued: Some(rtt - rtt_min),
            rtt_min: Some(rtt_min),
            rate,
            newest_sent_at: None,
            lost_sent_at: None,
            ack_interval: rtt_min / 4,
            cwnd_limited: true,
            in_recovery: false,
            ece: false,
        });
        seen.push((bbr.window(), bbr.pacing_rate().unwrap_or(Rate::ZERO), told));
    }
    seen
}

#[test]
fn a_window_that_arrives_as_a_whole_doubles_though_a_round_trip_is_five_rtt_min() {
    let seen = of_whole_windows(Duration::from_millis(1), Duration::from_millis(5));
    assert!(seen.windows(2).all(|w| w[1].0 == 2 * w[0].0), "after each access: {seen:?}");
}

#[test]
fn a_window_that_arrives_as_a_whole_is_no_pause_of_the_application() {
    let seen = of_whole_windows(Duration::from_millis(1), Duration::from_millis(5));
    let gain = |(_, pace, told): &(u64, Rate, Option<Rate>)| {
        told.map(|told| pace.as_bps() as f64 / told.as_bps() as f64)
    };
    let gains: Vec<f64> = seen.iter().filter_map(gain).collect();
    assert!(gains.iter().all(|gain| *gain > 2.8), "of what is told: {gains:.2?}");
}

#[test]
fn windows_that_hosts_take_as_a_whole_do_not_grow_without_bound() {
    let seen = of_whole_windows(Duration::from_micros(20), Duration::from_micros(100));
    let (first, last) = (seen[0].0, seen[5].0);
    assert!(last <= 4 * first, "after each wake-up: {seen:?}");
}
