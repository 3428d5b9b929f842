//! Time series as CSV: a row per flow and sample.

use std::io::{self, Write};

use tack_sim::{FlowSample, Series};

/// Columns of the file; times in seconds, amounts in bytes, nothing where there is no value.
const HEADER: &str = "time_s,flow,cwnd_bytes,pacing_bps,in_flight_bytes,srtt_us,rtt_min_us,\
                      delivered_bytes,blocked_bytes";

/// Writes the header.
pub(crate) fn write_header(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")
}

/// Writes the samples of flow number `flow`.
pub(crate) fn write_flow(
    out: &mut dyn Write,
    flow: usize,
    series: &Series<FlowSample>,
) -> io::Result<()> {
    let us = |d: Option<core::time::Duration>| {
        d.map_or_else(String::new, |d| format!("{:.1}", d.as_secs_f64() * 1e6))
    };
    let amount = |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| bytes.to_string());
    for (at, s) in series.samples() {
        writeln!(
            out,
            "{:.3},{flow},{},{},{},{},{},{},{}",
            at.saturating_since(tack_units::Instant::ZERO).as_secs_f64(),
            s.cwnd,
            s.pacing_rate.map_or_else(String::new, |r| r.as_bps().to_string()),
            amount(s.in_flight),
            us(s.srtt),
            us(s.rtt_min),
            s.delivered,
            amount(s.blocked),
        )?;
    }
    Ok(())
}
