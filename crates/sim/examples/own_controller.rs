//! A congestion controller of one's own, beside one of ours, on one bottleneck.
//!
//! `cargo run --release -p tack-sim --example own_controller -- [opponent] [seconds]`
//!
//! Anything that implements [`Controller`] and [`Inspect`] will do. It goes into the configuration
//! of a connection through a [`Factory`], here as anywhere a [`ConnConfig`](tack_tcp::ConnConfig)
//! is taken.

use core::time::Duration;
use std::error::Error;

use tack_cc::{
    AckSample, Algorithm, Config, Controller, Factory, Inspect, LossKind, LossSample, Snapshot,
};
use tack_link::End;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_sim::{AckStrategy, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

/// Additive increase, and a tenth less once per round trip in which the least delay is 10 ms above
/// the least ever seen: a controller in forty lines.
#[derive(Debug)]
struct Tenth {
    mss: u64,
    cwnd: u64,
    rtt_min: Option<Duration>,
    srtt: Option<Duration>,
    /// The round ends when this much is delivered; the least round trip in it so far.
    round_end: u64,
    least: Option<Duration>,
}

const TARGET: Duration = Duration::from_millis(10);

impl Tenth {
    fn new(config: &Config) -> Self {
        let (mss, cwnd) = (u64::from(config.mss), config.initial_window);
        Tenth { mss, cwnd, rtt_min: None, srtt: None, round_end: 0, least: None }
    }
}

impl Controller for Tenth {
    fn on_sent(&mut self, _bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {}

    fn on_ack(&mut self, ack: &AckSample) {
        self.srtt = ack.srtt;
        if let Some(rtt) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if ack.delivered < self.round_end {
            return;
        }
        self.round_end = ack.delivered + ack.in_flight + 1;
        let (Some(least), Some(rtt_min)) = (self.least.take(), self.rtt_min) else { return };
        self.cwnd = if least > rtt_min + TARGET {
            (self.cwnd * 9 / 10).max(2 * self.mss)
        } else if ack.cwnd_limited {
            self.cwnd + 4 * self.mss
        } else {
            self.cwnd
        };
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if loss.kind == LossKind::Timeout {
            self.cwnd = 2 * self.mss;
        }
    }

    fn window(&self) -> u64 {
        self.cwnd.max(self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::from_bytes_over(self.cwnd, self.srtt?)?.mul_f64(1.2))
    }
}

impl Inspect for Tenth {
    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot::new(name, "steady", self.cwnd, self.pacing_rate())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let opponent: Algorithm = args.first().map_or("vegas", String::as_str).parse()?;
    let seconds: u64 = args.get(1).map_or("30", String::as_str).parse()?;

    let rate = Rate::from_mbps(20);
    let buffer = Limit::Bytes(400_000);
    let direction = DirectionConfig::clean(rate, Duration::from_millis(20), buffer);
    let mut sim = Simulation::new(Seed(1));
    let link = sim.add_link(Wired::symmetric(direction, 1)?);
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });

    let mut own = FlowConfig::bulk(from, to, &Transport::new(AckStrategy::TACK));
    own.from_conn.controller =
        Some(Factory::new("tenth", |config: &Config, _now| Box::new(Tenth::new(config))));
    let mut theirs = FlowConfig::bulk(from, to, &Transport::new(AckStrategy::TACK));
    theirs.from_conn.congestion = Some(opponent);

    let flows = [("tenth", sim.add_flow(own)), (opponent.name(), sim.add_flow(theirs))];
    sim.run_until(Instant::from_secs(seconds));
    for (name, flow) in flows {
        let received = sim.flow(flow).1.received;
        let goodput = Rate::from_bytes_over(received, Duration::from_secs(seconds));
        let srtt = sim.flow(flow).0.info.and_then(|info| info.srtt);
        println!("{name:12} {} of {rate}, srtt {srtt:?}", goodput.unwrap_or(Rate::ZERO));
    }
    Ok(())
}
