//! Where results are kept as JSON lines: found again by what was run, so that interrupted work goes
//! on, an edited file runs only what it changed, and parts from several machines make one whole.
//!
//! Lines are appended and each at once: whatever ends the process, the file holds whole lines and
//! at most one torn one, which is cut off on the next start. One store writes to a file at a time: the
//! lines of two would lie across each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::item::{Backend, Item};
use crate::record::Record;

/// A result that is found again.
pub trait Kept: Serialize + DeserializeOwned {
    /// What was run.
    type Run: Ord + Clone + Display;

    /// The run that it is of.
    fn run(&self) -> Self::Run;
}

impl Kept for Record {
    type Run = String;

    fn run(&self) -> String {
        self.run.clone()
    }
}

/// An open file of results.
#[derive(Debug)]
pub struct Store<T: Kept> {
    /// `None`: nothing is kept.
    file: Option<(PathBuf, File, Claim)>,
    kept: BTreeMap<T::Run, T>,
}

/// Why a file of results cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// It cannot be opened, read or written.
    Io(PathBuf, io::Error),
    /// It holds something else: the number of the first such line and what is wrong with it.
    Foreign(PathBuf, String),
    /// Another process writes to it.
    Taken(PathBuf),
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreError::Io(path, e) => write!(f, "{}: {e}", path.display()),
            StoreError::Foreign(path, e) => {
                write!(f, "{} holds something else than these results, {e}", path.display())
            }
            StoreError::Taken(path) => {
                write!(f, "{} is that of another run, which is under way", path.display())
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl<T: Kept> Store<T> {
    /// Opens `path`. With `resume`, what it holds is kept; without, it is deleted.
    ///
    /// # Errors
    /// The file is out of reach, another's or holds something else; it stays as it is then.
    pub fn open(path: &Path, resume: bool) -> Result<Store<T>, StoreError> {
        let io = |e| StoreError::Io(path.to_owned(), e);
        // Before it is opened: closing it again would give the other store's lock away.
        if std::fs::metadata(path).is_ok_and(|about| is_claimed(&about)) {
            return Err(StoreError::Taken(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(io)?;
        let claim = take(&file).map_err(|Taken| StoreError::Taken(path.to_owned()))?;
        if !resume {
            file.set_len(0).map_err(io)?;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        // An interruption may have torn the last line, even within a character.
        let kept: Vec<T> = read(&String::from_utf8_lossy(&bytes))
            .map_err(|e| StoreError::Foreign(path.to_owned(), e))?;
        let lines = bytes.split_inclusive(|b| *b == b'\n').take(kept.len());
        let whole: usize = lines.map(<[u8]>::len).sum();
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        if whole > 0 && bytes[whole - 1] != b'\n' {
            file.write_all(b"\n").map_err(io)?;
        }
        Ok(Store { file: Some((path.to_owned(), file, claim)), kept: by_run(kept) })
    }

    /// One in memory.
    pub fn transient() -> Store<T> {
        Store { file: None, kept: BTreeMap::new() }
    }

    /// Results so far, by run.
    pub fn kept(&self) -> &BTreeMap<T::Run, T> {
        &self.kept
    }

    /// Results by run, with the file let go.
    pub fn into_kept(self) -> BTreeMap<T::Run, T> {
        self.kept
    }

    /// Writes a result; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, result: T) -> io::Result<()> {
        if let Some((path, file, _)) = &mut self.file {
            let named = |e| named(path, e);
            // Whoever read the file in this process gave its lock away with that.
            lock(file).map_err(|Taken| io::Error::other(StoreError::Taken(path.clone())))?;
            file.write_all(&line(&result)?).map_err(named)?;
        }
        self.kept.insert(result.run(), result);
        Ok(())
    }

    /// Brings the file into the order of `runs`, after results of other runs: into that of a single
    /// machine, where several appended as they were done. Whatever ends the process meanwhile, the file
    /// holds the old order or the new one.
    ///
    /// # Errors
    /// Those of the file, which stays as it was then.
    pub fn arrange(&mut self, runs: &[T::Run]) -> io::Result<()> {
        let Some((path, file, claim)) = &mut self.file else { return Ok(()) };
        let own: BTreeSet<&T::Run> = runs.iter().collect();
        let others = self.kept.iter().filter(|(run, _)| !own.contains(run)).map(|(_, t)| t);
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let named = |e| named(&new, e);
        let out = File::create(&new).map_err(named)?;
        let own = take(&out).map_err(|Taken| io::Error::other(StoreError::Taken(new.clone())))?;
        let in_order = others.chain(runs.iter().filter_map(|run| self.kept.get(run)));
        let write = || {
            let mut text = io::BufWriter::new(&out);
            for result in in_order {
                text.write_all(&line(result)?)?;
            }
            text.flush()?;
            out.sync_all()?;
            std::fs::rename(&new, path.as_path())
        };
        write().map_err(|e| {
            // On a full disk it would take the room of what comes next.
            let _ = std::fs::remove_file(&new);
            named(e)
        })?;
        (*file, *claim) = (out, own);
        Ok(())
    }
}

/// Another process has the file.
struct Taken;

/// An error of a file that says which.
fn named(path: &Path, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// Takes a file for one store of this process, until its claim is dropped or the process ends.
fn take(file: &File) -> Result<Claim, Taken> {
    let claim = Claim::of(file)?;
    lock(file)?;
    Ok(claim)
}

/// A file's place in [`CLAIMED`]: the process, then device and number of the file.
type Place = (u32, u64, u64);

/// Files that stores of this process write to: a lock keeps out other processes alone. One that is forked
/// has a copy of this, and no part in any of them.
static CLAIMED: Mutex<BTreeSet<Place>> = Mutex::new(BTreeSet::new());

fn claimed() -> MutexGuard<'static, BTreeSet<Place>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_claimed(about: &Metadata) -> bool {
    place(about).is_some_and(|place| claimed().contains(&place))
}

/// A file is one store's, until this is dropped.
#[derive(Debug)]
struct Claim(Option<Place>);

impl Claim {
    fn of(file: &File) -> Result<Claim, Taken> {
        let place = file.metadata().ok().as_ref().and_then(place);
        let Some(place) = place else { return Ok(Claim(None)) };
        let is_new = claimed().insert(place);
        if is_new { Ok(Claim(Some(place))) } else { Err(Taken) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            claimed().remove(&place);
        }
    }
}

#[cfg(unix)]
fn place(about: &Metadata) -> Option<Place> {
    use std::os::unix::fs::MetadataExt;
    Some((std::process::id(), about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn place(_: &Metadata) -> Option<Place> {
    None
}

/// Keeps other processes out, until any handle of this process to the file is closed or it ends: what it
/// forks has no part in it. Where files cannot be locked, as in some networks, nobody is kept out.
#[cfg(unix)]
fn lock(file: &File) -> Result<(), Taken> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use rustix::io::Errno;

    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN | Errno::ACCESS) => Err(Taken),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn lock(_: &File) -> Result<(), Taken> {
    Ok(())
}

fn line<T: Serialize>(result: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(result).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Store<Record> {
    /// Those of `items` that have no record yet, in order; nor one of a run in real time that the
    /// machine spoiled.
    pub fn missing(&self, items: &[Item]) -> Vec<Item> {
        let is_done = |item: &&Item| {
            let record = self.kept.get(&item.id);
            record.is_some_and(|r| r.void.is_none() || item.backend != Backend::Live)
        };
        items.iter().filter(|item| !is_done(item)).cloned().collect()
    }
}

fn by_run<T: Kept>(results: Vec<T>) -> BTreeMap<T::Run, T> {
    results.into_iter().map(|r| (r.run(), r)).collect()
}

/// The results of `texts` together, in the order of `runs`: what one machine would have written.
/// `describe` says which run one is.
///
/// # Errors
/// Which text holds something else, or another result of a run than one before, or how many runs have no result and the
/// first of them.
pub fn merge<T: Kept>(
    texts: &[(String, String)],
    runs: &[T::Run],
    describe: impl Fn(&T::Run) -> String,
) -> Result<Vec<T>, String> {
    let mut all = BTreeMap::new();
    let line = |result: &T| serde_json::to_string(result).unwrap_or_default();
    for (name, text) in texts {
        let results: Vec<T> = read(text).map_err(|e| format!("{name}: {e}"))?;
        for (run, result) in by_run(results) {
            if all.get(&run).is_some_and(|before| line(before) != line(&result)) {
                let what = describe(&run);
                return Err(format!("{name} has another result than a file before it of {what}"));
            }
            all.insert(run, result);
        }
    }
    let missing: Vec<&T::Run> = runs.iter().filter(|run| !all.contains_key(*run)).collect();
    if let Some(first) = missing.first() {
        let (have, want) = (runs.len() - missing.len(), runs.len());
        return Err(format!(
            "{have} of {want} runs are there; the first that is not: {}",
            describe(first)
        ));
    }
    Ok(runs.iter().filter_map(|run| all.remove(run)).collect())
}

/// The items of a text, be there a byte order mark before them. A last line cut short by an interruption is
/// left out; `Err` names the line that is none.
///
/// # Errors
/// The number of the first line that cannot be read and is no beginning of one, cut short.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut items = Vec::with_capacity(lines.len());
    for (i, line) in lines.iter().enumerate() {
        match serde_json::from_str::<T>(line) {
            Ok(item) => items.push(item),
            Err(_) if i + 1 == lines.len() && !text.ends_with('\n') && is_torn::<T>(line) => {}
            Err(e) => return Err(format!("line {}: {e}", i + 1)),
        }
    }
    Ok(items)
}

/// Whether it begins as an item does and ends too soon. Zeros are what a power cut leaves of what was not
/// on the disk yet.
fn is_torn<T: DeserializeOwned>(line: &str) -> bool {
    let line = line.trim_end_matches('\0');
    serde_json::from_str::<T>(line).map_or_else(|e| e.is_eof(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: &str) -> Record {
        Record { run: run.to_owned(), ..Record::default() }
    }

    #[test]
    fn a_file_is_one_stores_in_this_process_too_until_it_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        let mut first = Store::<Record>::open(&path, true).unwrap();
        let second = || Store::<Record>::open(&path, true).map(drop);
        assert!(matches!(second(), Err(StoreError::Taken(_))));
        first.append(record("b")).unwrap();
        first.append(record("a")).unwrap();
        // Which is another file, with the same name.
        first.arrange(&["a".to_owned(), "b".to_owned()]).unwrap();
        assert!(matches!(second(), Err(StoreError::Taken(_))));
        drop(first);
        let third = Store::<Record>::open(&path, true).unwrap();
        assert_eq!(third.kept().len(), 2);
    }

    #[test]
    fn what_cannot_be_arranged_leaves_no_second_file_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        let mut store = Store::<Record>::open(&path, true).unwrap();
        store.append(record("a")).unwrap();
        // Which no file takes the place of.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let e = store.arrange(&["a".to_owned()]).unwrap_err();
        assert!(e.to_string().contains("runs.jsonl.new: "), "{e}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn results_that_an_editor_gave_a_byte_order_mark_are_read_and_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        Store::open(&path, true).unwrap().append(record("a")).unwrap();
        let marked = ["\u{feff}".as_bytes(), &std::fs::read(&path).unwrap()].concat();
        std::fs::write(&path, &marked).unwrap();
        Store::open(&path, true).unwrap().append(record("b")).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(&marked));
        assert_eq!(Store::<Record>::open(&path, true).unwrap().kept().len(), 2);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_cannot_be_written_is_named() {
        // Refuses every byte, as a full disk does.
        let full = Path::new("/dev/full");
        let claim = take(&File::open(full).unwrap()).unwrap_or(Claim(None));
        let file = OpenOptions::new().write(true).open(full).unwrap();
        let mut store = Store { file: Some((full.to_owned(), file, claim)), kept: BTreeMap::new() };
        let e = store.append(record("a")).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        assert!(e.to_string().starts_with("/dev/full: No space left"), "{e}");
    }
}
