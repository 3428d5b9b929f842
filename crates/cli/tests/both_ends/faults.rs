//! A file system that fails, cuts and forgets: what was called verified is there all the same, and
//! the next attempt on a sound one completes.

#![allow(
    clippy::disallowed_methods,
    reason = "only the file system under the receiver is not real"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand_pcg::Pcg64;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::calls::{Call, FileSystem};
use tack_cli::transfer::frame::{Code, SenderId};
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::{Sent, send_tree};
use tack_cli::transfer::store::{Durability, Store};
use tempfile::tempdir;
use tokio::io::duplex;

use crate::support::{Death, ME, Mortal, random_bytes, random_tree, rng, run, snapshot};

const OTHER: SenderId = [8; 32];

/// Seeds, unless `TACK_FAULTS` says otherwise.
const SEEDS: u64 = 25;

/// Attempts under one seed before the file system is sound again.
const ATTEMPTS: usize = 12;

/// Fails at random, dies for good after a while, and knows what a power cut would take.
#[derive(Debug)]
struct Bad(Mutex<State>);

#[derive(Debug)]
struct State {
    rng: Pcg64,
    /// Share of calls that fail.
    failing: f64,
    /// Calls until none passes any more.
    left: usize,
    failed: usize,
    /// Files by inode that were written since they were synced, and their length then.
    dirty: BTreeMap<u64, u64>,
    /// Names that were given since their folder was synced.
    renamed: Vec<Renamed>,
}

/// By inodes, of the folder and of what got the name: the call may have failed after all.
#[derive(Debug)]
struct Renamed {
    folder: u64,
    file: u64,
    old: PathBuf,
    new: PathBuf,
}

impl Bad {
    fn new(seed: u64) -> Bad {
        let (dirty, renamed) = (BTreeMap::new(), Vec::new());
        let rng = rng(seed);
        Bad(Mutex::new(State { rng, failing: 0.0, left: usize::MAX, failed: 0, dirty, renamed }))
    }

    /// Another attempt, with faults of its own.
    fn revive(&self) {
        let mut state = self.0.lock().unwrap();
        state.failing = [0.0, 0.002, 0.02, 0.2][state.rng.random_range(0..4)];
        let calls = state.rng.random_range(0..400);
        state.left = if state.rng.random_bool(0.5) { calls } else { usize::MAX };
    }

    /// The power fails: of what was not synced, some is gone and some is not what was written.
    fn power_cut(&self, root: &Path) {
        let mut state = self.0.lock().unwrap();
        for Renamed { file, old, new, .. } in std::mem::take(&mut state.renamed).into_iter().rev() {
            let has_it = fs::symlink_metadata(&new).is_ok_and(|meta| meta.ino() == file);
            if has_it && state.rng.random_bool(0.5) && !old.exists() {
                let _ = fs::rename(new, old);
            }
        }
        let dirty = std::mem::take(&mut state.dirty);
        for path in files_under(root) {
            let meta = fs::symlink_metadata(&path).unwrap();
            let Some(&synced) = dirty.get(&meta.ino()) else { continue };
            let keep = state.rng.random_range(synced.min(meta.len())..=meta.len());
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(keep).unwrap();
            if keep > synced {
                let at = state.rng.random_range(synced..keep);
                let lost = (keep - at).min(5_000) as usize;
                file.write_all_at(&vec![0; lost], at).unwrap();
            }
        }
    }
}

fn path_of(folder: BorrowedFd<'_>) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).unwrap()
}

impl FileSystem for Bad {
    fn before(&self, call: Call<'_>) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        let State { rng, failing, left, failed, dirty, renamed } = &mut *state;
        *left = left.saturating_sub(1);
        if *left == 0 || rng.random_bool(*failing) {
            *failed += 1;
            if let (Call::Write(file, bytes), true) = (call, *left > 0) {
                let length = file.metadata()?.len();
                dirty.entry(file.metadata()?.ino()).or_insert(length);
                return Ok(rng.random_range(0..bytes));
            }
            let how = [Errno::NOSPC, Errno::IO, Errno::DQUOT, Errno::ROFS, Errno::INVAL];
            // Only of a rename is that no failure: the name is given in two calls then.
            let count = if matches!(call, Call::Rename { .. }) { 5 } else { 4 };
            let how = how[rng.random_range(0..count)];
            if how == Errno::INVAL {
                note(call, dirty, renamed)?;
            }
            return Err(how.into());
        }
        note(call, dirty, renamed)?;
        Ok(usize::MAX)
    }
}

/// What a power cut would take of this.
fn note(
    call: Call<'_>,
    dirty: &mut BTreeMap<u64, u64>,
    renamed: &mut Vec<Renamed>,
) -> io::Result<()> {
    match call {
        Call::Write(file, _) | Call::Resize(file, _) => {
            let meta = file.metadata()?;
            let synced = dirty.entry(meta.ino()).or_insert(meta.len());
            if let Call::Resize(_, to) = call {
                *synced = to.min(*synced);
            }
        }
        Call::Sync(file) => drop(dirty.remove(&file.metadata()?.ino())),
        Call::SyncNames(folder) => {
            let ino = fs::metadata(path_of(folder))?.ino();
            renamed.retain(|r| r.folder != ino);
        }
        Call::Rename { old, to, new } => {
            let folder = path_of(to);
            let root = folder.ancestors().find(|f| f.join(".tack-partial").is_dir());
            let old = root.expect("beneath the inbox").join(".tack-partial").join(old);
            let file = fs::symlink_metadata(&old)?.ino();
            let (of, new) = (fs::metadata(&folder)?.ino(), folder.join(new));
            renamed.push(Renamed { folder: of, file, old, new });
        }
        Call::Make | Call::Attributes | Call::Remove => {}
    }
    Ok(())
}

fn files_under(root: &Path) -> Vec<PathBuf> {
    // It is not there where making it failed.
    let (mut files, mut todo) =
        (Vec::new(), Vec::from_iter(root.is_dir().then(|| root.to_owned())));
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            match meta.is_dir() {
                true => todo.push(path),
                false if meta.is_file() => files.push(path),
                false => {}
            }
        }
    }
    files
}

/// One transfer, which breaks off after so many bytes in either direction.
async fn attempt(
    (from, into): (&Path, &Path),
    sender: SenderId,
    bad: Option<Arc<Bad>>,
    bytes: usize,
) -> Result<Sent, TransferError> {
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let found = scan(&[from.to_owned()], false)?;
    let store = match bad {
        Some(bad) => Store::open_through(bad, into, Durability::Synced)?,
        None => Store::open(into, Durability::Synced)?,
    };
    let (here, there) = duplex(1 << 16);
    let here = Mortal { inner: here, bytes_left: bytes, death: Death::Cut, is_cut: None };
    let intake = Intake::alone(store);
    let receiving = receive_tree(there, &intake, &quiet, &never);
    let (sent, _received) = tokio::join!(send_tree(here, sender, found, &quiet, &never), receiving);
    sent
}

/// What has a name is what one of the senders sent under it.
fn names_are_right(trees: [&Path; 2], into: &Path, whose: &str) {
    for path in files_under(&into.join("tree")) {
        let inside = path.strip_prefix(into.join("tree")).unwrap();
        let came = fs::read(&path).unwrap();
        let sent = trees.map(|tree| fs::read(tree.join(inside)).unwrap());
        assert!(sent.contains(&came), "{whose}: {path:?}");
    }
}

/// The folder as another sender has it, who differs in one file of the same length.
fn another_s(tree: &Path, home: &Path, rng: &mut Pcg64) -> PathBuf {
    fs::create_dir(home).unwrap();
    let mut copying = std::process::Command::new("cp");
    assert!(copying.arg("-a").arg(tree).arg(home).status().unwrap().success());
    let late = home.join("tree/late");
    let length = fs::metadata(&late).unwrap().len();
    fs::write(late, random_bytes(rng, length as usize)).unwrap();
    home.join("tree")
}

/// Contents, modes and times agree; says which do not.
fn same(from: &Path, into: &Path, whose: &str) {
    let (sent, arrived) = (snapshot(from), snapshot(into));
    for (name, ours) in &sent {
        let Some(theirs) = arrived.get(name) else { panic!("{whose}: {name} is missing") };
        let (mode, seconds, nanos, bytes) = ours;
        let what = (mode, seconds, nanos, bytes.len());
        let came = (&theirs.0, &theirs.1, &theirs.2, theirs.3.len());
        assert!(ours == theirs, "{whose}: {name}: {what:?} came as {came:?}");
    }
    assert_eq!(sent.len(), arrived.len(), "{whose}");
}

#[test]
fn whatever_call_fails_and_whatever_a_power_cut_takes_nothing_wrong_is_called_verified() {
    let seeds = std::env::var("TACK_FAULTS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    let (mut failed, mut verified, mut attempts) = (0, 0, 0);
    for seed in 0..seeds {
        let mut rng = rng(0xfa017 + seed);
        let dir = tempdir().unwrap();
        let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
        random_tree(&from, &mut rng);
        fs::write(from.join("late"), random_bytes(&mut rng, 900_000)).unwrap();
        // Zeros become holes: they must come back from a cut, too.
        fs::write(from.join("sparse"), vec![0; 700_000]).unwrap();
        let other = another_s(&from, &dir.path().join("other"), &mut rng);
        let bad = Arc::new(Bad::new(seed));
        for round in 0..ATTEMPTS {
            let whose = format!("seed {seed} attempt {round}");
            bad.revive();
            let mut once = |from, sender| {
                let bytes =
                    if rng.random_bool(0.3) { rng.random_range(0..3_000_000) } else { usize::MAX };
                // Two of them, unoptimised, are more than a test's stack.
                Box::pin(attempt((from, &into), sender, Some(Arc::clone(&bad)), bytes))
            };
            let (first, second) = (once(&from, ME), once(&other, OTHER));
            let sent = run(async {
                if round % 3 == 0 {
                    tokio::join!(first, second)
                } else {
                    (first.await, second.await)
                }
            });
            attempts += 2;
            // The second finds the first one's file in the way, or the other way round.
            assert!(sent.0.is_err() || sent.1.is_err(), "{whose}: both are said to be there");
            let complete = sent.0.is_ok() || sent.1.is_ok();
            if complete || rng.random_bool(0.4) {
                bad.power_cut(&into);
            }
            if into.join("tree").is_dir() {
                names_are_right([&from, &other], &into, &whose);
            }
            if complete {
                verified += 1;
                let sent = if sent.0.is_ok() { &from } else { &other };
                same(sent, &into.join("tree"), &whose);
                fs::remove_dir_all(into.join("tree")).unwrap();
            }
        }
        failed += bad.0.lock().unwrap().failed;
        let mut last = run(attempt((&from, &into), ME, None, usize::MAX));
        let mut whose = &from;
        if matches!(last, Err(TransferError::Peer { code: Code::Exists, .. })) {
            (last, whose) = (run(attempt((&other, &into), OTHER, None, usize::MAX)), &other);
        }
        last.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        same(whose, &into.join("tree"), &format!("seed {seed}"));
    }
    println!("{failed} calls failed in {attempts} attempts; {verified} rounds ended verified");
    assert!(failed as u64 > seeds && verified > 0, "{failed} failures, {verified} verified");
}
