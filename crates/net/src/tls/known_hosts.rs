//! Keys seen before, in a file, the way ssh keeps them.
//!
//! One line per host: its name, a space, the fingerprint of its key. Lines that are empty or begin
//! with `#` are left alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Fingerprint, TlsError};

/// Longest file that is read; a user's hosts are few.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A file of hosts and their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHosts {
    path: PathBuf,
}

/// What the file says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing.
    No,
    /// This key, on this line (from 1).
    Key(Fingerprint, usize),
}

impl KnownHosts {
    /// The file at `path`. It need not exist; the first key is written there.
    pub fn new(path: impl Into<PathBuf>) -> KnownHosts {
        KnownHosts { path: path.into() }
    }

    /// `known_hosts` in the user's [`config_dir`](super::config_dir).
    ///
    /// # Errors
    /// [`TlsError::NoConfigDir`].
    pub fn of_user() -> Result<KnownHosts, TlsError> {
        Ok(KnownHosts::new(super::config_dir()?.join("known_hosts")))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn at(&self, source: io::Error) -> TlsError {
        TlsError::File { path: self.path.clone(), source }
    }

    pub(super) fn look_up(&self, host: &str) -> Result<Known, TlsError> {
        let text = match fs::metadata(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Known::No),
            Err(e) => return Err(self.at(e)),
            Ok(m) if m.len() > MAX_FILE_BYTES => {
                return Err(self.at(io::ErrorKind::FileTooLarge.into()));
            }
            Ok(_) => fs::read_to_string(&self.path).map_err(|e| self.at(e))?,
        };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = || TlsError::BadKnownHost { path: self.path.clone(), line: index + 1 };
            let (name, key) = line.split_once(char::is_whitespace).ok_or_else(bad)?;
            if name == host {
                let key = key.trim().parse().map_err(|_| bad())?;
                return Ok(Known::Key(key, index + 1));
            }
        }
        Ok(Known::No)
    }

    /// Adds a line. Two processes that meet a host for the first time at once write two lines, of
    /// which the first counts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember(&self, host: &str, key: Fingerprint) -> Result<(), TlsError> {
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(|e| self.at(e))?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(true);
        let mut file = options.open(&self.path).map_err(|e| self.at(e))?;
        // An editor may have left the last line without an end: both would be one then.
        let end = if ends_amid_a_line(&mut file).map_err(|e| self.at(e))? { "\n" } else { "" };
        file.write_all(format!("{end}{host} {key}\n").as_bytes()).map_err(|e| self.at(e))
    }
}

fn ends_amid_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ServerIdentity;

    #[test]
    fn hosts_are_found_on_their_line_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::new(dir.path().join("new/known_hosts"));
        let key = |_| ServerIdentity::generate(&["h"]).unwrap().fingerprint();
        let [a, b] = [0, 1].map(key);
        assert_eq!(hosts.look_up("a:1").unwrap(), Known::No);
        hosts.remember("a:1", a).unwrap();
        hosts.remember("b:1", b).unwrap();
        assert_eq!(hosts.look_up("a:1").unwrap(), Known::Key(a, 1));
        assert_eq!(hosts.look_up("b:1").unwrap(), Known::Key(b, 2));
        assert_eq!(hosts.look_up("a:2").unwrap(), Known::No);
    }

    #[test]
    fn a_host_is_remembered_behind_a_last_line_without_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::new(dir.path().join("known_hosts"));
        let [a, b] = [(); 2].map(|()| ServerIdentity::generate(&["h"]).unwrap().fingerprint());
        fs::write(hosts.path(), format!("a:1 {a}")).unwrap();
        hosts.remember("b:1", b).unwrap();
        assert_eq!(hosts.look_up("a:1").unwrap(), Known::Key(a, 1));
        assert_eq!(hosts.look_up("b:1").unwrap(), Known::Key(b, 2));
    }

    #[test]
    fn a_damaged_line_is_named_rather_than_taken_for_an_unknown_host() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::new(dir.path().join("known_hosts"));
        fs::write(hosts.path(), "# mine\n\nhost SHA256:short\n").unwrap();
        assert!(matches!(hosts.look_up("host"), Err(TlsError::BadKnownHost { line: 3, .. })));
        assert_eq!(hosts.look_up("other").unwrap(), Known::No);
    }
}
