//! Whole transports over a WLAN and a wire.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tack_cc::Algorithm;
use tack_link::path::Path;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Preset, Standard, Station, Wlan, WlanConfig};
use tack_link::{End, Link};
use tack_sim::{AckStrategy, Blast, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

/// Downloads, one per station.
#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// The 802.11 standard: b, g, n, ac or ax.
    #[arg(long, default_value = "n", value_parser = standard)]
    phy: Standard,

    /// Stations, each with one flow.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    flows: u32,

    /// Seconds to simulate.
    #[arg(long, default_value_t = 30)]
    seconds: u64,

    /// Segments per acknowledgment of plain TCP. Default: TACK.
    #[arg(long, conflicts_with = "udp")]
    l: Option<u32>,

    /// Congestion control. Default: the stack's, BBR.
    #[arg(long, conflicts_with = "udp")]
    controller: Option<Algorithm>,

    /// Datagrams as fast as the medium takes them, and no transport.
    #[arg(long)]
    udp: bool,

    /// One-way delay of the wire, in milliseconds.
    #[arg(long, default_value_t = 40.0)]
    delay_ms: f64,
}

fn standard(name: &str) -> Result<Standard, String> {
    let found = Standard::ALL.into_iter().find(|standard| standard.name() == name);
    found.ok_or_else(|| "no PHY is called so".to_owned())
}

pub(super) fn run(args: &FlowsArgs) -> Result<()> {
    let seed = Seed(1);
    let mut wlan = WlanConfig::preset(Preset::Textbook, args.phy);
    wlan.seed = seed.derive("wlan");
    // Stations are the first hosts, their servers the next.
    let station = wlan.stations[0].clone();
    wlan.stations =
        (0..args.flows).map(|n| Station { hosts: vec![n], ..station.clone() }).collect();
    let wire = DirectionConfig::clean(
        Rate::from_mbps(10_000),
        Duration::try_from_secs_f64(args.delay_ms / 1e3)?,
        Limit::Packets(1_000),
    );
    let wire = Wired::symmetric(wire, seed.derive("wire"))?.for_arrivals();
    let hops: Vec<Box<dyn Link + Send>> = vec![Box::new(Wlan::new(wlan)?), Box::new(wire)];
    let mut sim = Simulation::new(seed);
    sim.trust_links();
    let link = sim.add_link(Path::new(hops));
    for _ in 0..args.flows {
        sim.add_host(Site { link, end: End::A });
    }
    let stop = Instant::from_secs(args.seconds);
    for client in 0..args.flows {
        let server = sim.add_host(Site { link, end: End::B });
        if args.udp {
            let rate = Rate::from_mbps(1_500 / u64::from(args.flows));
            sim.add_blast(
                server,
                Blast { dst: client, ip_bytes: 1_500, rate, start: Instant::ZERO, stop },
            );
        } else {
            let ack = args.l.map_or(AckStrategy::TACK, AckStrategy::every);
            let transport = Transport { congestion: args.controller, ..Transport::new(ack) };
            sim.add_flow(FlowConfig::bulk(server, client, &transport));
        }
    }

    let ((), wall) = super::timed(|| sim.run_until(stop));
    let (wall, seconds) = (wall.as_secs_f64(), args.seconds as f64);
    let bytes: u64 = sim.flows().map(|f| sim.flow(f).1.received).sum();
    let totals = sim.world().totals();
    println!("{:.1} simulated s per wall s", seconds / wall);
    println!("{:.1} Mbit/s of application bytes", bytes as f64 * 8e-6 / seconds);
    println!("{:.2} us per packet, {} packets", wall * 1e6 / totals.arrived as f64, totals.arrived);
    println!("{} events, fingerprint {:016x}", totals.events, totals.fingerprint);
    Ok(())
}
