//! What tells lines apart without colour, and papers' points from ours.

use std::collections::BTreeSet;

use tack_lab::svg::{Axis, Line, Plot, Style};

fn picture(lines: Vec<Line>) -> String {
    let x = Axis::default();
    Plot { title: "t".to_owned(), x, y: Axis::default(), lines }.svg()
}

fn line(n: u32, style: Style) -> Line {
    let at = |x: u32| (f64::from(x), f64::from(n), Some(0.5));
    Line { name: format!("line {n}"), points: (0..20).map(at).collect(), style }
}

fn of<'a>(tag: &'a str, name: &str) -> &'a str {
    tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("")
}

#[test]
fn no_two_of_a_dozen_lines_have_dash_and_mark_alike_in_picture_and_legend() {
    for style in [Style::Line, Style::Plain] {
        let svg = picture((0..12).map(|n| line(n, style)).collect());
        let tags = |name: &str| -> Vec<String> {
            svg.lines().filter(|l| l.contains(name)).map(str::to_owned).collect()
        };
        let dashes: Vec<String> =
            tags("<polyline").iter().map(|tag| of(tag, "stroke-dasharray").to_owned()).collect();
        assert_eq!(dashes.len(), 12);
        let legend: Vec<(String, String)> = svg
            .lines()
            .filter(|tag| tag.starts_with("<line") && tag.contains("stroke-dasharray"))
            .map(|tag| {
                let mark = tag.split("<path").nth(1).unwrap();
                (of(tag, "stroke-dasharray").to_owned(), of(mark, "d").to_owned())
            })
            .collect();
        assert_eq!(legend.len(), 12, "{svg}");
        assert_eq!(legend.iter().collect::<BTreeSet<_>>().len(), 12, "{legend:?}");
        for (_, mark) in &legend {
            let drawn = svg.matches(&format!(" d=\"{mark}\"")).count();
            assert!(drawn > 5, "{style:?}: {drawn} marks");
        }
    }
}

#[test]
fn a_line_without_marks_has_none_where_its_dash_tells_it_apart() {
    let svg = picture((0..5).map(|n| line(n, Style::Plain)).collect());
    assert!(!svg.contains("scale("), "{svg}");
    // But a paper's hollow mark says whose it is by its shape.
    let lines = vec![line(0, Style::Plain), line(1, Style::Plain), line(2, Style::Paper { of: 1 })];
    let svg = picture(lines);
    let hollow = svg.lines().find(|tag| tag.contains("scale(1.8)")).unwrap();
    let shape = format!(" d=\"{}\"", of(hollow, "d"));
    assert!(svg.lines().any(|tag| tag.contains("scale(1)") && tag.contains(&shape)), "{svg}");
}

#[test]
fn an_interval_is_drawn_above_a_papers_point_and_within_it() {
    let interval = |svg: &str| svg.find("h8M").unwrap();
    let lines = vec![line(0, Style::Line), line(0, Style::Paper { of: 0 })];
    let svg = picture(lines);
    assert!(svg.rfind("scale(1.8)").unwrap() < interval(&svg), "{svg}");
    assert!(svg.find("scale(1)").unwrap() > interval(&svg), "{svg}");
    let lines = vec![line(0, Style::Bars), line(0, Style::Paper { of: 0 })];
    let svg = picture(lines);
    let points = svg[..interval(&svg)].matches("width=\"10\" height=\"10\" fill=\"white\"").count();
    assert_eq!(points, 20, "{svg}");
}

#[test]
fn no_two_of_a_dozen_bars_have_the_same_fill() {
    let svg = picture((0..12).map(|n| line(n, Style::Bars)).collect());
    let fill = |pattern: &str| {
        let pattern = pattern.split("</pattern>").next().unwrap();
        (of(pattern, "fill-opacity").to_owned(), of(pattern, "d").to_owned())
    };
    let fills: BTreeSet<_> = svg.split("<pattern").skip(1).map(fill).collect();
    assert_eq!(fills.len(), 12, "{fills:?}");
}
