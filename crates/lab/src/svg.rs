//! Pictures as SVG: lines, bars and distributions with axes, error bars and a legend.
//!
//! Every line has a dash and a mark of its own besides its colour, so that black and white tells
//! them apart; the paper's points are hollow marks of the same shape and colour, squares over bars.

mod scale;

use std::fmt::{Display, Write as _};

use tack_units::math;

use scale::{Scale, tick};

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// Names of 0, 1, 2, … instead of numbers.
    pub categories: Option<Vec<String>>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With marks and error bars.
    Line,
    /// Without.
    Plain,
    /// As bars, beside those of other lines.
    Bars,
    /// Points of a paper, for line number `of`.
    Paper {
        /// Whose colour they have.
        of: usize,
    },
}

/// A line and its points: x, y and half of y's interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// In order of x.
    pub points: Vec<(f64, f64, Option<f64>)>,
    /// How it is drawn.
    pub style: Style,
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// Above.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From the bottom up.
    pub y: Axis,
    /// What is drawn.
    pub lines: Vec<Line>,
}

/// Okabe and Ito's colours, which people of every colour vision tell apart, dark ones first.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7", "#56b4e9", "#e69f00"];
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "14 4"];
/// Fills of bars: from solid to hatched, so that grey tells them apart.
const HATCHES: [&str; 5] = ["", "M0 8L8 0", "M0 0L8 8", "M4 0V8", "M0 4H8"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
/// Of the frame: left, with numbers of five letters beside it, top, bottom, right; the legend lies under it.
const MARGIN: (f64, f64, f64, f64) = (66.0, 34.0, 56.0, 18.0);
const LEGEND_ROW: f64 = 18.0;
/// Of a number beside an axis.
const LETTER: f64 = 7.0;

/// As XML has it, which has no control characters.
pub(crate) fn escaped(text: &str) -> String {
    let is_letter = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let text: String = text.chars().filter(|c| is_letter(c) || c.is_whitespace()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Plot {
    /// Where the points are, if that is few places of a logarithmic axis; else round numbers.
    fn x_ticks(&self, x: &Scale) -> Vec<f64> {
        let mut places: Vec<f64> = self.lines.iter().flat_map(|l| &l.points).map(|p| p.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if x.log && places.len() <= 9 { places } else { x.ticks() }
    }

    /// Whether something is 0 or less, which has a place of its own on a logarithmic axis.
    fn has_zeros(&self) -> bool {
        self.lines.iter().flat_map(|l| &l.points).any(|p| p.1 <= 0.0)
    }

    /// The number of a line among ours, which is what its colour, dash and mark go by.
    fn ordinal(&self, i: usize) -> usize {
        let ours = self.lines.iter().take(i);
        ours.filter(|l| !matches!(l.style, Style::Paper { .. })).count()
    }

    /// Numbers of the lines that are bars.
    fn bar_lines(&self) -> Vec<usize> {
        (0..self.lines.len()).filter(|i| self.lines[*i].style == Style::Bars).collect()
    }

    fn is_bars(&self) -> bool {
        !self.bar_lines().is_empty()
    }

    fn span(&self, axis: &Axis, of: impl Fn(&(f64, f64, Option<f64>)) -> (f64, f64)) -> (f64, f64) {
        let all = self.lines.iter().flat_map(|l| &l.points).map(of);
        let finite = all.filter(|(lo, hi)| lo.is_finite() && hi.is_finite());
        let kept = finite.filter(|(lo, _)| !axis.log || *lo > 0.0);
        let (lo, hi) = kept.fold((f64::MAX, f64::MIN), |s, v| (s.0.min(v.0), s.1.max(v.1)));
        match (lo > hi, axis.log) {
            (false, _) => (lo, hi),
            (true, false) => (0.0, 1.0),
            // Nothing has a place on it.
            (true, true) => (1.0, 10.0),
        }
    }

    fn scales(&self) -> (Scale, Scale) {
        let y = self.y_scale();
        // The axis' name stands left of its numbers, however long they are.
        let letters = y.ticks().into_iter().map(|v| tick(v).chars().count()).max().unwrap_or(0);
        let left = MARGIN.0 + LETTER * letters.saturating_sub(5) as f64;
        (self.x_scale((left, WIDTH - MARGIN.3)), y)
    }

    fn x_scale(&self, pixels: (f64, f64)) -> Scale {
        match &self.x.categories {
            Some(names) => Scale { from: -0.5, to: names.len() as f64 - 0.5, log: false, pixels },
            None => {
                let (mut from, mut to) = self.span(&self.x, |p| (p.0, p.0));
                if self.x.log {
                    let zero = self.lines.iter().flat_map(|l| &l.points).any(|p| p.0 <= 0.0);
                    let room = if zero { math::pow(to / from * 2.0, 0.2) } else { 1.0 };
                    (from, to) = (from * 0.9 / room, to * 1.1);
                } else if from == to {
                    (from, to) = (from - 0.5, to + 0.5);
                } else {
                    let room = (to - from) * 0.03;
                    (from, to) = (from - room, to + room);
                }
                Scale { from, to, log: self.x.log, pixels }
            }
        }
    }

    fn y_scale(&self) -> Scale {
        let pixels = (HEIGHT - MARGIN.2, MARGIN.1);
        let half = |p: &(f64, f64, Option<f64>)| p.2.unwrap_or(0.0);
        let (low, high) = self.span(&self.y, |p| {
            let low = p.1 - half(p);
            (if self.y.log && low <= 0.0 { p.1 } else { low }, p.1 + half(p))
        });
        if self.y.log {
            let room =
                if self.has_zeros() { math::pow(high / low * 2.0, 0.1).min(10.0) } else { 1.0 };
            Scale { from: low * 0.8 / room, to: high * 1.25, log: true, pixels }
        } else {
            // From zero, unless all lies far above it.
            let zero = self.is_bars() || low > 0.0 && low < 0.6 * high;
            // Nothing but zeros lies on the axis' foot, as if there could be one of what is counted.
            let (zero, high) = if low == high && high == 0.0 { (true, 1.0) } else { (zero, high) };
            let room = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
            let from = if zero && low >= 0.0 { 0.0 } else { low - room };
            let to = if high <= 0.0 && self.is_bars() { 0.0 } else { high + room };
            Scale { from, to, log: false, pixels }
        }
    }

    /// The picture as a document of its own, or as part of one.
    pub fn svg(&self) -> String {
        let (x, y) = self.scales();
        let named: Vec<&Line> = self.lines.iter().filter(|l| !l.name.is_empty()).collect();
        let rows = self.legend_rows(&named);
        let height = HEIGHT + LEGEND_ROW * rows.len() as f64 + 6.0;
        let mut out = String::new();
        let title = escaped(&self.title);
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>"
        );
        self.hatches(&mut out);
        self.frame(&mut out, &x, &y);
        let bars = self.bar_lines();
        for (i, line) in self.lines.iter().enumerate() {
            match line.style {
                Style::Bars => self.bars(&mut out, (&x, &y), (i, &bars)),
                Style::Paper { of } => self.paper(&mut out, (&x, &y), line, of, &bars),
                style => {
                    let own = (self.ordinal(i), line);
                    Self::line(&mut out, (&x, &y), own, style == Style::Line);
                }
            }
        }
        self.legend(&mut out, &rows);
        out.push_str("</svg>\n");
        out
    }

    fn id(&self) -> u64 {
        // Two pictures on a page must not share the names of their patterns.
        self.title.bytes().fold(5381, |h: u64, b| h.wrapping_mul(33) ^ u64::from(b)) % 1_000_000
    }

    /// A pattern for each bar of a group: colours and hatches come around after different numbers.
    fn hatches(&self, out: &mut String) {
        let bars = self.bar_lines().len();
        if bars == 0 {
            return;
        }
        let id = self.id();
        out.push_str("<defs>");
        for slot in 0..bars {
            let colour = COLOURS[slot % COLOURS.len()];
            let hatch = slot % HATCHES.len();
            let (lines, opacity) = (HATCHES[hatch], if hatch == 0 { 0.85 } else { 0.18 });
            let _ = write!(
                out,
                "<pattern id=\"h{id}-{slot}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
                 <rect width=\"8\" height=\"8\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>\
                 <path d=\"{lines}\" stroke=\"{colour}\" stroke-width=\"1.6\"/></pattern>"
            );
        }
        out.push_str("</defs>\n");
    }

    fn frame(&self, out: &mut String, x: &Scale, y: &Scale) {
        let (left, far) = x.pixels;
        let (base, top) = y.pixels;
        let (size, title) = fitted(&self.title, WIDTH, (9.0, 14.0));
        let bold = format!("text-anchor=\"middle\" font-size=\"{size}\" font-weight=\"bold\"");
        text(out, (WIDTH / 2.0, 20), &bold, &title);
        let zero = (y.log && self.has_zeros()).then_some(0.0);
        let is_apart = |v: &f64| zero.is_none_or(|zero| (y.at(*v) - y.at(zero)).abs() > 14.0);
        for v in y.ticks().into_iter().filter(is_apart).chain(zero) {
            let at = y.at(v);
            let _ = write!(
                out,
                "<line x1=\"{left}\" x2=\"{far}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"
            );
            let below = format!("{:.1}", at + 4.0);
            text(out, (left - 6.0, below), "text-anchor=\"end\"", &tick(v));
        }
        let labels: Vec<(f64, String)> = match &self.x.categories {
            Some(names) => names.iter().enumerate().map(|(i, n)| (i as f64, n.clone())).collect(),
            None => self.x_ticks(x).into_iter().map(|v| (v, tick(v))).collect(),
        };
        let room = (far - left) / labels.len().max(1) as f64;
        let least = labels.iter().map(|(_, name)| fitted(name, room, (9.0, 12.0)).0);
        let size = least.fold(12.0, f64::min);
        for (v, name) in labels {
            let (at, end) = (x.at(v), base + 4.0);
            let _ = write!(
                out,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{base}\" y2=\"{end}\" stroke=\"black\"/>"
            );
            let how = format!("text-anchor=\"middle\" font-size=\"{size}\"");
            let name = match &self.x.categories {
                Some(_) => fitted(&name, room, (size, size)).1,
                None => name,
            };
            text(out, (format!("{at:.1}"), base + 18.0), &how, &name);
        }
        let (centre, middle) = (f64::midpoint(left, far), f64::midpoint(top, base));
        let (below, label_x, label_y) =
            (base + 38.0, escaped(&self.x.label), escaped(&self.y.label));
        let _ = writeln!(
            out,
            "<path d=\"M{left} {top}V{base}H{far}\" fill=\"none\" stroke=\"black\"/>\
             <text x=\"{centre}\" y=\"{below}\" text-anchor=\"middle\">{label_x}</text>\
             <text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{label_y}</text>"
        );
    }

    fn line(out: &mut String, (x, y): (&Scale, &Scale), (i, line): (usize, &Line), marks: bool) {
        let (colour, dash) = (COLOURS[i % COLOURS.len()], DASHES[i % DASHES.len()]);
        let points: Vec<String> =
            line.points.iter().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
        if points.len() > 1 {
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
                 stroke-dasharray=\"{dash}\"/>",
                points.join(" ")
            );
        }
        if marks {
            for p in &line.points {
                whisker(out, (x.at(p.0), y), (p.1, p.2), colour);
                mark(out, (x.at(p.0), y.at(p.1)), i, (colour, colour));
            }
        }
    }

    /// Left edge and width of the bar of line number `slot` of `n` at a category.
    fn slot(x: &Scale, at: f64, slot: usize, n: usize) -> (f64, f64) {
        let group = (x.at(at + 0.4) - x.at(at - 0.4)).abs();
        let width = group / n.max(1) as f64;
        (x.at(at - 0.4) + width * slot as f64, width)
    }

    fn bars(&self, out: &mut String, (x, y): (&Scale, &Scale), (i, bars): (usize, &[usize])) {
        let slot = bars.iter().position(|b| *b == i).unwrap_or(0);
        let colour = COLOURS[slot % COLOURS.len()];
        let zero = y.at(if y.log { y.from } else { 0.0 });
        let id = self.id();
        for p in &self.lines[i].points {
            let (left, width) = Self::slot(x, p.0, slot, bars.len());
            let (top, base) = (y.at(p.1).min(zero), y.at(p.1).max(zero));
            // A bar of nothing is a line: no height would be no rectangle.
            let (at, wide, high) = (left + 1.0, (width - 2.0).max(1.0), (base - top).max(0.1));
            let _ = writeln!(
                out,
                "<rect x=\"{at:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
                 fill=\"url(#h{id}-{slot})\" stroke=\"{colour}\"/>"
            );
            whisker(out, (left + width / 2.0, y), (p.1, p.2), "black");
        }
    }

    fn paper(
        &self,
        out: &mut String,
        (x, y): (&Scale, &Scale),
        line: &Line,
        of: usize,
        bars: &[usize],
    ) {
        let slot = bars.iter().position(|b| *b == of);
        let colour = COLOURS[slot.unwrap_or(self.ordinal(of)) % COLOURS.len()];
        for p in &line.points {
            let Some(slot) = slot else {
                let at = (x.at(p.0), y.at(p.1));
                mark(out, at, self.ordinal(of), (colour, "white"));
                continue;
            };
            let (left, width) = Self::slot(x, p.0, slot, bars.len());
            let (left, top) = (left + width / 2.0 - 4.5, y.at(p.1) - 4.5);
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"9\" height=\"9\" fill=\"white\" \
                 stroke=\"{colour}\" stroke-width=\"2\"/>"
            );
        }
    }

    /// The legend's entries, as many in a row as fit: a line's number, its place and its name.
    fn legend_rows(&self, named: &[&Line]) -> Vec<Vec<(usize, f64, String)>> {
        let mut rows: Vec<Vec<(usize, f64, String)>> = Vec::new();
        let mut at = WIDTH;
        let is_paper = |line: &&&Line| matches!(line.style, Style::Paper { .. });
        let ours = named.iter().filter(|line| !is_paper(line));
        for line in ours.chain(named.iter().find(is_paper)) {
            let name = match line.style {
                Style::Paper { .. } => "hollow marks: the paper".to_owned(),
                _ => fitted(&line.name, WIDTH - MARGIN.0 - 60.0, (12.0, 12.0)).1,
            };
            let width = 48.0 + 7.2 * name.chars().count() as f64;
            if at + width > WIDTH - 10.0 {
                rows.push(Vec::new());
                at = MARGIN.0;
            }
            let number = self.lines.iter().position(|l| core::ptr::eq(l, *line)).unwrap_or(0);
            if let Some(row) = rows.last_mut() {
                row.push((number, at, name));
            }
            at += width;
        }
        rows
    }

    fn legend(&self, out: &mut String, rows: &[Vec<(usize, f64, String)>]) {
        let (bars, id) = (self.bar_lines(), self.id());
        for (n, row) in rows.iter().enumerate() {
            let y = HEIGHT + LEGEND_ROW * n as f64;
            for (i, x, name) in row {
                let line = &self.lines[*i];
                let slot = bars.iter().position(|b| b == i).unwrap_or(self.ordinal(*i));
                let colour = COLOURS[slot % COLOURS.len()];
                let (top, right) = (y - 5.0, x + 26.0);
                let (inner, above) = (x + 8.0, y - 4.5);
                let dash = DASHES[self.ordinal(*i) % DASHES.len()];
                let _ = match line.style {
                    Style::Bars => write!(
                        out,
                        "<rect x=\"{x}\" y=\"{top}\" width=\"24\" height=\"10\" \
                         fill=\"url(#h{id}-{slot})\" stroke=\"{colour}\"/>"
                    ),
                    Style::Paper { .. } => write!(
                        out,
                        "<rect x=\"{inner}\" y=\"{above}\" width=\"9\" height=\"9\" fill=\"white\" \
                         stroke=\"#444\" stroke-width=\"2\"/>"
                    ),
                    _ => write!(
                        out,
                        "<line x1=\"{x}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" \
                         stroke-width=\"1.8\" stroke-dasharray=\"{dash}\"/>"
                    ),
                };
                if line.style == Style::Line {
                    mark(out, (x + 13.0, y), self.ordinal(*i), (colour, colour));
                }
                let (left, below, name) = (x + 32.0, y + 4.0, escaped(name));
                let _ = writeln!(out, "<text x=\"{left}\" y=\"{below}\">{name}</text>");
            }
        }
    }
}

/// Pictures below each other, as one document.
pub fn stacked(plots: &[Plot]) -> String {
    let row = HEIGHT + 3.0 * LEGEND_ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\">\n",
        row * plots.len() as f64
    );
    for (i, plot) in plots.iter().enumerate() {
        let own = plot.svg().replacen(
            "<svg ",
            &format!("<svg y=\"{}\" width=\"{WIDTH}\" height=\"{row}\" ", row * i as f64),
            1,
        );
        out += &own;
    }
    out + "</svg>\n"
}

/// The size in which `said` has room, and as much of it as has room in the least.
fn fitted(said: &str, room: f64, (least, most): (f64, f64)) -> (f64, String) {
    // Letters are this wide, in the mean, of their height.
    const WIDE: f64 = 0.62;
    let length = said.chars().count();
    let size = (room / (WIDE * length.max(1) as f64)).clamp(least, most).floor();
    let letters = (room / (WIDE * size)).max(2.0) as usize;
    if length <= letters {
        return (size, said.to_owned());
    }
    (size, said.chars().take(letters - 1).chain(['\u{2026}']).collect())
}

/// A line of text.
fn text(out: &mut String, (x, y): (impl Display, impl Display), how: &str, said: &str) {
    let said = escaped(said);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" {how}>{said}</text>");
}

/// A mark of line number `i`, in a colour and a fill; hollow ones are larger.
fn mark(out: &mut String, (x, y): (f64, f64), i: usize, (colour, fill): (&str, &str)) {
    let size = if fill == "white" { 5.5 } else { 4.0 };
    let (d, left, top) = (2.0 * size, x - size, y - size);
    let path = match i % 5 {
        0 => format!("M{left:.1} {y:.1}a{size} {size} 0 1 0 {d} 0a{size} {size} 0 1 0 -{d} 0"),
        1 => format!("M{left:.1} {top:.1}h{d}v{d}h-{d}z"),
        2 => format!("M{x:.1} {top:.1}l{size} {d}h-{d}z"),
        3 => format!("M{x:.1} {top:.1}l{size} {size}l-{size} {size}l-{size} -{size}z"),
        _ => format!("M{x:.1} {:.1}l{size} -{d}h-{d}z", y + size),
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
    );
}

/// An error bar.
fn whisker(
    out: &mut String,
    (x, scale): (f64, &Scale),
    (v, half): (f64, Option<f64>),
    colour: &str,
) {
    let Some(half) = half.filter(|h| *h > 0.0) else { return };
    let (low, high) = (scale.at((v - half).max(scale.from)), scale.at(v + half));
    let left = x - 4.0;
    let _ = writeln!(
        out,
        "<path d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8\" fill=\"none\" \
         stroke=\"{colour}\" stroke-width=\"1.2\"/>"
    );
}
