//! The comparison as a picture: goodput as bars, ACKs per second as numbers above them.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::compare::CompareRow;

/// Okabe and Ito's colours, which people of every colour vision tell apart.
const COLOURS: [RGBColor; 8] = [
    RGBColor(153, 153, 153),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(240, 228, 66),
    RGBColor(204, 121, 167),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
];

/// Height of one panel, pixels.
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
    let top = rows
        .iter()
        .map(|r| r.goodput_bps.max(r.ideal_goodput_bps.unwrap_or(0.0)) / 1e6)
        .fold(f64::MIN_POSITIVE, f64::max);
    let title =
        format!("802.11{}, {} preset: goodput, and ACKs per second", rows[0].phy, rows[0].preset);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..rows.len() as f64 - 0.5, 0.0..top * 1.18)?;
    let names: Vec<String> = rows.iter().map(|r| r.strategy.clone()).collect();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(rows.len().max(2))
        .x_label_formatter(&|x| {
            let nearest = x.round();
            let whole = (x - nearest).abs() < 0.01 && nearest >= 0.0;
            if whole {
                names.get(nearest as usize).cloned().unwrap_or_default()
            } else {
                String::new()
            }
        })
        .y_desc("Mbit/s")
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, row) in rows.iter().enumerate() {
        bar(&mut chart, i, row, top)?;
    }
    Ok(())
}

fn bar(
    chart: &mut Chart<'_, '_>,
    i: usize,
    row: &CompareRow,
    top: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let (x, y) = (i as f64, row.goodput_bps / 1e6);
    let colour = COLOURS[i % COLOURS.len()];
    chart.draw_series([Rectangle::new([(x - 0.35, 0.0), (x + 0.35, y)], colour.filled())])?;
    if let Some(ci) = row.goodput_ci95_bps {
        let (lo, hi) = (y - ci / 1e6, y + ci / 1e6);
        chart.draw_series([PathElement::new(vec![(x, lo.max(0.0)), (x, hi)], BLACK)])?;
    }
    if let Some(ideal) = row.ideal_goodput_bps {
        let ideal = ideal / 1e6;
        let mark = vec![(x - 0.4, ideal), (x + 0.4, ideal)];
        chart.draw_series([PathElement::new(mark, BLACK.stroke_width(2))])?;
    }
    let style = ("sans-serif", 12).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
    let above = y.max(row.ideal_goodput_bps.unwrap_or(0.0) / 1e6) + top * 0.02;
    let label = format!("{y:.1} | {:.0} ACK/s", row.ack_packets_per_s);
    chart.draw_series([Text::new(label, (x, above), style)])?;
    Ok(())
}
