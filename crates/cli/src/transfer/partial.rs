//! Files under way, kept apart by sender and locked by whoever works on them.
//!
//! A lock lasts from before the first byte is hashed until the file has its name, on one
//! descriptor: what was proved is what is written on, and what was verified is what gets the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::transfer::calls::{Call, Calls};
use crate::transfer::error::TransferError;
use crate::transfer::frame::SenderId;
use crate::transfer::name::RelPath;
use crate::transfer::store::{Store, size_of};

/// How often a file is opened anew because it got its name while we waited for its lock.
const MAX_TRIES: usize = 16;

/// The least that becomes a hole, in bytes: fewer are not worth a call.
const HOLE: usize = 64 << 10;

fn is_zero(bytes: &[u8]) -> bool {
    // By words that need not agree with the file's: what is left over counts as well.
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// A file under way. Nobody else writes it while this lives, not even another process.
#[derive(Debug)]
pub struct Partial {
    pub(super) file: File,
    pub(super) name: OsString,
    calls: Calls,
}

impl Drop for Partial {
    /// Unlocks by name: a process that is being started just now holds the descriptor as well, and
    /// closing ours alone would leave the lock with it.
    fn drop(&mut self) {
        // There is nobody to tell; the lock ends with the last descriptor then.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Partial {
    /// The file, from its start.
    pub fn rewound(&mut self) -> io::Result<&mut File> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|m| m.len())
    }

    /// Cuts it to `bytes`; what is written goes on from there.
    pub fn keep(&mut self, bytes: u64) -> io::Result<()> {
        self.resize(bytes)
    }

    /// Appends. What is zero becomes a hole, and takes no room, where the file system has such.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut runs = bytes.chunks(HOLE).peekable();
        let mut done = 0;
        while let Some(run) = runs.next() {
            let zero = is_zero(run);
            let mut length = run.len();
            while let Some(more) = runs.next_if(|next| is_zero(next) == zero) {
                length += more.len();
            }
            if zero {
                let at = self.file.stream_position()?;
                self.resize(at + length as u64)?;
            } else {
                self.write_all(&bytes[done..done + length])?;
            }
            done += length;
        }
        Ok(())
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.calls.ask(Call::Resize(&self.file, bytes))?;
        self.file.set_len(bytes)?;
        self.file.seek(io::SeekFrom::Start(bytes)).map(drop)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let passes = self.calls.may_write(&self.file, bytes.len())?;
        self.file.write_all(&bytes[..passes])?;
        if passes < bytes.len() { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }
}

impl Store {
    /// The partial file of `sender` for `path` as it is; `None` if there is none.
    ///
    /// # Errors
    /// [`TransferError::Busy`] if another process works on it.
    pub fn partial(
        &self,
        sender: &SenderId,
        path: &RelPath,
    ) -> Result<Option<Partial>, TransferError> {
        self.lock_partial(sender, path, OFlags::empty())
    }

    /// The partial file of `sender` for `path`, made if it is missing, cut to `keep` bytes.
    ///
    /// # Errors
    /// [`TransferError::Busy`] if another process works on it.
    pub fn open_partial(
        &self,
        sender: &SenderId,
        path: &RelPath,
        keep: u64,
    ) -> Result<Partial, TransferError> {
        let mut partial = self.lock_partial(sender, path, OFlags::CREATE)?;
        let partial = partial.take().ok_or(io::Error::from(Errno::NOENT));
        partial
            .and_then(|mut partial| partial.keep(keep).map(|()| partial))
            .map_err(TransferError::disk("write the partial file of", self.show(path)))
    }

    fn lock_partial(
        &self,
        sender: &SenderId,
        path: &RelPath,
        create: OFlags,
    ) -> Result<Option<Partial>, TransferError> {
        let name = partial_name(sender, path, "part");
        let fail = |e| TransferError::disk("open the partial file of", self.show(path))(e);
        for _ in 0..MAX_TRIES {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            if !create.is_empty() {
                self.calls().ask_os(Call::Make).map_err(fail)?;
            }
            let fd = match rustix::fs::openat(self.partials(), &name, flags | create, mode) {
                Err(Errno::NOENT) if create.is_empty() => return Ok(None),
                opened => opened.map_err(fail)?,
            };
            match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => break,
                locked => locked.map_err(fail)?,
            }
            let calls = self.calls().clone();
            let partial = Partial { file: File::from(fd), name: name.clone(), calls };
            // Whoever had it locked until now may have given it its name: then it is in its place,
            // where nobody may write it.
            if !self.is_still(&partial).map_err(fail)? {
                continue;
            }
            let links = rustix::fs::fstat(&partial.file).map_err(fail)?.st_nlink;
            if links == 1 {
                return Ok(Some(partial));
            }
            // It has its name in its place as well: whoever gave it that was cut off before this one went.
            self.remove_partial(&name).map_err(fail)?;
        }
        Err(TransferError::Busy(format!("`{path}` is being received by another `tack recv`")))
    }

    /// Whether the name of `partial` still is its own.
    pub(super) fn is_still(&self, partial: &Partial) -> rustix::io::Result<bool> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let named = match rustix::fs::statat(self.partials(), &partial.name, flags) {
            Err(Errno::NOENT) => return Ok(false),
            named => named?,
        };
        let ours = rustix::fs::fstat(&partial.file)?;
        if FileType::from_raw_mode(ours.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino))
    }

    /// Removes a partial file that is not needed any more.
    pub fn discard(&self, partial: Partial) {
        // If it stays, it is in nobody's way.
        let _ = self.remove_partial(&partial.name);
    }

    /// How much of the file meant for `path` lies in a partial file; `None` if there is none.
    pub fn partial_bytes(&self, sender: &SenderId, path: &RelPath) -> Option<u64> {
        let name = partial_name(sender, path, "part");
        let stat = rustix::fs::statat(self.partials(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| size_of(&stat))
    }
}

/// The name of what `sender` has under way for `path`: bounded and clean whatever the path is, and
/// not another sender's.
pub(super) fn partial_name(sender: &SenderId, path: &RelPath, extension: &str) -> OsString {
    let hash = blake3::keyed_hash(sender, path.as_bytes()).to_hex();
    let mut name = OsString::from(&hash[..32]);
    name.push(OsStr::new("."));
    name.push(extension);
    name
}
