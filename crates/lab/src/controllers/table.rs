//! The table a person reads.

use std::fmt::Write as _;

use super::{Experiment, Row};

/// One block per experiment.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut block = None;
    for row in rows {
        if block != Some(row.experiment) {
            block = Some(row.experiment);
            out.push_str(&heading(row));
        }
        out.push_str(&line(row));
    }
    out
}

fn heading(row: &Row) -> String {
    let what = match row.experiment {
        Experiment::Clean => "alone, buffer of 1 bdp",
        Experiment::Loss => "alone, 1 % random loss (window against theory)",
        Experiment::Marked => "alone with ECN, a queue that marks by RED",
        Experiment::Pair => "two on one bottleneck, buffer of 1 bdp",
        Experiment::Response => {
            let columns = format!(
                "{:<16} {:>6} {:>7} {:<9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>6}",
                "",
                "RTT ms",
                "loss",
                "",
                "formula",
                "ideal",
                "expected",
                "measured",
                "ratio",
                "RTO"
            );
            return format!("\nresponse functions: mean window in segments\n{columns}\n");
        }
    };
    let columns = format!(
        "{:<16} {:<16} {:>8} {:>7} {:>7} {:>9} {:>6} {:>5} {:>7}",
        "", "against", "Mbit/s", "share", "loss", "queue p95", "rtx", "RTO", "ratio"
    );
    format!("\n{what}, {} ms\n{columns}\n", row.rtt_ms)
}

fn line(row: &Row) -> String {
    let mut out = format!("{:<16} ", row.controller);
    let percent = |v: f64| format!("{:.1}%", v * 100.0);
    // A String takes all that is written to it.
    let _ = match (&row.response, row.experiment) {
        (Some(r), Experiment::Response) => writeln!(
            out,
            "{:>6} {:>6}% {:<9} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>7.2} {:>6}",
            row.rtt_ms,
            r.p * 100.0,
            format!("{:?}", r.pattern).to_lowercase(),
            r.formula,
            r.ideal,
            r.expected,
            r.measured,
            r.ratio,
            row.timeouts,
        ),
        _ => writeln!(
            out,
            "{:<16} {:>8.2} {:>7} {:>7} {:>9} {:>6} {:>5} {:>7}",
            row.against.unwrap_or("-"),
            row.goodput_bps / 1e6,
            percent(row.share),
            format!("{:.2}%", row.loss * 100.0),
            row.queue_p95_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")),
            row.retransmissions,
            row.timeouts,
            row.response.map_or_else(|| "-".to_owned(), |r| format!("{:.2}", r.ratio)),
        ),
    };
    out
}
