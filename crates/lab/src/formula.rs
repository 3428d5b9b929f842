//! Figures that need no run: formulas of frequency, bounds, and bytes of acknowledgments.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use tack::equations;
use tack_tcp::PathFacts;
use tack_units::Rate;

use crate::scenario::{Scenario, Strategy};

/// Full-sized segment on the papers' wires, bytes [TON §VII-B].
const PAPER_MSS: u32 = 1_500;

/// What the formulas say of the first flow of a scenario, at the rate of its wired path and its
/// round trip without queues.
///
/// # Errors
/// When the scenario has no wired rate, or no flow with acknowledgments.
pub(crate) fn figures(scenario: &Scenario) -> Result<BTreeMap<String, f64>> {
    let wan = scenario.wan.as_ref().context("a formula needs [wan]")?;
    let mbps = wan.down().rate_mbps.context("a formula needs wan.rate_mbps")?;
    let flow = scenario.flow.first().context("a formula needs a flow")?;
    let Strategy::Tcp(mut ack) = flow.strategy else {
        bail!("{} has no acknowledgments of ours, and no formula", flow.strategy);
    };
    let mss = flow.segment_bytes.map_or(PAPER_MSS, u32::from);
    if let Some(params) = ack.tack_mut() {
        *params = flow.tack_params(*params);
        params.mss = mss;
    }
    let bw = Rate::from_bps((mbps * 1e6).round() as u64);
    let rtt_min = scenario.base_rtt();
    let window = flow.rwnd_segments.map_or(bw.bytes_in(rtt_min), |n| u64::from(n * mss));
    let path = PathFacts { bw, rtt_min, window, mss };
    let frequency = ack.frequency(&path);
    let mut out = BTreeMap::from([
        ("ack_packets_per_s".to_owned(), frequency),
        ("data_packets_per_s".to_owned(), path.segments_per_s()),
        ("acks_per_packet".to_owned(), frequency / path.segments_per_s().max(1e-9)),
    ]);
    out.extend(crate::encoding::figures());
    if let Some(params) = ack.tack() {
        let bdp = equations::bdp(bw, rtt_min).max(1);
        let of_bdp = |bytes: Option<u64>| bytes.map(|b| b as f64 / bdp as f64);
        let loss = |l: Option<f64>| l.unwrap_or(0.0);
        let (rho, rho_prime) = (loss(wan.down().loss), loss(wan.up().loss));
        let bounds = [
            ("minimum_window_bdp", of_bdp(equations::minimum_window(bdp, params.beta))),
            ("bottleneck_buffer_bdp", of_bdp(equations::bottleneck_buffer(bdp, params.beta))),
            ("minimum_beta", Some(equations::minimum_beta(rho_prime))),
            ("maximum_l", Some(equations::maximum_segments_per_ack(1, rho, rho_prime))),
        ];
        let known = bounds.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
        out.extend(known.filter(|(_, v)| v.is_finite()));
    }
    Ok(out)
}
