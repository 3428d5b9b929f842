//! What both ends of a tunnel say before a stream is the program's.
//!
//! ```text
//! client                                            server
//!   "tkt", version, command, target          ->            the opening; the program's bytes follow
//!                                            <-    0, address     open; the target's bytes follow
//!                                            <-    cause, length, reason          it cannot be
//! ```
//!
//! The command is SOCKS' [RFC 1928 §4]: 1 a TCP connection, 3 datagrams ([`super::datagram`] frames
//! them). The client says all it has at once and does not wait for the answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::target::{Host, MAX_TARGET_BYTES, Target, TargetError};
use crate::transfer::name::printable;

const MAGIC: &[u8; 3] = b"tkt";
const VERSION: u8 = 1;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const OPEN: u8 = 0;

/// Most bytes of an opening.
pub const MAX_OPEN_BYTES: usize = 5 + MAX_TARGET_BYTES;
/// Most bytes of an answer.
pub const MAX_ANSWER_BYTES: usize = 2 + MAX_TARGET_BYTES;

/// What the client wants of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// A TCP connection to this target.
    Connect(Target),
    /// Datagrams from and to anywhere.
    Associate,
}

/// What the server says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is open; from this address of the server's.
    Opened(SocketAddr),
    /// It cannot be.
    Refused(Refusal),
}

/// Why a stream cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of reason.
    pub cause: Cause,
    /// In words; at most 255 bytes of them are told.
    pub why: String,
}

/// Kinds of reasons, each with an answer of its own in SOCKS and HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The server may not connect there.
    NotAllowed = 1,
    /// Nobody has that name.
    NoSuchHost = 2,
    /// The network or the host is not to be reached.
    Unreachable = 3,
    /// Nobody listens there.
    ConnectionRefused = 4,
    /// Nobody answers.
    TimedOut = 5,
    /// The server has as many streams as it takes.
    Busy = 6,
    /// Anything else.
    Failed = 7,
}

/// Bytes that are no opening or no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Another protocol.
    #[error("the other side speaks no tunnel protocol; is it `tack tunnel`?")]
    NotOurs,
    /// A version that we do not know.
    #[error("the other side speaks version {0} of the tunnel protocol, we speak 1")]
    Version(u8),
    /// No command.
    #[error("{0} is no command; 1 is connect, 3 datagrams")]
    Command(u8),
    /// No answer.
    #[error("{0} is no answer")]
    Verdict(u8),
    /// The target is none.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The server says that it connected from a name.
    #[error("an address was expected, not a name")]
    NoAddress,
}

impl Open {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [MAGIC, &[VERSION][..]].concat();
        match self {
            Open::Connect(target) => {
                out.push(CONNECT);
                target.write(&mut out);
            }
            Open::Associate => out.push(ASSOCIATE),
        }
        out
    }

    /// The opening that `bytes` begin with and its length; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Open, usize)>, ProtocolError> {
        if !bytes.iter().zip(MAGIC).all(|(a, b)| a == b) {
            return Err(ProtocolError::NotOurs);
        }
        match bytes.get(MAGIC.len()) {
            None => return Ok(None),
            Some(&VERSION) => {}
            Some(&other) => return Err(ProtocolError::Version(other)),
        }
        match bytes.get(4) {
            None => Ok(None),
            Some(&CONNECT) => {
                let read = Target::read(&bytes[5..])?;
                Ok(read.map(|(target, used)| (Open::Connect(target), 5 + used)))
            }
            Some(&ASSOCIATE) => Ok(Some((Open::Associate, 5))),
            Some(&other) => Err(ProtocolError::Command(other)),
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Open::Connect(target) => target.fmt(f),
            Open::Associate => f.write_str("datagrams"),
        }
    }
}

impl Answer {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Answer::Opened(from) => {
                let mut out = vec![OPEN];
                Target::from(*from).write(&mut out);
                out
            }
            Answer::Refused(Refusal { cause, why }) => {
                let end = (0..=why.len().min(255)).rev().find(|&end| why.is_char_boundary(end));
                let told = &why.as_bytes()[..end.unwrap_or(0)];
                [&[*cause as u8, told.len() as u8], told].concat()
            }
        }
    }

    /// The answer that `bytes` begin with and its length; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Answer, usize)>, ProtocolError> {
        let Some((&verdict, rest)) = bytes.split_first() else { return Ok(None) };
        if verdict == OPEN {
            return match Target::read(rest)? {
                None => Ok(None),
                Some((Target { host: Host::Ip(ip), port }, used)) => {
                    Ok(Some((Answer::Opened(SocketAddr::new(ip, port)), 1 + used)))
                }
                Some((Target { host: Host::Name(_), .. }, _)) => Err(ProtocolError::NoAddress),
            };
        }
        let cause = Cause::of(verdict).ok_or(ProtocolError::Verdict(verdict))?;
        let Some((&length, rest)) = rest.split_first() else { return Ok(None) };
        let Some(why) = rest.get(..usize::from(length)) else { return Ok(None) };
        let refusal = Refusal { cause, why: printable(why) };
        Ok(Some((Answer::Refused(refusal), 2 + why.len())))
    }
}

impl Refusal {
    /// For this reason.
    pub fn new(cause: Cause, why: impl Into<String>) -> Refusal {
        Refusal { cause, why: why.into() }
    }

    /// Of a connection attempt to `target`.
    pub fn of_attempt(target: &Target, error: &io::Error) -> Refusal {
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => Cause::ConnectionRefused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Cause::Unreachable
            }
            io::ErrorKind::TimedOut => Cause::TimedOut,
            _ => Cause::Failed,
        };
        Refusal::new(cause, format!("cannot connect to {target}: {error}"))
    }
}

impl Cause {
    const ALL: [Cause; 7] = [
        Cause::NotAllowed,
        Cause::NoSuchHost,
        Cause::Unreachable,
        Cause::ConnectionRefused,
        Cause::TimedOut,
        Cause::Busy,
        Cause::Failed,
    ];

    fn of(verdict: u8) -> Option<Cause> {
        Cause::ALL.into_iter().find(|&cause| cause as u8 == verdict)
    }
}

/// Tries `bytes` as both messages: what strangers may send must be read or refused, and what is
/// read must be what would have been written. For fuzzing.
///
/// # Panics
/// If it is not.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(Some((open, used))) = Open::read(bytes) {
        assert!(used <= MAX_OPEN_BYTES.min(bytes.len()));
        let again = open.bytes();
        assert_eq!(Open::read(&again), Ok(Some((open, again.len()))));
    }
    if let Ok(Some((answer, used))) = Answer::read(bytes) {
        assert!(used <= MAX_ANSWER_BYTES.min(bytes.len()));
        if let Answer::Opened(_) = answer {
            let again = answer.bytes();
            assert_eq!(Answer::read(&again), Ok(Some((answer, again.len()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};

    use super::*;

    fn target(text: &str) -> Target {
        Target::new(Host::parse(text).unwrap(), 443)
    }

    #[test]
    fn messages_are_read_as_written_and_every_beginning_asks_for_more() {
        for open in
            [Open::Connect(target("example.org")), Open::Connect(target("::1")), Open::Associate]
        {
            let bytes = open.bytes();
            (0..bytes.len()).for_each(|n| assert_eq!(Open::read(&bytes[..n]), Ok(None)));
            assert_eq!(Open::read(&bytes), Ok(Some((open, bytes.len()))));
        }
        let opened = Answer::Opened("10.0.0.1:7".parse().unwrap());
        let refused = |cause| Answer::Refused(Refusal::new(cause, "why"));
        for answer in Cause::ALL.map(refused).into_iter().chain([opened]) {
            let bytes = answer.bytes();
            (0..bytes.len()).for_each(|n| assert_eq!(Answer::read(&bytes[..n]), Ok(None)));
            assert_eq!(Answer::read(&bytes), Ok(Some((answer, bytes.len()))));
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let answer = Answer::Refused(Refusal::new(Cause::Busy, "ü".repeat(200)));
        let Ok(Some((Answer::Refused(refusal), 256))) = Answer::read(&answer.bytes()) else {
            panic!("{answer:?}")
        };
        assert_eq!(refusal.why, "ü".repeat(127));
    }

    #[test]
    fn other_protocols_are_told_apart_at_once() {
        assert_eq!(Open::read(b"GET"), Err(ProtocolError::NotOurs));
        assert_eq!(Open::read(b"tkt\x02"), Err(ProtocolError::Version(2)));
        assert_eq!(Open::read(b"tkt\x01\x02"), Err(ProtocolError::Command(2)));
        assert_eq!(Answer::read(b"\x09"), Err(ProtocolError::Verdict(9)));
        assert_eq!(Answer::read(b"\x00\x03\x01a\x00\x50"), Err(ProtocolError::NoAddress));
    }

    #[test]
    fn a_reason_cannot_drive_a_terminal() {
        let Ok(Some((Answer::Refused(refusal), _))) = Answer::read(b"\x07\x02\x1b[") else {
            panic!()
        };
        assert!(!refusal.why.contains('\x1b'), "{}", refusal.why);
    }

    #[test]
    fn random_bytes_are_read_or_refused() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(0x7a4);
        for _ in 0..50_000 {
            let mut bytes = vec![0; rng.random_range(0..40)];
            rng.fill_bytes(&mut bytes);
            if rng.random() {
                // Mostly right.
                bytes.splice(0..0, *b"tkt\x01\x01");
            }
            fuzz(&bytes);
        }
    }
}
