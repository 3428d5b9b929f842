//! A scenario's flows, as the simulator wants them.

use core::time::Duration;

use anyhow::Result;
use rand::Rng as _;
use tack_cc::Pacing;
use tack_link::HostId;
use tack_sim::{Blast, FlowConfig, FlowId, Seed, Transport};
use tack_units::{Instant, Rate};

use crate::network::Network;
use crate::scenario::{App, Direction, Flow, Scenario, Strategy};

/// IP-level size of open-loop datagrams, and the application bytes in each.
const UDP_IP_BYTES: u32 = 1_500;
pub(crate) const UDP_PAYLOAD_BYTES: u64 = 1_472;
/// Socket buffers of every flow: so large that no strategy is ever held back by them, whatever it
/// keeps unacknowledged while a hole is repaired.
const BUFFER_BYTES: usize = 64 << 20;
/// Options of a data segment, bytes: timestamps, and TACK's packet number.
const TIMESTAMP_BYTES: u16 = 12;
const PKT_SEQ_BYTES: u16 = 8;

/// Where a flow of the scenario lives in the simulation.
pub(crate) enum Placed {
    Flow(FlowId),
    Udp { src: HostId, dst: HostId },
}

/// When a flow begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) start: Instant,
    pub(crate) stop: Option<Instant>,
}

/// Puts the next of the scenario's flows into the simulation.
pub(crate) fn place(network: &mut Network, scenario: &Scenario, flow: &Flow) -> Result<Placed> {
    let (client, server) = (network.client(flow.station), network.next_server(flow));
    let (src, dst) = match flow.direction {
        Direction::Down => (server, client),
        Direction::Up => (client, server),
    };
    let start = Instant::ZERO + start_after(scenario, network.sim.flows().count(), flow);
    let stop = flow.stop_s.map(at);
    if let Strategy::Quic(stock) = flow.strategy {
        let times = Times { start, stop };
        let id = crate::stock::place(network, scenario, flow, stock, [src, dst], times)?;
        return Ok(Placed::Flow(id));
    }
    let Some(mut config) = flow_config(flow) else {
        let rate = udp_rate(scenario, flow);
        let stop = stop.unwrap_or(Instant::MAX).min(at(scenario.duration_s));
        let blast = Blast { dst, ip_bytes: UDP_IP_BYTES, rate, start, stop };
        network.sim.add_blast(src, blast);
        return Ok(Placed::Udp { src, dst });
    };
    (config.from, config.to) = (src, dst);
    config.app = app(&flow.app);
    config.start = start;
    config.stop = stop;
    Ok(Placed::Flow(network.sim.add_flow(config)))
}

/// Both ends of a flow as our stack wants them, hosts and application apart; `None` of UDP.
pub(crate) fn flow_config(flow: &Flow) -> Option<FlowConfig> {
    let Strategy::Tcp(ack) = flow.strategy else { return None };
    let transport = Transport {
        send_buffer: Some(BUFFER_BYTES),
        recv_buffer: Some(BUFFER_BYTES),
        congestion: Some(flow.cc),
        ..Transport::new(ack)
    };
    let mut config = FlowConfig::bulk(0, 0, &transport);
    for conn in [&mut config.from_conn, &mut config.to_conn] {
        conn.ecn = flow.ecn;
        conn.pacing = if flow.paced { Pacing::Always } else { Pacing::OnlyIfRateBased };
        if let Some(params) = conn.ack.tack_mut() {
            *params = flow.tack_params(*params);
        }
        let options = TIMESTAMP_BYTES + if conn.ack.tack().is_some() { PKT_SEQ_BYTES } else { 0 };
        conn.mss = flow.segment_bytes.map(|bytes| bytes + options);
        if let Some(window) = rwnd_bytes(flow) {
            conn.recv_buffer = window;
            conn.initial_recv_buffer = window;
        }
    }
    Some(config)
}

fn at(s: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(s)
}

/// When flow `number` starts: its random part is its own, whatever other flows there are.
pub(crate) fn start_after(scenario: &Scenario, number: usize, flow: &Flow) -> Duration {
    let mut rng = Seed(scenario.seed).stream(&format!("start {number}"));
    let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_secs_f64(flow.start_s + flow.start_jitter_s * share)
}

fn rwnd_bytes(flow: &Flow) -> Option<usize> {
    let segment = usize::from(flow.segment_bytes.unwrap_or(1_448));
    flow.rwnd_segments.map(|n| n as usize * segment)
}

pub(crate) fn app(app: &App) -> tack_sim::App {
    let ms = |v: f64| Duration::from_secs_f64(v / 1e3);
    match *app {
        App::Bulk => tack_sim::App::Bulk { bytes: None },
        App::File { bytes } => tack_sim::App::Bulk { bytes: Some(bytes) },
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
pub(crate) fn udp_rate(scenario: &Scenario, flow: &Flow) -> Rate {
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
