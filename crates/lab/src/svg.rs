//! Pictures as SVG: lines, bars and distributions with axes, error bars and a legend.
//!
//! Every line has a dash and a mark besides its colour that no other has both of, every bar a fill, so that black and
//! white tells them apart. The paper's points are hollow marks of the same shape and colour, squares over bars; they are
//! behind our lines, marks and intervals and larger, so that neither hides the other.

mod scale;
mod sign;

use std::fmt::{Display, Write as _};

use tack_units::math;

use scale::{Scale, tick};
use sign::{AROUND, DASHES, OURS, colour, dash, mark, pattern, whisker};

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

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
/// Of the frame: left, with numbers of five letters beside it, top, bottom, right; the legend lies under it.
const MARGIN: (f64, f64, f64, f64) = (66.0, 34.0, 56.0, 18.0);
const LEGEND_ROW: f64 = 18.0;
/// Of a line in the legend: its dash shows on both sides of its mark.
const SAMPLE: f64 = 36.0;
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

    /// How many lines are bars.
    fn bars(&self) -> usize {
        self.lines.iter().filter(|line| line.style == Style::Bars).count()
    }

    fn is_bars(&self) -> bool {
        self.bars() > 0
    }

    /// At every how many of its points a line has a mark.
    fn marked(&self, line: &Line) -> Option<usize> {
        let ours = self.ordinal(self.lines.len());
        // A course has as many marks as are told apart, and none where a dash says all.
        let is_dash_enough = ours <= DASHES.len() && ours == self.lines.len();
        match line.style {
            Style::Line => Some(1),
            Style::Plain => (!is_dash_enough).then_some((line.points.len() / 8).max(1)),
            _ => None,
        }
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
        self.layers(&mut out, (&x, &y));
        self.legend(&mut out, &rows);
        out.push_str("</svg>\n");
        out
    }

    fn id(&self) -> u64 {
        // Two pictures on a page must not share the names of their patterns.
        self.title.bytes().fold(5381, |h: u64, b| h.wrapping_mul(33) ^ u64::from(b)) % 1_000_000
    }

    /// A pattern for each bar of a group.
    fn hatches(&self, out: &mut String) {
        let bars = self.bars();
        if bars == 0 {
            return;
        }
        out.push_str("<defs>");
        for i in 0..bars {
            pattern(out, &self.fill(i), i);
        }
        out.push_str("</defs>\n");
    }

    /// What the fill of bar number `i` is called.
    fn fill(&self, i: usize) -> String {
        format!("h{}-{i}", self.id())
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

    /// What is drawn of all lines, from the back to the front: what is wide first.
    fn layers(&self, out: &mut String, (x, y): (&Scale, &Scale)) {
        let numbered = || self.lines.iter().enumerate().map(|(i, line)| (self.ordinal(i), line));
        for (i, line) in numbered().filter(|(_, line)| line.style == Style::Bars) {
            self.bar(out, (x, y), (i, line));
        }
        for line in &self.lines {
            let Style::Paper { of } = line.style else { continue };
            let of = self.ordinal(of);
            for p in &line.points {
                let at = (self.place(x, p.0, of), y.at(p.1));
                match self.is_bars() {
                    true => square(out, at, colour(of)),
                    false => mark(out, at, of, AROUND, "none"),
                }
            }
        }
        let is_line = |(_, line): &(usize, &Line)| {
            line.points.len() > 1 && matches!(line.style, Style::Line | Style::Plain)
        };
        let mut lines: Vec<(usize, &Line)> = numbered().filter(is_line).collect();
        // What is under a dash is seen through its gaps.
        lines.sort_by_key(|(i, _)| !dash(*i).is_empty());
        for (i, line) in lines {
            let points = line.points.iter().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1)));
            let (points, colour) = (points.collect::<Vec<_>>().join(" "), colour(i));
            let _ = writeln!(
                out,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
                 stroke-dasharray=\"{}\"/>",
                dash(i)
            );
        }
        for (i, line) in numbered() {
            let colour = colour(i);
            let above = if line.style == Style::Bars { "black" } else { colour };
            let sure = matches!(line.style, Style::Line | Style::Bars);
            for p in line.points.iter().filter(|_| sure) {
                whisker(out, (self.place(x, p.0, i), y), (p.1, p.2), above);
            }
            let Some(every) = self.marked(line) else { continue };
            // Where many lines have few marks, each has them elsewhere.
            for p in line.points.iter().skip(i % every).step_by(every) {
                mark(out, (x.at(p.0), y.at(p.1)), i, OURS, colour);
            }
        }
    }

    /// Left edge and width of bar number `i` at a category.
    fn slot(&self, x: &Scale, at: f64, i: usize) -> (f64, f64) {
        let group = (x.at(at + 0.4) - x.at(at - 0.4)).abs();
        let width = group / self.bars() as f64;
        (x.at(at - 0.4) + width * i as f64, width)
    }

    /// Where a point of line number `i` is: in the middle of its bar, if it has bars.
    fn place(&self, x: &Scale, at: f64, i: usize) -> f64 {
        if !self.is_bars() {
            return x.at(at);
        }
        let (left, width) = self.slot(x, at, i);
        left + width / 2.0
    }

    fn bar(&self, out: &mut String, (x, y): (&Scale, &Scale), (i, line): (usize, &Line)) {
        let zero = y.at(if y.log { y.from } else { 0.0 });
        for p in &line.points {
            let (left, width) = self.slot(x, p.0, i);
            let (top, base) = (y.at(p.1).min(zero), y.at(p.1).max(zero));
            // A bar of nothing is a line: no height would be no rectangle.
            let (at, wide, high) = (left + 1.0, (width - 2.0).max(1.0), (base - top).max(0.1));
            let _ = writeln!(
                out,
                "<rect x=\"{at:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
                 fill=\"url(#{})\" stroke=\"{}\"/>",
                self.fill(i),
                colour(i)
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
            let width = SAMPLE + 22.0 + 7.2 * name.chars().count() as f64;
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
        for (n, row) in rows.iter().enumerate() {
            let y = HEIGHT + LEGEND_ROW * n as f64;
            for (number, x, name) in row {
                let (line, i) = (&self.lines[*number], self.ordinal(*number));
                let (top, right, colour) = (y - 5.0, x + SAMPLE, colour(i));
                let _ = match line.style {
                    Style::Bars => write!(
                        out,
                        "<rect x=\"{x}\" y=\"{top}\" width=\"{SAMPLE}\" height=\"10\" \
                         fill=\"url(#{})\" stroke=\"{colour}\"/>",
                        self.fill(i)
                    ),
                    Style::Paper { .. } => {
                        square(out, (x + SAMPLE / 2.0, y), "#444");
                        Ok(())
                    }
                    _ => write!(
                        out,
                        "<line x1=\"{x}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" \
                         stroke-width=\"1.8\" stroke-dasharray=\"{}\"/>",
                        dash(i)
                    ),
                };
                if self.marked(line).is_some() {
                    mark(out, (x + SAMPLE / 2.0, y), i, OURS, colour);
                }
                let (left, below, name) = (x + SAMPLE + 6.0, y + 4.0, escaped(name));
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

/// A paper's point over a bar.
fn square(out: &mut String, (x, y): (f64, f64), colour: &str) {
    let (left, top) = (x - 5.0, y - 5.0);
    let _ = writeln!(
        out,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"10\" height=\"10\" fill=\"white\" \
         stroke=\"{colour}\" stroke-width=\"2\"/>"
    );
}
