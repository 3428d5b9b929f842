//! Folders in a store: made first, finished last.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{DIR_FLAGS, Durability, Store, timestamps};
use crate::transfer::calls::Call;
use crate::transfer::error::TransferError;
use crate::transfer::frame::SenderId;
use crate::transfer::list::Mtime;
use crate::transfer::name::RelPath;
use crate::transfer::partial::partial_name;

/// Folders are made by whoever comes first and owed their modes by all.
const EVERYBODY: SenderId = [0; 32];

impl Store {
    /// Makes the folder `path`; its parent is there. A folder that exists is left as it is, unless it has the `mode`
    /// that it is to have, and by that we may not write in it: then we may until it is [finished](Self::finish_dir).
    pub fn make_dir(&self, path: &RelPath, mode: u32) -> Result<(), TransferError> {
        let made = (|| {
            let parent = self.parent_of(path)?;
            let there = rustix::fs::statat(&parent, path.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            if matches!(there, Err(Errno::NOENT)) {
                // First: a folder that is there without the mark would keep the mode it is made with.
                self.mark_unfinished(path)?;
                self.calls.ask_os(Call::Make)?;
                match rustix::fs::mkdirat(&parent, path.file_name(), Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(e),
                }
            }
            // Opened once more to be sure that it is a folder and no link to one.
            let dir = rustix::fs::openat(&parent, path.file_name(), DIR_FLAGS, Mode::empty())?;
            self.unlock_dir(&dir, path, mode)
        })();
        made.map_err(TransferError::disk("create the folder", self.show(path)))
    }

    /// A former transfer may have given it a mode by which the rest of the folder could never come.
    fn unlock_dir(&self, dir: &OwnedFd, path: &RelPath, mode: u32) -> rustix::io::Result<()> {
        let stat = rustix::fs::fstat(dir)?;
        let there = Mode::from_raw_mode(stat.st_mode & 0o777);
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        if !is_ours || there.contains(Mode::WUSR) || there != self.dir_permissions(mode) {
            return Ok(());
        }
        // First, as where it is made: whoever is cut off owes it its mode.
        self.mark_unfinished(path)?;
        self.calls.ask_os(Call::Attributes)?;
        rustix::fs::fchmod(dir, there | Mode::WUSR)
    }

    /// Remembers across interruptions that we made this folder and owe it its mode and time.
    fn mark_unfinished(&self, path: &RelPath) -> rustix::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.calls.ask_os(Call::Make)?;
        rustix::fs::openat(
            &self.partial,
            partial_name(&EVERYBODY, path, "dir"),
            flags,
            Mode::RUSR | Mode::WUSR,
        )
        .map(drop)
    }

    /// Sets a folder's mode and time, once nothing more is created in it, and waits until its names
    /// are on the disk. A folder that was there before any transfer made it keeps its own mode and
    /// time unless `overwrite`.
    pub fn finish_dir(
        &self,
        path: &RelPath,
        mode: u32,
        mtime: Mtime,
        overwrite: bool,
    ) -> Result<(), TransferError> {
        let marker = partial_name(&EVERYBODY, path, "dir");
        let fail = |e| TransferError::disk("set the mode of", self.show(path))(e);
        let parent = self.parent_of(path).map_err(fail)?;
        let dir = rustix::fs::openat(&parent, path.file_name(), DIR_FLAGS, Mode::empty());
        let dir = dir.map_err(fail)?;
        let ours = rustix::fs::statat(&self.partial, &marker, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if ours || overwrite {
            self.calls.ask_os(Call::Attributes).map_err(fail)?;
            rustix::fs::fchmod(&dir, self.dir_permissions(mode)).map_err(fail)?;
            rustix::fs::futimens(&dir, &timestamps(mtime)).map_err(fail)?;
        }
        if self.durability == Durability::Synced {
            self.sync_names(&dir).map_err(TransferError::disk("write", self.show(path)))?;
        }
        // Only now: whoever is cut off before owes it still.
        let _ = self.remove_partial(&marker);
        Ok(())
    }

    fn dir_permissions(&self, mode: u32) -> Mode {
        self.permissions(mode, Mode::RUSR | Mode::XUSR)
    }
}
