//! The pool and the store: order, interruption, parts of a plan and what they make together.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tack_lab::Interrupted;
use tack_lab::backend::{self, run_hosted};
use tack_lab::host::{Controllers, Host};
use tack_lab::item::Item;
use tack_lab::record::Record;
use tack_lab::runner::{Sink, Stopped, run};
use tack_lab::store::{Store, merge};

use crate::plans::{SWEEP, invented, items};

/// Records as JSON lines; stops or fails after a number of them.
#[derive(Default)]
struct Lines {
    rows: Mutex<Vec<String>>,
    computed: AtomicUsize,
    cancel_after: Option<usize>,
    fail_at: Option<usize>,
}

impl Sink<Record> for Lines {
    fn take(&self, _position: usize, record: Record) -> io::Result<()> {
        let mut rows = self.rows.lock().unwrap();
        if self.fail_at == Some(rows.len()) {
            return Err(io::Error::other("disk full"));
        }
        rows.push(serde_json::to_string(&record).unwrap());
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
fn the_same_seeds_give_the_same_records_on_one_thread_and_on_two() {
    let items = items(SWEEP);
    let rows = |jobs| {
        let lines = Lines::default();
        run(&items, jobs, &lines, backend::run).unwrap();
        lines.into_rows()
    };
    let one = rows(1);
    assert_eq!(one.len(), 8);
    assert_eq!(rows(2), one);
}

#[test]
fn records_come_in_the_plan_s_order_whatever_finishes_first() {
    let items = items(SWEEP);
    for jobs in [1, 2, 3, 8, 100, 0] {
        let lines = Lines::default();
        run(&items, jobs, &lines, |item| {
            // Later runs are done sooner.
            let index = items.iter().position(|i| i.id == item.id).unwrap() as u64;
            let work = 200_000 * (8 - index);
            black_box((0..work).fold(0, |sum: u64, x| black_box(sum ^ x)));
            Ok(invented(item))
        })
        .unwrap();
        let expected: Vec<String> =
            items.iter().map(|i| serde_json::to_string(&invented(i)).unwrap()).collect();
        assert_eq!(lines.into_rows(), expected, "{jobs} jobs");
    }
}

#[test]
fn a_failing_run_ends_the_work_and_is_named() {
    let items = items(SWEEP);
    for jobs in [1, 4] {
        let lines = Lines::default();
        let done = run(&items, jobs, &lines, |item| {
            if item.id == items[3].id {
                Err(anyhow::anyhow!("made to fail"))
            } else {
                Ok(invented(item))
            }
        });
        let error = done.unwrap_err();
        assert!(matches!(error, Stopped::Item { position: 3, .. }), "{error}");
        assert!(error.to_string().contains("made to fail"));
        assert_eq!(lines.into_rows().len(), 3, "the rows before it are kept, those after it not");
    }
}

#[test]
fn a_record_that_cannot_be_written_ends_the_work_without_a_gap() {
    let lines = Lines { fail_at: Some(2), ..Lines::default() };
    let done = run(&items(SWEEP), 3, &lines, |item| Ok(invented(item)));
    assert!(matches!(done, Err(Stopped::Output(_))));
    assert_eq!(lines.into_rows().len(), 2);
}

#[test]
fn cancelled_work_keeps_what_is_done() {
    let lines = Lines { cancel_after: Some(3), ..Lines::default() };
    let done = run(&items(SWEEP), 1, &lines, |item| Ok(invented(item)));
    assert!(matches!(done, Err(Stopped::Cancelled)));
    assert_eq!(lines.into_rows().len(), 3);
}

struct Kept(Mutex<Store<Record>>);

impl Sink<Record> for Kept {
    fn take(&self, _position: usize, record: Record) -> io::Result<()> {
        self.0.lock().unwrap().append(record)
    }
}

/// Runs what is missing of `items` in `path`; how many that were.
fn go_on(path: &Path, items: &[Item]) -> usize {
    let store = Store::<Record>::open(path, true).unwrap();
    let missing = store.missing(items);
    let kept = Kept(Mutex::new(store));
    run(&missing, 1, &kept, |item| Ok(invented(item))).unwrap();
    assert!(kept.0.into_inner().unwrap().missing(items).is_empty());
    missing.len()
}

#[test]
fn a_store_torn_at_any_byte_ends_as_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let items = items(SWEEP);
    assert_eq!(go_on(&path, &items), 8);
    let whole = std::fs::read(&path).unwrap();
    for end in (0..whole.len()).rev().step_by(7) {
        let mut torn = whole[..end].to_vec();
        // As after a power cut, too: then even what is whole but for the line's end runs again.
        let zeros = end % 2;
        torn.resize(end + zeros * 4096, 0);
        std::fs::write(&path, torn).unwrap();
        let lines = whole[..=end - zeros].iter().filter(|b| **b == b'\n').count();
        assert_eq!(go_on(&path, &items), 8 - lines, "torn at byte {end}");
        assert!(std::fs::read(&path).unwrap() == whole, "torn at byte {end}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(go_on(&path, &items), 0, "nothing is left to do");
}

#[test]
fn after_an_edit_only_what_it_changed_runs_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    assert_eq!(go_on(&path, &items(SWEEP)), 8);
    let whole = std::fs::read(&path).unwrap();
    let longer = SWEEP.replace(r#"["g", "n"]"#, r#"["g", "n", "ac"]"#);
    assert_eq!(go_on(&path, &items(&longer)), 4, "the new PHY alone");
    assert!(std::fs::read(&path).unwrap().starts_with(&whole));
    let named = SWEEP.replace("name = \"a", "name = \"b");
    assert_eq!(go_on(&path, &items(&named)), 0, "a name changes no figure");
    assert_eq!(go_on(&path, &items(&SWEEP.replace("5.1", "5.2"))), 8);
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    // A last line without an end as well, unless it is a beginning of what we write.
    for text in ["not a record\nneither\n", "not a record", r#"{"another": "result"}"#, "[1, 2"] {
        std::fs::write(&path, text).unwrap();
        let refused = Store::<Record>::open(&path, true).unwrap_err();
        assert!(refused.to_string().contains("line 1"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert!(Store::<Record>::open(&path, false).is_ok());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

/// Parts of a plan, run anywhere in any order, make the bytes of a single machine.
#[test]
fn parts_together_are_the_whole_byte_by_byte() {
    let dir = tempfile::tempdir().unwrap();
    let items = items(SWEEP);
    let whole = dir.path().join("whole.jsonl");
    go_on(&whole, &items);
    let mut texts = Vec::new();
    for part in [2, 0, 1] {
        let path = dir.path().join(format!("{part}.jsonl"));
        let own: Vec<Item> = items.iter().skip(part).step_by(3).cloned().collect();
        go_on(&path, &own);
        texts.push((part.to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    let runs: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
    let merge = |texts: &[(String, String)]| merge::<Record>(texts, &runs, String::clone);
    let merged = merge(&texts).unwrap();
    let lines: String = merged.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
    assert_eq!(lines, std::fs::read_to_string(&whole).unwrap());
    let missing = merge(&texts[..2]).unwrap_err();
    assert!(missing.contains("5 of 8") && missing.contains(&items[1].id), "{missing}");
    let mut other: Record = serde_json::from_str(texts[0].1.lines().next().unwrap()).unwrap();
    other.metrics.insert("goodput_bps".to_owned(), 1.0);
    let other = ("y.jsonl".to_owned(), serde_json::to_string(&other).unwrap() + "\n");
    assert!(merge(&[texts[0].clone(), texts[0].clone()]).unwrap_err().contains("2 of 8"));
    let unlike = merge(&[texts[0].clone(), other]).unwrap_err();
    assert!(unlike.starts_with("y.jsonl has another result"), "{unlike}");
    let foreign = [("x.jsonl".to_owned(), "{}\n".to_owned())];
    assert!(merge(&foreign).unwrap_err().starts_with("x.jsonl: line 1"));
}

/// As a driver of workers keeps them: in whatever order they come back.
#[test]
fn a_store_is_arranged_as_one_machine_would_have_written_it_and_keeps_what_is_another_plan_s() {
    let items = items(SWEEP);
    let dir = tempfile::tempdir().unwrap();
    let (own, single) = (dir.path().join("own.jsonl"), dir.path().join("single.jsonl"));
    let other = Record { run: "0".repeat(16), ..invented(&items[0]) };
    let mut store = Store::<Record>::open(&own, true).unwrap();
    for item in items.iter().rev() {
        store.append(invented(item)).unwrap();
    }
    store.append(other.clone()).unwrap();
    let runs: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
    store.arrange(&runs).unwrap();
    let mut whole = Store::<Record>::open(&single, true).unwrap();
    whole.append(other).unwrap();
    for item in &items {
        whole.append(invented(item)).unwrap();
    }
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&own), read(&single));
    // What comes after goes to its end.
    store.append(Record { run: "1".repeat(16), ..invented(&items[0]) }).unwrap();
    assert!(read(&own).starts_with(&read(&single)) && read(&own).len() > read(&single).len());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn a_host_ends_a_run_in_its_middle_and_going_on_changes_nothing() {
    let item = &items(SWEEP)[0];
    let asked = AtomicUsize::new(0);
    let controllers = Controllers::new();
    let run = |most: usize| {
        let go_on = || asked.fetch_add(1, Ordering::Relaxed) < most;
        run_hosted(item, Host { controllers: &controllers, go_on: &go_on })
    };
    let error = run(2).unwrap_err();
    assert!(error.is::<Interrupted>(), "{error:#}");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(run(usize::MAX).unwrap(), backend::run(item).unwrap());
}

#[test]
fn a_controller_that_no_host_brings_is_named() {
    let text = "[wan]\nrate_mbps = 10\n[[flow]]\nstrategy = \"tack\"\ncontroller = \"mine\"\n";
    let error = backend::run(&items(text)[0]).unwrap_err();
    assert!(format!("{error:#}").contains("`controller = \"mine\"`"), "{error:#}");
}
