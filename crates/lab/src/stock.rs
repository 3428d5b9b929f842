//! Flows of stock QUIC stacks in a simulated scenario.

use core::fmt;

use anyhow::Result;
use tack_link::HostId;
use tack_sim::{FlowId, Guest, GuestFlow, SideReport};

use crate::network::Network;
use crate::offer::{self, Times};
use crate::scenario::{Flow, Scenario, Stock};

/// Puts a flow into the simulation whose ends are `hosts`, the connecting one first.
pub(crate) fn place(
    network: &mut Network,
    scenario: &Scenario,
    flow: &Flow,
    stock: Stock,
    hosts: [HostId; 2],
    times: Times,
) -> Result<FlowId> {
    let number = network.sim.flows().count();
    let stacks = pair(scenario, flow, stock, number)?;
    let (app, [from, to]) = (offer::app(&flow.app), hosts);
    let (start, stop) = (times.start, times.stop);
    Ok(network.sim.add_guest_flow(GuestFlow { from, to, app, stacks, start, stop }))
}

/// A stock stack that ended a connection on its own. The run says nothing of its strategy, and its
/// record is void.
#[derive(Debug)]
pub(crate) struct GaveUp {
    flow: FlowId,
    why: String,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stock stack of flow {} gave up: {}", self.flow.0, self.why)
    }
}

impl std::error::Error for GaveUp {}

/// Whether both ends of a flow went on until the stream ended, or go on yet.
pub(crate) fn check(
    flow: FlowId,
    from: &SideReport<'_>,
    to: &SideReport<'_>,
) -> Result<(), GaveUp> {
    let failure = |side: &SideReport<'_>| side.guest.as_ref()?.failure.clone();
    // One of them knows the cause, the other may know no more than that it was reset.
    let whys: Vec<String> = [failure(from), failure(to)].into_iter().flatten().collect();
    if whys.is_empty() || to.at_end {
        return Ok(());
    }
    Err(GaveUp { flow, why: whys.join("; ") })
}

#[cfg(feature = "stock")]
fn pair(
    scenario: &Scenario,
    flow: &Flow,
    stock: Stock,
    number: usize,
) -> Result<[Box<dyn Guest>; 2]> {
    use core::time::Duration;

    use tack::{Params, Regime};
    use tack_quic::ack_frequency::{Path, Request};
    use tack_sim::Seed;
    use tack_stock::{Settings, Stack};

    use crate::scenario::{StockAcks, StockStack};
    use crate::traffic::rwnd_bytes;

    /// Stream data in a full packet of either, as near as a constant can be.
    const PACKET_BYTES: u32 = 1_400;
    /// Both allow no shorter delay, and call a packet lost that long after it.
    const MIN_ACK_DELAY: Duration = Duration::from_millis(1);
    const PACKET_THRESHOLD: u64 = 3;
    /// Without ACK_FREQUENCY [RFC 9000 §18.2].
    const USUAL_ACK_DELAY: Duration = Duration::from_millis(25);

    let params = Params { mss: PACKET_BYTES, ..flow.tack_params(Params::default()) };
    let path = Path {
        bw: offer::udp_rate(scenario, flow),
        rtt_min: scenario.base_rtt() + 2 * Duration::from_secs_f64(flow.delay_ms / 1e3),
        regime: Regime::Steady,
    };
    let ours = !matches!(stock.stack, StockStack::Quinn | StockStack::Noq);
    let acks = match stock.acks {
        // Ours says what it wants as it goes.
        _ if ours => None,
        StockAcks::Usual => None,
        StockAcks::Eq4 => Some(Request::new(&path, &params, MIN_ACK_DELAY, PACKET_THRESHOLD)),
        StockAcks::Every(packets) => Some(Request {
            ack_eliciting_threshold: u64::from(packets) - 1,
            max_ack_delay: USUAL_ACK_DELAY,
            reordering_threshold: PACKET_THRESHOLD,
        }),
    };
    let settings = Settings {
        stack: match stock.stack {
            StockStack::Quinn | StockStack::OursToQuinn => Stack::Quinn,
            StockStack::Noq | StockStack::OursToNoq => Stack::Noq,
            StockStack::Ours => Stack::Ours,
        },
        ours_connects: matches!(stock.stack, StockStack::OursToQuinn | StockStack::OursToNoq),
        tack: (stock.acks == StockAcks::Eq4).then_some(params),
        acks,
        congestion: flow.cc,
        recv_window: rwnd_bytes(flow).map(|bytes| bytes.try_into().unwrap_or(u32::MAX)),
        ecn: flow.ecn,
        seed: Seed(scenario.seed).secret(&format!("stock {number}")),
    };
    Ok(tack_stock::pair(&settings)?)
}

#[cfg(not(feature = "stock"))]
fn pair(_: &Scenario, _: &Flow, stock: Stock, _: usize) -> Result<[Box<dyn Guest>; 2]> {
    anyhow::bail!("`{stock}` is a stock QUIC stack: build tack-lab with its feature `stock`")
}
