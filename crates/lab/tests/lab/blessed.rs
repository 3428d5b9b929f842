//! The experiments of the repository, and what is blessed of them.

use std::collections::BTreeSet;
use std::path::Path;

use tack_lab::claim::Verdict;
use tack_lab::experiment::Extent;
use tack_lab::reproduce::Loaded;
use tack_lab::view::Kind;
use tack_lab::{bundle, html, results};

use crate::experiments::run;

#[test]
fn every_file_of_the_repository_is_in_the_binary_and_can_be_planned() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut found = BTreeSet::new();
    for paper in std::fs::read_dir(&dir).unwrap() {
        let paper = paper.unwrap().path();
        if !paper.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&paper).unwrap() {
            let file = file.unwrap().path();
            let of_others = ["envelope", "rivals"].iter().any(|dir| paper.ends_with(dir));
            if file.extension().is_some_and(|e| e == "toml") && !of_others {
                let path = file.strip_prefix(&dir).unwrap().to_string_lossy().into_owned();
                found.insert(path);
            }
        }
    }
    let bundled: BTreeSet<String> = bundle::FILES.iter().map(|f| f.0.to_owned()).collect();
    assert_eq!(found, bundled);
    for (path, text) in bundle::FILES.iter() {
        assert_eq!(*text, std::fs::read_to_string(dir.join(path)).unwrap(), "{path}");
        for extent in [Extent::Short, Extent::Usual, Extent::Full] {
            let loaded = Loaded::parse(text, extent);
            let loaded = loaded.unwrap_or_else(|e| panic!("{path}, {}: {e}", extent.name()));
            assert_eq!(loaded.experiment.id, bundle::stem(path));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn every_rival_of_the_repository_is_in_the_binary() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/rivals");
    let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
    let found: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let all = bundle::RIVALS.iter();
    assert_eq!(found, all.map(|(name, _)| (*name).to_owned()).collect());
}

/// The short extent of every figure gives what lies beside its file: a change is a diff. Bless it
/// with `tack lab reproduce --short --bless .`.
fn hold(paper: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for (path, text) in bundle::find(paper) {
        let loaded = Loaded::parse(text, Extent::Short).unwrap();
        let report = loaded.report(&run(&loaded)).unwrap();
        assert!(report.void.is_empty(), "{path}: {:?}", report.void);
        let blessed = std::fs::read_to_string(dir.join(path).with_extension("md"));
        let blessed = blessed.unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(results::blessed(&report), blessed, "{path}");
        let differ = report.findings.iter().filter(|f| f.verdict == Verdict::Differs);
        let without: Vec<_> = differ.filter(|f| f.why.is_none()).map(|f| &f.what).collect();
        assert!(without.is_empty(), "{path}: rows differ and no cause stands there: {without:?}");
        let page = html::page(&[(loaded.clone(), report.clone())], "x");
        let plots: usize = report.shown.iter().map(|s| s.plots.len()).sum();
        assert_eq!(page.matches("<figure>").count(), plots, "{path}");
        let drawn = loaded.experiment.view.iter().any(|v| v.kind != Kind::Table);
        assert_eq!(plots > 0, drawn, "{path}: a figure has a picture");
        // No network: a page that names nothing to fetch.
        assert!(!page.contains("src=") && !page.contains("href=\"http"), "{path}");
    }
}

#[test]
fn the_figures_of_tack_are_as_blessed() {
    hold("tack");
}

#[test]
fn the_figures_of_landstrom_and_larzon_are_as_blessed() {
    hold("landstrom");
}

#[test]
fn the_figures_of_custura_and_others_are_as_blessed() {
    hold("custura");
}

#[test]
fn the_measures_are_as_blessed() {
    hold("measures");
}

#[test]
fn results_md_is_the_blessed_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = results::document(&root.join("experiments")).unwrap();
    let text = std::fs::read_to_string(root.join("RESULTS.md")).unwrap();
    assert_eq!(text, document, "tack lab reproduce --short --bless .");
}

#[test]
fn the_page_of_the_lab_names_the_command_of_the_blessed_envelope() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blessed = std::fs::read_to_string(root.join("experiments/envelope/random.md")).unwrap();
    let command = blessed.lines().next().unwrap().trim_matches('`');
    assert!(command.starts_with("tack lab envelope"), "{command}");
    let page = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
    assert!(page.contains(&format!("{command} --bless")), "docs/lab.md does not say `{command}`");
}
