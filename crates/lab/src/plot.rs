//! Lines as a picture.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use plotters::prelude::*;

/// Width of a panel, pixels.
const PANEL_WIDTH: u32 = 860;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

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
    let root = SVGBackend::new(path, (PANEL_WIDTH, height * count)).into_drawing_area();
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
