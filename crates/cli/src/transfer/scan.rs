//! What the sender's paths contain.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tack_net::HostPort;

use crate::transfer::error::TransferError;
use crate::transfer::known::Known;
use crate::transfer::list::{Entry, FileList, Kind, ListError, Mtime};
use crate::transfer::name::{NameError, RelPath};

/// The list, where its entries come from, and what was left out.
#[derive(Debug, Default)]
pub struct Scan {
    /// What to send.
    pub list: FileList,
    /// For each entry of the list, where it lies.
    pub origins: Vec<PathBuf>,
    /// Left out on purpose: devices, links that lead outside.
    pub skipped: Vec<String>,
    /// What arrives otherwise than it is here.
    pub notes: Vec<String>,
    /// Left out because it couldn't be read, or lies too deep.
    pub unreadable: Vec<String>,
    /// What was hashed of these files before, if anything.
    pub known: Arc<Known>,
    /// Files, hard links to one of them not counted.
    files_once: usize,
}

/// A place still to look at.
struct Todo {
    origin: PathBuf,
    path: RelPath,
    follow: bool,
    /// Device and inode of each folder above, to notice a link that leads back up.
    above: Vec<(u64, u64)>,
}

/// Lists `paths` and all beneath them. Links are sent as links, or, with `follow`, as what they
/// point to; a path on the command line is always followed.
///
/// # Errors
/// If a given path is missing or has no name that can be sent, two have one name, or the list is over its limits.
pub fn scan(paths: &[PathBuf], follow: bool) -> Result<Scan, TransferError> {
    let mut scan = Scan::default();
    let mut linked = BTreeSet::new();
    for given in paths {
        let name = name_of(given)?;
        let path = RelPath::from_bytes(name.as_bytes()).map_err(|e| unlisted(given, e))?;
        let meta = fs::metadata(given).map_err(absent(given, paths))?;
        if !meta.is_dir() && !meta.is_file() {
            let other =
                "it is no file and no folder; what comes out of it is sent by `tack send -`";
            return Err(TransferError::disk("send", given)(Error::other(other)));
        }
        let mut todo = vec![Todo { origin: given.clone(), path, follow: true, above: Vec::new() }];
        while let Some(next) = todo.pop() {
            scan.visit(next, follow, &mut todo, &mut linked)?;
        }
    }
    let again = scan.list.files().count() - scan.files_once;
    if again > 0 {
        let files = if again == 1 { "1 file is" } else { &format!("{again} files are") };
        scan.notes.push(format!(
            "{files} a hard link to another one that is sent; each arrives as a file of its own"
        ));
    }
    Ok(scan)
}

/// Why a given path is not there. Who writes the host first meets it here.
fn absent(given: &Path, paths: &[PathBuf]) -> impl FnOnce(Error) -> TransferError {
    let is_host = given.to_str().is_some_and(|it| it.parse::<HostPort>().is_ok());
    let swapped = paths.len() == 1 && is_host;
    let place = given.to_owned();
    move |e: Error| {
        let why = "no such file; what is sent comes first, the host last";
        let e = if swapped && e.kind() == ErrorKind::NotFound { Error::other(why) } else { e };
        TransferError::disk("send", place)(e)
    }
}

/// The name under which a path given by the user is sent: its last component.
fn name_of(given: &Path) -> Result<std::ffi::OsString, TransferError> {
    if let Some(name) = given.file_name() {
        return Ok(name.to_owned());
    }
    // `.`, `..` and `dir/..` have a name of their own once resolved; `/` has none.
    let full = given.canonicalize().map_err(TransferError::disk("send", given))?;
    let nameless = || Error::other("it has no name; send what is in it instead");
    full.file_name()
        .map(OsStr::to_owned)
        .ok_or_else(|| TransferError::disk("send", given)(nameless()))
}

impl Scan {
    fn visit(
        &mut self,
        here: Todo,
        follow: bool,
        todo: &mut Vec<Todo>,
        linked: &mut BTreeSet<(u64, u64)>,
    ) -> Result<(), TransferError> {
        let look = if here.follow { fs::metadata } else { fs::symlink_metadata };
        let meta = match look(&here.origin) {
            Ok(meta) => meta,
            Err(e) => return self.cannot_read(&here.origin, e),
        };
        let kind = if meta.is_dir() {
            Kind::Dir
        } else if meta.is_file() {
            Kind::File { size: meta.len() }
        } else if meta.is_symlink() {
            match fs::read_link(&here.origin) {
                Ok(target) => Kind::Symlink { target: target.as_os_str().as_bytes().to_vec() },
                Err(e) => return self.cannot_read(&here.origin, e),
            }
        } else {
            self.skipped.push(format!("`{}` is no file, folder or link", here.path));
            return Ok(());
        };
        let is_dir = kind == Kind::Dir;
        let id = (meta.dev(), meta.ino());
        if is_dir && here.above.contains(&id) {
            self.skipped.push(format!("`{}` leads back to a folder above it", here.path));
            return Ok(());
        }
        let children = if is_dir { self.children(&here.origin) } else { Vec::new() };
        if meta.is_file() && (meta.nlink() == 1 || linked.insert(id)) {
            self.files_once += 1;
        }
        match self.list.push(entry(here.path.clone(), &meta, kind)) {
            Ok(()) => self.origins.push(here.origin.clone()),
            Err(ListError::Name(e @ NameError::Escapes { .. })) => {
                self.skipped.push(format!("{e}; with --follow its target is sent"));
            }
            Err(e) => return Err(unlisted(&here.origin, e)),
        }
        let above: Vec<_> = here.above.iter().copied().chain([id]).collect();
        // The last pushed is visited first: reversed, the list is in alphabetical order.
        for origin in children.into_iter().rev() {
            let name = origin.file_name().expect("a directory's entry has a name");
            match here.path.join(name) {
                Ok(path) => todo.push(Todo { path, origin, follow, above: above.clone() }),
                Err(e) => self.unreadable.push(unlisted(&origin, e).to_string()),
            }
        }
        Ok(())
    }

    /// Sorted, so that two runs list alike.
    fn children(&mut self, dir: &Path) -> Vec<PathBuf> {
        let read = fs::read_dir(dir).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
        });
        let mut children = read.unwrap_or_else(|e| {
            self.unreadable.push(TransferError::disk("read the folder", dir)(e).to_string());
            Vec::new()
        });
        children.sort();
        children
    }

    fn cannot_read(&mut self, origin: &Path, error: Error) -> Result<(), TransferError> {
        self.unreadable.push(TransferError::disk("read", origin)(error).to_string());
        Ok(())
    }
}

/// Why it cannot be in a list: nobody's fault but its own, and here is where it lies.
fn unlisted(origin: &Path, why: impl Into<ListError>) -> TransferError {
    TransferError::disk("send", origin)(Error::other(why.into()))
}

fn entry(path: RelPath, meta: &Metadata, kind: Kind) -> Entry {
    let nanos = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
    let mtime = Mtime { seconds: meta.mtime(), nanos };
    Entry { path, mode: meta.mode() & 0o7777, mtime, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::name::MAX_DEPTH;

    #[test]
    fn what_lies_too_deep_is_named_and_left_out_and_the_rest_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("d/".repeat(MAX_DEPTH))).unwrap();
        fs::write(top.join("file"), "x").unwrap();
        let found = scan(&[top], false).unwrap();
        assert_eq!(found.list.entries().len(), MAX_DEPTH + 1, "with `top` and `file`");
        let [left_out] = &found.unreadable[..] else { panic!("{:?}", found.unreadable) };
        assert!(
            left_out.contains("top/d/d/") && left_out.contains("components deep"),
            "{left_out}"
        );
    }
}
