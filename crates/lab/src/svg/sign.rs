//! What tells the lines and bars of a picture apart: a colour, and without it a dash, a mark and a fill.

use std::fmt::Write as _;

use super::Scale;

/// Okabe and Ito's colours, which people of every colour vision tell apart, dark ones first.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7", "#56b4e9", "#e69f00"];
/// As many as a glance tells apart.
pub(super) const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "14 4"];
/// Closed, so that they can be hollow. Dashes and colours come around after other numbers: no two of 60
/// lines have mark and dash alike.
const MARKS: [&str; 12] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.6l4.6 8.6h-9.2z",
    "M0-5.2l5.2 5.2l-5.2 5.2l-5.2-5.2z",
    "M0 4.6l4.6-8.6h-9.2z",
    "M-1.3-4.6h2.6v3.3h3.3v2.6h-3.3v3.3h-2.6v-3.3h-3.3v-2.6h3.3z",
    "M-4.4-4.4h8.8l-8.8 8.8h8.8z",
    "M0 -5.8L1.4 -1.9L5.5 -1.8L2.3 0.7L3.4 4.7L0 2.4L-3.4 4.7L-2.3 0.7L-5.5 -1.8L-1.4 -1.9z",
    "M-4.6 0l8.6-4.6v9.2z",
    "M-4.5-2.7l1.8-1.8l2.7 2.7l2.7-2.7l1.8 1.8l-2.7 2.7l2.7 2.7l-1.8 1.8l-2.7-2.7l-2.7 2.7l-1.8-1.8l2.7-2.7z",
    "M4.6 0l-8.6-4.6v9.2z",
    "M-4.4-4.4v8.8l8.8-8.8v8.8z",
];
/// Lines over bars; as often as they come around, the ground is darker.
const HATCHES: [&str; 7] =
    ["", "M0 8L8 0", "M0 0L8 8", "M4 0V8", "M0 4H8", "M0 8L8 0M0 0L8 8", "M4 0V8M0 4H8"];

/// The colour of line number `i`.
pub(super) fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// How it is interrupted.
pub(super) fn dash(i: usize) -> &'static str {
    DASHES[i % DASHES.len()]
}

/// How large a mark of ours is, and one of a paper, which is seen around ours.
pub(super) const OURS: f64 = 1.0;
pub(super) const AROUND: f64 = 1.8;

/// A mark of line number `i`, in a fill.
pub(super) fn mark(out: &mut String, (x, y): (f64, f64), i: usize, size: f64, fill: &str) {
    let (path, colour, width) = (MARKS[i % MARKS.len()], colour(i), 1.6 / size);
    let _ = writeln!(
        out,
        "<path transform=\"translate({x:.1} {y:.1}) scale({size})\" d=\"{path}\" fill=\"{fill}\" \
         stroke=\"{colour}\" stroke-width=\"{width:.2}\"/>"
    );
}

/// The fill of bar number `i` of a group, as a pattern of that name.
pub(super) fn pattern(out: &mut String, name: &str, i: usize) {
    let (colour, turn) = (colour(i), i / HATCHES.len());
    let lines = HATCHES[i % HATCHES.len()];
    let opacity = match turn {
        0 if lines.is_empty() => 0.85,
        _ => 0.18 + 0.27 * turn as f64,
    };
    let _ = write!(
        out,
        "<pattern id=\"{name}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
         <rect width=\"8\" height=\"8\" fill=\"{colour}\" fill-opacity=\"{opacity:.2}\"/>\
         <path d=\"{lines}\" stroke=\"{colour}\" stroke-width=\"1.6\"/></pattern>"
    );
}

/// An error bar.
pub(super) fn whisker(
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
