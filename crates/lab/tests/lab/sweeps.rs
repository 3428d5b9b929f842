//! Sweeps: order, determinism, interruptions.

use std::hint::black_box;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tack_lab::output::Row;
use tack_lab::store::{Store, StoreError};
use tack_lab::sweep::{Observer, SweepError, sweep};

use crate::plans::{SWEEP, invented, runs};

/// Rows as JSON lines; stops or fails after a number of them.
#[derive(Default)]
struct Lines {
    rows: Mutex<Vec<String>>,
    computed: AtomicUsize,
    cancel_after: Option<usize>,
    fail_at: Option<usize>,
}

impl Observer for Lines {
    fn row(&self, row: &Row) -> io::Result<()> {
        let mut rows = self.rows.lock().unwrap();
        if self.fail_at == Some(rows.len()) {
            return Err(io::Error::other("disk full"));
        }
        rows.push(serde_json::to_string(row).unwrap());
        Ok(())
    }

    fn progressed(&self) {
        self.computed.fetch_add(1, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.cancel_after.is_some_and(|n| self.computed.load(Ordering::Relaxed) >= n)
    }
}

impl Lines {
    fn into_rows(self) -> Vec<String> {
        self.rows.into_inner().unwrap()
    }
}

/// Real simulations, whose every figure must be the same bit by bit.
#[test]
fn the_same_seeds_give_the_same_rows_on_one_thread_and_on_two() {
    let runs = runs(SWEEP);
    let rows = |jobs| {
        let lines = Lines::default();
        sweep(&runs, jobs, &lines, |run| tack_lab::simulate(&run.scenario)).unwrap();
        lines.into_rows()
    };
    let one = rows(1);
    assert_eq!(one.len(), 8);
    assert_eq!(rows(2), one);
}

#[test]
fn rows_come_in_the_plan_s_order_whatever_finishes_first() {
    let runs = runs(SWEEP);
    for jobs in [1, 2, 3, 8, 100, 0] {
        let lines = Lines::default();
        sweep(&runs, jobs, &lines, |run| {
            // Later runs are done sooner.
            let work = 200_000 * (8 - run.index as u64);
            black_box((0..work).fold(0, |sum: u64, x| black_box(sum ^ x)));
            Ok(invented(run))
        })
        .unwrap();
        let expected: Vec<String> = runs
            .iter()
            .map(|r| serde_json::to_string(&Row::new(r, invented(r))).unwrap())
            .collect();
        assert_eq!(lines.into_rows(), expected, "{jobs} jobs");
    }
}

#[test]
fn a_failing_run_ends_the_sweep_and_is_named() {
    let runs = runs(SWEEP);
    for jobs in [1, 4] {
        let lines = Lines::default();
        let done = sweep(&runs, jobs, &lines, |run| {
            if run.index == 3 { Err(anyhow::anyhow!("made to fail")) } else { Ok(invented(run)) }
        });
        let error = done.unwrap_err();
        assert!(matches!(error, SweepError::Run { index: 3, .. }), "{error}");
        assert!(error.to_string().contains("made to fail"));
        assert_eq!(lines.into_rows().len(), 3, "the rows before it are kept, those after it not");
    }
}

#[test]
fn a_row_that_cannot_be_written_ends_the_sweep_without_a_gap() {
    let lines = Lines { fail_at: Some(2), ..Lines::default() };
    let done = sweep(&runs(SWEEP), 3, &lines, |run| Ok(invented(run)));
    assert!(matches!(done, Err(SweepError::Output(_))));
    assert_eq!(lines.into_rows().len(), 2);
}

#[test]
fn a_cancelled_sweep_keeps_what_is_done() {
    let lines = Lines { cancel_after: Some(3), ..Lines::default() };
    let done = sweep(&runs(SWEEP), 1, &lines, |run| Ok(invented(run)));
    assert!(matches!(done, Err(SweepError::Cancelled)));
    assert_eq!(lines.into_rows().len(), 3);
}

struct Kept(Mutex<Store>);

impl Observer for Kept {
    fn row(&self, row: &Row) -> io::Result<()> {
        self.0.lock().unwrap().append(row)
    }
}

#[test]
fn a_sweep_torn_at_any_byte_ends_with_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let runs = runs(SWEEP);
    let go_on = || {
        let store = Store::open(&path, &runs, true).unwrap();
        let missing = store.missing(&runs);
        let kept = Kept(Mutex::new(store));
        sweep(&missing, 1, &kept, |run| Ok(invented(run))).unwrap();
        (missing.len(), kept.0.into_inner().unwrap().rows().len())
    };
    assert_eq!(go_on(), (8, 8));
    let whole = std::fs::read(&path).unwrap();
    for end in (0..whole.len()).rev() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let lines = whole[..=end].iter().filter(|b| **b == b'\n').count();
        assert_eq!(go_on(), (8 - lines, 8), "torn at byte {end}");
        assert!(std::fs::read(&path).unwrap() == whole, "torn at byte {end}");
    }
    assert_eq!(go_on(), (0, 8), "nothing is left to do");
}

#[test]
fn results_of_another_plan_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let (mine, other) = (runs(SWEEP), runs(&SWEEP.replace("5.1", "5.2")));
    let mut store = Store::open(&path, &other, true).unwrap();
    store.append(&Row::new(&other[0], invented(&other[0]))).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = Store::open(&path, &mine, true).unwrap_err();
    assert!(matches!(refused, StoreError::OtherPlan(_, 1)), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(&path, "not a row\nneither\n").unwrap();
    let refused = Store::open(&path, &mine, true).unwrap_err();
    assert!(refused.to_string().contains("line 1"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "not a row\nneither\n");
    let afresh = Store::open(&path, &mine, false).unwrap();
    assert_eq!(afresh.missing(&mine).len(), 8);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}
