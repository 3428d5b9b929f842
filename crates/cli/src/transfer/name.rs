//! Names a peer may use: relative, clean, bounded.
//!
//! A [`RelPath`] can only be made through [`RelPath::from_bytes`], so whoever holds one knows that
//! joining it to a directory stays beneath that directory as long as no symbolic link is followed,
//! which is the [`store`](crate::transfer::store)'s part.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest path in a list, in bytes (Linux's `PATH_MAX`, its NUL not counted).
pub const MAX_PATH: usize = 4095;

/// Longest component, in bytes (`NAME_MAX`).
pub const MAX_COMPONENT: usize = 255;

/// Most components of a path: bounds how many directories are open while one is reached.
pub const MAX_DEPTH: usize = 128;

/// Where files under way lie, directly beneath the receiving directory.
pub const PARTIAL_DIR: &str = ".tack-partial";

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// Starts with `/`.
    #[error("`{0}` is absolute; only paths beneath the receiving directory are allowed")]
    Absolute(String),
    /// Has a `..`.
    #[error("`{0}` contains `..`")]
    Parent(String),
    /// Has a `.`, an empty component or a trailing `/`.
    #[error("`{0}` contains an empty or `.` component")]
    NotClean(String),
    /// Has a zero byte.
    #[error("`{0}` contains a NUL byte")]
    Nul(String),
    /// Longer than [`MAX_PATH`].
    #[error("the path is {0} bytes long, at most {MAX_PATH} are allowed")]
    PathTooLong(usize),
    /// A component is longer than [`MAX_COMPONENT`].
    #[error("a component of the path is {0} bytes long, at most {MAX_COMPONENT} are allowed")]
    ComponentTooLong(usize),
    /// Deeper than [`MAX_DEPTH`].
    #[error("the path is {0} components deep, at most {MAX_DEPTH} are allowed")]
    TooDeep(usize),
    /// Is (beneath) our own directory for partial files.
    #[error("`{0}` is reserved for files under way")]
    Reserved(String),
    /// A symbolic link leads, or could lead, out of the receiving directory.
    #[error(
        "symbolic link `{link}` -> `{target}` could lead out of the receiving directory \
         (only targets of the form `../…/name/…` that stay inside are kept)"
    )]
    Escapes {
        /// The link.
        link: String,
        /// What it points to.
        target: String,
    },
}

/// A path relative to the receiving directory. Components are separated by `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Checks `bytes` and takes them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > MAX_PATH {
            return Err(NameError::PathTooLong(bytes.len()));
        }
        if bytes.contains(&0) {
            return Err(NameError::Nul(printable(bytes)));
        }
        if bytes[0] == b'/' {
            return Err(NameError::Absolute(printable(bytes)));
        }
        let mut depth = 0;
        for component in bytes.split(|&b| b == b'/') {
            depth += 1;
            match component {
                b".." => return Err(NameError::Parent(printable(bytes))),
                b"" | b"." => return Err(NameError::NotClean(printable(bytes))),
                _ if component.len() > MAX_COMPONENT => {
                    return Err(NameError::ComponentTooLong(component.len()));
                }
                _ => {}
            }
            // Without regard to case, for file systems that have none.
            if depth == 1 && component.eq_ignore_ascii_case(PARTIAL_DIR.as_bytes()) {
                return Err(NameError::Reserved(printable(bytes)));
            }
        }
        if depth > MAX_DEPTH {
            return Err(NameError::TooDeep(depth));
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The path of `name` beneath this one.
    pub fn join(&self, name: &OsStr) -> Result<Self, NameError> {
        let mut bytes = self.0.clone();
        bytes.push(b'/');
        bytes.extend_from_slice(name.as_bytes());
        Self::from_bytes(&bytes)
    }

    /// The bytes, as on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as a path of this system.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Components from the top.
    pub fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.0.split(|&b| b == b'/').map(OsStr::from_bytes)
    }

    /// Everything but the last component; `None` at the top.
    pub fn parent(&self) -> Option<&[u8]> {
        self.0.iter().rposition(|&b| b == b'/').map(|slash| &self.0[..slash])
    }

    /// The last component.
    pub fn file_name(&self) -> &OsStr {
        self.components().last().expect("a path has at least one component")
    }

    /// How many components.
    pub fn depth(&self) -> usize {
        self.components().count()
    }
}

impl std::fmt::Display for RelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

impl std::fmt::Debug for RelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelPath({self})")
    }
}

/// Bytes chosen by a peer, safe to print: control characters could drive the user's terminal.
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().min(256));
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() || is_bidi_control(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that reorder what a terminal shows, and so could disguise a name.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks that a symbolic link at `link` with `target` stays inside, whatever else is created.
///
/// Allowed is `..` only at the front and at most as often as the link has parents, which are real
/// directories; every further component then descends. By induction over the links it may pass,
/// the target stays inside. A `..` after a name could undo the descent through another link, so it
/// is refused even where it looks harmless.
pub fn check_link_target(link: &RelPath, target: &[u8]) -> Result<(), NameError> {
    let escapes = || NameError::Escapes { link: link.to_string(), target: printable(target) };
    if target.len() > MAX_PATH {
        return Err(NameError::PathTooLong(target.len()));
    }
    if target.contains(&0) {
        return Err(NameError::Nul(printable(target)));
    }
    if target.is_empty() || target[0] == b'/' {
        return Err(escapes());
    }
    let mut climbing = true;
    let mut parents_left = link.depth() - 1;
    for component in target.split(|&b| b == b'/') {
        match component {
            b"" | b"." => {}
            b".." if climbing && parents_left > 0 => parents_left -= 1,
            b".." => return Err(escapes()),
            _ => climbing = false,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> NameError {
        RelPath::from_bytes(bytes).expect_err("a hostile name")
    }

    #[test]
    fn clean_relative_paths_are_taken_as_they_are() {
        for good in ["a", "a/b", "a b/ü/…", "..a/b..", "a/...", "-rf", "CON"] {
            let path = RelPath::from_bytes(good.as_bytes()).unwrap();
            assert_eq!(path.as_bytes(), good.as_bytes());
        }
    }

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        assert_eq!(refused(b""), NameError::Empty);
        assert_eq!(refused(b"/etc/passwd"), NameError::Absolute("/etc/passwd".into()));
        for up in ["..", "../a", "a/../b", "a/.."] {
            assert_eq!(refused(up.as_bytes()), NameError::Parent(up.into()));
        }
        for unclean in ["a//b", "a/", "./a", "a/./b", "."] {
            assert_eq!(refused(unclean.as_bytes()), NameError::NotClean(unclean.into()));
        }
        assert_eq!(refused(b"a\0b"), NameError::Nul("a\\u{0}b".into()));
    }

    #[test]
    fn names_over_the_limits_are_refused() {
        assert!(RelPath::from_bytes(&[b'x'; 255]).is_ok());
        assert_eq!(refused(&[b'x'; 256]), NameError::ComponentTooLong(256));
        assert_eq!(refused(&[b'x'; 5000]), NameError::PathTooLong(5000));
        let deep = |n: usize| vec!["d"; n].join("/").into_bytes();
        assert!(RelPath::from_bytes(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(refused(&deep(MAX_DEPTH + 1)), NameError::TooDeep(MAX_DEPTH + 1));
    }

    #[test]
    fn our_own_directory_is_reserved_at_the_top_only() {
        assert!(matches!(refused(b".tack-partial/x"), NameError::Reserved(_)));
        assert!(matches!(refused(b".TACK-Partial"), NameError::Reserved(_)));
        assert!(RelPath::from_bytes(b"a/.tack-partial").is_ok());
    }

    #[test]
    fn link_targets_may_climb_only_over_real_parents_and_only_first() {
        let link = RelPath::from_bytes(b"a/b/link").unwrap();
        for inside in ["x", "./x", "../x", "../../x/y", "../..", "x/y", "."] {
            assert_eq!(check_link_target(&link, inside.as_bytes()), Ok(()), "{inside}");
        }
        for outside in ["/etc", "../../../x", "x/../y", "../x/..", "", "d/../../.."] {
            assert!(check_link_target(&link, outside.as_bytes()).is_err(), "{outside}");
        }
    }

    #[test]
    fn printed_names_cannot_drive_a_terminal() {
        let shown = printable(b"a\x1b[2Jb\n\r\xff\xe2\x80\xaec");
        assert!(!shown.chars().any(|c| c.is_control() || is_bidi_control(c)), "{shown:?}");
    }
}
