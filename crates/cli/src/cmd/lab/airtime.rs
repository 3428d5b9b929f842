//! `tack lab airtime`: open-loop traffic, and how the medium's time went.

use std::collections::BTreeMap;

use serde::Serialize;
use tack_link::open_loop::Report;
use tack_link::wlan::{NodeStats, Use};

use super::{failed, print_json};
use crate::args::lab::AirtimeArgs;
use crate::exit::{ExitCode, Failure};
use crate::terminal::print;

/// What came out.
#[derive(Serialize)]
struct AirtimeReport {
    /// Data that arrived, IP level (1500 bytes a packet), Mbit/s.
    l3_mbps: f64,
    /// The same as UDP payload (1472 bytes a packet).
    goodput_mbps: f64,
    /// Data packets that arrived.
    data_packets: u64,
    /// ACKs sent.
    acks: u64,
    /// ACKs that arrived.
    acks_received: u64,
    /// The AP's channel accesses.
    ap: NodeReport,
    /// The stations' channel accesses, all together.
    stations: NodeReport,
    /// Shares of the medium's time by use; they sum to 1.
    airtime: BTreeMap<&'static str, f64>,
    /// Seconds measured.
    seconds: f64,
    /// Seed.
    seed: u64,
}

/// A contender's figures.
#[derive(Serialize)]
struct NodeReport {
    /// Attempts to send.
    accesses: u64,
    /// Of those, collided.
    collisions: u64,
    /// `collisions / accesses`.
    collision_probability: f64,
    /// PPDUs with data or ACKs.
    ppdus: u64,
    /// MPDUs in each, on average.
    mpdus_per_ppdu: f64,
    /// Packets its queue refused.
    queue_drops: u64,
    /// MPDUs given up after too many retries.
    retry_drops: u64,
}

impl From<&NodeStats> for NodeReport {
    fn from(s: &NodeStats) -> Self {
        let ratio = |a: u64, b: u64| a as f64 / (b as f64).max(1.0);
        NodeReport {
            accesses: s.accesses,
            collisions: s.collisions,
            collision_probability: ratio(s.collisions, s.accesses),
            ppdus: s.data_ppdus,
            mpdus_per_ppdu: ratio(s.mpdus, s.data_ppdus),
            queue_drops: s.queue_drops,
            retry_drops: s.retry_drops,
        }
    }
}

impl AirtimeReport {
    fn of(args: &AirtimeArgs, r: &Report) -> AirtimeReport {
        AirtimeReport {
            l3_mbps: r.l3_mbps,
            goodput_mbps: r.goodput_mbps,
            data_packets: r.data_packets,
            acks: r.acks_sent,
            acks_received: r.acks_delivered,
            ap: (&r.ap).into(),
            stations: (&r.stations).into(),
            airtime: Use::ALL.iter().map(|u| (u.name(), r.airtime.share(*u))).collect(),
            seconds: args.seconds,
            seed: args.seed,
        }
    }
}

/// Runs it and says what came out.
pub(super) fn airtime(args: &AirtimeArgs) -> Result<ExitCode, Failure> {
    // What cannot run is a mistake on the command line: the model itself has no way to fail.
    let run = args.experiment().and_then(|experiment| Ok(experiment.run()?));
    let report = run.map_err(|e| Failure::usage(format!("{e:#}")))?;
    if !report.ledger.balances() {
        return Err(failed(format!("packets were not conserved: {:?}", report.ledger)));
    }
    let report = AirtimeReport::of(args, &report);
    if args.json {
        return print_json(&report);
    }
    let mut text = format!(
        "{:.2} Mbit/s at the IP level, {:.2} Mbit/s of UDP payload\n{} data packets, {} ACKs sent, \
         {} arrived\n",
        report.l3_mbps, report.goodput_mbps, report.data_packets, report.acks, report.acks_received,
    );
    for (name, node) in [("access point", &report.ap), ("stations", &report.stations)] {
        text += &format!(
            "{name:<13} {:>8} accesses, {:>5.1} % collided, {:>5.1} MPDUs per PPDU, {} drops\n",
            node.accesses,
            node.collision_probability * 100.0,
            node.mpdus_per_ppdu,
            node.queue_drops + node.retry_drops,
        );
    }
    for (name, share) in report.airtime.iter().filter(|(_, share)| **share > 0.0) {
        text += &format!("{name:<13} {:>7.2} % of the airtime\n", share * 100.0);
    }
    print(text.as_bytes())
}
