//! A file under way, locked by whoever works on it.
//!
//! A lock lasts from before the first byte is hashed until the file has its name, on one
//! descriptor: what was proved is what is written on, and what was verified is what gets the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{FlockOperation, Timespec, Timestamps};
use rustix::io::Errno;

use crate::transfer::calls::{Call, Calls};
use crate::transfer::frame::SenderId;
use crate::transfer::known::Stamp;
use crate::transfer::name::RelPath;

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
    /// `file`, of this name among the partial ones, locked.
    pub(super) fn new(file: File, name: OsString, calls: Calls) -> Self {
        Partial { file, name, calls }
    }

    /// The file, wherever it stands.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Says a time that no write would leave. Whether anything was written since shows by this.
    pub fn date(&self) -> io::Result<Stamp> {
        let time = Timespec { tv_sec: 1, tv_nsec: 0 };
        self.calls.ask_os(Call::Attributes)?;
        rustix::fs::futimens(
            &self.file,
            &Timestamps { last_access: time, last_modification: time },
        )?;
        self.file.metadata().map(|meta| Stamp::of(&meta))
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

/// The name of what `sender` has under way for `path`: bounded and clean whatever the path is, and
/// not another sender's.
pub(super) fn partial_name(sender: &SenderId, path: &RelPath, extension: &str) -> OsString {
    let hash = blake3::keyed_hash(sender, path.as_bytes()).to_hex();
    let mut name = OsString::from(&hash[..32]);
    name.push(OsStr::new("."));
    name.push(extension);
    name
}
