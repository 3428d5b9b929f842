//! `tack lab compare`: every ACK strategy on the same air.

use core::time::Duration;
use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use tack_link::open_loop::AckRule;
use tack_tcp::{AckStrategy, PathFacts};
use tack_units::Rate;

use crate::airtime::ideal_l3_mbps;
use crate::output::{Row, cell};
use crate::result::RunResult;
use crate::scenario::{Flow, Run, Scenario, Strategy, Wan, Wifi};
use crate::stats::Estimate;

/// IP bytes of a full-sized packet, and the application bytes in one: UDP, TCP with timestamps,
/// TCP with TACK's packet number.
const PACKET_BYTES: f64 = 1_500.0;
const UDP_PAYLOAD_BYTES: f64 = 1_472.0;
const TCP_PAYLOAD_BYTES: f64 = 1_448.0;
const TACK_PAYLOAD_BYTES: f64 = 1_440.0;
/// `beta` and `L` of a TACK flow that nobody tuned.
const BETA: u32 = 4;
const SEGMENTS_PER_ACK: u32 = 2;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// PHY generations, e.g. `n`.
    pub phys: Vec<String>,
    /// Presets side by side.
    pub presets: Vec<String>,
    /// Strategies, in the order of the table.
    pub strategies: Vec<Strategy>,
    /// Base round trip of the wired path behind the AP.
    pub rtt: Duration,
    /// Seeds per cell, from 1 on.
    pub seeds: u64,
    /// Virtual time per run.
    pub duration: Duration,
    /// Of it, left out of every rate: start-up is over by then.
    pub warmup: Duration,
}

/// A cell of the comparison: one strategy under one preset of one PHY.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareRow {
    /// Preset.
    pub preset: String,
    /// PHY.
    pub phy: String,
    /// Strategy.
    pub strategy: String,
    /// Application bytes delivered, bit/s, mean over seeds.
    pub goodput_bps: f64,
    /// Half-width of its 95 % confidence interval; `None` with one seed.
    pub goodput_ci95_bps: Option<f64>,
    /// Acknowledgment packets per second.
    pub ack_packets_per_s: f64,
    /// Data packets per second.
    pub data_packets_per_s: f64,
    /// Share of the time the medium carried transport acknowledgments.
    pub ack_airtime: f64,
    /// Share of channel accesses that collided.
    pub collision_share: f64,
    /// Segments sent again, mean over seeds, warm-up included.
    pub retransmissions: f64,
    /// Median RTT sampled by the sender, microseconds; `None` for UDP.
    pub rtt_p50_us: Option<f64>,
    /// 95th percentile of the same.
    pub rtt_p95_us: Option<f64>,
    /// How many seeds.
    pub seeds: usize,
    /// Goodput of open-loop traffic with the same ACK rate on the same air ("ideal" in
    /// [TON §VII-C]): what the strategy would reach if fewer ACKs cost the transport nothing.
    pub ideal_goodput_bps: Option<f64>,
}

impl Comparison {
    /// Every run, in the table's order.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for phy in &self.phys {
            for preset in &self.presets {
                for strategy in &self.strategies {
                    for seed in 1..=self.seeds {
                        let scenario = self.scenario(phy, preset, *strategy, seed);
                        runs.push(Run { index: runs.len(), swept: Vec::new(), scenario });
                    }
                }
            }
        }
        runs
    }

    fn scenario(&self, phy: &str, preset: &str, strategy: Strategy, seed: u64) -> Scenario {
        Scenario {
            name: format!("compare-{phy}-{preset}-{strategy}"),
            duration_s: self.duration.as_secs_f64(),
            warmup_s: self.warmup.as_secs_f64(),
            seed,
            runs: 1,
            wifi: Some(Wifi::preset(phy, preset)),
            wan: Some(Wan::delay_only(self.rtt)),
            access: None,
            flow: vec![Flow::bulk(strategy)],
        }
    }

    /// How many ideals [`Self::ideals`] computes.
    pub fn cells(&self) -> usize {
        self.phys.len() * self.presets.len() * self.strategies.len()
    }

    /// What open-loop traffic with each strategy's acknowledgments reaches, bit/s of application
    /// bytes, in the table's order. `done` hears of each.
    ///
    /// # Errors
    /// When a PHY or preset is unknown.
    pub fn ideals(&self, done: &dyn Fn()) -> Result<Vec<f64>> {
        let mut ideals = Vec::with_capacity(self.cells());
        for phy in &self.phys {
            for preset in &self.presets {
                let wlan = |ack| {
                    let wifi = Wifi::preset(phy, preset);
                    ideal_l3_mbps(wifi.checked_config(1)?, ack, 1, self.measured())
                };
                for strategy in &self.strategies {
                    let (ack, payload) = match strategy {
                        Strategy::Udp => (AckRule::Never, UDP_PAYLOAD_BYTES),
                        Strategy::Tcp(ack) if ack.tack().is_some() => {
                            (tack_rule(wlan(AckRule::Never)?, self.rtt), TACK_PAYLOAD_BYTES)
                        }
                        Strategy::Tcp(ack) => {
                            let rate = wlan(AckRule::Never)?;
                            (AckRule::EveryPackets(per_ack(ack, rate, self.rtt)), TCP_PAYLOAD_BYTES)
                        }
                    };
                    ideals.push(wlan(ack)? * 1e6 * payload / PACKET_BYTES);
                    done();
                }
            }
        }
        Ok(ideals)
    }

    fn measured(&self) -> Duration {
        self.duration.saturating_sub(self.warmup)
    }

    /// Means over seeds of finished rows, which must be in [`Self::runs`]' order, beside the
    /// ideals of [`Self::ideals`].
    pub fn summarise(&self, rows: &[Row], ideals: &[f64]) -> Vec<CompareRow> {
        let cells = self.phys.iter().flat_map(|phy| {
            self.presets.iter().flat_map(move |preset| {
                self.strategies.iter().map(move |s| (phy.clone(), preset.clone(), *s))
            })
        });
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX).max(1);
        cells
            .zip(rows.chunks(seeds))
            .enumerate()
            .map(|(i, ((phy, preset, strategy), rows))| CompareRow {
                ideal_goodput_bps: ideals.get(i).copied(),
                ..summarise_cell(phy, preset, strategy, rows)
            })
            .collect()
    }
}

fn summarise_cell(phy: String, preset: String, strategy: Strategy, rows: &[Row]) -> CompareRow {
    let each = |f: &dyn Fn(&RunResult) -> Option<f64>| -> Option<Estimate> {
        let samples: Vec<f64> = rows.iter().filter_map(|r| f(&r.result)).collect();
        Estimate::of(&samples)
    };
    let mean = |f: &dyn Fn(&RunResult) -> Option<f64>| each(f).map(|e| e.mean);
    let goodput = each(&|r| Some(r.total.goodput_bps));
    CompareRow {
        preset,
        phy,
        strategy: strategy.to_string(),
        goodput_bps: goodput.map_or(0.0, |e| e.mean),
        goodput_ci95_bps: goodput.and_then(|e| e.ci95),
        ack_packets_per_s: mean(&|r| Some(r.total.ack_packets_per_s)).unwrap_or(0.0),
        data_packets_per_s: mean(&|r| Some(r.total.data_packets_per_s)).unwrap_or(0.0),
        ack_airtime: mean(&|r| r.airtime.map(|a| a.acks)).unwrap_or(0.0),
        collision_share: mean(&|r| r.collision_share).unwrap_or(0.0),
        retransmissions: mean(&|r| Some(r.total.retransmissions as f64)).unwrap_or(0.0),
        rtt_p50_us: mean(&|r| r.total.rtt_p50_us),
        rtt_p95_us: mean(&|r| r.total.rtt_p95_us),
        seeds: rows.len(),
        ideal_goodput_bps: None,
    }
}

/// The rarer of TACK's two rules, an acknowledgment per L packets or beta per round trip
/// [TON §IV-A Eq. 4], at the rate that data without acknowledgments reaches.
fn tack_rule(udp_l3_mbps: f64, rtt: Duration) -> AckRule {
    let per_time = rtt / BETA;
    let per_packets_s = f64::from(SEGMENTS_PER_ACK) * PACKET_BYTES * 8.0 / (udp_l3_mbps * 1e6);
    if per_time.as_secs_f64() > per_packets_s {
        AckRule::Every(per_time)
    } else {
        AckRule::EveryPackets(SEGMENTS_PER_ACK)
    }
}

/// Packets per acknowledgment at the rate that data without acknowledgments reaches, by the
/// strategy's own formula.
fn per_ack(ack: &AckStrategy, udp_l3_mbps: f64, rtt: Duration) -> u32 {
    let bw = Rate::from_bps((udp_l3_mbps * 1e6 * TCP_PAYLOAD_BYTES / PACKET_BYTES) as u64);
    let mss = TCP_PAYLOAD_BYTES as u32;
    let path = PathFacts { bw, rtt_min: rtt, window: bw.bytes_in(rtt), mss };
    (path.segments_per_s() / ack.frequency(&path)).round().max(1.0) as u32
}

/// The table a person reads: one block per PHY and preset, each strategy against TCP with L = 2.
pub fn table(rows: &[CompareRow]) -> String {
    let mut out = String::new();
    let mut block = None;
    for row in rows {
        if block != Some((&row.phy, &row.preset)) {
            block = Some((&row.phy, &row.preset));
            let _ = write!(
                out,
                "\n802.11{} {}\n{:<8} {:>17} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>6} {:>8} {:>8}\n",
                row.phy,
                row.preset,
                "",
                "goodput Mbit/s",
                "vs L=2",
                "ideal",
                "data/s",
                "ACK/s",
                "ACK air",
                "coll.",
                "rtx",
                "RTT p50",
                "p95 ms",
            );
        }
        let baseline = rows
            .iter()
            .find(|r| r.phy == row.phy && r.preset == row.preset && r.strategy == "tcp-l2")
            .map(|r| r.goodput_bps)
            .filter(|b| *b > 0.0);
        out.push_str(&line(row, baseline));
    }
    out
}

/// The columns of [`csv`], what tells rows apart first.
const COLUMNS: [&str; 14] = [
    "phy",
    "preset",
    "strategy",
    "goodput_bps",
    "goodput_ci95_bps",
    "ideal_goodput_bps",
    "data_packets_per_s",
    "ack_packets_per_s",
    "ack_airtime",
    "collision_share",
    "retransmissions",
    "rtt_p50_us",
    "rtt_p95_us",
    "seeds",
];

/// The rows as CSV, columns named as in JSON; a figure there is none of stays empty.
pub fn csv(rows: &[CompareRow]) -> String {
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for row in rows {
        // Plain numbers and texts: nothing JSON cannot say.
        let row = serde_json::to_value(row).unwrap_or_default();
        out.push_str(&COLUMNS.map(|c| cell(&row[c])).join(","));
        out.push('\n');
    }
    out
}

fn line(row: &CompareRow, baseline: Option<f64>) -> String {
    let or_dash = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
    let mbps = |v: f64| format!("{:.1}", v / 1e6);
    let goodput = match row.goodput_ci95_bps {
        Some(ci) => format!("{} ± {:.1}", mbps(row.goodput_bps), ci / 1e6),
        None => mbps(row.goodput_bps),
    };
    let gain = baseline.map(|b| format!("{:+.1}%", (row.goodput_bps / b - 1.0) * 100.0));
    let ms = |v: Option<f64>| or_dash(v.map(|us| format!("{:.1}", us / 1e3)));
    format!(
        "{:<8} {:>17} {:>7} {:>8} {:>8.0} {:>8.0} {:>7.1}% {:>7.1}% {:>6.0} {:>8} {:>8}\n",
        row.strategy,
        goodput,
        or_dash(gain),
        or_dash(row.ideal_goodput_bps.map(mbps)),
        row.data_packets_per_s,
        row.ack_packets_per_s,
        row.ack_airtime * 100.0,
        row.collision_share * 100.0,
        row.retransmissions,
        ms(row.rtt_p50_us),
        ms(row.rtt_p95_us),
    )
}
