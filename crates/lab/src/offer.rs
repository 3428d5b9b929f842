//! What a flow of the scenario offers the network, and when.

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::scenario::{App, Direction, Flow, Scenario, video};

/// IP-level size of open-loop datagrams, and the application bytes in each.
pub(crate) const UDP_IP_BYTES: u32 = 1_500;
const UDP_PAYLOAD_BYTES: u64 = 1_472;

/// When a flow begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) start: Instant,
    pub(crate) stop: Option<Instant>,
}

/// What the application does, as the simulator wants it.
pub(crate) fn app(app: &App) -> tack_sim::App {
    let ms = |v: f64| Duration::from_secs_f64(v / 1e3);
    match *app {
        App::Video { ref trace, .. } => {
            let none = tack_sim::App::Bulk { bytes: Some(0) };
            video::read(trace).map_or(none, tack_sim::App::Video)
        }
        App::Bulk => tack_sim::App::Bulk { bytes: None },
        App::File { bytes } => tack_sim::App::Bulk { bytes: Some(bytes) },
        App::RequestResponse { request_bytes, response_bytes, think_ms } => {
            let think = ms(think_ms);
            tack_sim::App::RequestResponse { request_bytes, response_bytes, think, count: None }
        }
        App::OnOff { on_ms, off_ms } => tack_sim::App::OnOff { on: ms(on_ms), off: ms(off_ms) },
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
    let phy = scenario.wifi.as_ref().and_then(|w| w.checked_config(0).ok()).map(|c| {
        match flow.direction {
            Direction::Down => c.downlink.kbps(),
            Direction::Up => c.uplink.kbps(),
        }
    });
    let wan = scenario.wan.as_ref().and_then(|w| match flow.direction {
        Direction::Down => w.down().rate_mbps,
        Direction::Up => w.up().rate_mbps,
    });
    let wan = wan.map(|mbps| (mbps * 1.05e3) as u64);
    Rate::from_kbps(phy.into_iter().chain(wan).min().unwrap_or(1_000_000))
}
