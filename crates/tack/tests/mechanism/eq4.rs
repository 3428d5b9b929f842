//! The measured TACK frequency against Eq. 4.

use std::time::Duration;

use tack::{Params, equations};
use tack_units::{Instant, Rate};

use crate::world::{Config, World};

fn measure(rtt_ms: u64, mbps: u64, params: Params) -> (f64, f64) {
    let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
    let mut w = World::new(Config { rate, rtt, params, ..Config::default() });
    let expected =
        equations::tack_frequency(rate, rtt, params.beta, params.segments_per_ack, params.mss);
    // Steady state, long enough for 200 TACKs.
    let warm = Instant::from_millis(1_000 + 5 * rtt_ms);
    w.run(warm);
    let before = w.counts.tacks;
    let over = Duration::from_secs_f64((200.0 / expected).clamp(0.4, 20.0));
    w.run(warm + over);
    let hz = (w.counts.tacks - before) as f64 / over.as_secs_f64();
    assert_eq!((w.counts.loss_iacks, w.counts.window_iacks), (0, 0));
    assert_eq!(w.counts.probes + w.counts.timeouts, 0);
    (hz, expected)
}

/// Issue 2, measures: 1, 10, 80, 200 ms times 1, 10, 100, 500 Mbit/s, in both regimes.
#[test]
fn tack_frequency_is_within_three_percent_of_equation_4() {
    println!("RTT ms  Mbit/s   rule      Eq. 4 Hz   measured   error");
    for rtt in [1, 10, 80, 200] {
        for mbps in [1, 10, 100, 500] {
            let (hz, expected) = measure(rtt, mbps, Params::default());
            let bdp = Rate::from_mbps(mbps).bytes_in(Duration::from_millis(rtt));
            let rule = if equations::period_rules(bdp, 4, 2, 1_448) { "period" } else { "count" };
            let error = hz / expected - 1.0;
            println!(
                "{rtt:6}  {mbps:6}   {rule:6}  {expected:10.2} {hz:10.2} {:6.2} %",
                error * 100.0
            );
            assert!(error.abs() < 0.03, "{rtt} ms, {mbps} Mbit/s: {hz} Hz, Eq. 4 {expected} Hz");
        }
    }
}

#[test]
fn other_betas_and_segment_counts_follow_equation_4_too() {
    for (beta, segments_per_ack) in [(2, 2), (4, 1), (8, 4), (16, 2)] {
        for (rtt, mbps) in [(10, 10), (80, 50)] {
            let params = Params { beta, segments_per_ack, ..Params::default() };
            let (hz, expected) = measure(rtt, mbps, params);
            assert!(
                (hz / expected - 1.0).abs() < 0.03,
                "beta {beta} L {segments_per_ack} {rtt} ms {mbps} Mbit/s: {hz} Hz for {expected}"
            );
        }
    }
}
