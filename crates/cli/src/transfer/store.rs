//! The receiving directory. Every path is walked from it component by component without following
//! symbolic links, so nothing a sender names, and nothing that lies there already, leads out.

mod dirs;
mod partials;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use crate::transfer::calls::{Call, Calls, FileSystem};
use crate::transfer::error::{PLACING, TransferError};
use crate::transfer::frame::SenderId;
use crate::transfer::list::Mtime;
use crate::transfer::name::{PARTIAL_DIR, RelPath};
use crate::transfer::partial::{Partial, partial_name};

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
    umask: Mode,
    calls: Calls,
}

impl Store {
    /// Opens `dir`, creating it if it is missing, and the place for partial files in it.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, TransferError> {
        Self::open_by(Calls::default(), dir, durability)
    }

    /// The same. Every change goes through `file_system`, which may have it fail.
    pub fn open_through(
        file_system: Arc<dyn FileSystem>,
        dir: &Path,
        durability: Durability,
    ) -> Result<Self, TransferError> {
        Self::open_by(Calls::through(file_system), dir, durability)
    }

    fn open_by(calls: Calls, dir: &Path, durability: Durability) -> Result<Self, TransferError> {
        let made = dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists());
        let made: Vec<_> = made.map(Path::to_owned).collect();
        for dir in made.iter().rev() {
            calls
                .ask(Call::Make)
                .and_then(|()| std::fs::create_dir(dir))
                .or_else(|e| if dir.is_dir() { Ok(()) } else { Err(e) })
                .map_err(TransferError::disk("create the directory", dir))?;
        }
        // The user named this directory: here, and only here, a link is followed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, dir, flags, Mode::empty())
            .map_err(TransferError::disk("open the directory", dir))?;
        let place = dir.join(PARTIAL_DIR);
        let partial = open_partials(&calls, &root)
            .map_err(TransferError::disk("open the directory", &place))?;
        if durability == Durability::Synced {
            for dir in made {
                let above = dir.join("..");
                rustix::fs::openat(CWD, &above, flags, Mode::empty())
                    .and_then(|above| sync_names(&calls, &above))
                    .map_err(TransferError::disk("write", &above))?;
            }
        }
        Ok(Self { root, partial, shown: dir.to_owned(), durability, umask: umask(), calls })
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
        let fail = |e| TransferError::disk("create a file in", &place)(e);
        // A name of its own: sessions try beside each other.
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random[..], GetRandomFlags::empty()).map_err(fail)?;
        let name = format!("case-{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        self.calls.ask_os(Call::Make).map_err(fail)?;
        drop(
            rustix::fs::openat(&self.partial, &name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(fail)?,
        );
        let upper = name.to_ascii_uppercase();
        let upper = rustix::fs::statat(&self.partial, upper, AtFlags::SYMLINK_NOFOLLOW);
        let _ = self.remove_partial(OsStr::new(&name));
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

    /// Opens what lies at `path` for reading; `None` if nothing does.
    pub fn open_present(&self, path: &RelPath) -> Result<Option<File>, TransferError> {
        // NONBLOCK: somebody may have put a pipe there since we looked.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = self
            .parent_of(path)
            .and_then(|p| rustix::fs::openat(&p, path.file_name(), flags, Mode::empty()));
        match opened {
            Err(Errno::NOENT) => Ok(None),
            opened => opened
                .map_err(TransferError::disk("open", self.show(path)))
                .map(|fd| Some(File::from(fd))),
        }
    }

    /// Gives a complete partial file its mode, its time, a place on the disk and its name. False if
    /// something has the name and `overwrite` is not set; then the partial file is as it was.
    pub fn place(
        &self,
        partial: &Partial,
        path: &RelPath,
        mode: u32,
        mtime: Mtime,
        overwrite: bool,
    ) -> Result<bool, TransferError> {
        let fail = |e| TransferError::disk("complete", self.show(path))(e);
        let file = &partial.file;
        self.calls.ask_os(Call::Attributes).map_err(fail)?;
        rustix::fs::fchmod(file, self.permissions(mode, Mode::RUSR)).map_err(fail)?;
        rustix::fs::futimens(file, &timestamps(mtime)).map_err(fail)?;
        self.sync_file(file, path).inspect_err(|_| {
            // The system may take it for written now: what it shows of it proves nothing.
            let cut = self.calls.ask(Call::Resize(file, 0)).and_then(|()| file.set_len(0));
            let _ = cut.or_else(|_| self.remove_partial(&partial.name));
        })?;
        if !self.is_still(partial).map_err(fail)? {
            // Somebody who heeds no lock has been here.
            return Err(fail(Errno::STALE));
        }
        let fail = |e| TransferError::disk(PLACING, self.show(path))(e);
        let parent = self.parent_of(path).map_err(fail)?;
        let new = path.file_name();
        match self.rename(&partial.name, &parent, new, overwrite) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(Errno::XDEV) => Err(TransferError::disk(PLACING, self.show(path))(crossing())),
            Err(e) => Err(fail(e)),
        }
    }

    /// Waits until `file`, which was read as what lies at `path`, is on the disk. Whether it still
    /// lies there.
    pub fn confirm(&self, file: &File, path: &RelPath) -> Result<bool, TransferError> {
        self.sync_file(file, path)?;
        let fail = |e| TransferError::disk("look at", self.show(path))(e);
        let parent = match self.parent_of(path) {
            Err(Errno::NOENT) => return Ok(false),
            parent => parent.map_err(fail)?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let there = match rustix::fs::statat(&parent, path.file_name(), flags) {
            Err(Errno::NOENT) => return Ok(false),
            there => there.map_err(fail)?,
        };
        let read = rustix::fs::fstat(file).map_err(fail)?;
        Ok((there.st_dev, there.st_ino) == (read.st_dev, read.st_ino))
    }

    fn sync_file(&self, file: &File, path: &RelPath) -> Result<(), TransferError> {
        match self.durability {
            Durability::Synced => {
                let asked = self.calls.ask(Call::Sync(file));
                asked
                    .and_then(|()| file.sync_all())
                    .map_err(TransferError::disk("write", self.show(path)))
            }
            Durability::Lazy => Ok(()),
        }
    }

    /// Waits until the names in the receiving directory itself are on the disk. Those in its
    /// folders are when the folders are [finished](Self::finish_dir).
    pub fn sync_root(&self) -> Result<(), TransferError> {
        match self.durability {
            Durability::Synced => {
                self.sync_names(&self.root).map_err(TransferError::disk("write", &self.shown))
            }
            Durability::Lazy => Ok(()),
        }
    }

    /// Makes a symbolic link, replacing what is there only if `overwrite`. The target has been
    /// checked by the list.
    pub fn make_link(
        &self,
        sender: &SenderId,
        path: &RelPath,
        target: &[u8],
        mtime: Mtime,
        overwrite: bool,
    ) -> Result<(), TransferError> {
        let temporary = partial_name(sender, path, "link");
        let made = (|| {
            let parent = self.parent_of(path)?;
            let _ = self.remove_partial(&temporary);
            self.calls.ask_os(Call::Make)?;
            rustix::fs::symlinkat(OsStr::from_bytes(target), &self.partial, &temporary)?;
            let dated = self.calls.ask_os(Call::Attributes).and_then(|()| {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(&self.partial, &temporary, &timestamps(mtime), flags)
            });
            let placed = match dated {
                // A file system without times on links is no reason to fail.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                    self.rename(&temporary, &parent, path.file_name(), overwrite)
                }
                broken => broken,
            };
            placed.inspect_err(|_| {
                let _ = self.remove_partial(&temporary);
            })
        })();
        made.map_err(TransferError::disk("create the link", self.show(path)))
    }

    /// Removes the place for partial files if none is left and no other session needs it. Nothing
    /// can be received through this store after that.
    pub fn tidy(self) {
        let alone = FlockOperation::NonBlockingLockExclusive;
        if rustix::fs::flock(&self.partial, alone) != Err(Errno::WOULDBLOCK) {
            let _ = self
                .calls
                .ask_os(Call::Remove)
                .and_then(|()| rustix::fs::unlinkat(&self.root, PARTIAL_DIR, AtFlags::REMOVEDIR));
        }
    }

    fn partials(&self) -> &OwnedFd {
        &self.partial
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Takes a name away from among the partial files.
    pub(super) fn remove_partial(&self, name: &OsStr) -> rustix::io::Result<()> {
        self.calls.ask_os(Call::Remove)?;
        rustix::fs::unlinkat(&self.partial, name, AtFlags::empty())
    }

    /// Moves a partial file to its place.
    fn rename(
        &self,
        old: &OsStr,
        to: &OwnedFd,
        new: &OsStr,
        overwrite: bool,
    ) -> rustix::io::Result<()> {
        let asked = self.calls.ask_os(Call::Rename { old, to: to.as_fd(), new });
        let renamed = asked.and_then(|()| match overwrite {
            true => rustix::fs::renameat(&self.partial, old, to, new),
            false => rustix::fs::renameat_with(&self.partial, old, to, new, RenameFlags::NOREPLACE),
        });
        match renamed {
            // File systems without that flag still have links, which never replace either.
            Err(Errno::INVAL | Errno::NOSYS) if !overwrite => {
                self.calls.ask_os(Call::Make)?;
                rustix::fs::linkat(&self.partial, old, to, new, AtFlags::empty())?;
                self.remove_partial(old)
            }
            renamed => renamed,
        }
    }

    fn sync_names(&self, dir: &OwnedFd) -> rustix::io::Result<()> {
        sync_names(&self.calls, dir)
    }

    /// What our user lets a file have of what its sender says, and at least what it takes to compare it with what is
    /// sent once more: where that is not allowed, each later transfer would fail.
    fn permissions(&self, mode: u32, least: Mode) -> Mode {
        (Mode::from_raw_mode(mode & 0o777) - self.umask) | least
    }

    fn parent_of(&self, path: &RelPath) -> rustix::io::Result<OwnedFd> {
        let mut here = rustix::fs::openat(&self.root, ".", DIR_FLAGS, Mode::empty())?;
        for component in path.components().take(path.depth() - 1) {
            here = rustix::fs::openat(&here, component, DIR_FLAGS, Mode::empty())?;
        }
        Ok(here)
    }
}

/// Waits until the names in a directory are on the disk.
fn sync_names(calls: &Calls, dir: &OwnedFd) -> rustix::io::Result<()> {
    calls.ask_os(Call::SyncNames(dir.as_fd()))?;
    match rustix::fs::fsync(dir) {
        // A file system that has no such thing.
        Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Opens the place for partial files, made if it is missing. As long as it is open, nobody
/// [removes](Store::tidy) it.
fn open_partials(calls: &Calls, root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    loop {
        let asked = calls.ask_os(Call::Make);
        match asked.and_then(|()| rustix::fs::mkdirat(root, PARTIAL_DIR, Mode::RWXU)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        let place = match rustix::fs::openat(root, PARTIAL_DIR, DIR_FLAGS, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        // It waits for whoever is removing it. A file system without such locks has nobody who
        // relies on them.
        let _ = rustix::fs::flock(&place, FlockOperation::LockShared);
        let ours = rustix::fs::fstat(&place)?;
        match rustix::fs::statat(root, PARTIAL_DIR, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => {
                return Ok(place);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
    }
}

/// The permissions that this process gives to nothing. Where the system does not tell, they are
/// found out by changing them for a moment, to what harms nobody.
fn umask() -> Mode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let told = told.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok());
    told.map(Mode::from_raw_mode).unwrap_or_else(|| {
        let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
        rustix::process::umask(mask);
        mask
    })
}

/// Nothing moves from one file system to another.
fn crossing() -> Error {
    let why = "another file system is mounted there; receive into it directly";
    Error::new(ErrorKind::CrossesDevices, why)
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
