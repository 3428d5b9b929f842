//! The list of demands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const LIST: &str = include_str!("../../../../docs/quic-requirements.md");

/// Names of tests in the files below `dir`.
fn tests_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let after_mark = text.split("#[test]").chain(text.split("#[tokio::test]")).skip(1);
            let names = after_mark.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// What stands in backticks in the last column.
fn named() -> Vec<&'static str> {
    let rows = LIST.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| §"));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let quoted = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.filter(|name| name.contains('_')).collect()
}

#[test]
fn a_test_that_is_named_exists() {
    let mut found = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for krate in ["quic", "net", "tack", "transport"] {
        tests_below(&crates.join(krate), &mut found);
    }
    let named = named();
    assert!(named.len() > 80, "{}", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "named in docs/quic-requirements.md, but no tests: {missing:?}");
}
