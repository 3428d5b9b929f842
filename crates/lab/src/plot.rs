//! The comparison as a picture: goodput as bars, with the ACKs per second that it took.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::compare::CompareRow;

/// Of Okabe and Ito's colours, which people of every colour vision tell apart, three: the bound,
/// what everybody has, and what is proposed.
const UDP: RGBColor = RGBColor(120, 120, 120);
const TCP: RGBColor = RGBColor(0, 114, 178);
const TACK: RGBColor = RGBColor(213, 94, 0);

/// What the marks mean.
const LEGEND: &str = "black line: open-loop traffic with as many ACKs (the ideal); \
                      whisker: 95 % confidence over seeds";

/// Width and height of one panel, pixels.
const PANEL: (u32, u32) = (860, 340);

/// Draws `rows` to an SVG file, one panel per PHY and preset.
///
/// # Errors
/// When there is nothing to draw or the file cannot be written.
pub fn compare(rows: &[CompareRow], path: &Path) -> Result<()> {
    let mut panels: Vec<Vec<&CompareRow>> = Vec::new();
    for row in rows {
        match panels.last_mut() {
            Some(p) if p[0].phy == row.phy && p[0].preset == row.preset => p.push(row),
            _ => panels.push(vec![row]),
        }
    }
    ensure!(!panels.is_empty(), "there is nothing to draw");
    let count = u32::try_from(panels.len()).unwrap_or(u32::MAX).clamp(1, 64);
    let root = SVGBackend::new(path, (PANEL.0, PANEL.1 * count)).into_drawing_area();
    root.fill(&WHITE).map_err(|e| anyhow!("{e}"))?;
    for (area, rows) in root.split_evenly((count as usize, 1)).iter().zip(&panels) {
        panel(area, rows).map_err(|e| anyhow!("{e}"))?;
    }
    root.present().map_err(|e| anyhow!("{e}")).with_context(|| path.display().to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn panel(area: &Area<'_>, rows: &[&CompareRow]) -> Result<(), Box<dyn std::error::Error>> {
    let top = rows.iter().map(|r| highest(r)).fold(f64::MIN_POSITIVE, f64::max);
    let title = format!("Goodput on 802.11{}, {} preset", rows[0].phy, rows[0].preset);
    let area = area.titled(&title, ("sans-serif", 18))?;
    let area = area.titled(LEGEND, ("sans-serif", 11))?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.5..rows.len() as f64 - 0.5, 0.0..top * 1.08)?;
    let names: Vec<String> = rows.iter().map(|r| r.strategy.clone()).collect();
    let digits = usize::from(top < 20.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(rows.len().max(2))
        .x_label_formatter(&|x| name_at(&names, *x))
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .y_desc("Mbit/s")
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, row) in rows.iter().enumerate() {
        bar(&mut chart, i, row, top)?;
    }
    Ok(())
}

/// The highest thing drawn for `row`, Mbit/s.
fn highest(row: &CompareRow) -> f64 {
    let whisker = row.goodput_bps + row.goodput_ci95_bps.unwrap_or(0.0);
    whisker.max(row.ideal_goodput_bps.unwrap_or(0.0)) / 1e6
}

/// The name of the bar at `x`; nothing between bars.
fn name_at(names: &[String], x: f64) -> String {
    let nearest = x.round();
    let name = ((x - nearest).abs() < 0.01 && nearest >= 0.0)
        .then(|| names.get(nearest as usize).cloned())
        .flatten();
    name.unwrap_or_default()
}

fn bar(
    chart: &mut Chart<'_, '_>,
    i: usize,
    row: &CompareRow,
    top: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let (x, y) = (i as f64, row.goodput_bps / 1e6);
    let colour = match row.strategy.as_str() {
        "udp" => UDP,
        "tack" => TACK,
        _ => TCP,
    };
    chart.draw_series([Rectangle::new([(x - 0.35, 0.0), (x + 0.35, y)], colour.filled())])?;
    if let Some(ci) = row.goodput_ci95_bps {
        let (lo, hi) = ((y - ci / 1e6).max(0.0), y + ci / 1e6);
        let cap = |y: f64| vec![(x - 0.06, y), (x + 0.06, y)];
        for line in [vec![(x, lo), (x, hi)], cap(lo), cap(hi)] {
            chart.draw_series([PathElement::new(line, BLACK)])?;
        }
    }
    if let Some(ideal) = row.ideal_goodput_bps {
        let ideal = ideal / 1e6;
        let mark = vec![(x - 0.42, ideal), (x + 0.42, ideal)];
        chart.draw_series([PathElement::new(mark, BLACK.stroke_width(2))])?;
    }
    // Inside the bar's foot, where no mark reaches; above everything where the bar is too low.
    let inside = y > top * 0.3;
    let (foot, colour) = if inside { (top * 0.03, WHITE) } else { (highest(row), BLACK) };
    let digits = if y < 100.0 { 2 } else { 1 };
    let lines = [
        (format!("{:.0} ACK/s", row.ack_packets_per_s), 13, foot),
        (format!("{y:.digits$}"), 16, foot + top * 0.075),
    ];
    for (text, size, at) in lines {
        let style = ("sans-serif", size).into_font().color(&colour);
        let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
        chart.draw_series([Text::new(text, (x, at), style)])?;
    }
    Ok(())
}

/// A named line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
}

/// Lines with one pair of axes, and a legend.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Above.
    pub title: String,
    /// What x is.
    pub x: &'static str,
    /// What y is.
    pub y: &'static str,
    /// A level to hold the lines against, with a band around it; `None` for none.
    pub level: Option<(f64, f64)>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Okabe and Ito's colours but yellow, which paper swallows.
const HUES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// Draws panels of lines below each other to an SVG file.
///
/// # Errors
/// When there is nothing to draw or the file cannot be written.
pub fn lines(panels: &[Lines], path: &Path) -> Result<()> {
    ensure!(panels.iter().any(|p| !p.lines.is_empty()), "there is nothing to draw");
    let count = u32::try_from(panels.len()).unwrap_or(u32::MAX).clamp(1, 64);
    let most = panels.iter().map(|p| p.lines.len()).max().unwrap_or(0);
    let height = 420.max(80 + 20 * u32::try_from(most).unwrap_or(0).min(200));
    let root = SVGBackend::new(path, (PANEL.0, height * count)).into_drawing_area();
    root.fill(&WHITE).map_err(|e| anyhow!("{e}"))?;
    for (area, panel) in root.split_evenly((count as usize, 1)).iter().zip(panels) {
        line_panel(area, panel).map_err(|e| anyhow!("{e}"))?;
    }
    root.present().map_err(|e| anyhow!("{e}")).with_context(|| path.display().to_string())
}

fn line_panel(area: &Area<'_>, panel: &Lines) -> Result<(), Box<dyn std::error::Error>> {
    let points = || panel.lines.iter().flat_map(|l| l.points.iter());
    let span = |of: fn(&(f64, f64)) -> f64| {
        points().map(of).fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)))
    };
    let (left, right) = span(|p| p.0);
    let (mut bottom, mut top) = span(|p| p.1);
    if let Some((level, band)) = panel.level {
        (bottom, top) = (bottom.min(level - band), top.max(level + band));
    }
    let margin = ((top - bottom) * 0.06).max(1e-6);
    // Numbers of flows double from point to point.
    let log = left > 0.0 && right / left >= 16.0;
    let scale = |x: f64| if log { x.log2() } else { x };
    // Room for the legend, where it hides nothing.
    let far = scale(right) + (scale(right) - scale(left)).max(1e-6) * 0.3;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d(scale(left)..far, bottom - margin..top + margin)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&|x| {
            let x = if log { x.exp2() } else { *x };
            if x.fract().abs() < 1e-6 { format!("{x:.0}") } else { format!("{x:.2}") }
        })
        .x_desc(panel.x)
        .y_desc(panel.y)
        .label_style(("sans-serif", 12))
        .draw()?;
    if let Some((level, band)) = panel.level {
        let edge = |y: f64| vec![(scale(left), y), (scale(right), y)];
        for y in [level - band, level, level + band] {
            chart.draw_series([PathElement::new(edge(y), BLACK.mix(0.4))])?;
        }
    }
    for (i, line) in panel.lines.iter().enumerate() {
        let colour = HUES[i % HUES.len()];
        // Colours come round: the second time with open marks.
        let style = if i < HUES.len() { colour.filled() } else { colour.stroke_width(1) };
        let path: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (scale(*x), *y)).collect();
        let marks = path.iter().map(|p| Circle::new(*p, 3, style));
        chart.draw_series(marks)?;
        chart
            .draw_series(LineSeries::new(path.clone(), colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| {
                EmptyElement::at((x, y))
                    + PathElement::new([(0, 0), (16, 0)], colour.stroke_width(2))
                    + Circle::new((8, 0), 3, style)
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
