//! Windows and rates over time as pictures.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use plotters::prelude::*;
use tack_sim::FlowSample;
use tack_units::Instant;

use super::course::{FlowOutcome, SEGMENT_BYTES};
use super::{Done, Experiment};

/// Of Okabe and Ito's colours, which people of every colour vision tell apart.
const FLOWS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];
/// Width and height of one panel, pixels.
const PANEL: (u32, u32) = (560, 240);
/// Seconds over which a rate is taken.
const RATE_OVER: f64 = 0.25;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Line = Vec<(f64, f64)>;

/// Draws the trials of one experiment to an SVG file: a row of two panels each, the window in
/// segments and the goodput in Mbit/s.
///
/// # Errors
/// When there is no such trial or the file cannot be written.
pub fn draw(done: &[Done], experiment: Experiment, path: &Path) -> Result<()> {
    let shown: Vec<&Done> = done.iter().filter(|d| d.trial.experiment == experiment).collect();
    ensure!(!shown.is_empty(), "there is nothing to draw");
    let rows = u32::try_from(shown.len()).unwrap_or(u32::MAX).clamp(1, 128);
    let root = SVGBackend::new(path, (PANEL.0 * 2, PANEL.1 * rows)).into_drawing_area();
    root.fill(&WHITE).map_err(|e| anyhow!("{e}"))?;
    for (areas, done) in root.split_evenly((rows as usize, 2)).chunks(2).zip(&shown) {
        draw_trial(areas, done).map_err(|e| anyhow!("{e}"))?;
    }
    root.present().map_err(|e| anyhow!("{e}")).with_context(|| path.display().to_string())
}

fn draw_trial(areas: &[Area<'_>], done: &Done) -> Result<(), Box<dyn std::error::Error>> {
    let flows = &done.outcome.flows;
    let names: Vec<&str> = flows.iter().map(|f| f.algorithm.name()).collect();
    let end = done.trial.course.duration.as_secs_f64();
    let windows: Vec<Line> = flows.iter().map(windows).collect();
    let rates: Vec<Line> = flows.iter().map(rates).collect();
    let pictures = [("window, segments", windows), ("goodput, Mbit/s", rates)];
    for (area, (what, lines)) in areas.iter().zip(pictures) {
        panel(area, &format!("{}: {what}", names.join(" and ")), end, &lines)?;
    }
    Ok(())
}

fn panel(
    area: &Area<'_>,
    title: &str,
    end: f64,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let top = lines.iter().flatten().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(26)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("s")
        .label_style(("sans-serif", 11))
        .draw()?;
    for (line, colour) in lines.iter().zip(FLOWS.iter().cycle()) {
        chart.draw_series(LineSeries::new(line.iter().copied(), colour))?;
    }
    Ok(())
}

fn seconds(at: Instant) -> f64 {
    at.as_secs_f64()
}

fn windows(flow: &FlowOutcome) -> Line {
    let point =
        |(at, s): &(Instant, FlowSample)| (seconds(*at), s.cwnd as f64 / SEGMENT_BYTES as f64);
    flow.series.samples().iter().map(point).collect()
}

fn rates(flow: &FlowOutcome) -> Line {
    let mut line = Vec::new();
    let mut since = (0.0, 0);
    for (at, sample) in flow.series.samples() {
        let over = seconds(*at) - since.0;
        if over >= RATE_OVER {
            let bytes = sample.delivered.saturating_sub(since.1);
            line.push((seconds(*at), bytes as f64 * 8e-6 / over));
            since = (seconds(*at), sample.delivered);
        }
    }
    line
}
