//! What both ends of a tunnel say before a stream is the program's.
//!
//! ```text
//! client                                            server
//!   "tkt", version, name, command, target    ->            the request; the program's bytes follow
//!                                            <-    0, address     open; the target's bytes follow
//!                                            <-    cause, length, reason          it cannot be
//! ```
//!
//! The command is SOCKS' [RFC 1928 §4]: 1 a TCP connection, 3 datagrams ([`super::datagram`] frames
//! them). The client says all it has at once and does not wait for the answer. A request that was lost
//! with its connection is made again over another one, under the same name: 16 random bytes, by which
//! the server knows one that it has carried out ([`super::seen`]).

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::target::{Host, MAX_TARGET_BYTES, Target, TargetError};
use crate::transfer::name::printable;

const MAGIC: &[u8; 3] = b"tkt";
const VERSION: u8 = 2;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const OPEN: u8 = 0;

/// Where the command stands.
const COMMAND_AT: usize = MAGIC.len() + 1 + size_of::<RequestName>();

/// Most bytes of a request.
pub const MAX_REQUEST_BYTES: usize = COMMAND_AT + 1 + MAX_TARGET_BYTES;
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

/// Random bytes that no other request has.
pub type RequestName = [u8; 16];

/// What a client opens a stream with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The same when it is made again.
    pub name: RequestName,
    /// What for.
    pub open: Open,
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
    /// It was carried out, over a connection that broke before the client knew.
    Repeated = 8,
}

/// Bytes that are no request or no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Another protocol.
    #[error("the other side speaks no tunnel protocol; is it `tack tunnel`?")]
    NotOurs,
    /// A version that we do not know.
    #[error("the other side speaks version {0} of the tunnel protocol, we speak {ours}", ours = VERSION)]
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

impl Request {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [MAGIC, &[VERSION][..], &self.name].concat();
        match &self.open {
            Open::Connect(target) => {
                out.push(CONNECT);
                target.write(&mut out);
            }
            Open::Associate => out.push(ASSOCIATE),
        }
        out
    }

    /// The request that `bytes` begin with and its length; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Request, usize)>, ProtocolError> {
        if !bytes.iter().zip(MAGIC).all(|(a, b)| a == b) {
            return Err(ProtocolError::NotOurs);
        }
        match bytes.get(MAGIC.len()) {
            None => return Ok(None),
            Some(&VERSION) => {}
            Some(&other) => return Err(ProtocolError::Version(other)),
        }
        let Some((head, rest)) = bytes.split_at_checked(COMMAND_AT) else { return Ok(None) };
        let name = *head.last_chunk().expect("the head ends with it");
        let Some((&command, rest)) = rest.split_first() else { return Ok(None) };
        let read = match command {
            CONNECT => Target::read(rest)?.map(|(target, used)| (Open::Connect(target), used)),
            ASSOCIATE => Some((Open::Associate, 0)),
            other => return Err(ProtocolError::Command(other)),
        };
        Ok(read.map(|(open, used)| (Request { name, open }, COMMAND_AT + 1 + used)))
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
    const ALL: [Cause; 8] = [
        Cause::NotAllowed,
        Cause::NoSuchHost,
        Cause::Unreachable,
        Cause::ConnectionRefused,
        Cause::TimedOut,
        Cause::Busy,
        Cause::Failed,
        Cause::Repeated,
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
    if let Ok(Some((request, used))) = Request::read(bytes) {
        assert!(used <= MAX_REQUEST_BYTES.min(bytes.len()));
        let again = request.bytes();
        assert_eq!(Request::read(&again), Ok(Some((request, again.len()))));
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
            let request = Request { name: *b"sixteen of them.", open };
            let bytes = request.bytes();
            (0..bytes.len()).for_each(|n| assert_eq!(Request::read(&bytes[..n]), Ok(None)));
            assert_eq!(Request::read(&bytes), Ok(Some((request, bytes.len()))));
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
        assert_eq!(Request::read(b"GET"), Err(ProtocolError::NotOurs));
        assert_eq!(Request::read(b"tkt\x01"), Err(ProtocolError::Version(1)));
        let bytes = [&b"tkt\x02"[..], &[0; 16], &[2]].concat();
        assert_eq!(Request::read(&bytes), Err(ProtocolError::Command(2)));
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
            let mut bytes = vec![0; rng.random_range(0..60)];
            rng.fill_bytes(&mut bytes);
            if rng.random() {
                // Mostly right.
                bytes.splice(0..0, *b"tkt\x02");
                bytes.get_mut(20).map(|command| *command = CONNECT);
            }
            fuzz(&bytes);
        }
    }
}
