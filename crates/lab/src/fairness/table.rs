//! What a person sees of the rows: tables and lines.

use std::fmt::Write as _;

use super::FairnessRow;
use crate::svg::{Axis, Line, Plot, Style};

impl FairnessRow {
    /// Whether both belong to one bottleneck and one choice of who is paced.
    fn is_of_block(&self, other: &FairnessRow) -> bool {
        let setting = |r: &FairnessRow| (r.rate_mbps, r.paced);
        setting(self) == setting(other) && self.queue == other.queue
    }

    fn block(&self) -> String {
        format!("{} Mbit/s, {}, {} paced", self.rate_mbps, self.queue, self.paced)
    }
}

/// The rows as lines over the number of flows, a picture per bottleneck.
pub fn figures(rows: &[FairnessRow]) -> Vec<Plot> {
    let line = |rows: &[FairnessRow]| Line {
        name: rows[0].strategy.clone(),
        points: rows.iter().map(|r| (f64::from(r.flows), r.share, r.share_ci95)).collect(),
        style: Style::Line,
    };
    let axis = |label: &str, log| Axis { label: label.to_owned(), log, categories: None };
    let panel = |block: &[FairnessRow]| Plot {
        title: block[0].block(),
        x: axis("flows", true),
        y: axis("goodput over the fair share", false),
        lines: block.chunk_by(|a, b| a.strategy == b.strategy).map(line).collect(),
    };
    rows.chunk_by(FairnessRow::is_of_block).map(panel).collect()
}

/// The table a person reads: one block per bottleneck, strategies down, numbers of flows across.
pub fn table(rows: &[FairnessRow]) -> String {
    let mut out = String::new();
    for block in rows.chunk_by(FairnessRow::is_of_block) {
        let strategies: Vec<&[FairnessRow]> =
            block.chunk_by(|a, b| a.strategy == b.strategy).collect();
        let _ = write!(
            out,
            "\n{}: goodput relative to the fair share, against as many every-segment\n{:<22}",
            block[0].block(),
            "flows"
        );
        for row in strategies[0] {
            let _ = write!(out, "{:>14}", row.flows);
        }
        let _ = writeln!(out, "   ACK/pkt");
        for strategy in &strategies {
            let _ = write!(out, "{:<22}", strategy[0].strategy);
            for row in *strategy {
                let mark = match (row.is_fair(), row.is_surely_unfair()) {
                    (true, _) => "  ",
                    (_, true) => "**",
                    _ => "* ",
                };
                let cell = match row.share_ci95 {
                    Some(ci) => format!("{:.2} ± {ci:.2}{mark}", row.share),
                    None => format!("{:.2}{mark}", row.share),
                };
                let _ = write!(out, "{cell:>14}");
            }
            let last = strategy.last().map_or(0.0, |r| r.acks_per_packet);
            let _ = writeln!(out, "{last:>10.2}");
        }
        let _ = write!(out, "{:<22}", "loss");
        for row in strategies[0] {
            let _ = write!(out, "{:>12.1} %", row.loss_every_segment * 100.0);
        }
        out.push('\n');
    }
    out.push_str(
        "*  the mean is further than 10 % from the fair share; ** so is all of its 95 % interval\n",
    );
    out
}

/// The ratio of rates taken apart, in the arrangement of [`table`].
pub fn why_table(rows: &[FairnessRow]) -> String {
    let mut out = String::new();
    for block in rows.chunk_by(FairnessRow::is_of_block) {
        let strategies: Vec<&[FairnessRow]> =
            block.chunk_by(|a, b| a.strategy == b.strategy).collect();
        let what = "rate over every-segment's = round x events x rest";
        let _ = write!(out, "\n{}: {what}\n{:<22}", block[0].block(), "flows");
        for row in strategies[0] {
            let _ = write!(out, "{:>24}", row.flows);
        }
        out.push('\n');
        for strategy in &strategies {
            let _ = write!(out, "{:<22}", strategy[0].strategy);
            for why in strategy.iter().map(|row| row.why) {
                let parts = format!("{:.2} x {:.2} x {:.2}", why.round, why.events, why.rest);
                let _ = write!(out, "  {:.2} = {parts}", why.ratio);
            }
            out.push('\n');
        }
    }
    out.push_str(
        "round: a window of every-segment leaves in so much of the time that theirs takes\n\
         events: the root of every-segment's window reductions per packet over theirs\n\
         rest: near 1 where both windows grow and fall by the same rule\n",
    );
    out
}
