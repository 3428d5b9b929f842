//! Frames, in which bytes travel between both ends, and how a stream of them is read.
//!
//! ```text
//! 0, length (4)     so many bytes of the program's follow
//! 1, position (8)   I have everything before it
//! 2                 the program has ended its direction in order
//! 3                 the program's connection broke, or is to break
//! ```
//!
//! A position counts the bytes of one direction, and an orderly end as one.

/// Bytes before a payload.
pub const HEADER: usize = 5;
/// Most bytes of a payload.
pub const MOST_PAYLOAD: usize = 128 << 10;

const DATA: u8 = 0;
const HAVE: u8 = 1;
const ENDED: u8 = 2;
const RESET: u8 = 3;

/// How one direction of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing more comes.
    Orderly,
    /// Both directions break off.
    Reset,
}

/// One frame; the payload of a [`Frame::Data`] follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// So many bytes follow.
    Data(usize),
    /// Who says so has everything before this position.
    Have(u64),
    /// The end.
    End(End),
}

/// What the other end may not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// No frame begins like that.
    #[error("{0} is no frame")]
    NoFrame(u8),
    /// Nothing, or more than [`MOST_PAYLOAD`].
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// A frame behind the end.
    #[error("something follows the end")]
    AfterEnd,
    /// A position beyond everything.
    #[error("it has what was never sent")]
    NeverSent,
    /// A position before what is kept.
    #[error("it lacks what is not kept any more")]
    Forgotten,
}

impl Frame {
    /// As bytes.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Frame::Data(_) => {
                let mut out = vec![0; HEADER];
                self.put(&mut out);
                out
            }
            Frame::Have(position) => [&[HAVE][..], &position.to_be_bytes()].concat(),
            Frame::End(End::Orderly) => vec![ENDED],
            Frame::End(End::Reset) => vec![RESET],
        }
    }

    /// Writes a [`Frame::Data`]'s header over `out`, [`HEADER`] bytes.
    pub fn put(self, out: &mut [u8]) {
        if let Frame::Data(length) = self {
            let length = u32::try_from(length).expect("no payload is longer than MOST_PAYLOAD");
            out[0] = DATA;
            out[1..HEADER].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// The frame that `bytes` begin with and its length without payload; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Violation> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
        let read = match kind {
            DATA => rest.first_chunk().map(|&length| (u32::from_be_bytes(length), HEADER)),
            HAVE => {
                let position = rest.first_chunk().map(|&at| u64::from_be_bytes(at));
                return Ok(position.map(|position| (Frame::Have(position), 9)));
            }
            ENDED => return Ok(Some((Frame::End(End::Orderly), 1))),
            RESET => return Ok(Some((Frame::End(End::Reset), 1))),
            other => return Err(Violation::NoFrame(other)),
        };
        let Some((length, used)) = read else { return Ok(None) };
        match usize::try_from(length) {
            Ok(n @ 1..=MOST_PAYLOAD) => Ok(Some((Frame::Data(n), used))),
            _ => Err(Violation::Length(length)),
        }
    }
}
