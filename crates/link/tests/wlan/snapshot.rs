//! Result tables kept in the repository.

use std::path::Path;

use tack_link::open_loop::{OpenLoop, Report};

/// Compares `table` with `snapshots/<name>.txt`, or rewrites that file if `TACK_BLESS` is set.
pub(crate) fn check(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wlan/snapshots");
    let path = path.join(name).with_extension("txt");
    if std::env::var_os("TACK_BLESS").is_some() {
        std::fs::write(&path, table).expect("the snapshot directory is writable");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (i, (now, before)) in table.lines().zip(kept.lines()).enumerate() {
        assert_eq!(now, before, "{name} line {}; TACK_BLESS=1 accepts it", i + 1);
    }
    assert_eq!(table.lines().count(), kept.lines().count(), "{name}: TACK_BLESS=1 accepts it");
}

/// Runs `experiment` and asserts what holds in every run: the medium's uses add up to the time
/// measured, and every packet is accounted for.
pub(crate) fn run(experiment: &OpenLoop) -> Report {
    let report = experiment.run().expect("a valid experiment");
    let seed = experiment.wlan.seed;
    let shares: f64 = report.airtime.shares().iter().sum();
    assert!((shares - 1.0).abs() < 1e-6, "seed {seed}: shares add up to {shares}");
    // An exchange that straddles an edge of the measurement counts in full.
    let edge = 0.012 / experiment.duration.as_secs_f64();
    let total = report.airtime.total().as_secs_f64() / experiment.duration.as_secs_f64();
    assert!((total - 1.0).abs() < edge, "seed {seed}: {total} of the time is accounted for");
    assert!(report.ledger.balances(), "seed {seed}: {:?}", report.ledger);
    report
}

/// Relative error in percent.
pub(crate) fn percent(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}
