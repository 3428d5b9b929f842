//! The controllers ranked over random wide-area paths by power, as the SIGCOMM paper ranks them on
//! Pantheon: `log(throughput / 95th percentile of the one-way delay)` of each path, its rank among
//! all, and the median of ranks.
//!
//! `cargo run --release -p tack-sim --example wide_area -- [paths] [seconds] [seed]`
//!
//! Rates are drawn from 1 to 100 Mbit/s, round trips from 1 to 200 ms, buffers from half a bdp to
//! five, each uniformly. On every second path a bulk flow of CUBIC is there, too. All speak plain
//! TCP with delayed acknowledgments but `tack`, which is BBR by the receiver under TACK.

use core::time::Duration;
use std::error::Error;

use tack_cc::Algorithm;
use tack_link::End;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_sim::{AckStrategy, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

/// One path.
#[derive(Clone, Copy, Debug)]
struct Path {
    rate: Rate,
    rtt: Duration,
    buffer_bytes: u64,
    crowded: bool,
}

/// Between two looks at the queue.
const PERIOD: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, usual: u64| args.get(n).map_or(Ok(usual), |arg| arg.parse());
    let (count, seconds, seed) = (number(0, 20)?, number(1, 20)?, number(2, 1)?);

    let mut contenders = vec![("tack", AckStrategy::TACK, Algorithm::Bbr)];
    let plain = Algorithm::ALL.iter().filter(|a| **a != Algorithm::BbrInteractive);
    contenders.extend(plain.map(|a| (a.name(), AckStrategy::every(2), *a)));
    let mut ranks = vec![Vec::new(); contenders.len()];
    let mut uses = vec![(0.0, 0.0); contenders.len()];
    for n in 0..count {
        let path = draw(Seed(Seed(seed).derive(&format!("path {n}"))), n % 2 == 1);
        let mut powers = Vec::new();
        for (who, (_, ack, algorithm)) in contenders.iter().enumerate() {
            let (share, owd) = run(path, *ack, *algorithm, seconds)?;
            powers.push((who, (share.max(1e-6) / owd).ln()));
            uses[who].0 += share / count as f64;
            uses[who].1 += owd / (path.rtt.as_secs_f64() / 2.0) / count as f64;
        }
        powers.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (rank, (who, _)) in powers.iter().enumerate() {
            ranks[*who].push(rank + 1);
        }
        eprintln!("{}/{count} {path:?}", n + 1);
    }

    let mut table: Vec<_> = (0..contenders.len())
        .map(|who| {
            ranks[who].sort_unstable();
            let mean = ranks[who].iter().sum::<usize>() as f64 / ranks[who].len().max(1) as f64;
            (ranks[who].get(ranks[who].len() / 2).copied(), mean, who)
        })
        .collect();
    table.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap_or(core::cmp::Ordering::Equal));
    println!("{:12} {:>6} {:>6} {:>6} {:>18}", "", "median", "mean", "rate", "delay p95 / empty");
    for (median, mean, who) in table {
        let (name, (share, delay)) = (contenders[who].0, uses[who]);
        println!("{name:12} {:>6} {mean:>6.1} {share:>6.2} {delay:>18.2}", median.unwrap_or(0));
    }
    Ok(())
}

fn draw(seed: Seed, crowded: bool) -> Path {
    let uniform = |name: &str, from: f64, to: f64| {
        let word = seed.derive(name);
        from + (to - from) * (word >> 11) as f64 / (1u64 << 53) as f64
    };
    let rate = Rate::from_bps((uniform("rate", 1.0, 100.0) * 1e6) as u64);
    let rtt = Duration::from_secs_f64(uniform("rtt", 0.001, 0.2));
    let bdp = rate.bytes_in(rtt) as f64;
    let buffer_bytes = ((bdp * uniform("buffer", 0.5, 5.0)) as u64).max(6_000);
    Path { rate, rtt, buffer_bytes, crowded }
}

/// Part of the rate that the flow got, and the 95th percentile of its one-way delay, in seconds,
/// after the first quarter.
fn run(
    path: Path,
    ack: AckStrategy,
    algorithm: Algorithm,
    seconds: u64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let buffer = Limit::Bytes(path.buffer_bytes);
    let direction = DirectionConfig::clean(path.rate, path.rtt / 2, buffer);
    let mut sim = Simulation::new(Seed(1));
    let link = sim.add_link(Wired::symmetric(direction, 1)?);
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    if path.crowded {
        let mut transport = Transport::new(AckStrategy::every(2));
        transport.congestion = Some(Algorithm::Cubic);
        sim.add_flow(FlowConfig::bulk(from, to, &transport));
    }
    let mut transport = Transport::new(ack);
    transport.congestion = Some(algorithm);
    let mut config = FlowConfig::bulk(from, to, &transport);
    config.start = Instant::from_millis(200);
    let flow = sim.add_flow(config);
    sim.record_every(PERIOD, |link: &Wired| link.queue_bytes(End::A));

    let from = Instant::from_secs((seconds / 4).max(1));
    sim.run_until(from);
    let before = sim.flow(flow).1.received;
    sim.run_until(Instant::from_secs(seconds));
    let received = sim.flow(flow).1.received - before;
    let goodput = Rate::from_bytes_over(received, Instant::from_secs(seconds) - from);
    let share = goodput.unwrap_or(Rate::ZERO).as_mbps_f64() / path.rate.as_mbps_f64();

    let series = sim.queue_series(link).ok_or("the queue was not recorded")?;
    let mut queues: Vec<u64> =
        series.samples().iter().filter(|(at, _)| *at >= from).map(|(_, bytes)| *bytes).collect();
    queues.sort_unstable();
    let queue = queues.get(queues.len() * 95 / 100).copied().unwrap_or(0);
    let waits = path.rate.time_for(queue).unwrap_or_default();
    Ok((share, (path.rtt / 2 + waits).as_secs_f64()))
}
