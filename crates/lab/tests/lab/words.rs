//! `docs/experiments.md` has every word that a file may say.

use std::path::Path;

use tack_cc::Algorithm;
use tack_lab::metric::METRICS;
use tack_lab::scenario::Scenario;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    std::fs::read_to_string(path).unwrap()
}

/// By itself, in a list or before its value.
fn has_word(document: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    document.split(|c| !is_part(c)).any(|part| part == word)
}

#[test]
fn the_document_has_every_figure_with_its_unit() {
    let document = document();
    let rows = METRICS.iter().map(|m| format!("| `{}` | {} | {} |", m.name, m.unit, m.what));
    let missing: Vec<String> = rows.filter(|row| !document.contains(row)).collect();
    assert!(missing.is_empty(), "docs/experiments.md lacks\n{}", missing.join("\n"));
}

#[test]
fn the_document_has_every_key_of_a_scenario_and_every_controller() {
    let document = document();
    // Each table says what it knows when it meets what it does not.
    let wan = "wan = { rate_mbps = 1.0 }\n";
    let mut lacks = Vec::new();
    for text in [
        format!("{wan}flow = []\nx = 1"),
        "wan = { x = 1 }\nflow = []".to_owned(),
        "wifi = { phy = \"n\", x = 1 }\nflow = []".to_owned(),
        format!("{wan}access = {{ x = 1 }}\nflow = []"),
        format!("{wan}flow = [{{ strategy = \"tack\", x = 1 }}]"),
        format!("{wan}flow = [{{ strategy = \"tack\", tack = {{ x = 1 }} }}]"),
        format!("{wan}flow = [{{ strategy = \"tack\", app = {{ kind = \"x\" }} }}]"),
    ] {
        let message = Scenario::parse(&text).unwrap_err().to_string();
        let known = message.split_once("expected one of").unwrap_or_else(|| panic!("{message}"));
        let words = known.1.split('`').skip(1).step_by(2).map(str::to_owned);
        lacks.extend(words.filter(|word| !has_word(&document, word)));
    }
    let controllers = Algorithm::ALL.iter().map(|cc| cc.name().to_owned());
    lacks.extend(controllers.filter(|name| !document.contains(&format!("`{name}`"))));
    assert!(lacks.is_empty(), "docs/experiments.md lacks {lacks:?}");
}
