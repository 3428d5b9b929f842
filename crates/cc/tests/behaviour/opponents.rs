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
    for algorithm in [Algorithm::Bbr, Algorithm::Bbr3] {
        for feedback in [Feedback::Every(2), Feedback::Tack] {
            for (mbps, rtt, loss, buf) in [(10, 20, 0.0, 1.0), (20, 80, 0.0, 1.0), (100, 30, 0.0, 1.0), (20, 40, 0.01, 1.0), (20, 80, 0.0, 0.25), (20, 80, 0.0, 4.0)] {
                let mut path = Path::new(mbps, rtt, feedback);
                path.buffer_bytes = (path.buffer_bytes as f64 * buf) as u64;
                path.loss = loss;
                let (share, queue, trace) = run(algorithm, path, 30.0);
                println!("{algorithm} {feedback:?} {mbps} {rtt} {loss} buf {buf}: {share:.3} q {queue:.1} loss {} to {} full at {:?}", trace.losses, trace.timeouts, trace.first(0.0, |s| !s.snapshot.startup));
            }
        }
    }
}
