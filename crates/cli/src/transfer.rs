//! `tack send` and `tack recv`: files, folders and byte streams over one connection.
//!
//! This module decides what goes over the wire and in which order; it runs over any reliable
//! byte stream ([`crate::conn::Connection`]) and knows nothing of TACK. The stream encrypts; this
//! protocol checks end to end that what was written is what was read.
//!
//! # Protocol, version 3
//!
//! Each side first writes eight bytes, `tackfile`. Then frames, integers in network byte order:
//!
//! ```text
//! +------+-----------------+----------------------+
//! | type | length (u32)    | body (length bytes)  |    length <= 256 KiB for DATA,
//! +------+-----------------+----------------------+              <= 16 KiB for all others
//! ```
//!
//! A tree (`S` sends, `R` receives; `*` may repeat):
//!
//! ```text
//! S  HELLO version, tree, sender         R  WELCOME version
//! S  ENTRY* LISTED count, bytes          the whole list, parents before children, without waiting
//! R  HAVE* PLANNED                       "of file i, I hold the first n bytes"
//! S  (PROOF | SKIP i, reason)*           blake3 of those n bytes, one for each HAVE, in order
//! R  KEEP* GO                            those whose proof held; the others start at zero
//! S  (FILE i, offset  DATA*  END hash | SKIP i, reason)*  FINISHED
//! R  STORED* DONE files, bytes           a file is STORED once its hash was right and it has its name
//! ```
//!
//! The receiver never tells a hash of what it holds: only whether the sender's proof was right.
//! `NOOP` is sent by whoever has been silent for ten seconds; sixty seconds without a byte end the
//! transfer. `ERROR code, text` ends it from either side; it comes in the place of DONE where a file could be given no
//! name, once all others have theirs.
//!
//! A stream (`-`), and a talk of `tack nc`, outlive the connections that carry them ([`passage`]):
//!
//! ```text
//! S  HELLO version, stream or talk or rest, name   HAVE 0, n     "I have n bytes of yours"
//! R  WELCOME version                               HAVE 0, m
//! ```
//!
//! What follows is frames of [`crate::relay`] both ways, from the n-th and the m-th byte on. In these travel,
//! of a stream, `S DATA* END hash` and `R DONE`; of a talk, what both sides say.
//!
//! # Resuming
//!
//! A file under way lies in `.tack-partial/` beneath the receiving directory, named after the hash
//! of its path and its sender. Its length says how much arrived, and the sender's PROOF, checked
//! against the bytes on disk, says whether they are a prefix of what is sent now. Files already
//! complete are offered in the same way, so that a second run of the same command sends only what is
//! missing. The same two processes do not read again what they [know](known) the hash of, unless it was written since.
//!
//! A [`partial`] file is locked before its first byte is hashed, and stays so, on one descriptor,
//! until it has its name: nobody else writes into what was proved. Senders do not share partial
//! files, and a newer session of the same sender [takes over](sessions) from an older one, which
//! may not know yet that its connection is dead. `sender` in HELLO is a secret that the sender
//! derives from its own key and the receiver's.
//!
//! # What a hostile peer may not do
//!
//! Names are relative, clean and beneath the receiving directory ([`name`]); a list is bounded in
//! entries and bytes and each parent is a folder of the same list ([`list`]); the receiving side
//! opens every component without following symbolic links ([`store`]) and replaces nothing unless
//! `--overwrite` says so. Symbolic links come last, and never lead out of the directory.

pub mod calls;
pub mod disk;
pub mod error;
pub mod frame;
pub mod known;
mod ledger;
pub mod list;
pub mod name;
pub mod partial;
pub mod passage;
pub mod patience;
pub mod pipe;
pub mod plan;
pub mod received;
pub mod recv;
pub mod scan;
pub mod send;
pub mod sessions;
pub mod sink;
pub mod source;
pub mod store;
pub mod wire;

pub use error::TransferError;

/// Version of the protocol this build speaks.
pub const VERSION: u16 = 3;

/// The default port of `tack send` and `tack recv`: TACK on a telephone's keypad.
pub const DEFAULT_PORT: u16 = 8225;
