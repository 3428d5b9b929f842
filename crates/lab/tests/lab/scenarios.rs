//! The scenarios in the repository.

use std::path::Path;

use tack_lab::simulate;

use crate::plans::items;

#[test]
fn every_scenario_of_the_repository_runs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    // Those of the envelope have a test of their own.
    files.retain(|path| path.is_file());
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // The last combination is the one that differs most from the file's own values.
        let mut scenario = items(&text).pop().unwrap().scenario;
        // A slow start into a long queue of one's own delivers what was lost of it seconds later.
        (scenario.duration_s, scenario.warmup_s) = (5.0, 2.0);
        let result = simulate(&scenario).unwrap_or_else(|e| panic!("{}: {e:#}", file.display()));
        for (i, flow) in result.flows.iter().enumerate() {
            let runs = flow.goodput_bps > 1e5 || flow.completed_at_s.is_some();
            assert!(runs, "{}, flow {i}: {flow:?}", file.display());
        }
    }
}
