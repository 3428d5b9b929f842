//! A scenario's flows, as the simulator wants them.

use core::time::Duration;

use anyhow::{Context, Result};
use tack_cc::Pacing;
use tack_link::HostId;
use tack_sim::{Blast, Cast, FlowConfig, FlowId, Seed, Transport, Video};
use tack_units::Instant;

use crate::draw::unit;
use crate::host::Controllers;
use crate::network::Network;
use crate::offer::{Times, UDP_IP_BYTES, app, udp_rate};
use crate::playout::Playout;
use crate::scenario::{App, Direction, Flow, Scenario, Strategy, video};

/// What a datagram of a video carries: seven packets of an MPEG transport stream, which is what fits
/// Ethernet, behind the headers of IP, UDP and RTP.
const RTP_PAYLOAD_BYTES: u32 = 7 * 188;
const RTP_HEADER_BYTES: u32 = 20 + 8 + 12;
/// Headers of a datagram that is no video's.
const UDP_HEADER_BYTES: u32 = 28;
/// Socket buffers of every flow: so large that no strategy is ever held back by them, whatever it
/// keeps unacknowledged while a hole is repaired.
const BUFFER_BYTES: usize = 64 << 20;
/// Options of a data segment, bytes: timestamps, and TACK's packet number.
const TIMESTAMP_BYTES: u16 = 12;
const PKT_SEQ_BYTES: u16 = 8;

/// Where a flow of the scenario lives in the simulation.
pub(crate) enum Placed {
    Flow(FlowId),
    Udp {
        src: HostId,
        dst: HostId,
        /// Of each packet.
        header_bytes: u32,
    },
}

/// A flow of the scenario in the simulation.
pub(crate) struct Planted {
    pub(crate) placed: Placed,
    pub(crate) times: Times,
    /// What is watched of it, if it is a video.
    pub(crate) playout: Option<Playout>,
    /// Bytes that make it complete, if it is a file: a stop may cut it off.
    pub(crate) file_bytes: Option<u64>,
}

/// Puts the next of the scenario's flows, number `number` of them, into the simulation.
pub(crate) fn place(
    network: &mut Network,
    scenario: &Scenario,
    (number, flow): (usize, &Flow),
    controllers: &Controllers,
) -> Result<Planted> {
    let (client, server) = (network.client(flow.station), network.next_server(flow));
    let (src, dst) = match flow.direction {
        Direction::Down => (server, client),
        Direction::Up => (client, server),
    };
    let start = Instant::ZERO + start_after(scenario, number, flow);
    let stop = flow.stop_s.map(at);
    let times = Times { start, stop };
    let playout = playout(&flow.app, times);
    let file_bytes = match flow.app {
        App::File { bytes } => Some(bytes),
        _ => None,
    };
    let planted = |placed| Planted { placed, times, playout: playout.clone(), file_bytes };
    if let Strategy::Quic(stock) = flow.strategy {
        let id = crate::stock::place(network, scenario, flow, stock, [src, dst], times)?;
        return Ok(planted(Placed::Flow(id)));
    }
    let Some(mut config) = flow_config(flow) else {
        let stop = stop.unwrap_or(Instant::MAX).min(at(scenario.duration_s));
        let header_bytes = match &playout {
            Some(playout) => {
                let cast = cast(dst, playout.video.clone(), start, stop);
                let header_bytes = cast.header_bytes;
                network.sim.add_cast(src, cast);
                header_bytes
            }
            None => {
                let rate = udp_rate(scenario, flow);
                let blast = Blast { dst, ip_bytes: UDP_IP_BYTES, rate, start, stop };
                network.sim.add_blast(src, blast);
                UDP_HEADER_BYTES
            }
        };
        return Ok(planted(Placed::Udp { src, dst, header_bytes }));
    };
    (config.from, config.to) = (src, dst);
    config.app = app(&flow.app);
    config.start = start;
    config.stop = stop;
    if let Some(name) = &flow.controller {
        let factory = controllers.get(name).with_context(|| {
            format!("`controller = \"{name}\"` is of the program that runs the file: it has none")
        })?;
        for conn in [&mut config.from_conn, &mut config.to_conn] {
            conn.controller = Some(factory.clone());
        }
    }
    Ok(planted(Placed::Flow(network.sim.add_flow(config))))
}

/// A video as RTP over UDP.
fn cast(dst: HostId, video: Video, start: Instant, stop: Instant) -> Cast {
    let (payload_bytes, header_bytes) = (RTP_PAYLOAD_BYTES, RTP_HEADER_BYTES);
    Cast { dst, video, payload_bytes, header_bytes, start, stop }
}

/// What is watched of a flow, if it is a video.
fn playout(app: &App, Times { start, stop }: Times) -> Option<Playout> {
    let App::Video { trace, playout_ms } = app else { return None };
    let delay = Duration::from_secs_f64(playout_ms / 1e3);
    // What is wrong was reported when the scenario was read.
    Some(Playout { video: video::read(trace).ok()?, start, stop, delay })
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
        conn.loss_detection = flow.loss_detection.into();
        conn.initial_window_segments = flow.initial_window_segments;
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
    let share = unit(&mut rng);
    Duration::from_secs_f64(flow.start_s + flow.start_jitter_s * share)
}

/// The receive window that the scenario names.
pub(crate) fn rwnd_bytes(flow: &Flow) -> Option<usize> {
    let segment = usize::from(flow.segment_bytes.unwrap_or(1_448));
    flow.rwnd_segments.map(|n| n as usize * segment)
}
