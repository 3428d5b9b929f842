//! Frames as values and as bytes. A pure codec: bytes in, values or a [`FrameError`] out.

use crate::transfer::VERSION;
use crate::transfer::list::{Entry, Kind};
use crate::transfer::name::{MAX_PATH, RelPath};

/// What either side writes before its first frame.
pub const PREFACE: [u8; 8] = *b"tackfile";

/// Bytes of a frame's header: type and length.
pub const HEADER: usize = 5;

/// Largest DATA body: large enough that framing costs nothing, small enough to pool.
pub const MAX_DATA: usize = 256 * 1024;

/// Largest body of any other frame: an ENTRY with two paths of [`MAX_PATH`] fits.
pub const MAX_CONTROL: usize = 16 * 1024;

/// Longest text in SKIP and ERROR, in bytes.
pub const MAX_TEXT: usize = 1024;

/// The hash of a file or of a prefix (blake3).
pub type Hash = [u8; 32];

/// Names a sender to one receiver: the same each time, and a secret between the two of them.
/// Whoever knows it can end that sender's sessions, and can change nothing that is verified.
pub type SenderId = [u8; 32];

/// What a connection is to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A list of files and folders.
    Tree = 0,
    /// One stream of bytes of unknown length.
    Stream = 1,
    /// Bytes both ways, as `tack nc` has them.
    Talk = 2,
    /// More of a [`What::Stream`] or a [`What::Talk`] that another connection has begun.
    Rest = 3,
}

impl What {
    const ALL: [What; 4] = [What::Tree, What::Stream, What::Talk, What::Rest];
}

/// Why one side ended the transfer, as told to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The other side broke the protocol.
    Protocol,
    /// The receiver doesn't want this (wrong mode, limits, no space).
    Refused,
    /// Something is in the way and `--overwrite` wasn't given.
    Exists,
    /// Reading or writing failed.
    Io,
    /// A hash was wrong.
    Integrity,
    /// The user stopped it.
    Cancelled,
    /// There is no place for it now; later there may be.
    Busy,
    /// A newer transfer of the same sender goes on with it.
    Superseded,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens the sender's side.
    Hello {
        /// Protocol version.
        version: u16,
        /// What will come.
        what: What,
        /// Who sends, as this receiver knows it; else the stream's name.
        sender: SenderId,
    },
    /// Opens the receiver's side.
    Welcome {
        /// Protocol version.
        version: u16,
    },
    /// One entry of the list. Not validated beyond its own fields.
    Entry(Entry),
    /// The list is complete.
    Listed {
        /// Entries sent.
        entries: u32,
        /// Sum of the files' sizes in bytes.
        bytes: u64,
    },
    /// The receiver holds the first `bytes` of file `index`. Of a stream, either side says so of the other's.
    Have {
        /// Position in the list; 0 of a stream.
        index: u32,
        /// Length of the prefix.
        bytes: u64,
    },
    /// No more HAVE.
    Planned,
    /// Hash of the prefix that a HAVE named.
    Proof {
        /// Position in the list.
        index: u32,
        /// Hash of the sender's prefix.
        hash: Hash,
    },
    /// The proof for this file was right.
    Keep {
        /// Position in the list.
        index: u32,
    },
    /// Send.
    Go,
    /// Bytes of this file follow.
    File {
        /// Position in the list.
        index: u32,
        /// Where in the file the bytes start.
        offset: u64,
    },
    /// Bytes.
    Data(Vec<u8>),
    /// The file (or stream) is complete.
    End {
        /// Hash of all of it, from its first byte.
        hash: Hash,
    },
    /// This file won't come.
    Skip {
        /// Position in the list.
        index: u32,
        /// Why, for people.
        reason: String,
    },
    /// This file is in its place and its hash was right.
    Stored {
        /// Position in the list.
        index: u32,
    },
    /// The sender has sent everything.
    Finished,
    /// The receiver has everything.
    Done {
        /// Files stored or already there.
        files: u32,
        /// Their bytes.
        bytes: u64,
    },
    /// Still here.
    Noop,
    /// The transfer is over.
    Error {
        /// What kind of failure.
        code: Code,
        /// Why, for people.
        text: String,
    },
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Unknown type byte.
    #[error("frame type {0:#04x} is unknown")]
    UnknownType(u8),
    /// The header claims more than the type may carry.
    #[error("a frame of type {kind:#04x} claims {claimed} bytes, at most {limit} are allowed")]
    TooLong {
        /// Type byte.
        kind: u8,
        /// Length in the header.
        claimed: usize,
        /// Limit for that type.
        limit: usize,
    },
    /// The body ends early.
    #[error("the body of a frame of type {kind:#04x} ends early")]
    Short {
        /// Type byte.
        kind: u8,
    },
    /// The body goes on after its last field.
    #[error("a frame of type {kind:#04x} has {extra} bytes too many")]
    Trailing {
        /// Type byte.
        kind: u8,
        /// How many.
        extra: usize,
    },
    /// A field has a value that means nothing.
    #[error("a frame of type {kind:#04x} has an invalid {field}")]
    Invalid {
        /// Type byte.
        kind: u8,
        /// Which field.
        field: &'static str,
    },
    /// The name in an ENTRY is refused.
    #[error("an entry's name is refused: {0}")]
    Name(#[from] crate::transfer::name::NameError),
}

mod kind {
    pub(super) const HELLO: u8 = 0x01;
    pub(super) const WELCOME: u8 = 0x02;
    pub(super) const ENTRY: u8 = 0x10;
    pub(super) const LISTED: u8 = 0x11;
    pub(super) const HAVE: u8 = 0x12;
    pub(super) const PLANNED: u8 = 0x13;
    pub(super) const PROOF: u8 = 0x14;
    pub(super) const KEEP: u8 = 0x15;
    pub(super) const GO: u8 = 0x16;
    pub(super) const FILE: u8 = 0x20;
    pub(super) const DATA: u8 = 0x21;
    pub(super) const END: u8 = 0x22;
    pub(super) const SKIP: u8 = 0x23;
    pub(super) const STORED: u8 = 0x24;
    pub(super) const FINISHED: u8 = 0x30;
    pub(super) const DONE: u8 = 0x31;
    pub(super) const NOOP: u8 = 0x40;
    pub(super) const ERROR: u8 = 0x41;
}

/// Reads a header: the type and how many bytes of body follow, within that type's limit.
pub fn parse_header(header: [u8; HEADER]) -> Result<(u8, usize), FrameError> {
    let [kind, length @ ..] = header;
    let claimed = u32::from_be_bytes(length) as usize;
    let limit = match kind {
        kind::DATA => MAX_DATA,
        kind::HELLO | kind::WELCOME | kind::NOOP | kind::ERROR => MAX_CONTROL,
        kind::ENTRY..=kind::GO | kind::FILE..=kind::STORED => MAX_CONTROL,
        kind::FINISHED | kind::DONE => MAX_CONTROL,
        _ => return Err(FrameError::UnknownType(kind)),
    };
    if claimed > limit {
        return Err(FrameError::TooLong { kind, claimed, limit });
    }
    Ok((kind, claimed))
}

/// Whether a frame of this type carries bulk bytes, whose buffer is worth reusing.
pub fn is_data(kind: u8) -> bool {
    kind == kind::DATA
}

/// Whether a frame of this type says nothing but that its sender lives.
pub fn is_noop(kind: u8) -> bool {
    kind == kind::NOOP
}

/// The header of a DATA frame with `length` bytes of body.
///
/// # Panics
/// If `length` is over [`MAX_DATA`]: the caller's own buffers are no larger.
pub fn data_header(length: usize) -> [u8; HEADER] {
    assert!(length <= MAX_DATA, "a DATA body of {length} bytes");
    let mut header = [kind::DATA, 0, 0, 0, 0];
    header[1..].copy_from_slice(&(length as u32).to_be_bytes());
    header
}

/// Reads a body of type `kind`.
pub fn parse_body(kind: u8, body: &[u8]) -> Result<Frame, FrameError> {
    let mut r = Reader { kind, rest: body };
    let frame = match kind {
        kind::HELLO => r.hello()?,
        kind::WELCOME => Frame::Welcome { version: r.u16()? },
        kind::ENTRY => Frame::Entry(r.entry()?),
        kind::LISTED => Frame::Listed { entries: r.u32()?, bytes: r.u64()? },
        kind::HAVE => Frame::Have { index: r.u32()?, bytes: r.u64()? },
        kind::PLANNED => Frame::Planned,
        kind::PROOF => Frame::Proof { index: r.u32()?, hash: r.hash()? },
        kind::KEEP => Frame::Keep { index: r.u32()? },
        kind::GO => Frame::Go,
        kind::FILE => Frame::File { index: r.u32()?, offset: r.u64()? },
        kind::DATA => Frame::Data(std::mem::take(&mut r.rest).to_vec()),
        kind::END => Frame::End { hash: r.hash()? },
        kind::SKIP => Frame::Skip { index: r.u32()?, reason: r.text()? },
        kind::STORED => Frame::Stored { index: r.u32()? },
        kind::FINISHED => Frame::Finished,
        kind::DONE => Frame::Done { files: r.u32()?, bytes: r.u64()? },
        kind::NOOP => Frame::Noop,
        kind::ERROR => Frame::Error { code: r.code()?, text: r.text()? },
        _ => return Err(FrameError::UnknownType(kind)),
    };
    match r.rest.len() {
        0 => Ok(frame),
        extra => Err(FrameError::Trailing { kind, extra }),
    }
}

/// Appends the frame, header included, to `out`.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let kind = encode_body(frame, out);
    let length = (out.len() - start - HEADER) as u32;
    out[start] = kind;
    out[start + 1..start + HEADER].copy_from_slice(&length.to_be_bytes());
}

fn encode_body(frame: &Frame, out: &mut Vec<u8>) -> u8 {
    match frame {
        Frame::Hello { version, what, sender } => {
            out.extend_from_slice(&version.to_be_bytes());
            out.extend_from_slice(&[&[*what as u8], &sender[..]].concat());
            kind::HELLO
        }
        Frame::Welcome { version } => {
            out.extend_from_slice(&version.to_be_bytes());
            kind::WELCOME
        }
        Frame::Entry(entry) => {
            encode_entry(entry, out);
            kind::ENTRY
        }
        Frame::Listed { entries, bytes } => index_and(out, *entries, *bytes, kind::LISTED),
        Frame::Have { index, bytes } => index_and(out, *index, *bytes, kind::HAVE),
        Frame::File { index, offset } => index_and(out, *index, *offset, kind::FILE),
        Frame::Done { files, bytes } => index_and(out, *files, *bytes, kind::DONE),
        Frame::Proof { index, hash } => {
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(hash);
            kind::PROOF
        }
        Frame::Keep { index } => {
            out.extend_from_slice(&index.to_be_bytes());
            kind::KEEP
        }
        Frame::Stored { index } => {
            out.extend_from_slice(&index.to_be_bytes());
            kind::STORED
        }
        Frame::Data(bytes) => {
            out.extend_from_slice(bytes);
            kind::DATA
        }
        Frame::End { hash } => {
            out.extend_from_slice(hash);
            kind::END
        }
        Frame::Skip { index, reason } => {
            out.extend_from_slice(&index.to_be_bytes());
            encode_text(reason, out);
            kind::SKIP
        }
        Frame::Error { code, text } => {
            out.push(*code as u8);
            encode_text(text, out);
            kind::ERROR
        }
        Frame::Planned => kind::PLANNED,
        Frame::Go => kind::GO,
        Frame::Finished => kind::FINISHED,
        Frame::Noop => kind::NOOP,
    }
}

fn index_and(out: &mut Vec<u8>, index: u32, value: u64, kind: u8) -> u8 {
    out.extend_from_slice(&index.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
    kind
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    let (tag, size, target): (u8, u64, &[u8]) = match &entry.kind {
        Kind::Dir => (0, 0, &[]),
        Kind::File { size } => (1, *size, &[]),
        Kind::Symlink { target } => (2, 0, target),
    };
    out.push(tag);
    out.extend_from_slice(&entry.mode.to_be_bytes());
    out.extend_from_slice(&entry.mtime.seconds.to_be_bytes());
    out.extend_from_slice(&entry.mtime.nanos.to_be_bytes());
    out.extend_from_slice(&size.to_be_bytes());
    for bytes in [entry.path.as_bytes(), target] {
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Text goes out cut to [`MAX_TEXT`] bytes at a character's edge.
fn encode_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(MAX_TEXT)]);
}

struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8], FrameError> {
        let (head, rest) =
            self.rest.split_at_checked(n).ok_or(FrameError::Short { kind: self.kind })?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("exactly N bytes were taken"))
    }

    fn u8(&mut self) -> Result<u8, FrameError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, FrameError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn hash(&mut self) -> Result<Hash, FrameError> {
        self.array()
    }

    fn text(&mut self) -> Result<String, FrameError> {
        let bytes = std::mem::take(&mut self.rest);
        if bytes.len() > MAX_TEXT {
            return Err(self.invalid("text length"));
        }
        String::from_utf8(bytes.to_vec()).map_err(|_| self.invalid("text"))
    }

    /// Of another version only what all have in common is read.
    fn hello(&mut self) -> Result<Frame, FrameError> {
        let version = self.u16()?;
        let code = self.u8()?;
        let what = What::ALL.into_iter().find(|&what| what as u8 == code);
        let what = what.ok_or_else(|| self.invalid("content"))?;
        if version != VERSION {
            self.rest = &[];
            return Ok(Frame::Hello { version, what, sender: SenderId::default() });
        }
        Ok(Frame::Hello { version, what, sender: self.array()? })
    }

    fn code(&mut self) -> Result<Code, FrameError> {
        Ok(match self.u8()? {
            0 => Code::Protocol,
            1 => Code::Refused,
            2 => Code::Exists,
            3 => Code::Io,
            4 => Code::Integrity,
            5 => Code::Cancelled,
            6 => Code::Busy,
            7 => Code::Superseded,
            _ => return Err(self.invalid("error code")),
        })
    }

    fn path(&mut self) -> Result<&'a [u8], FrameError> {
        let length = usize::from(self.u16()?);
        if length > MAX_PATH {
            return Err(self.invalid("path length"));
        }
        self.bytes(length)
    }

    fn entry(&mut self) -> Result<Entry, FrameError> {
        let tag = self.u8()?;
        let mode = self.u32()?;
        let seconds = i64::from_be_bytes(self.array()?);
        let nanos = self.u32()?;
        if nanos >= 1_000_000_000 {
            return Err(self.invalid("modification time"));
        }
        let size = self.u64()?;
        let path = RelPath::from_bytes(self.path()?)?;
        let target = self.path()?;
        let kind = match tag {
            0 if size == 0 && target.is_empty() => Kind::Dir,
            1 if target.is_empty() => Kind::File { size },
            2 if size == 0 && !target.is_empty() => Kind::Symlink { target: target.to_vec() },
            _ => return Err(self.invalid("entry kind")),
        };
        let mtime = crate::transfer::list::Mtime { seconds, nanos };
        Ok(Entry { path, mode, mtime, kind })
    }

    fn invalid(&self, field: &'static str) -> FrameError {
        FrameError::Invalid { kind: self.kind, field }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
