//! What a receiving directory asks of the file system, so that each of it can be made to fail.
//!
//! Every call that changes something goes through [`Calls`]. Disks fill, break and lose what was not
//! synced; a test says when, by a [`FileSystem`] of its own. Without one nothing is asked.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// A file, folder or link is made.
    Make,
    /// So many bytes are appended.
    Write(&'a File, usize),
    /// The file gets this length.
    Resize(&'a File, u64),
    /// The file's contents are to be on the disk.
    Sync(&'a File),
    /// The names in a folder are to be on the disk.
    SyncNames(BorrowedFd<'a>),
    /// `old`, of the partial files, gets the name `new` in a folder. Where the file system does not know
    /// how without replacing what is there, by two calls: `Make` and `Remove`.
    Rename {
        /// Name among the partial files.
        old: &'a OsStr,
        /// The folder.
        to: BorrowedFd<'a>,
        /// Name there.
        new: &'a OsStr,
    },
    /// Modes and times change.
    Attributes,
    /// A name goes away.
    Remove,
}

/// Decides what becomes of calls.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Asked before each call. Of a write, only so many bytes are written, and then there is no
    /// room; every other number lets the call pass.
    ///
    /// # Errors
    /// The call fails with this.
    fn before(&self, call: Call<'_>) -> io::Result<usize>;
}

/// Whom to ask before each call, if anybody.
#[derive(Clone, Debug, Default)]
pub struct Calls(Option<Arc<dyn FileSystem>>);

impl Calls {
    /// Ask this one.
    pub fn through(file_system: Arc<dyn FileSystem>) -> Calls {
        Calls(Some(file_system))
    }

    /// Before a write: how much of it may be written.
    pub fn may_write(&self, file: &File, bytes: usize) -> io::Result<usize> {
        match &self.0 {
            Some(file_system) => file_system.before(Call::Write(file, bytes)).map(|n| n.min(bytes)),
            None => Ok(bytes),
        }
    }

    /// Before any other call on a [`File`].
    pub fn ask(&self, call: Call<'_>) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |file_system| file_system.before(call).map(drop))
    }

    /// Before a call of rustix.
    pub fn ask_os(&self, call: Call<'_>) -> rustix::io::Result<()> {
        self.ask(call).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }
}
