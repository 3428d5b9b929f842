//! How many simulated seconds a wall second simulates: bulk TCP over a WLAN and a wire.
//!
//! `cargo run --release -p tack-sim --example speed -- [b|g|n|ac|ax] [flows] [seconds] [l] [ms]`
//!
//! `l` is 0 for TACK (the default), else the segments per acknowledgment of plain TCP; `udp` sends
//! as fast as the medium takes it and nothing else. `ms` is the wire's one-way delay.

use core::time::Duration;
use std::error::Error;

use tack_link::path::Path;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Preset, Standard, Station, Wlan, WlanConfig};
use tack_link::{End, Link};
use tack_sim::{AckStrategy, Blast, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize, default: &str| args.get(n).cloned().unwrap_or(default.to_owned());
    let standard = match arg(0, "n").as_str() {
        "b" => Standard::B,
        "g" => Standard::G,
        "n" => Standard::N,
        "ac" => Standard::Ac,
        "ax" => Standard::Ax,
        other => return Err(format!("no PHY is called {other}").into()),
    };
    let flows: u32 = arg(1, "1").parse()?;
    let seconds: u64 = arg(2, "30").parse()?;
    let traffic = arg(3, "0");
    let delay_ms: f64 = arg(4, "40").parse()?;

    let seed = Seed(1);
    let mut wlan = WlanConfig::preset(Preset::Textbook, standard);
    wlan.seed = seed.derive("wlan");
    // Stations are the first hosts, their servers the next.
    let station = wlan.stations[0].clone();
    wlan.stations = (0..flows).map(|n| Station { hosts: vec![n], ..station.clone() }).collect();
    let wire = DirectionConfig::clean(
        Rate::from_mbps(10_000),
        Duration::try_from_secs_f64(delay_ms / 1e3)?,
        Limit::Packets(1_000),
    );
    let hops: Vec<Box<dyn Link + Send>> =
        vec![Box::new(Wlan::new(wlan)?), Box::new(Wired::symmetric(wire, seed.derive("wire"))?)];
    let mut sim = Simulation::new(seed);
    let link = sim.add_link(Path::new(hops));
    for _ in 0..flows {
        sim.add_host(Site { link, end: End::A });
    }
    let end = Instant::from_secs(seconds);
    for client in 0..flows {
        let server = sim.add_host(Site { link, end: End::B });
        if traffic == "udp" {
            let rate = Rate::from_mbps(1_500 / u64::from(flows));
            let blast =
                Blast { dst: client, ip_bytes: 1_500, rate, start: Instant::ZERO, stop: end };
            sim.add_blast(server, blast);
            continue;
        }
        let ack = match traffic.parse()? {
            0 => AckStrategy::TACK,
            l => AckStrategy::every(l),
        };
        sim.add_flow(FlowConfig::bulk(server, client, &Transport::new(ack)));
    }

    #[allow(clippy::disallowed_methods, reason = "the wall clock is what is measured")]
    let start = std::time::Instant::now();
    sim.run_until(end);
    let wall = start.elapsed().as_secs_f64();

    let bytes: u64 = sim.flows().map(|f| sim.flow(f).1.received).sum();
    let totals = sim.world().totals();
    println!("{:.1} simulated s per wall s", seconds as f64 / wall);
    println!("{:.1} Mbit/s of application bytes", bytes as f64 * 8e-6 / seconds as f64);
    println!("{:.2} us per packet, {} packets", wall * 1e6 / totals.arrived as f64, totals.arrived);
    println!("{} events, fingerprint {:016x}", totals.events, totals.fingerprint);
    Ok(())
}
