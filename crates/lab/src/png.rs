//! A picture as pixels, for what takes no SVG.

use anyhow::{Context, Result};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels for each of the SVG's: sharp on paper at half the size.
const SCALE: f32 = 2.0;
/// What letters are drawn with, on every machine: it comes with the program.
const FONT: &str = "DejaVu Sans";

/// PNG of an SVG of ours, on white.
///
/// # Errors
/// It is no SVG, or too large.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut options = Options { font_family: FONT.to_owned(), ..Options::default() };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family(FONT);
    let tree = Tree::from_str(svg, &options).context("as SVG")?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut canvas =
        Pixmap::new(pixels(size.width()), pixels(size.height())).context("too large a picture")?;
    canvas.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut canvas.as_mut());
    canvas.encode_png().context("as PNG")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{Axis, Line, Plot, Style};

    fn plot(title: &str) -> String {
        let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
        let line = Line {
            name: "TACK".to_owned(),
            points: vec![(0.0, 1.0, None), (1.0, 2.0, Some(0.5))],
            style: Style::Line,
        };
        let plot = Plot {
            title: title.to_owned(),
            x: axis("RTT [ms]"),
            y: axis("goodput"),
            lines: vec![line],
        };
        plot.svg()
    }

    /// Pixels that are not white.
    fn dark(svg: &str) -> usize {
        let picture = Pixmap::decode_png(&png(svg).unwrap()).unwrap();
        picture.pixels().iter().filter(|p| p.red() < 128 || p.green() < 128).count()
    }

    #[test]
    fn a_plot_has_its_lines_and_its_letters_and_nothing_where_it_has_none() {
        let (bare, titled) = (dark(&plot("")), dark(&plot("Goodput over round trips")));
        assert!(bare > 1_000, "{bare}");
        assert!(titled > bare + 500, "letters: {bare}, {titled}");
        let empty = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"40\"/>";
        assert_eq!(dark(empty), 0);
    }

    #[test]
    fn what_is_no_svg_is_an_error() {
        assert!(png("<svg").is_err());
    }
}
