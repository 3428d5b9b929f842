//! The controllers of the wide-area comparison, each held to what its paper promises.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_units::{Instant, Rate};

use crate::pipe::{Feedback, MSS, Path, Trace};

/// Mean bytes in the queue.
fn queue(trace: &Trace, from: f64, to: f64) -> f64 {
    let (sum, n) = trace.sights_in(from, to).fold((0, 0), |(s, n), x| (s + x.queue_bytes, n + 1));
    sum as f64 / f64::from(n.max(1)) / MSS as f64
}

fn share(trace: &Trace, rate: Rate, from: f64, to: f64) -> f64 {
    trace.goodput(from, to).as_mbps_f64() / rate.as_mbps_f64()
}

/// The path's rate taken, and segments in the queue.
fn run(algorithm: Algorithm, path: Path, seconds: f64) -> (f64, f64, Trace) {
    let rate = path.rate;
    let trace = path.run(algorithm, Duration::from_secs_f64(seconds));
    let from = seconds / 3.0;
    (share(&trace, rate, from, seconds), queue(&trace, from, seconds), trace)
}


/// A link whose rate changes every `step`: twice or half as much at most, within the bounds.
fn wandering(from: u64, to: u64, step: f64, seconds: f64, seed: u64) -> Vec<(Instant, Rate)> {
    use rand_pcg::rand_core::Rng;
    let mut dice = rand_pcg::Pcg32::new(seed, 3);
    let (mut at, mut mbps) = (0.0, (from as f64 * to as f64).sqrt());
    let mut changes = Vec::new();
    while at < seconds {
        let unit = f64::from(dice.next_u32()) / f64::from(u32::MAX);
        mbps = (mbps * 2f64.powf(2.0 * unit - 1.0)).clamp(from as f64, to as f64);
        changes.push((Instant::ZERO + Duration::from_secs_f64(at), Rate::from_bps((mbps * 1e6) as u64)));
        at += step;
    }
    changes
}

#[test]
fn look() {
    for (from, to) in [(1, 10), (2, 20)] {
        for step in [0.2, 1.0] {
            let changes = wandering(from, to, step, 60.0, 1);
            let mut sum = 0.0;
            for c in &changes { sum += c.1.as_mbps_f64(); }
            let mean = sum / changes.len() as f64;
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::Copa, Algorithm::Verus, Algorithm::Sprout] {
        for feedback in [Feedback::Every(2), Feedback::Tack] {
                let mut path = Path::new(to, 40, feedback);
                path.changes = changes.clone();
                path.buffer_bytes = 750_000;
                let trace = path.run(algorithm, Duration::from_secs(60));
                let (p50, p95) = (trace.median(5.0, 60.0, |s| s.rtt), trace.quantile(5.0, 60.0, 0.95, |s| s.rtt));
                println!("{from}-{to} {step} {algorithm} {feedback:?}: {:.3} rtt {p50:?} {p95:?} loss {} to {} full at {:?}", trace.goodput(5.0, 60.0).as_mbps_f64() / mean, trace.losses, trace.timeouts, trace.first(0.0, |s| !s.snapshot.startup));
            }
        }
    }
    }
}
