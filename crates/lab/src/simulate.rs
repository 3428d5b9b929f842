//! One run: a scenario and its seed in, figures out.
//!
//! ```text
//! station 1 ┐
//! station 2 ┼─ A [wifi] B ── A [wan] B ── server
//! station n ┘
//! ```

use core::time::Duration;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use tack_cc::Algorithm;
use tack_link::wired::Wired;
use tack_link::wlan::{Airtime, NodeStats, Use, Wlan};
use tack_link::{End, HostId};
use tack_sim::{
    AckStrategy, Blast, FlowConfig, FlowId, LinkId, Received, Seed, SideReport, Simulation, Site,
    Transport,
};
use tack_units::{Instant, Rate};

use crate::link::Hop;
use crate::result::{AirtimeShares, FlowResult, RunResult};
use crate::scenario::{App, Cc, Direction, Flow, Scenario, Strategy};
use crate::series;
use crate::stats::quantile;

/// The server's number; stations count from 1, as the WLAN model's presets number them.
const SERVER: HostId = 0;
/// IP-level size of open-loop datagrams, and the application bytes in each.
const UDP_IP_BYTES: u32 = 1_500;
const UDP_PAYLOAD_BYTES: u64 = 1_472;
/// Socket buffers of every flow: so large that no strategy is ever held back by them, whatever it
/// keeps unacknowledged while a hole is repaired.
const BUFFER_BYTES: usize = 64 << 20;
/// How often the sender's state is sampled for RTT percentiles.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// Where packets are written, if anywhere.
type Capture = Option<Box<dyn Write + Send>>;

/// A scenario set up, its flows in order.
struct Setup {
    sim: Simulation<Hop>,
    wlan: Option<LinkId>,
    flows: Vec<Placed>,
}

/// Where a flow of the scenario lives in the simulation.
enum Placed {
    Tcp(FlowId),
    Udp { src: HostId, dst: HostId },
}

/// Runs `scenario` with its seed.
///
/// # Errors
/// When it cannot be built, a byte arrived wrong, or packets or airtime were not conserved: a
/// figure from such a run would be worthless.
pub fn simulate(scenario: &Scenario) -> Result<RunResult> {
    Ok(run(scenario, None)?.0)
}

/// The same, with what `recordings` ask for written down. They change nothing in the run.
///
/// # Errors
/// As [`simulate`], and those of the writers.
pub fn simulate_recorded(scenario: &Scenario, recordings: Recordings) -> Result<RunResult> {
    let (result, setup) = run(scenario, recordings.packets)?;
    if let Some(mut out) = recordings.series {
        setup.write_series(&mut *out).context("the time series is incomplete")?;
    }
    for hop in setup.sim.into_links() {
        hop.finish().context("the capture is incomplete")?;
    }
    Ok(result)
}

/// What a run writes besides its figures.
#[derive(Default)]
pub struct Recordings {
    /// The packets at both ends of the 802.11 hop, or of the wired path where there is none, as
    /// pcapng.
    pub packets: Option<Box<dyn Write + Send>>,
    /// The senders' state, sampled every 10 ms (rarer in runs over 40 s), as CSV.
    pub series: Option<Box<dyn Write + Send>>,
}

fn run(scenario: &Scenario, capture: Capture) -> Result<(RunResult, Setup)> {
    let mut setup = build(scenario, capture)?;
    let warmup = Instant::ZERO + Duration::from_secs_f64(scenario.warmup_s);
    let end = Instant::ZERO + Duration::from_secs_f64(scenario.duration_s);
    setup.sim.run_until(warmup);
    let before = setup.reading(warmup);
    setup.sim.run_until(end);
    let after = setup.reading(end);
    setup.check()?;
    let result = setup.result(&before, &after, end.saturating_since(warmup), warmup);
    Ok((result, setup))
}

fn build(scenario: &Scenario, mut capture: Capture) -> Result<Setup> {
    let seed = Seed(scenario.seed);
    let mut sim = Simulation::new(seed);
    let mut ends: Option<(Site, Site)> = None;
    let mut wlan = None;
    if let Some(wifi) = &scenario.wifi {
        let config = wifi.config(seed.derive("wlan")).context("[wifi] cannot be built")?;
        let hop = Hop::Wlan(Box::new(Wlan::new(config)?));
        let link = sim.add_link(tap(hop, capture.take(), "wlan")?);
        wlan = Some(link);
        ends = Some((Site { link, end: End::A }, Site { link, end: End::B }));
    }
    if let Some(wan) = &scenario.wan {
        // From A, the clients' side, to B is up.
        let wired = Wired::new(wan.up().config(), wan.down().config(), seed.derive("wan"))?;
        let hop = Hop::Wired(Box::new(wired));
        let link = sim.add_link(tap(hop, capture.take(), "wan")?);
        let (near, far) = (Site { link, end: End::A }, Site { link, end: End::B });
        if let Some((_, ap)) = ends {
            sim.join(ap, near);
        }
        ends = Some((ends.map_or(near, |e| e.0), far));
    }
    let (clients, server) = ends.context("the scenario names no link")?;
    sim.add_host(server);
    let stations = scenario.wifi.as_ref().map_or(1, |w| w.stations);
    for _ in 0..stations {
        sim.add_host(clients);
    }
    sim.record_every(SAMPLE_PERIOD, Hop::queue_bytes);
    let flows = scenario.flow.iter().map(|f| place(&mut sim, scenario, f)).collect();
    Ok(Setup { sim, wlan, flows })
}

fn tap(hop: Hop, capture: Capture, name: &str) -> Result<Hop> {
    match capture {
        Some(out) => hop.tapped(out, name).context("the capture cannot be begun"),
        None => Ok(hop),
    }
}

fn place(sim: &mut Simulation<Hop>, scenario: &Scenario, flow: &Flow) -> Placed {
    let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s);
    let station = flow.station + 1;
    let (src, dst) = match flow.direction {
        Direction::Down => (SERVER, station),
        Direction::Up => (station, SERVER),
    };
    let stop = at(flow.stop_s.unwrap_or(scenario.duration_s).min(scenario.duration_s));
    let ack = match flow.strategy {
        Strategy::Udp => {
            let rate = udp_rate(scenario, flow);
            let start = at(flow.start_s);
            sim.add_blast(src, Blast { dst, ip_bytes: UDP_IP_BYTES, rate, start, stop });
            return Placed::Udp { src, dst };
        }
        Strategy::Tcp(l) => AckStrategy::Delayed(l),
        Strategy::Tack => AckStrategy::Tack,
    };
    let mut transport = Transport::new(ack);
    transport.send_buffer = Some(BUFFER_BYTES);
    transport.recv_buffer = Some(BUFFER_BYTES);
    transport.congestion = match flow.cc {
        Cc::Bbr => None,
        Cc::BbrInteractive => Some(Algorithm::BbrInteractive),
        Cc::NewReno => Some(Algorithm::NewReno),
        Cc::Cubic => Some(Algorithm::Cubic),
    };
    let mut config = FlowConfig::bulk(src, dst, &transport);
    for conn in [&mut config.from_conn, &mut config.to_conn] {
        conn.ecn = flow.ecn;
        if let Some(params) = &mut conn.tack {
            params.beta = flow.beta;
            params.segments_per_ack = flow.segments_per_ack;
        }
    }
    config.app = app(&flow.app);
    config.start = at(flow.start_s);
    config.stop = flow.stop_s.map(at);
    Placed::Tcp(sim.add_flow(config))
}

fn app(app: &App) -> tack_sim::App {
    let ms = |v: f64| Duration::from_secs_f64(v / 1e3);
    match *app {
        App::Bulk => tack_sim::App::Bulk { bytes: None },
        App::RequestResponse { request_bytes, response_bytes, think_ms } => {
            let think = ms(think_ms);
            tack_sim::App::RequestResponse { request_bytes, response_bytes, think, count: None }
        }
        App::OnOff { on_ms, off_ms } => {
            tack_sim::App::OnOff { on: ms(on_ms), off: ms(off_ms), rate: Rate::from_mbps(10_000) }
        }
        App::Cbr { mbps } => tack_sim::App::ConstantRate {
            rate: Rate::from_bps((mbps * 1e6) as u64),
            chunk_bytes: 1_400,
        },
    }
}

/// What a UDP flow offers: its own rate, or more than the first bottleneck can carry.
fn udp_rate(scenario: &Scenario, flow: &Flow) -> Rate {
    if let App::Cbr { mbps } = flow.app {
        return Rate::from_bps(
            (mbps * 1e6 * f64::from(UDP_IP_BYTES) / UDP_PAYLOAD_BYTES as f64) as u64,
        );
    }
    let phy = scenario.wifi.as_ref().and_then(|w| w.config(0)).map(|c| match flow.direction {
        Direction::Down => c.downlink.kbps(),
        Direction::Up => c.uplink.kbps(),
    });
    let wan = scenario.wan.as_ref().and_then(|w| match flow.direction {
        Direction::Down => w.down().rate_mbps,
        Direction::Up => w.up().rate_mbps,
    });
    let wan = wan.map(|mbps| (mbps * 1.05e3) as u64);
    Rate::from_kbps(phy.into_iter().chain(wan).min().unwrap_or(1_000_000))
}

/// Counters at one moment.
struct Reading {
    flows: Vec<FlowReading>,
    air: Option<(Airtime, NodeStats)>,
}

#[derive(Clone, Copy, Default)]
struct FlowReading {
    app_bytes: u64,
    data_packets: u64,
    ack_packets: u64,
}

impl Setup {
    fn write_series(&self, out: &mut dyn Write) -> std::io::Result<()> {
        series::write_header(out)?;
        for (number, placed) in self.flows.iter().enumerate() {
            if let Placed::Tcp(id) = placed {
                series::write_flow(out, number, self.sim.flow_series(*id))?;
            }
        }
        out.flush()
    }

    fn reading(&self, now: Instant) -> Reading {
        let flows = self.flows.iter().map(|f| match f {
            Placed::Udp { src, dst } => {
                let got = self.received(*src, *dst);
                let app_bytes = got.packets * UDP_PAYLOAD_BYTES;
                FlowReading { app_bytes, data_packets: got.packets, ack_packets: 0 }
            }
            Placed::Tcp(id) => {
                let (from, to) = self.sim.flow(*id);
                FlowReading {
                    // Request-response data goes both ways: what both applications read counts.
                    app_bytes: from.received + to.received,
                    data_packets: data_sent(&from) + data_sent(&to),
                    ack_packets: acks_sent(&from) + acks_sent(&to),
                }
            }
        });
        let flows = flows.collect();
        let air = self.wlan().map(|w| {
            let mut nodes = w.ap_stats();
            for i in 0..w.config().stations.len() {
                if let Some(s) = w.station_stats(i) {
                    nodes.accesses += s.accesses;
                    nodes.collisions += s.collisions;
                }
            }
            (w.airtime(now), nodes)
        });
        Reading { flows, air }
    }

    fn received(&self, src: HostId, dst: HostId) -> Received {
        self.sim.world().host(dst).open_loop_from(src)
    }

    fn wlan(&self) -> Option<&Wlan> {
        self.sim.world().link(self.wlan?).wlan()
    }

    fn check(&self) -> Result<()> {
        for hop in self.sim.world().links() {
            ensure!(hop.conserves(), "packets were not conserved on {hop:?}");
        }
        if let Some(w) = self.wlan() {
            let shares: f64 = w.airtime(self.sim.world().now()).shares().iter().sum();
            ensure!((shares - 1.0).abs() < 1e-6, "airtime shares sum to {shares}");
        }
        for placed in &self.flows {
            if let Placed::Tcp(id) = placed {
                let (from, to) = self.sim.flow(*id);
                for side in [&from, &to] {
                    let wrong = side.first_wrong_byte;
                    ensure!(wrong.is_none(), "byte {wrong:?} of flow {} arrived wrong", id.0);
                }
            }
        }
        Ok(())
    }

    fn result(
        &self,
        before: &Reading,
        after: &Reading,
        time: Duration,
        warmup: Instant,
    ) -> RunResult {
        let flows: Vec<FlowResult> = self
            .flows
            .iter()
            .zip(before.flows.iter().zip(&after.flows))
            .map(|(placed, (before, after))| self.flow_result(placed, before, after, time, warmup))
            .collect();
        let mut total = flows.first().cloned().unwrap_or_default();
        for flow in flows.iter().skip(1) {
            total.goodput_bps += flow.goodput_bps;
            total.data_packets_per_s += flow.data_packets_per_s;
            total.ack_packets_per_s += flow.ack_packets_per_s;
            total.retransmissions += flow.retransmissions;
            total.needless_retransmissions += flow.needless_retransmissions;
        }
        let links = self.sim.world().links();
        let air = before.air.as_ref().zip(after.air.as_ref());
        RunResult {
            total,
            flows,
            airtime: air.map(|(b, a)| shares(&a.0.since(&b.0))),
            collision_share: air.map(|(b, a)| {
                let nodes = a.1.since(&b.1);
                nodes.collisions as f64 / (nodes.accesses as f64).max(1.0)
            }),
            queue_drops: links.iter().map(Hop::queue_drops).sum(),
            link_losses: links.iter().map(Hop::losses).sum(),
        }
    }

    fn flow_result(
        &self,
        placed: &Placed,
        before: &FlowReading,
        after: &FlowReading,
        time: Duration,
        warmup: Instant,
    ) -> FlowResult {
        let per_s = |b: u64, a: u64| a.saturating_sub(b) as f64 / time.as_secs_f64();
        let mut result = FlowResult {
            goodput_bps: per_s(before.app_bytes, after.app_bytes) * 8.0,
            data_packets_per_s: per_s(before.data_packets, after.data_packets),
            ack_packets_per_s: per_s(before.ack_packets, after.ack_packets),
            ..FlowResult::default()
        };
        if let Placed::Tcp(id) = placed {
            let (from, _) = self.sim.flow(*id);
            let us = |d: Duration| d.as_secs_f64() * 1e6;
            if let Some(info) = &from.info {
                result.retransmissions = info.counters.retransmissions;
                result.needless_retransmissions = info.counters.needless;
                result.rtt_min_us = info.rtt_min.map(us);
            }
            let samples = self.sim.flow_series(*id).samples().iter();
            let mut rtts: Vec<f64> = samples
                .filter(|(at, _)| *at >= warmup)
                .filter_map(|(_, s)| s.srtt.map(us))
                .collect();
            result.rtt_p50_us = quantile(&mut rtts, 0.5);
            result.rtt_p95_us = quantile(&mut rtts, 0.95);
        }
        result
    }
}

fn data_sent(side: &SideReport<'_>) -> u64 {
    side.info.as_ref().map_or(0, |i| i.counters.data_segments_sent)
}

fn acks_sent(side: &SideReport<'_>) -> u64 {
    side.info.as_ref().map_or(0, |i| i.counters.acks_sent.total())
}

fn shares(airtime: &Airtime) -> AirtimeShares {
    let share = |what| airtime.share(what);
    AirtimeShares {
        data: share(Use::Data),
        acks: share(Use::Ack),
        collisions: share(Use::Collision),
        control: share(Use::Control) + share(Use::Beacon) + share(Use::Lost),
        idle: share(Use::Contention) + share(Use::Idle),
        neighbours: share(Use::Neighbour),
    }
}
