//! Every controller, and one of a user's own, behind the real stack over a wire.

use core::time::Duration;

use tack_cc::{AckSample, Algorithm, Config, Controller, Factory, Inspect, LossSample, Snapshot};
use tack_link::End;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_sim::{AckStrategy, FlowConfig, FlowId, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

const RATE: Rate = Rate::from_mbps(10);
const RTT: Duration = Duration::from_millis(40);

/// One bulk flow for so many seconds over a path with two bdps of buffer.
fn run(config: impl FnOnce(&mut FlowConfig), ack: AckStrategy, seconds: u64) -> Ran {
    let buffer = Limit::Bytes(2 * RATE.bytes_in(RTT));
    let direction = DirectionConfig::clean(RATE, RTT / 2, buffer);
    let mut sim = Simulation::new(Seed(1));
    let link = sim.add_link(Wired::symmetric(direction, 1).expect("a path"));
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    let mut flow = FlowConfig::bulk(from, to, &Transport::new(ack));
    config(&mut flow);
    let flow = sim.add_flow(flow);
    sim.run_until(Instant::from_secs(seconds));
    assert_eq!(sim.stall().map(ToString::to_string), None);
    Ran { sim, flow }
}

struct Ran {
    sim: Simulation<Wired>,
    flow: FlowId,
}

impl Ran {
    fn share(&self, seconds: u64) -> f64 {
        let received = self.sim.flow(self.flow).1.received;
        let rate = Rate::from_bytes_over(received, Duration::from_secs(seconds));
        rate.unwrap_or(Rate::ZERO).as_mbps_f64() / RATE.as_mbps_f64()
    }
}

#[test]
fn every_controller_uses_a_clean_path_under_tack_and_under_plain_tcp() {
    for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
        for &algorithm in Algorithm::ALL {
            let ran = run(|flow| flow.from_conn.congestion = Some(algorithm), ack, 15);
            let share = ran.share(15);
            println!("{algorithm} {}: {share:.3}", ack.name());
            // From the handshake on, headers and slow starts included.
            assert!(share >= 0.75, "{algorithm} {}: {share}", ack.name());
        }
    }
}

/// As many bytes in flight as told, whatever happens.
#[derive(Debug)]
struct Constant {
    window: u64,
    mss: u64,
}

impl Controller for Constant {
    fn on_sent(&mut self, _bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {}
    fn on_ack(&mut self, _ack: &AckSample) {}
    fn on_loss(&mut self, _loss: &LossSample) {}

    fn window(&self) -> u64 {
        self.window.max(self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}

impl Inspect for Constant {
    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot::new(name, "constant", self.window(), None)
    }
}

#[test]
fn a_controller_of_ones_own_governs_a_connection_in_place_of_the_named_one() {
    // Half a bdp in flight is half the rate, which no controller of ours would settle for.
    let window = RATE.bytes_in(RTT) / 2;
    let factory = Factory::new("constant", move |config: &Config, _| {
        Box::new(Constant { window, mss: u64::from(config.mss) })
    });
    let ran = run(
        |flow| {
            flow.from_conn.congestion = Some(Algorithm::Cubic);
            flow.from_conn.controller = Some(factory);
        },
        AckStrategy::every(1),
        10,
    );
    let share = ran.share(10);
    assert!((0.4..=0.5).contains(&share), "{share}");
}
