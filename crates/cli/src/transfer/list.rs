//! The list of what is sent, validated as a whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::transfer::name::{NameError, RelPath, check_link_target, printable};
use tack_net::budget::Grant;

/// Most entries of one transfer.
pub const MAX_ENTRIES: usize = 1 << 20;

/// Most bytes of all names and link targets together: what a hostile list may cost in memory.
pub const MAX_NAME_BYTES: usize = 64 << 20;

/// What an entry costs in memory besides its names, measured with a million of them.
const ENTRY_MEMORY: usize = 170;

/// Memory is taken from a budget in steps of so many bytes.
const MEMORY_STEP: usize = 64 << 10;

/// Modification time since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtime {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, under 10^9.
    pub nanos: u32,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Dir,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// As stored in the link.
        target: Vec<u8>,
    },
}

/// One file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it belongs.
    pub path: RelPath,
    /// Permission bits. The receiver keeps `0o777` of them: no setuid from a peer.
    pub mode: u32,
    /// When it was last modified.
    pub mtime: Mtime,
    /// What it is.
    pub kind: Kind,
}

impl Entry {
    /// Size of a regular file, `None` for everything else.
    pub fn file_size(&self) -> Option<u64> {
        match self.kind {
            Kind::File { size } => Some(size),
            Kind::Dir | Kind::Symlink { .. } => None,
        }
    }
}

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A name or a link's target is not allowed.
    #[error("{0}")]
    Name(#[from] NameError),
    /// More than [`MAX_ENTRIES`].
    #[error("the list has more than {MAX_ENTRIES} entries; pack them: tar c … | tack send - HOST")]
    TooMany,
    /// More than [`MAX_NAME_BYTES`].
    #[error("the names in the list take more than {MAX_NAME_BYTES} bytes together")]
    NamesTooLong,
    /// Other lists take the memory.
    #[error(
        "there is no memory for so long a list just now; try again later, or send less at once"
    )]
    NoMemory,
    /// Two entries with one path.
    #[error("`{0}` is listed twice")]
    Duplicate(String),
    /// Two entries that differ in case only, on a file system that ignores case.
    #[error("`{0}` and another entry differ in case only, and this file system ignores case")]
    CaseClash(String),
    /// A path whose parent is no folder listed before it.
    #[error("the parent of `{0}` is not a folder listed before it")]
    Orphan(String),
    /// The sizes do not fit in 64 bits together.
    #[error("the files' sizes add up to more than 2^64 bytes")]
    TooLarge,
    /// The sender's totals differ from what it listed.
    #[error("the list claims {claimed} and has {actual}")]
    Totals {
        /// As in LISTED.
        claimed: String,
        /// As counted.
        actual: String,
    },
}

/// A list under construction: every push keeps the invariants.
#[derive(Debug, Default)]
pub struct FileList {
    entries: Vec<Entry>,
    is_dir: BTreeMap<Vec<u8>, bool>,
    total_bytes: u64,
    name_bytes: usize,
    /// Memory that a stranger's list may take, and how much of it is not used yet.
    memory: Option<(Grant, usize)>,
}

impl FileList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty list whose memory is taken from a budget.
    pub fn within(memory: Grant) -> Self {
        Self { memory: Some((memory, 0)), ..Self::default() }
    }

    /// Takes from the budget what one more entry costs.
    fn pay(&mut self, entry: &Entry, target_bytes: usize) -> Result<(), ListError> {
        let Some((grant, credit)) = &mut self.memory else { return Ok(()) };
        let cost = ENTRY_MEMORY + 2 * entry.path.as_bytes().len() + target_bytes;
        if *credit < cost {
            grant.grow(MEMORY_STEP).map_err(|_| ListError::NoMemory)?;
            *credit += MEMORY_STEP;
        }
        *credit -= cost;
        Ok(())
    }

    /// Adds `entry`; its parent must be a folder already in the list, or the top.
    pub fn push(&mut self, entry: Entry) -> Result<(), ListError> {
        if self.entries.len() >= MAX_ENTRIES {
            return Err(ListError::TooMany);
        }
        let target_bytes = match &entry.kind {
            Kind::Symlink { target } => {
                check_link_target(&entry.path, target)?;
                target.len()
            }
            Kind::Dir | Kind::File { .. } => 0,
        };
        // The path is held twice: in the entry and in the index.
        let name_bytes = self.name_bytes + 2 * entry.path.as_bytes().len() + target_bytes;
        if name_bytes > MAX_NAME_BYTES {
            return Err(ListError::NamesTooLong);
        }
        if let Some(parent) = entry.path.parent()
            && self.is_dir.get(parent) != Some(&true)
        {
            return Err(ListError::Orphan(entry.path.to_string()));
        }
        let total = self.total_bytes.checked_add(entry.file_size().unwrap_or(0));
        let total_bytes = total.ok_or(ListError::TooLarge)?;
        if self.is_dir.contains_key(entry.path.as_bytes()) {
            return Err(ListError::Duplicate(entry.path.to_string()));
        }
        self.pay(&entry, target_bytes)?;
        self.is_dir.insert(entry.path.as_bytes().to_vec(), entry.kind == Kind::Dir);
        self.total_bytes = total_bytes;
        self.name_bytes = name_bytes;
        self.entries.push(entry);
        Ok(())
    }

    /// Whether both list the same path, other than a folder.
    pub fn shares_entry_with(&self, other: &FileList) -> bool {
        let leaves = other.entries.iter().filter(|e| e.kind != Kind::Dir);
        leaves.into_iter().any(|e| self.is_dir.get(e.path.as_bytes()) == Some(&false))
    }

    /// Compares with what the sender says it listed.
    pub fn check_totals(&self, entries: u32, bytes: u64) -> Result<(), ListError> {
        let show = |n: u64, b: u64| format!("{n} entries and {b} bytes");
        if (u64::from(entries), bytes) == (self.entries.len() as u64, self.total_bytes) {
            return Ok(());
        }
        Err(ListError::Totals {
            claimed: show(u64::from(entries), bytes),
            actual: show(self.entries.len() as u64, self.total_bytes),
        })
    }

    /// For a file system that ignores case: two names that it would take for one are refused.
    ///
    /// Folding is by Unicode lower case without normalisation; what it misses still meets the
    /// store's refusal to replace anything.
    pub fn check_case(&self) -> Result<(), ListError> {
        let mut seen = BTreeSet::new();
        for entry in &self.entries {
            let folded = String::from_utf8_lossy(entry.path.as_bytes()).to_lowercase();
            if !seen.insert(folded) {
                return Err(ListError::CaseClash(printable(entry.path.as_bytes())));
            }
        }
        Ok(())
    }

    /// Entries in order: parents before children.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry at `index`, if it is a regular file, with its size.
    pub fn file(&self, index: u32) -> Option<(&Entry, u64)> {
        let entry = self.entries.get(index as usize)?;
        Some((entry, entry.file_size()?))
    }

    /// Files with their positions.
    pub fn files(&self) -> impl Iterator<Item = (u32, &Entry, u64)> {
        (0..).zip(&self.entries).filter_map(|(i, e)| Some((i, e, e.file_size()?)))
    }

    /// Sum of the files' sizes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        let path = RelPath::from_bytes(path.as_bytes()).unwrap();
        Entry { path, mode: 0o644, mtime: Mtime { seconds: 0, nanos: 0 }, kind }
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File { size: 3 })
    }

    fn list_of(entries: impl IntoIterator<Item = Entry>) -> Result<FileList, ListError> {
        let mut list = FileList::new();
        entries.into_iter().try_for_each(|e| list.push(e))?;
        Ok(list)
    }

    #[test]
    fn a_child_needs_a_folder_listed_before_it() {
        assert!(list_of([entry("d", Kind::Dir), file("d/f")]).is_ok());
        let orphan = Err(ListError::Orphan("d/f".into()));
        assert_eq!(list_of([file("d/f"), entry("d", Kind::Dir)]).map(drop), orphan);
        assert_eq!(list_of([file("d"), file("d/f")]).map(drop), orphan);
        let link = entry("d", Kind::Symlink { target: b"e".to_vec() });
        assert_eq!(list_of([entry("e", Kind::Dir), link, file("d/f")]).map(drop), orphan);
    }

    #[test]
    fn duplicates_are_refused_whatever_their_kind() {
        let twice = list_of([file("f"), entry("f", Kind::Dir)]).map(drop);
        assert_eq!(twice, Err(ListError::Duplicate("f".into())));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let huge = |p| entry(p, Kind::File { size: u64::MAX });
        assert_eq!(list_of([huge("a"), huge("b")]).map(drop), Err(ListError::TooLarge));
    }

    #[test]
    fn names_that_differ_in_case_only_clash_when_the_file_system_ignores_case() {
        let list = list_of([file("Readme"), file("README")]).unwrap();
        assert_eq!(list.check_case(), Err(ListError::CaseClash("README".into())));
        assert_eq!(list_of([file("a"), file("b")]).unwrap().check_case(), Ok(()));
    }

    #[test]
    fn the_senders_totals_must_match() {
        let list = list_of([file("a"), file("b")]).unwrap();
        assert_eq!(list.check_totals(2, 6), Ok(()));
        assert!(list.check_totals(2, 7).is_err());
        assert!(list.check_totals(1, 6).is_err());
    }

    #[test]
    fn names_are_bounded_together() {
        let long = "n".repeat(245);
        let mut list = FileList::new();
        let refused = (0..MAX_ENTRIES).find_map(|i| list.push(file(&format!("{i}{long}"))).err());
        assert_eq!(refused, Some(ListError::NamesTooLong));
        assert!(list.entries().len() <= MAX_NAME_BYTES / 500);
    }
}
