//! Files under way in a store, kept apart by sender.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{Store, size_of};
use crate::transfer::calls::Call;
use crate::transfer::error::TransferError;
use crate::transfer::frame::SenderId;
use crate::transfer::name::RelPath;
use crate::transfer::partial::{Partial, partial_name};

/// How often a file is opened anew because it got its name while we waited for its lock.
const MAX_TRIES: usize = 16;

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
            let partial = Partial::new(File::from(fd), name.clone(), calls);
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
