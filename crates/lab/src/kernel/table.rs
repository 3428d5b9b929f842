//! The table a person reads.

use std::fmt::Write as _;

use super::cell::Cell;
use super::report::{CellRow, Distribution, Report, Voided};
use crate::ranks::Spread;

/// Runs of each stack that make a distribution worth printing.
const ENOUGH: usize = 4;

/// The table, and how many of its cells agree.
pub fn table(report: &Report) -> String {
    let mut out = means(&report.rows);
    out += &distributions(&report.rows);
    out += &verdict(&report.rows);
    out += &left_out(report);
    out
}

fn means(rows: &[CellRow]) -> String {
    let mut out = format!(
        "{:<6}{:>7} {:>5} {:>5}  {:>19} {:>15}  {:>17} {:>15}  {:>13} {:>8}\n{:<6}{:>7} {:>5} {:>5}  \
         {:>9} {:>9} {:>15}  {:>8} {:>8} {:>15}  {:>6} {:>6} {:>8}\n",
        "",
        "",
        "",
        "",
        "goodput, Mbit/s",
        "",
        "ACKs",
        "",
        "data per ACK",
        "late",
        "",
        "Mbit/s",
        "ms",
        "loss",
        "kernel",
        "ours",
        "ratio",
        "kernel",
        "ours",
        "ratio",
        "kernel",
        "ours",
        "max ms",
    );
    for row in rows {
        let Cell { cc, mbps, rtt_ms, loss_percent } = row.cell;
        let mark = if row.agrees() { "" } else { "  *" };
        let _ = writeln!(
            out,
            "{cc:<6}{mbps:>7} {rtt_ms:>5} {loss_percent:>4}%  {:>9.2} {:>9.2} {:>15}  {:>8.0} \
             {:>8.0} {:>15}  {:>6.2} {:>6.2} {:>8.1}{mark}",
            row.kernel_goodput_bps / 1e6,
            row.ours_goodput_bps / 1e6,
            if row.scattered {
                "scattered".to_owned()
            } else {
                ratio(row.goodput_ratio, row.goodput_ratio_ci95)
            },
            row.kernel_acks,
            row.ours_acks,
            ratio(row.acks_ratio, row.acks_ratio_ci95),
            row.kernel_data_per_ack,
            row.ours_data_per_ack,
            row.late_max_us as f64 / 1e3,
        );
    }
    out
}

/// Of cells with enough runs to show one, and of those whose ratios say nothing.
fn distributions(rows: &[CellRow]) -> String {
    let shown = |row: &&CellRow| {
        let Distribution { kernel, ours, .. } = &row.distribution;
        row.scattered || kernel.n.min(ours.n) >= ENOUGH
    };
    let mut out = String::new();
    for row in rows.iter().filter(shown) {
        if out.is_empty() {
            let columns = format!(
                "{:>3} {:>6} {:>6} {:>6} {:>6} {:>6}",
                "n", "min", "q1", "med", "q3", "max"
            );
            let _ = writeln!(
                out,
                "\ngoodput of all runs, Mbit/s{:>19}{:>40}{:>22}{:>7}\n\
                 {:<26}{columns}    {columns} {:>14} {:>6}",
                "kernel", "ours", "ours > kernel", "KS", "", "in of pairs", "p"
            );
        }
        let Cell { cc, mbps, rtt_ms, loss_percent } = row.cell;
        let Distribution { kernel, ours, ours_greater, p_value } = &row.distribution;
        let mark = if row.goodput_agrees() { "" } else { "  *" };
        let _ = writeln!(
            out,
            "{cc:<6}{mbps:>6} {rtt_ms:>5} {loss_percent:>5}% {}    {} {ours_greater:>14.2} \
             {p_value:>6.3}{mark}",
            spread(kernel),
            spread(ours)
        );
    }
    out
}

fn spread(s: &Spread) -> String {
    let [min, q1, median, q3, max] = [s.min, s.q1, s.median, s.q3, s.max].map(|v| v / 1e6);
    format!("{:>3} {min:>6.2} {q1:>6.2} {median:>6.2} {q3:>6.2} {max:>6.2}", s.n)
}

fn verdict(rows: &[CellRow]) -> String {
    let (scattered, steady): (Vec<&CellRow>, Vec<&CellRow>) =
        rows.iter().partition(|r| r.scattered);
    let count = |rows: &[&CellRow], of: fn(&CellRow) -> bool| rows.iter().filter(|r| of(r)).count();
    let mut out = format!(
        "within 5 % of the kernel: goodput {} of {n}, ACKs {} of {n}\n",
        count(&steady, CellRow::goodput_agrees),
        count(&steady, CellRow::acks_agree),
        n = steady.len()
    );
    if !scattered.is_empty() {
        let _ = writeln!(
            out,
            "ratios scatter by more than 10 %: in {} of {n} cells goodput is not told from the \
             kernel's, in {} of {n} data per ACK is within 5 %",
            count(&scattered, CellRow::goodput_agrees),
            count(&scattered, CellRow::acks_agree),
            n = scattered.len()
        );
    }
    out
}

fn left_out(report: &Report) -> String {
    let mut out = String::new();
    for Voided { run, why } in &report.voided {
        let _ = writeln!(out, "left out: {run}: {why}");
    }
    for Cell { cc, mbps, rtt_ms, loss_percent } in &report.missing {
        let _ = writeln!(
            out,
            "no sound pair of runs: {cc}, {mbps} Mbit/s, {rtt_ms} ms, {loss_percent} % loss"
        );
    }
    out
}

fn ratio(mean: f64, ci95: Option<f64>) -> String {
    match ci95 {
        Some(ci) => format!("{mean:.3} ± {ci:.3}"),
        None => format!("{mean:.3}"),
    }
}
