//! What a person sees of the runs.

use std::fmt::Write as _;

use serde::Serialize;

use super::run::{LiveFigures, LiveHalf, LiveResult};
use super::{LiveCell, LivePlan};
use crate::fairness::FairnessRow;
use crate::stats::Estimate;

/// A setting, means over the seeds whose runs nothing disturbed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveRow {
    /// The setting.
    #[serde(flatten)]
    pub cell: LiveCell,
    /// Strategy of the other half.
    pub strategy: String,
    /// Mean goodput of its flows, relative to that of all; `None` without a sound run.
    pub share: Option<f64>,
    /// Half-width of its 95 % confidence interval; `None` with one seed.
    pub share_ci95: Option<f64>,
    /// The simulator's share of the same dumbbell, with its access links.
    pub simulated_share: Option<f64>,
    /// Half-width of its 95 % confidence interval; `None` with one seed.
    pub simulated_share_ci95: Option<f64>,
    /// The half acknowledged per segment.
    pub every: LiveHalf,
    /// The other half.
    pub others: LiveHalf,
    /// The flows against them.
    pub reverse: LiveHalf,
    /// Most text bytes a reverse flow had in flight in any run.
    pub reverse_in_flight_max: u32,
    /// Greatest lateness of the emulator in these runs, µs.
    pub late_max_us: u64,
    /// How many seeds.
    pub seeds: usize,
    /// Runs that were left out.
    pub void: Vec<LeftOut>,
}

/// A run that says nothing for sure: the machine was busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its seed.
    pub seed: u64,
    /// Its share, for what it is worth.
    pub share: f64,
    /// What disturbed it.
    pub why: String,
}

/// A row per setting that was run, in the plan's order. `simulated` are the rows of
/// [`LivePlan::simulated`].
pub fn rows(plan: &LivePlan, results: &[LiveResult], simulated: &[FairnessRow]) -> Vec<LiveRow> {
    let row = |cell: LiveCell| row(cell, results, simulated);
    plan.cells().into_iter().filter_map(row).collect()
}

fn row(cell: LiveCell, results: &[LiveResult], simulated: &[FairnessRow]) -> Option<LiveRow> {
    let of_cell: Vec<&LiveResult> = results.iter().filter(|r| r.run.cell == cell).collect();
    let sound: Vec<&LiveFigures> =
        of_cell.iter().map(|r| &r.figures).filter(|f| f.void.is_none()).collect();
    let void = |r: &&LiveResult| {
        let why = r.figures.void.clone()?;
        Some(LeftOut { seed: r.run.seed, share: r.figures.share(), why })
    };
    let share = Estimate::of(&sound.iter().map(|f| f.share()).collect::<Vec<_>>());
    let half =
        |of: fn(&LiveFigures) -> &LiveHalf| mean(&sound.iter().map(|f| *of(f)).collect::<Vec<_>>());
    let strategy = cell.strategy.to_string();
    let twin = simulated.iter().find(|s| {
        (s.rate_mbps, s.flows) == (cell.rate_mbps, cell.flows)
            && s.queue == cell.queue.to_string()
            && s.strategy == strategy
    });
    (!of_cell.is_empty()).then(|| LiveRow {
        cell,
        share: share.map(|s| s.mean),
        share_ci95: share.and_then(|s| s.ci95),
        simulated_share: twin.map(|s| s.share),
        simulated_share_ci95: twin.and_then(|s| s.share_ci95),
        every: half(|f| &f.every),
        others: half(|f| &f.others),
        reverse: half(|f| &f.reverse),
        reverse_in_flight_max: sound.iter().map(|f| f.reverse_in_flight_max).max().unwrap_or(0),
        late_max_us: sound.iter().map(|f| f.late_max_us).max().unwrap_or(0),
        seeds: sound.len(),
        void: of_cell.iter().filter_map(void).collect(),
        strategy,
    })
}

fn mean(halves: &[LiveHalf]) -> LiveHalf {
    let mean = |of: fn(&LiveHalf) -> f64| {
        halves.iter().map(of).sum::<f64>() / (halves.len() as f64).max(1.0)
    };
    LiveHalf {
        flows: halves.first().map_or(0, |h| h.flows),
        goodput_bps: mean(|h| h.goodput_bps),
        loss: mean(|h| h.loss),
        acks_per_packet: mean(|h| h.acks_per_packet),
        pauses_per_min: mean(|h| h.pauses_per_min),
    }
}

/// The table a person reads: a block per bottleneck, what is of the half with the strategy beside
/// what is of the other.
pub fn table(rows: &[LiveRow]) -> String {
    let mut out = String::new();
    let is_of_block = |a: &LiveRow, b: &LiveRow| {
        (a.cell.rate_mbps, a.cell.queue) == (b.cell.rate_mbps, b.cell.queue)
    };
    for block in rows.chunk_by(is_of_block) {
        let LiveCell { rate_mbps, queue, rtt, cc, .. } = block[0].cell;
        let ms = rtt.as_secs_f64() * 1e3;
        let _ = write!(
            out,
            "\n{rate_mbps} Mbit/s, {ms} ms, {queue}, {cc}, in real time: goodput relative to the \
             fair share, against as many every-segment\n\
             {:<7} {:<22} {:>5} {:>14} {:>14} {:>13} {:>15} {:>15} {:>8}\n",
            "stack",
            "strategy",
            "flows",
            "share",
            "simulated",
            "ACK/pkt",
            "loss %",
            "pauses/min",
            "Mbit/s",
        );
        block.iter().for_each(|row| line(&mut out, row));
    }
    out.push_str(
        "Pairs are of the half with the strategy, then of every-segment's. simulated: the same \
         dumbbell\nwith its access links, which real time has not. pauses: of 195 ms and \
         more, for a\ntimeout or a late probe, per flow. Mbit/s: goodput of both halves.\n",
    );
    for row in rows {
        let LiveCell { stack, flows, .. } = row.cell;
        for LeftOut { seed, share, why } in &row.void {
            let _ = writeln!(
                out,
                "left out: {stack} {}, {flows} flows, seed {seed}, share {share:.2}: {why}",
                row.strategy
            );
        }
    }
    out
}

fn line(out: &mut String, row: &LiveRow) {
    let LiveRow { every, others, .. } = row;
    let share = |share: Option<f64>, ci95: Option<f64>| match (share, ci95) {
        (Some(share), Some(ci)) => format!("{share:.2} ± {ci:.2}"),
        (Some(share), None) => format!("{share:.2}"),
        (None, _) => "-".to_owned(),
    };
    let pair = |of: fn(&LiveHalf) -> f64, digits: usize| {
        format!("{:.digits$} : {:.digits$}", of(others), of(every))
    };
    let _ = writeln!(
        out,
        "{:<7} {:<22} {:>5} {:>14} {:>14} {:>13} {:>15} {:>15} {:>8.2}",
        row.cell.stack,
        row.strategy,
        row.cell.flows,
        share(row.share, row.share_ci95),
        share(row.simulated_share, row.simulated_share_ci95),
        pair(|h| h.acks_per_packet, 2),
        pair(|h| h.loss * 100.0, 1),
        pair(|h| h.pauses_per_min, 1),
        (every.goodput_bps + others.goodput_bps) / 1e6,
    );
}
