//! The receiver's disk thread: writes, hashes, verifies and puts into place.

use std::fs::{File, Metadata};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::transfer::disk::hash_prefix;
use crate::transfer::error::{TransferError, WRITING};
use crate::transfer::frame::Hash;
use crate::transfer::known::Stamp;
use crate::transfer::list::{Entry, FileList, Kind};
use crate::transfer::name::RelPath;
use crate::transfer::partial::Partial;
use crate::transfer::plan::{Held, plan, proves};
use crate::transfer::sessions::Place;
use crate::transfer::store::{Present, Store};

/// How often a file is put in its place, where an equal one comes and goes.
const MAX_TRIES: usize = 3;

/// What the connection tells the disk.
#[derive(Debug)]
pub enum Job {
    /// Bytes of this file come next, after the prefix that `resume` has hashed.
    File {
        /// Position in the list.
        index: u32,
        /// What is kept; `None` starts at zero.
        resume: Option<Box<Proved>>,
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
    /// The file has passed, and has no name for this reason. What comes after it is none the worse.
    Unplaced(TransferError),
    /// A buffer to use again.
    Buffer(Vec<u8>),
}

/// A prefix that the sender has proved to have, too.
#[derive(Debug)]
pub struct Proved {
    /// Its length.
    pub bytes: u64,
    /// The state of its hash.
    pub hasher: blake3::Hasher,
    /// Where it is, locked since before it was hashed.
    pub partial: Partial,
}

/// The hash of what is held, and the descriptor it was read from.
#[derive(Debug)]
pub struct Hashed {
    hash: blake3::Hash,
    from: HashedFrom,
}

#[derive(Debug)]
enum HashedFrom {
    /// With the state of hashing it.
    Partial(Partial, Box<blake3::Hasher>),
    InPlace(File, Metadata),
}

impl Hashed {
    /// Whether a proof is right.
    pub fn agrees_with(&self, proof: &Hash) -> bool {
        self.hash == blake3::Hash::from_bytes(*proof)
    }
}

struct Writing<'a> {
    index: u32,
    path: &'a RelPath,
    partial: Partial,
    hasher: blake3::Hasher,
    left: u64,
    /// Why no more of it can be kept. The rest is let pass.
    unkept: Option<TransferError>,
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
    /// For whom. As long as this lives, nobody else works for that sender on these files.
    pub place: Arc<Place>,
}

impl Sink {
    /// Works until `jobs` closes, or until a newer session takes over. What was written of an
    /// unfinished file stays, for resuming.
    pub fn run(
        &self,
        jobs: mpsc::Receiver<Job>,
        replies: &mpsc::UnboundedSender<Reply>,
    ) -> Result<(), TransferError> {
        let mut writing = None;
        let ended = self.work(jobs, replies, &mut writing);
        let writing = writing.filter(|left| left.unkept.is_none());
        if let (Ok(()) | Err(TransferError::Superseded), Some(left)) = (&ended, writing) {
            // All that was hashed is written. Where that cannot be marked, it is read again.
            if let Ok(stamp) = left.partial.date() {
                self.place.known().learn_beginning(stamp, left.hasher);
            }
        }
        ended
    }

    fn work<'a>(
        &'a self,
        mut jobs: mpsc::Receiver<Job>,
        replies: &mpsc::UnboundedSender<Reply>,
        writing: &mut Option<Writing<'a>>,
    ) -> Result<(), TransferError> {
        while let Some(job) = jobs.blocking_recv() {
            if self.place.is_superseded() {
                return Err(TransferError::Superseded);
            }
            match job {
                Job::File { index, resume } => *writing = Some(self.start(index, resume)?),
                Job::Data(bytes) => {
                    self.write(writing.as_mut(), &bytes)?;
                    // The connection may be gone already; its error says so.
                    let _ = replies.send(Reply::Buffer(bytes));
                }
                Job::End(hash) => {
                    let reply = match self.finish(writing.take(), &hash) {
                        Ok(index) => Reply::Stored(index),
                        Err(error) if error.is_of_one_place() => Reply::Unplaced(error),
                        Err(error) => return Err(error),
                    };
                    let _ = replies.send(reply);
                }
            }
        }
        Ok(())
    }

    fn start(&self, index: u32, resume: Option<Box<Proved>>) -> Result<Writing<'_>, TransferError> {
        let misplaced = TransferError::Unexpected {
            got: format!("FILE {index}"),
            expected: "a regular file of the list",
        };
        let (entry, size) = self.list.file(index).ok_or(misplaced)?;
        let path = &entry.path;
        let (kept, hasher, partial) = match resume.map(|proved| *proved) {
            Some(Proved { bytes, hasher, mut partial }) => {
                partial.keep(bytes).map_err(self.disk(WRITING, path))?;
                (bytes, hasher, partial)
            }
            None => {
                let partial = self.store.open_partial(self.place.sender(), path, 0)?;
                (0, blake3::Hasher::new(), partial)
            }
        };
        Ok(Writing { index, path, partial, hasher, left: size.saturating_sub(kept), unkept: None })
    }

    fn write(&self, writing: Option<&mut Writing<'_>>, bytes: &[u8]) -> Result<(), TransferError> {
        let writing = writing.ok_or_else(|| no_file("DATA"))?;
        writing.left = writing.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            TransferError::Unexpected {
                got: format!("more data than listed for `{}`", writing.path),
                expected: "the end of the file",
            }
        })?;
        if writing.unkept.is_some() {
            return Ok(());
        }
        writing.hasher.update(bytes);
        match writing.partial.write(bytes).map_err(self.disk(WRITING, writing.path)) {
            Err(error) if error.is_of_one_place() => writing.unkept = Some(error),
            done => return done,
        }
        Ok(())
    }

    fn finish(&self, writing: Option<Writing<'_>>, hash: &Hash) -> Result<u32, TransferError> {
        let mut w = writing.ok_or_else(|| no_file("END"))?;
        if w.left > 0 {
            return Err(TransferError::Unexpected {
                got: format!("END with {} bytes of `{}` missing", w.left, w.path),
                expected: "DATA",
            });
        }
        if let Some(why) = w.unkept {
            return Err(why);
        }
        if !proves(&w.hasher, hash) {
            // Nothing of it can be trusted: the next attempt starts afresh.
            let _ = w.partial.keep(0);
            return Err(TransferError::Damaged(w.path.to_string()));
        }
        self.put(w.partial, w.index, hash)?;
        Ok(w.index)
    }

    /// Gives a complete file its name. What has the name already may be the same file, which
    /// another sender was faster with: then that one has to last.
    fn put(&self, partial: Partial, index: u32, hash: &Hash) -> Result<(), TransferError> {
        let (entry, size) = self.list.file(index).expect("checked when it was listed");
        let Entry { path, mode, mtime, .. } = entry;
        for _ in 0..MAX_TRIES {
            if self.store.place(&partial, path, *mode, *mtime, self.overwrite)? {
                if let Ok(meta) = partial.file.metadata() {
                    self.remember(&meta, blake3::Hash::from_bytes(*hash));
                }
                return Ok(());
            }
            match self.hash_present(path, size)? {
                Some(Hashed { hash: there, from: HashedFrom::InPlace(file, before) })
                    if there == blake3::Hash::from_bytes(*hash) =>
                {
                    if self.lasts(path, &file, &before)? {
                        self.store.discard(partial);
                        return Ok(());
                    }
                    // It went away meanwhile, or changed.
                }
                _ => break,
            }
        }
        Err(TransferError::exists(&[path.to_string()]))
    }

    /// Waits until what was read as `path` is on the disk. Whether it still lies there, as it was `before`.
    fn lasts(&self, path: &RelPath, file: &File, before: &Metadata) -> Result<bool, TransferError> {
        let after = file.metadata().map_err(self.disk("look at", path))?;
        Ok(self.store.confirm(file, path)? && Stamp::of(before) == Stamp::of(&after))
    }

    /// The state of hashing what is held; `None` if it is not there any more.
    pub fn hash_held(&self, held: Held) -> Result<Option<Hashed>, TransferError> {
        let (entry, _) = self.list.file(held.index).expect("only files are held");
        let Some(mut partial) = held.partial else {
            return self.hash_present(&entry.path, held.bytes);
        };
        let file = partial.file();
        let hasher = file
            .metadata()
            .map(|meta| self.place.known().beginning(Stamp::of(&meta), held.bytes))
            .and_then(|begun| hash_prefix(file, begun, held.bytes, self.go_on()))
            .map_err(self.disk("read the partial file of", &entry.path))?;
        let hash = hasher.finalize();
        Ok(Some(Hashed { hash, from: HashedFrom::Partial(partial, Box::new(hasher)) }))
    }

    fn hash_present(&self, path: &RelPath, bytes: u64) -> Result<Option<Hashed>, TransferError> {
        let Some(mut file) = self.store.open_present(path)? else { return Ok(None) };
        let before = file.metadata().map_err(self.disk("look at", path))?;
        if before.len() != bytes || !before.is_file() {
            return Ok(None);
        }
        let hash = match self.place.known().whole(Stamp::of(&before)) {
            Some(hash) => hash,
            None => {
                let hasher = hash_prefix(&mut file, blake3::Hasher::new(), bytes, self.go_on());
                let hash = hasher.map_err(self.disk("read", path))?.finalize();
                self.remember(&before, hash);
                hash
            }
        };
        Ok(Some(Hashed { hash, from: HashedFrom::InPlace(file, before) }))
    }

    /// Takes down the hash of a file in its place, if whoever writes there cannot but leave a trace.
    fn remember(&self, meta: &Metadata, hash: blake3::Hash) {
        let stamp = Stamp::of(meta);
        if stamp.is_dated() {
            self.place.known().learn_whole(stamp, hash);
        }
    }

    /// Takes in what the sender has proved: all of a file, which is here then, or a part to go on
    /// from. `None` and false: it changed meanwhile, and counts for nothing.
    pub fn keep(
        &self,
        index: u32,
        bytes: u64,
        hashed: Hashed,
    ) -> Result<(Option<Proved>, bool), TransferError> {
        let (entry, size) = self.list.file(index).expect("only files are held");
        let path = &entry.path;
        match hashed.from {
            HashedFrom::Partial(partial, hasher) if bytes < size => {
                Ok((Some(Proved { bytes, hasher: *hasher, partial }), true))
            }
            HashedFrom::Partial(mut partial, _) => {
                partial.keep(size).map_err(self.disk(WRITING, path))?;
                self.put(partial, index, hashed.hash.as_bytes()).map(|()| (None, true))
            }
            HashedFrom::InPlace(file, before) => Ok((None, self.lasts(path, &file, &before)?)),
        }
    }

    fn go_on(&self) -> impl Fn() -> bool + '_ {
        move || !self.place.is_superseded()
    }

    fn disk(
        &self,
        doing: &'static str,
        path: &RelPath,
    ) -> impl FnOnce(std::io::Error) -> TransferError {
        TransferError::disk(doing, self.store.show(path))
    }

    /// What is here already of what is listed.
    pub fn plan(&self) -> Result<Vec<Held>, TransferError> {
        if !self.store.is_case_sensitive()? {
            self.list.check_case()?;
        }
        plan(&self.store, self.place.sender(), &self.list, self.overwrite)
    }

    /// Makes the folders, before any file.
    pub fn make_dirs(&self) -> Result<(), TransferError> {
        let dirs = self.list.entries().iter().filter(|e| e.kind == Kind::Dir);
        dirs.into_iter().try_for_each(|dir| self.store.make_dir(&dir.path, dir.mode))
    }

    /// Makes links and gives folders their modes and times, after every file. Deepest first: a
    /// folder without write permission must be complete by then. Then the whole tree is on the disk.
    pub fn finish_tree(&self) -> Result<(), TransferError> {
        for entry in self.list.entries().iter().rev() {
            match &entry.kind {
                Kind::Symlink { target } => {
                    let wanted = Present::Symlink(target.clone());
                    if self.store.present(&entry.path)? != wanted {
                        let (path, mtime, sender) = (&entry.path, entry.mtime, self.place.sender());
                        let made =
                            self.store.make_link(sender, path, target, mtime, self.overwrite);
                        // Another sender may have been faster with the same link.
                        if made.is_err() && self.store.present(path)? != wanted {
                            return made;
                        }
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

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
