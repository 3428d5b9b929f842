//! How a transfer can fail, in words that say what, where and what to do.

use std::{fmt, io};

use rustix::io::Errno;

use crate::exit::{ExitCode, Failure};
use crate::transfer::frame::{Code, FrameError};
use crate::transfer::list::ListError;
use crate::transfer::name::printable;
use crate::units::bytes_text;

/// How many files an error message names.
const MAX_TEXT_NAMES: usize = 5;

/// What gives a file its name.
pub const PLACING: &str = "put in place";

/// What appends to a file under way.
pub const WRITING: &str = "write";

/// Why a transfer ended without success.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Something on this machine's disk.
    #[error("cannot {doing} `{place}`: {source}")]
    Disk {
        /// What was tried, as a verb.
        doing: &'static str,
        /// Where.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection broke while {during}: {source}; run the same command again to resume")]
    Connection {
        /// What was under way.
        during: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The peer closed before the end.
    #[error("the peer closed the connection while {during}; run the same command again to resume")]
    Closed {
        /// What was under way.
        during: &'static str,
    },
    /// Nothing was heard for too long.
    #[error("nothing was heard from the peer for {seconds} s while {during}")]
    Silent {
        /// What was under way.
        during: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// It lives, and keeps a place without using it.
    #[error("the peer sent nothing of use for {seconds} s while {during}")]
    TooSlow {
        /// What was under way.
        during: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// The peer would not have us.
    #[error("{0}")]
    NotLetIn(Failure),
    /// The other end is something else.
    #[error("the peer does not speak tack's file protocol (is it `tack send`/`tack recv`?)")]
    NotOurs,
    /// The other end is from another time.
    #[error("the peer speaks version {theirs} of the file protocol, this is version {ours}")]
    Version {
        /// Peer's.
        theirs: u16,
        /// This build's.
        ours: u16,
    },
    /// Bytes that are not a frame.
    #[error("the peer broke the protocol: {0}")]
    Frame(#[from] FrameError),
    /// A frame that does not belong here.
    #[error("the peer broke the protocol: {got} while {expected} was expected")]
    Unexpected {
        /// Frame that came.
        got: String,
        /// What could have come.
        expected: &'static str,
    },
    /// A list that is refused.
    #[error("the list of files is refused: {0}")]
    List(#[from] ListError),
    /// Files are in the way.
    #[error(
        "{} already there with other contents: {}; receive into another directory, \
         or start `tack recv` with --overwrite",
        is_or_are(*.count), .names.join(", ")
    )]
    Exists {
        /// How many.
        count: usize,
        /// The first few.
        names: Vec<String>,
    },
    /// A file is where a folder is to be, or the like.
    #[error(
        "something of another kind is already there, which is never replaced: {}; \
         receive into another directory, or move it away",
        .0.join(", ")
    )]
    OtherKind(
        /// The first few.
        Vec<String>,
    ),
    /// Not enough room.
    #[error("{needed} bytes are needed in `{place}`, {free} are free")]
    NoSpace {
        /// Bytes still to be received.
        needed: u64,
        /// Bytes free for this user.
        free: u64,
        /// Directory.
        place: String,
    },
    /// The hash of what arrived is not the hash of what was sent.
    #[error("`{0}` arrived damaged: its hash is not what the sender computed")]
    Damaged(String),
    /// The receiver wants a tree and a stream came, or the other way round.
    #[error("{0}")]
    WrongMode(&'static str),
    /// The peer gave up and said why.
    #[error("the peer ended the transfer: {text}")]
    Peer {
        /// Kind of failure.
        code: Code,
        /// Its reason.
        text: String,
    },
    /// Some files were left out.
    #[error("{} not sent: {}", was_or_were(*.count), .reasons.join("; "))]
    Incomplete {
        /// How many.
        count: usize,
        /// The first few, with reasons.
        reasons: Vec<String>,
    },
    /// Some files have no name where they are to be.
    #[error("{} not stored: {}", was_or_were(*.count), .reasons.join("; "))]
    Unplaced {
        /// How many.
        count: usize,
        /// The first few, with reasons.
        reasons: Vec<String>,
    },
    /// More of a stream is to come that is not known.
    #[error("the stream is not known here: its receiver was started anew, or has given it up")]
    Gone,
    /// There is no place for it now.
    #[error("{0}; try again later")]
    Busy(String),
    /// A newer session goes on with what this one began.
    #[error("a newer transfer of the same sender goes on with it")]
    Superseded,
    /// Another connection goes on with it.
    #[error("nothing was heard on this connection any more, and another one is there")]
    Moved,
    /// The user stopped it.
    #[error("stopped{0}")]
    Stopped(Standing),
}

/// How far a transfer was when its user stopped it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// Files were on their way out.
    Sending {
        /// How many of them the receiver has said to have stored, and of how many.
        stored: (usize, usize),
    },
    /// Files were coming in.
    Receiving {
        /// How many of them are in their places, and of how many.
        stored: (usize, usize),
        /// Bytes that are here, and of how many.
        bytes: (u64, u64),
    },
    /// A stream was under way, of which so many bytes had passed.
    Stream(u64),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unknown => Ok(()),
            Self::Sending { stored: (stored, all) } => write!(
                f,
                ": {stored} of {all} to be sent are stored at the other end, with what arrived of \
                 the next; run the same command again to resume",
                all = files(all)
            ),
            Self::Receiving { stored: (stored, all), bytes: (here, bytes) } => write!(
                f,
                ": {stored} of {all} stored, {} of {} are here; start the same `tack recv` \
                 again, and then the sender's command, to resume",
                bytes_text(here),
                bytes_text(bytes),
                all = files(all)
            ),
            Self::Stream(bytes) => {
                write!(f, " after {}; a stream cannot be resumed", bytes_text(bytes))
            }
        }
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

fn is_or_are(count: usize) -> String {
    if count == 1 { "1 file is".into() } else { format!("{count} files are") }
}

fn was_or_were(count: usize) -> String {
    if count == 1 { "1 file was".into() } else { format!("{count} files were") }
}

impl TransferError {
    /// For `map_err`: what was done, and to what.
    pub fn disk<E: Into<io::Error>>(
        doing: &'static str,
        place: impl AsRef<std::path::Path>,
    ) -> impl FnOnce(E) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let place = printable(place.as_ref().as_os_str().as_bytes());
        move |source| Self::Disk { doing, place, source: source.into() }
    }

    /// Names the first few of many.
    pub fn exists(names: &[String]) -> Self {
        Self::Exists { count: names.len(), names: first_few(names) }
    }

    /// Names the first few of many.
    pub fn other_kind(names: &[String]) -> Self {
        Self::OtherKind(first_few(names))
    }

    /// Names the first few of many.
    pub fn incomplete(reasons: &[String]) -> Self {
        Self::Incomplete { count: reasons.len(), reasons: first_few(reasons) }
    }

    /// Counts another file that could not be stored, and names it if it is among the first few.
    pub fn unplaced(before: Option<Self>, why: &Self) -> Self {
        let (mut count, mut reasons) = match before {
            Some(Self::Unplaced { count, reasons }) => (count, reasons),
            _ => (0, Vec::new()),
        };
        count += 1;
        match count {
            ..=MAX_TEXT_NAMES => reasons.push(why.to_string()),
            _ => {
                reasons.truncate(MAX_TEXT_NAMES);
                reasons.push(format!("and {} more", count - MAX_TEXT_NAMES));
            }
        }
        Self::Unplaced { count, reasons }
    }

    /// Whether a name cannot be given in one place, or one file is larger than files may be there: nothing
    /// that hinders what is stored elsewhere.
    pub fn is_of_one_place(&self) -> bool {
        use io::ErrorKind::{CrossesDevices, InvalidFilename, InvalidInput, PermissionDenied};
        let kinds = [CrossesDevices, InvalidFilename, InvalidInput, PermissionDenied];
        let is_such = |e: &io::Error| {
            // The last is a name that is no text, where names have to be.
            kinds.contains(&e.kind()) || e.raw_os_error() == Some(Errno::ILSEQ.raw_os_error())
        };
        match self {
            Self::Disk { doing: PLACING, source, .. } => is_such(source),
            Self::Disk { doing: WRITING, source, .. } => {
                source.kind() == io::ErrorKind::FileTooLarge
            }
            _ => false,
        }
    }

    /// Whether it was only the connection that failed, after it had been one: another one goes on.
    pub fn may_be_resumed_at_once(&self) -> bool {
        match self {
            Self::Connection { during, .. } | Self::Closed { during } => *during != "opening",
            Self::Silent { during, .. } => *during != "opening",
            _ => false,
        }
    }

    /// Whether a sender that was received before may find a place a little later: there is none now,
    /// or its new connection came to nothing.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Peer { code, .. } => *code == Code::Busy,
            Self::NotLetIn(failure) => failure.code == ExitCode::Failed,
            Self::Connection { .. } | Self::Closed { .. } | Self::Silent { .. } => true,
            _ => false,
        }
    }

    /// What to tell the peer; `None` where it is gone or told us itself. One that was silent, as a machine asleep is, and
    /// comes back finds the connection closed: then it goes on over another one.
    pub fn code_for_peer(&self) -> Option<Code> {
        Some(match self {
            Self::Connection { .. } | Self::Closed { .. } | Self::Peer { .. } => return None,
            Self::NotLetIn(_) | Self::Moved => return None,
            Self::Silent { during, .. } if *during != "opening" => return None,
            Self::Disk { .. } if self.is_full() => Code::Refused,
            Self::Disk { .. } | Self::Incomplete { .. } | Self::Unplaced { .. } => Code::Io,
            Self::Silent { .. } | Self::TooSlow { .. } => Code::Busy,
            Self::List(ListError::NoMemory) => Code::Busy,
            Self::NotOurs | Self::Version { .. } => Code::Protocol,
            Self::Frame(_) | Self::Unexpected { .. } | Self::List(_) => Code::Protocol,
            Self::Exists { .. } | Self::OtherKind(_) => Code::Exists,
            Self::NoSpace { .. } | Self::WrongMode(_) | Self::Gone => Code::Refused,
            Self::Damaged(_) => Code::Integrity,
            Self::Stopped(_) => Code::Cancelled,
            Self::Busy(_) => Code::Busy,
            Self::Superseded => Code::Superseded,
        })
    }

    /// What to tell the peer's user.
    pub fn text_for_peer(&self) -> String {
        match self {
            // What to do here need not be done there.
            Self::Stopped(Standing::Stream(_)) => "its user stopped it".to_owned(),
            Self::Stopped(_) => "its user stopped it, and may resume it".to_owned(),
            other => other.to_string(),
        }
    }

    /// The command's exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotLetIn(failure) => failure.code,
            Self::List(ListError::NoMemory) => ExitCode::Refused,
            Self::Frame(_) | Self::Unexpected { .. } | Self::List(_) | Self::Damaged(_) => {
                ExitCode::Integrity
            }
            Self::Peer { code: Code::Integrity | Code::Protocol, .. } => ExitCode::Integrity,
            Self::NotOurs | Self::Version { .. } => ExitCode::Integrity,
            Self::Exists { .. } | Self::NoSpace { .. } | Self::WrongMode(_) => ExitCode::Refused,
            Self::OtherKind(_) => ExitCode::Refused,
            Self::Busy(_) | Self::Superseded | Self::Gone => ExitCode::Refused,
            Self::Peer {
                code: Code::Exists | Code::Refused | Code::Busy | Code::Superseded,
                ..
            } => ExitCode::Refused,
            Self::Stopped(_) => ExitCode::Interrupted,
            _ if self.is_full() => ExitCode::Refused,
            _ => ExitCode::Failed,
        }
    }

    /// A disk had no room any more, of bytes or of files: as if that had been seen before.
    fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Disk { source, .. } if [StorageFull, QuotaExceeded].contains(&source.kind()))
    }
}

fn first_few(all: &[String]) -> Vec<String> {
    let mut some: Vec<_> = all.iter().take(MAX_TEXT_NAMES).cloned().collect();
    if all.len() > some.len() {
        some.push(format!("and {} more", all.len() - some.len()));
    }
    some
}
