//! `tack lab acks`: every acknowledgment strategy on the same path, its formula beside its count.

use core::time::Duration;
use std::fmt::Write as _;

use serde::Serialize;
use tack_cc::Algorithm;
use tack_tcp::PathFacts;
use tack_units::Rate;

use crate::dumbbell::Queue;
use crate::result::RunResult;
use crate::scenario::{Flow, QueueKind, Scenario, Strategy, Wan, WanDirection, Wifi};
use crate::stats::Estimate;

/// Text of a full segment with timestamps, and with TACK's packet number.
const TEXT_BYTES: u32 = 1_448;
const TACK_TEXT_BYTES: u32 = 1_440;

/// The path and who runs over it.
#[derive(Clone, Debug)]
pub struct Arena {
    /// PHY of a wireless hop, e.g. `n`, and its preset.
    pub wifi: Option<(String, String)>,
    /// Of the wired bottleneck, Mbit/s; there must be one without Wi-Fi.
    pub rate_mbps: Option<f64>,
    /// Round trip of the wired path.
    pub rtt: Duration,
    /// Random loss of data, and of acknowledgments.
    pub loss: f64,
    /// See `loss`.
    pub ack_loss: f64,
    /// At the wired bottleneck.
    pub queue: Queue,
    /// In the order of the table.
    pub strategies: Vec<Strategy>,
    /// Of every flow.
    pub cc: Algorithm,
    /// Whether window-based controllers are paced.
    pub paced: bool,
    /// Per strategy, from 1 on.
    pub seeds: u64,
    /// Virtual seconds of each run.
    pub duration_s: f64,
    /// Of them, left out.
    pub warmup_s: f64,
}

/// One strategy, means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArenaRow {
    /// Its name.
    pub strategy: String,
    /// Acknowledgments per second by its formula, at the goodput, RTTmin and window measured.
    /// `None` for UDP.
    pub formula_per_s: Option<f64>,
    /// Acknowledgments per second as counted.
    pub ack_packets_per_s: f64,
    /// Application bytes, bit/s.
    pub goodput_bps: f64,
    /// Half-width of its 95 % confidence interval; `None` with one seed.
    pub goodput_ci95_bps: Option<f64>,
    /// Data packets per second.
    pub data_packets_per_s: f64,
    /// IP-level bytes of acknowledgments per second.
    pub ack_bytes_per_s: f64,
    /// Segments sent again, the whole run.
    pub retransmissions: f64,
    /// Retransmission timeouts, the whole run.
    pub timeouts: f64,
    /// 95th percentile of the data's queueing delay, microseconds.
    pub queue_delay_p95_us: Option<f64>,
    /// Share of the airtime that acknowledgments took; `None` without Wi-Fi.
    pub ack_airtime: Option<f64>,
    /// How many seeds.
    pub seeds: usize,
}

impl Arena {
    /// Every run, seeds of a strategy next to each other.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let seeds = 1..=self.seeds;
        let of = |s: &Strategy| seeds.clone().map(|n| self.scenario(*s, n)).collect::<Vec<_>>();
        self.strategies.iter().flat_map(of).collect()
    }

    fn scenario(&self, strategy: Strategy, seed: u64) -> Scenario {
        let (kind, bdp) = match self.queue {
            Queue::DropTail(bdp) => (QueueKind::DropTail, bdp),
            Queue::Red => (QueueKind::Red, 2.5),
            Queue::Codel => (QueueKind::Codel, 4.0),
        };
        let limited = self.rate_mbps.is_some();
        let red = limited && kind == QueueKind::Red;
        let loss = |loss: f64| {
            let loss = (loss > 0.0).then_some(loss);
            Some(WanDirection { loss, ..WanDirection::default() })
        };
        Scenario {
            name: format!("acks-{strategy}"),
            duration_s: self.duration_s,
            warmup_s: self.warmup_s,
            seed,
            runs: 1,
            wifi: self.wifi.as_ref().map(|(phy, preset)| Wifi::preset(phy, preset)),
            wan: Some(Wan {
                rate_mbps: self.rate_mbps,
                delay_ms: Some(self.rtt.as_secs_f64() * 500.0),
                queue: limited.then_some(kind),
                buffer_bdp: limited.then_some(bdp),
                red_bdp: red.then_some((0.25, 1.25)),
                down: loss(self.loss),
                up: loss(self.ack_loss),
                ..Wan::default()
            }),
            access: None,
            flow: vec![Flow { cc: self.cc, paced: self.paced, ..Flow::bulk(strategy) }],
        }
    }

    /// The rows of finished runs, which must be those of [`Self::scenarios`] in order.
    pub fn summarise(&self, results: &[RunResult]) -> Vec<ArenaRow> {
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX).max(1);
        let runs = self.strategies.iter().zip(results.chunks(seeds));
        runs.map(|(strategy, runs)| row(*strategy, runs)).collect()
    }
}

fn row(strategy: Strategy, runs: &[RunResult]) -> ArenaRow {
    let each = |f: &dyn Fn(&RunResult) -> Option<f64>| {
        Estimate::of(&runs.iter().filter_map(f).collect::<Vec<f64>>())
    };
    let mean = |f: &dyn Fn(&RunResult) -> Option<f64>| each(f).map(|e| e.mean);
    let some = |f: &dyn Fn(&RunResult) -> f64| mean(&|r| Some(f(r))).unwrap_or(0.0);
    let goodput = each(&|r| Some(r.total.goodput_bps));
    ArenaRow {
        strategy: strategy.to_string(),
        formula_per_s: mean(&|r| formula(strategy, r)),
        ack_packets_per_s: some(&|r| r.total.ack_packets_per_s),
        goodput_bps: goodput.map_or(0.0, |e| e.mean),
        goodput_ci95_bps: goodput.and_then(|e| e.ci95),
        data_packets_per_s: some(&|r| r.total.data_packets_per_s),
        ack_bytes_per_s: some(&|r| r.total.ack_bytes_per_s),
        retransmissions: some(&|r| r.total.retransmissions as f64),
        timeouts: some(&|r| r.total.timeouts as f64),
        queue_delay_p95_us: mean(&|r| r.total.queue_delay_p95_us),
        ack_airtime: mean(&|r| r.airtime.map(|a| a.acks)),
        seeds: runs.len(),
    }
}

/// The strategy's own formula at what the run measured: goodput, RTTmin, and as the send window
/// the median round trip's worth of goodput.
fn formula(strategy: Strategy, run: &RunResult) -> Option<f64> {
    let Strategy::Tcp(ack) = strategy else { return None };
    let time = |us: f64| Duration::from_secs_f64(us / 1e6);
    let bw = Rate::from_bps(run.total.goodput_bps as u64);
    let window = bw.bytes_in(time(run.total.rtt_p50_us?));
    let mss = if ack.tack().is_some() { TACK_TEXT_BYTES } else { TEXT_BYTES };
    Some(ack.frequency(&PathFacts { bw, rtt_min: time(run.total.rtt_min_us?), window, mss }))
}

/// The table a person reads.
pub fn table(rows: &[ArenaRow]) -> String {
    let air = rows.iter().any(|r| r.ack_airtime.is_some());
    let mut out = format!(
        "{:<18} {:>9} {:>9} {:>16} {:>9} {:>9} {:>7} {:>6} {:>10}{}\n",
        "",
        "formula/s",
        "ACK/s",
        "goodput Mbit/s",
        "data:ACK",
        "ACK kB/s",
        "rtx",
        "RTOs",
        "queue p95",
        if air { "  ACK air" } else { "" },
    );
    for row in rows {
        let goodput = match row.goodput_ci95_bps {
            Some(ci) => format!("{:.2} ± {:.2}", row.goodput_bps / 1e6, ci / 1e6),
            None => format!("{:.2}", row.goodput_bps / 1e6),
        };
        let dash = || "-".to_owned();
        let ratio = row.data_packets_per_s / row.ack_packets_per_s;
        let _ = write!(
            out,
            "{:<18} {:>9} {:>9.1} {goodput:>16} {:>9} {:>9.2} {:>7.0} {:>6.1} {:>10}",
            row.strategy,
            row.formula_per_s.map_or_else(dash, |f| format!("{f:.1}")),
            row.ack_packets_per_s,
            if ratio.is_finite() { format!("{ratio:.1}") } else { dash() },
            row.ack_bytes_per_s / 1e3,
            row.retransmissions,
            row.timeouts,
            row.queue_delay_p95_us.map_or_else(dash, |us| format!("{:.1} ms", us / 1e3)),
        );
        if let Some(share) = row.ack_airtime {
            let _ = write!(out, " {:>7.2}%", share * 100.0);
        }
        out.push('\n');
    }
    out
}
