//! The controllers of the wide-area comparison through the real stack, two on a bottleneck: how they
//! share it with their own kind, and with a flow that fills buffers.

use core::time::Duration;

use tack_cc::{Algorithm, Pacing};
use tack_lab::controllers::course::{Course, Outcome};
use tack_link::loss::LossConfig;
use tack_units::Rate;

const RATE: Rate = Rate::from_mbps(20);
const RTT: Duration = Duration::from_millis(40);

fn course(flows: &[Algorithm], bdps: f64, seconds: u64) -> Course {
    Course {
        rate: Some(RATE),
        rtt: RTT,
        buffer_bytes: (Course::bdp_bytes(RATE, RTT) as f64 * bdps) as u64,
        marks: false,
        loss: LossConfig::None,
        flows: flows.to_vec(),
        stagger: Duration::from_millis(500),
        segments_per_ack: 2,
        pacing: Pacing::Always,
        warmup: Duration::from_secs(seconds / 4),
        duration: Duration::from_secs(seconds),
        seed: 1,
    }
}

fn run(course: &Course) -> Outcome {
    course.run().expect("the course can run")
}

/// Part of the goodput that the first of the two has.
fn share(pair: [Algorithm; 2], bdps: f64) -> f64 {
    let outcome = run(&course(&pair, bdps, 60));
    let [a, b] = [0, 1].map(|n| outcome.flows[n].goodput.as_mbps_f64());
    println!("{} {} at {bdps} bdp: {a:.2} {b:.2} p95 {:?}", pair[0], pair[1], outcome.queue_p95);
    a / (a + b)
}

#[test]
fn look() {
    use Algorithm::*;
    for a in [Vegas, Copa, Allegro, Vivace, Bbr, Bbr3, Verus, Sprout] {
        share([a, a], 2.0);
    }
    for bdps in [1.0, 4.0] {
        for a in [Vegas, Copa, Allegro, Vivace, Bbr, Bbr3, Verus, Sprout] {
            share([a, Cubic], bdps);
        }
    }
}
