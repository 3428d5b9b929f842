//! The receiving directory. Every path is walked from it component by component without following
//! symbolic links, so nothing a sender names, and nothing that lies there already, leads out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
};
use rustix::io::Errno;

use crate::transfer::error::TransferError;
use crate::transfer::list::Mtime;
use crate::transfer::name::{PARTIAL_DIR, RelPath};

const DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What lies at a path now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Present {
    /// Nothing.
    Nothing,
    /// A folder.
    Dir,
    /// A regular file of this many bytes.
    File(u64),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A device, a socket, a pipe.
    Other,
}

/// When what is received has to be on the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A file before it gets its name, and names before the transfer is said to be complete.
    Synced,
    /// When the system likes.
    Lazy,
}

/// An open receiving directory.
#[derive(Debug)]
pub struct Store {
    root: OwnedFd,
    partial: OwnedFd,
    shown: PathBuf,
    durability: Durability,
}

impl Store {
    /// Opens `dir`, creating it if it is missing, and the place for partial files in it.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, TransferError> {
        let made = dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists());
        let made: Vec<_> = made.map(Path::to_owned).collect();
        std::fs::create_dir_all(dir).map_err(TransferError::disk("create the directory", dir))?;
        // The user named this directory: here, and only here, a link is followed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, dir, flags, Mode::empty())
            .map_err(TransferError::disk("open the directory", dir))?;
        let place = dir.join(PARTIAL_DIR);
        mkdir_if_missing(&root, OsStr::new(PARTIAL_DIR))
            .map_err(TransferError::disk("create the directory", &place))?;
        let partial = rustix::fs::openat(&root, PARTIAL_DIR, DIR_FLAGS, Mode::empty())
            .map_err(TransferError::disk("open the directory", &place))?;
        if durability == Durability::Synced {
            for dir in made {
                let above = dir.join("..");
                rustix::fs::openat(CWD, &above, flags, Mode::empty())
                    .and_then(sync_dir)
                    .map_err(TransferError::disk("write", &above))?;
            }
        }
        Ok(Self { root, partial, shown: dir.to_owned(), durability })
    }

    /// A path of this store as the user knows it, for messages.
    pub fn show(&self, path: &RelPath) -> PathBuf {
        self.shown.join(path.as_path())
    }

    /// The directory as the user named it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Whether `a` and `A` are two files here, found out by trying.
    pub fn is_case_sensitive(&self) -> Result<bool, TransferError> {
        let place = self.shown.join(PARTIAL_DIR);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        drop(
            rustix::fs::openat(&self.partial, "case", flags, Mode::RUSR | Mode::WUSR)
                .map_err(TransferError::disk("create a file in", &place))?,
        );
        let upper = rustix::fs::statat(&self.partial, "CASE", AtFlags::SYMLINK_NOFOLLOW);
        let _ = rustix::fs::unlinkat(&self.partial, "case", AtFlags::empty());
        Ok(upper.is_err())
    }

    /// Bytes that this user may still write here.
    pub fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(&self.root).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }

    /// What lies at `path`. A missing parent means nothing.
    pub fn present(&self, path: &RelPath) -> Result<Present, TransferError> {
        let parent = match self.parent_of(path) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(Present::Nothing),
            Err(e) => return Err(TransferError::disk("look at", self.show(path))(e)),
        };
        let look = |e| TransferError::disk("look at", self.show(path))(e);
        let name = path.file_name();
        let stat = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Present::Nothing),
            Err(e) => return Err(look(e)),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Present::Dir,
            FileType::RegularFile => Present::File(size_of(&stat)),
            FileType::Symlink => Present::Symlink(
                rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(look)?.into_bytes(),
            ),
            _ => Present::Other,
        })
    }

    /// Opens the regular file at `path` for reading.
    pub fn open_present(&self, path: &RelPath) -> Result<File, TransferError> {
        // NONBLOCK: somebody may have put a pipe there since we looked.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.parent_of(path)
            .and_then(|p| rustix::fs::openat(&p, path.file_name(), flags, Mode::empty()))
            .map(File::from)
            .map_err(TransferError::disk("open", self.show(path)))
    }

    /// How much of the file meant for `path` lies in a partial file; `None` if there is none.
    pub fn partial_bytes(&self, path: &RelPath) -> Option<u64> {
        let stat = rustix::fs::statat(
            &self.partial,
            partial_name(path, "part"),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        let stat = stat.ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| size_of(&stat))
    }

    /// Opens the partial file for `path`, cut to `keep` bytes, at its end, locked against other
    /// transfers.
    pub fn open_partial(&self, path: &RelPath, keep: u64) -> Result<File, TransferError> {
        let fail = |e| TransferError::disk("write the partial file of", self.show(path))(e);
        let mut file = self.lock_partial(path).map_err(fail)?;
        file.set_len(keep)
            .and_then(|()| file.seek(io::SeekFrom::Start(keep)).map(drop))
            .map_err(TransferError::disk("write the partial file of", self.show(path)))?;
        Ok(file)
    }

    /// Opens the partial file for `path` as it is, from its start, for reading.
    pub fn read_partial(&self, path: &RelPath) -> Result<File, TransferError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.partial, partial_name(path, "part"), flags, Mode::empty())
            .map(File::from)
            .map_err(TransferError::disk("read the partial file of", self.show(path)))
    }

    fn lock_partial(&self, path: &RelPath) -> rustix::io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(
            &self.partial,
            partial_name(path, "part"),
            flags,
            Mode::RUSR | Mode::WUSR,
        )?;
        // EWOULDBLOCK reads "resource temporarily unavailable"; busy says what it is.
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            Errno::WOULDBLOCK => Errno::TXTBSY,
            other => other,
        })?;
        Ok(File::from(fd))
    }

    /// Gives a complete partial file its mode, its time, a place on the disk and its name.
    ///
    /// # Errors
    /// `AlreadyExists` if something has the name and `overwrite` is false.
    pub fn place(
        &self,
        file: &File,
        path: &RelPath,
        mode: u32,
        mtime: Mtime,
        overwrite: bool,
    ) -> Result<(), TransferError> {
        let fail = |e| TransferError::disk("put in place", self.show(path))(e);
        rustix::fs::fchmod(file, permissions(mode)).map_err(fail)?;
        rustix::fs::futimens(file, &timestamps(mtime)).map_err(fail)?;
        self.sync_file(file, path).inspect_err(|_| {
            // The system may take it for written now: what it shows of it proves nothing.
            let _ = file.set_len(0);
        })?;
        self.parent_of(path)
            .and_then(|parent| {
                let (old, new) = (partial_name(path, "part"), path.file_name());
                rename(&self.partial, &old, &parent, new, overwrite)
            })
            .map_err(fail)
    }

    /// Waits until the file at `path`, which need not be sent again, is on the disk.
    pub fn sync_present(&self, path: &RelPath) -> Result<(), TransferError> {
        self.sync_file(&self.open_present(path)?, path)
    }

    fn sync_file(&self, file: &File, path: &RelPath) -> Result<(), TransferError> {
        match self.durability {
            Durability::Synced => {
                file.sync_all().map_err(TransferError::disk("write", self.show(path)))
            }
            Durability::Lazy => Ok(()),
        }
    }

    /// Waits until the names in the receiving directory itself are on the disk. Those in its
    /// folders are when the folders are [finished](Self::finish_dir).
    pub fn sync_root(&self) -> Result<(), TransferError> {
        match self.durability {
            Durability::Synced => {
                sync_dir(&self.root).map_err(TransferError::disk("write", &self.shown))
            }
            Durability::Lazy => Ok(()),
        }
    }

    /// Makes the folder `path`; its parent is there. A folder that exists is left as it is.
    pub fn make_dir(&self, path: &RelPath) -> Result<(), TransferError> {
        let made = (|| {
            let parent = self.parent_of(path)?;
            match rustix::fs::mkdirat(&parent, path.file_name(), Mode::RWXU) {
                Ok(()) => self.mark_unfinished(path)?,
                Err(Errno::EXIST) => {}
                Err(e) => return Err(e),
            }
            // Opened once more to be sure that it is a folder and no link to one.
            rustix::fs::openat(&parent, path.file_name(), DIR_FLAGS, Mode::empty()).map(drop)
        })();
        made.map_err(TransferError::disk("create the folder", self.show(path)))
    }

    /// Remembers across interruptions that we made this folder and owe it its mode and time.
    fn mark_unfinished(&self, path: &RelPath) -> rustix::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.partial, partial_name(path, "dir"), flags, Mode::RUSR | Mode::WUSR)
            .map(drop)
    }

    /// Makes a symbolic link, replacing what is there only if `overwrite`. The target has been
    /// checked by the list.
    pub fn make_link(
        &self,
        path: &RelPath,
        target: &[u8],
        mtime: Mtime,
        overwrite: bool,
    ) -> Result<(), TransferError> {
        let temporary = partial_name(path, "link");
        let made = (|| {
            let parent = self.parent_of(path)?;
            let _ = rustix::fs::unlinkat(&self.partial, &temporary, AtFlags::empty());
            rustix::fs::symlinkat(OsStr::from_bytes(target), &self.partial, &temporary)?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            // A file system without times on links is no reason to fail.
            let _ = rustix::fs::utimensat(&self.partial, &temporary, &timestamps(mtime), flags);
            rename(&self.partial, &temporary, &parent, path.file_name(), overwrite)
        })();
        made.map_err(TransferError::disk("create the link", self.show(path)))
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
        let marker = partial_name(path, "dir");
        let fail = |e| TransferError::disk("set the mode of", self.show(path))(e);
        let parent = self.parent_of(path).map_err(fail)?;
        let dir = rustix::fs::openat(&parent, path.file_name(), DIR_FLAGS, Mode::empty());
        let dir = dir.map_err(fail)?;
        let ours = rustix::fs::statat(&self.partial, &marker, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if ours || overwrite {
            rustix::fs::fchmod(&dir, permissions(mode)).map_err(fail)?;
            rustix::fs::futimens(&dir, &timestamps(mtime)).map_err(fail)?;
        }
        if self.durability == Durability::Synced {
            sync_dir(&dir).map_err(TransferError::disk("write", self.show(path)))?;
        }
        // Only now: whoever is cut off before owes it still.
        let _ = rustix::fs::unlinkat(&self.partial, &marker, AtFlags::empty());
        Ok(())
    }

    /// Removes the place for partial files if none is left.
    pub fn tidy(&self) {
        let _ = rustix::fs::unlinkat(&self.root, PARTIAL_DIR, AtFlags::REMOVEDIR);
    }

    fn parent_of(&self, path: &RelPath) -> rustix::io::Result<OwnedFd> {
        let mut here = rustix::fs::openat(&self.root, ".", DIR_FLAGS, Mode::empty())?;
        for component in path.components().take(path.depth() - 1) {
            here = rustix::fs::openat(&here, component, DIR_FLAGS, Mode::empty())?;
        }
        Ok(here)
    }
}

/// The name of the partial file for `path`: bounded and clean whatever the path is.
fn partial_name(path: &RelPath, extension: &str) -> OsString {
    let hash = blake3::hash(path.as_bytes()).to_hex();
    OsString::from(format!("{}.{extension}", &hash[..32]))
}

fn rename(
    from: impl AsFd,
    old: &OsStr,
    to: impl AsFd,
    new: &OsStr,
    overwrite: bool,
) -> rustix::io::Result<()> {
    if overwrite {
        return rustix::fs::renameat(from, old, to, new);
    }
    match rustix::fs::renameat_with(&from, old, &to, new, RenameFlags::NOREPLACE) {
        // File systems without that flag still have links, which never replace either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(&from, old, &to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(&from, old, AtFlags::empty())
        }
        other => other,
    }
}

/// Waits until the names in a directory are on the disk.
fn sync_dir(dir: impl AsFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(dir) {
        // A file system that has no such thing.
        Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

fn mkdir_if_missing(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(e),
    }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o777)
}

fn timestamps(mtime: Mtime) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanos) };
    Timestamps { last_access: time, last_modification: time }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
