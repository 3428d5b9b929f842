//! One bulk flow over a clean wired path, sampled: cwnd, pacing, in flight, RTT, delivered.
//!
//! `cargo run --release -p tack-sim --example probe -- [mbit/s] [rtt ms] [loss] [seconds] [l]`

use core::time::Duration;
use std::error::Error;

use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_sim::{AckStrategy, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize, default: f64| args.get(n).map_or(Ok(default), |a| a.parse::<f64>());
    let (mbps, rtt_ms) = (arg(0, 100.0)?, arg(1, 80.0)?);
    let (loss, seconds, l) = (arg(2, 0.0)?, arg(3, 5.0)?, arg(4, 0.0)? as u32);
    let seed = Seed(1);
    let bdp = mbps * rtt_ms * 125.0;
    let direction = DirectionConfig {
        loss: LossConfig::Bernoulli(loss),
        ..DirectionConfig::clean(
            Rate::from_bps((mbps * 1e6) as u64),
            Duration::from_secs_f64(rtt_ms / 2e3),
            Limit::Bytes(bdp as u64),
        )
    };
    let mut sim = Simulation::new(seed);
    let link = sim.add_link(Wired::symmetric(direction, seed.derive("link"))?);
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    let ack = if l == 0 { AckStrategy::TACK } else { AckStrategy::every(l) };
    let flow = sim.add_flow(FlowConfig::bulk(from, to, &Transport::new(ack)));
    sim.record_every(Duration::from_millis(100), |link| link.queue_bytes(End::A));
    sim.run_until(Instant::ZERO + Duration::from_secs_f64(seconds));
    println!("time_s cwnd in_flight pacing_mbps srtt_ms rtt_min_ms delivered_mbps queue_bytes");
    let queue = sim.queue_series(link).expect("recorded").samples();
    let mut before = 0;
    for ((at, s), (_, queue)) in sim.flow_series(flow).samples().iter().zip(queue) {
        let ms = |d: Option<Duration>| d.map_or(f64::NAN, |d| d.as_secs_f64() * 1e3);
        println!(
            "{:.1} {} {} {:.1} {:.2} {:.2} {:.2} {queue}",
            at.as_secs_f64(),
            s.cwnd,
            s.in_flight.unwrap_or_default(),
            s.pacing_rate.map_or(f64::NAN, Rate::as_mbps_f64),
            ms(s.srtt),
            ms(s.rtt_min),
            (s.delivered - before) as f64 * 8e-5,
        );
        before = s.delivered;
    }
    for mut info in [sim.flow(flow).0.info, sim.flow(flow).1.info].into_iter().flatten() {
        // Two hundred lines of zeros help nobody.
        info.owd = Default::default();
        println!("{info:#?}");
    }
    println!("{:#?}", sim.world().link(link).counters(End::A));
    Ok(())
}
