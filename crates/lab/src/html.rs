//! One page with everything: pictures, tables, judgments and the files they came from. It needs no
//! network.

use std::fmt::Write as _;

use crate::bundle;
use crate::claim::Verdict;
use crate::reproduce::{Loaded, Report, findings_table, tally_of};
use crate::svg::escaped;
use crate::table::Table;

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:62rem;margin:auto;padding:0 .8rem;\
color:#111}h2{border-top:1px solid #bbb;padding-top:1rem}figure{margin:.5rem 0;display:inline-block;\
width:min(100%,29.5rem)}figure svg{width:100%;height:auto}.scroll{overflow-x:auto}table{border-collapse:\
collapse;font-size:13px}td,th{border:1px solid #ccc;padding:.15rem .45rem;text-align:left;\
vertical-align:top}td.n{text-align:right}td.n,td:first-child{white-space:nowrap}\
.differs{font-weight:bold}.open{font-style:italic}pre{background:\
#f4f4f4;padding:.5rem;overflow-x:auto;font-size:12px}.why{color:#333}nav a{margin-right:.7rem;white-space:nowrap}\
@media print{details{display:none}figure{break-inside:avoid}}";

/// One experiment's part of a page, to stand in another: a notebook.
pub fn fragment(loaded: &Loaded, report: &Report) -> String {
    let mut out = String::new();
    section(&mut out, loaded, report);
    out
}

/// A table under its title, to stand in another page.
pub fn titled(shown: &Table) -> String {
    let mut out = format!("<p>{}</p>\n", escaped(&shown.title));
    table(&mut out, shown);
    out
}

/// The page. `command` is what makes it again.
pub fn page(all: &[(Loaded, Report)], command: &str) -> String {
    let verdicts = tally_of(all.iter().flat_map(|(_, r)| &r.findings));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>tack lab: figures</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>Figures, and what the papers say</h1>\n\
         <p>Claims: {verdicts}. Open is what another seed could turn: the interval holds the bar. tack {}; \
         made by <code>{}</code>. Error bars are 95 % intervals over seeds; hollow marks are a paper's \
         points.</p>\n<nav>",
        env!("CARGO_PKG_VERSION"),
        escaped(command)
    );
    for (loaded, _) in all {
        let id = escaped(&loaded.experiment.id);
        let _ = write!(out, "<a href=\"#{id}\">{id}</a>");
    }
    out.push_str("</nav>\n");
    for (loaded, report) in all {
        section(&mut out, loaded, report);
    }
    out.push_str("</body></html>\n");
    out
}

fn section(out: &mut String, loaded: &Loaded, report: &Report) {
    let experiment = &loaded.experiment;
    let id = escaped(&experiment.id);
    let _ = writeln!(out, "<h2 id=\"{id}\">{}</h2>", escaped(&loaded.experiment.heading()));
    if !experiment.note.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escaped(&experiment.note));
    }
    for plot in report.shown.iter().flat_map(|s| &s.plots) {
        let _ = writeln!(out, "<figure>{}</figure>", plot.svg());
    }
    if !report.findings.is_empty() {
        table(out, &findings_table(&report.findings));
    }
    for why in report.reasons() {
        let _ = writeln!(out, "<p class=\"why\">{}</p>", escaped(&why));
    }
    for void in &report.void {
        let _ = writeln!(out, "<p class=\"differs\">Void: {}</p>", escaped(void));
    }
    for shown in &report.shown {
        let _ = writeln!(out, "<h4>{}</h4>", escaped(&shown.table.title));
        table(out, &shown.table);
    }
    let seeds: std::collections::BTreeSet<u64> =
        loaded.plan.items.iter().map(|i| i.scenario.seed).collect();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    // A file of the user's own has no such name: the page's head says what made it.
    let bundled = bundle::find(&experiment.id).iter().any(|(_, text)| *text == loaded.text);
    let command = format!("; <code>tack lab reproduce {id}</code>");
    let _ = writeln!(
        out,
        "<p>{} runs, seeds {}; extent {}{}</p>\n\
         <details><summary>The file</summary><pre>{}</pre></details>",
        loaded.plan.items.len(),
        seeds.join(", "),
        loaded.extent.name(),
        if bundled { &command } else { "" },
        escaped(&loaded.text)
    );
}

fn table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table><tr>");
    for cell in &table.header {
        let _ = write!(out, "<th>{}</th>", escaped(cell));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let class = match cell.as_str() {
                word if word == Verdict::Differs.word() => " class=\"differs\"",
                word if word == Verdict::Open.word() => " class=\"open\"",
                _ if i >= table.keys => " class=\"n\"",
                _ => "",
            };
            let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}
