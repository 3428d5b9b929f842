//! The receiver's disk thread: writes, hashes, verifies and puts into place.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::transfer::error::TransferError;
use crate::transfer::frame::Hash;
use crate::transfer::list::{FileList, Kind};
use crate::transfer::name::RelPath;
use crate::transfer::plan::{Held, proves};
use crate::transfer::store::{Present, Store};

/// What the connection tells the disk.
#[derive(Debug)]
pub enum Job {
    /// Bytes of this file come next, after the prefix that `resume` has hashed.
    File {
        /// Position in the list.
        index: u32,
        /// How many bytes are kept, and the state of their hash; `None` starts at zero.
        resume: Option<(u64, Box<blake3::Hasher>)>,
    },
    /// Bytes.
    Data(Vec<u8>),
    /// The file is complete and should have this hash.
    End(Hash),
}

/// What the disk tells the connection.
#[derive(Debug)]
pub enum Reply {
    /// The file is in its place.
    Stored(u32),
    /// A buffer to use again.
    Buffer(Vec<u8>),
}

struct Writing<'a> {
    index: u32,
    path: &'a RelPath,
    file: File,
    hasher: blake3::Hasher,
    left: u64,
}

/// Everything the thread works with.
#[derive(Debug)]
pub struct Sink {
    /// Where.
    pub store: Arc<Store>,
    /// What.
    pub list: Arc<FileList>,
    /// Whether files may be replaced.
    pub overwrite: bool,
}

impl Sink {
    /// Works until `jobs` closes. What was written of an unfinished file stays, for resuming.
    pub fn run(
        self,
        mut jobs: mpsc::Receiver<Job>,
        replies: &mpsc::UnboundedSender<Reply>,
    ) -> Result<(), TransferError> {
        let mut writing: Option<Writing<'_>> = None;
        while let Some(job) = jobs.blocking_recv() {
            match job {
                Job::File { index, resume } => writing = Some(self.start(index, resume)?),
                Job::Data(bytes) => {
                    self.write(writing.as_mut(), &bytes)?;
                    // The connection may be gone already; its error says so.
                    let _ = replies.send(Reply::Buffer(bytes));
                }
                Job::End(hash) => {
                    let index = self.finish(writing.take(), &hash)?;
                    let _ = replies.send(Reply::Stored(index));
                }
            }
        }
        Ok(())
    }

    fn start(
        &self,
        index: u32,
        resume: Option<(u64, Box<blake3::Hasher>)>,
    ) -> Result<Writing<'_>, TransferError> {
        let misplaced = TransferError::Unexpected {
            got: format!("FILE {index}"),
            expected: "a regular file of the list",
        };
        let (entry, size) = self.list.file(index).ok_or(misplaced)?;
        let (keep, hasher) = resume.map_or_else(|| (0, blake3::Hasher::new()), |(n, h)| (n, *h));
        let file = self.store.open_partial(&entry.path, keep)?;
        Ok(Writing { index, path: &entry.path, file, hasher, left: size.saturating_sub(keep) })
    }

    fn write(&self, writing: Option<&mut Writing<'_>>, bytes: &[u8]) -> Result<(), TransferError> {
        let writing = writing.ok_or_else(|| no_file("DATA"))?;
        writing.left = writing.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            TransferError::Unexpected {
                got: format!("more data than listed for `{}`", writing.path),
                expected: "the end of the file",
            }
        })?;
        writing.hasher.update(bytes);
        let place = self.store.show(writing.path);
        writing.file.write_all(bytes).map_err(TransferError::disk("write", place))
    }

    fn finish(&self, writing: Option<Writing<'_>>, hash: &Hash) -> Result<u32, TransferError> {
        let w = writing.ok_or_else(|| no_file("END"))?;
        if w.left > 0 {
            return Err(TransferError::Unexpected {
                got: format!("END with {} bytes of `{}` missing", w.left, w.path),
                expected: "DATA",
            });
        }
        if !proves(&w.hasher, hash) {
            // Nothing of it can be trusted: the next attempt starts afresh.
            let _ = w.file.set_len(0);
            return Err(TransferError::Damaged(w.path.to_string()));
        }
        let (entry, _) = self.list.file(w.index).expect("checked when it was started");
        self.store.place(&w.file, w.path, entry.mode, entry.mtime, self.overwrite)?;
        Ok(w.index)
    }

    /// Takes in a file of which every byte is here already, in its place or not.
    pub fn keep(&self, held: &Held) -> Result<(), TransferError> {
        let (entry, size) = self.list.file(held.index).expect("only files are held");
        if held.in_place {
            return self.store.sync_present(&entry.path);
        }
        let file = self.store.open_partial(&entry.path, size)?;
        self.store.place(&file, &entry.path, entry.mode, entry.mtime, self.overwrite)
    }

    /// Makes the folders, before any file.
    pub fn make_dirs(&self) -> Result<(), TransferError> {
        let dirs = self.list.entries().iter().filter(|e| e.kind == Kind::Dir);
        dirs.into_iter().try_for_each(|dir| self.store.make_dir(&dir.path))
    }

    /// Makes links and gives folders their modes and times, after every file. Deepest first: a
    /// folder without write permission must be complete by then. Then the whole tree is on the disk.
    pub fn finish_tree(&self) -> Result<(), TransferError> {
        for entry in self.list.entries().iter().rev() {
            match &entry.kind {
                Kind::Symlink { target } => {
                    if self.store.present(&entry.path)? != Present::Symlink(target.clone()) {
                        let (path, mtime) = (&entry.path, entry.mtime);
                        self.store.make_link(path, target, mtime, self.overwrite)?;
                    }
                }
                Kind::Dir | Kind::File { .. } => {}
            }
        }
        for entry in self.list.entries().iter().rev().filter(|e| e.kind == Kind::Dir) {
            self.store.finish_dir(&entry.path, entry.mode, entry.mtime, self.overwrite)?;
        }
        self.store.sync_root()
    }
}

fn no_file(got: &str) -> TransferError {
    TransferError::Unexpected { got: got.to_owned(), expected: "FILE" }
}
