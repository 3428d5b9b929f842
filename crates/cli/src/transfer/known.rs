//! What this process has hashed before, so that whoever goes on over another connection need not read it again.
//!
//! A network that changes ends a connection, and not the two processes: what one has sent and the other
//! has stored need not be read from two disks once more before the next byte may go. A hash counts as long
//! as its file is the same one, of the same length and the same times, to the nanosecond.
//!
//! The receiver, which answers for what lies there, is stricter: a write within the tick of the clock in which
//! we looked would leave no trace in the time of change. So it remembers only files whose time of modification
//! was [set](Stamp::is_dated) to what it would not be by itself: a write undoes that.

use std::collections::{BTreeMap, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes between two states of a hash that are remembered of a file under way.
pub const STEP: u64 = 4 << 20;

/// States of hashes that are remembered, each 2 kB: of one file the last 256 MiB, more than two ends have
/// under way between them.
const MOST_STATES: usize = 64;

/// Whole files that are remembered, each a hundred bytes.
const MOST_FILES: usize = 1 << 16;

/// Bytes of a whole file that is worth it: to open it takes as long as to read fewer.
const WORTH: u64 = 64 << 10;

/// Seconds that two times have to be apart to be different ones on any file system.
const APART: u64 = 3;

/// What changes with a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of a file that was looked at.
    pub fn of(meta: &Metadata) -> Stamp {
        Stamp {
            file: (meta.dev(), meta.ino()),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it says another time than that of its last change, as a write would leave it.
    pub fn is_dated(&self) -> bool {
        self.modified.0.abs_diff(self.changed.0) >= APART
    }
}

/// What was hashed.
#[derive(Debug, Default)]
pub struct Known(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<(u64, u64), (Stamp, blake3::Hash)>,
    /// Of beginnings, the latest last.
    states: VecDeque<(Stamp, blake3::Hasher)>,
}

impl Known {
    /// The hash of a whole file, if it is as it was.
    pub fn whole(&self, file: Stamp) -> Option<blake3::Hash> {
        let inner = self.lock();
        inner.files.get(&file.file).filter(|(stamp, _)| *stamp == file).map(|(_, hash)| *hash)
    }

    /// All of a file was hashed.
    pub fn learn_whole(&self, file: Stamp, hash: blake3::Hash) {
        if file.bytes < WORTH {
            return;
        }
        let mut inner = self.lock();
        if inner.files.len() >= MOST_FILES && !inner.files.contains_key(&file.file) {
            inner.files.clear();
        }
        inner.files.insert(file.file, (file, hash));
    }

    /// The state of hashing the most that is known of the first `bytes` of a file, if that is as it was; else
    /// of none.
    pub fn beginning(&self, file: Stamp, bytes: u64) -> blake3::Hasher {
        let inner = self.lock();
        let of_it = inner.states.iter().filter(|(stamp, _)| *stamp == file);
        let known = of_it.map(|(_, state)| state).filter(|state| state.count() <= bytes);
        known.max_by_key(|state| state.count()).cloned().unwrap_or_default()
    }

    /// The beginning of a file was hashed so far.
    pub fn learn_beginning(&self, file: Stamp, state: blake3::Hasher) {
        let mut inner = self.lock();
        if inner.states.len() >= MOST_STATES {
            inner.states.pop_front();
        }
        inner.states.push_back((file, state));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(file: u64, bytes: u64) -> Stamp {
        Stamp { file: (1, file), bytes, modified: (5, 0), changed: (9, 0) }
    }

    fn state(bytes: u64) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&vec![7; usize::try_from(bytes).unwrap()]);
        hasher
    }

    #[test]
    fn what_is_known_of_a_file_counts_until_anything_of_it_changes() {
        let (known, file) = (Known::default(), stamp(1, WORTH));
        let hash = blake3::hash(b"contents");
        known.learn_whole(file, hash);
        known.learn_beginning(file, state(3));
        assert_eq!((known.whole(file), known.beginning(file, 5).count()), (Some(hash), 3));
        let others = [
            Stamp { file: (1, 2), ..file },
            Stamp { file: (2, 1), ..file },
            Stamp { bytes: WORTH + 1, ..file },
            Stamp { modified: (5, 1), ..file },
            Stamp { changed: (9, 1), ..file },
        ];
        for other in others {
            assert_eq!((known.whole(other), known.beginning(other, 5).count()), (None, 0));
        }
    }

    #[test]
    fn of_a_beginning_the_most_that_fits_is_known() {
        let (known, file) = (Known::default(), stamp(1, 1_000));
        for bytes in [10, 30, 20] {
            known.learn_beginning(file, state(bytes));
        }
        let found = [5, 10, 25, 999].map(|bytes| known.beginning(file, bytes).count());
        assert_eq!(found, [0, 10, 20, 30]);
        assert_eq!(known.beginning(file, 25).finalize(), state(20).finalize());
    }

    #[test]
    fn what_is_known_is_bounded() {
        let known = Known::default();
        for file in 0..3 * MOST_FILES as u64 {
            known.learn_whole(stamp(file, WORTH), blake3::hash(b""));
            assert!(known.lock().files.len() <= MOST_FILES);
        }
        for bytes in 0..3 * MOST_STATES as u64 {
            known.learn_beginning(stamp(1, WORTH), state(bytes));
            assert!(known.lock().states.len() <= MOST_STATES);
        }
        // The latest stay, and little files are read as fast.
        assert!(known.whole(stamp(3 * MOST_FILES as u64 - 1, WORTH)).is_some());
        known.learn_whole(stamp(1, WORTH - 1), blake3::hash(b""));
        assert_eq!(known.whole(stamp(1, WORTH - 1)), None);
    }
}
