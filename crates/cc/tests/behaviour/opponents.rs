//! The controllers of the wide-area comparison, each held to what its paper promises.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_units::Rate;

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

#[test]
fn look() {
    let path = Path::new(100, 30, Feedback::Every(2));
    let trace = path.run(Algorithm::Vivace, Duration::from_secs(6));
    let mut last = 0.0;
    for s in &trace.sights {
        let b = s.snapshot.bandwidth.map_or(0.0, |b| b.as_mbps_f64());
        if b != last { println!("{:.3} base {b:.2} q {} rtt {:?}", s.at.as_secs_f64(), s.queue_bytes / MSS, s.rtt); last = b; }
    }
}
