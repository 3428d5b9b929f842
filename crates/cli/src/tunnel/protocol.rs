//! What both ends of a tunnel say on a connection before it carries a stream.
//!
//! ```text
//! client                                          server
//!                                          <-     "tkt", version, instance (8)
//!   "tkt", version, command                ->
//!     1, name (16), target                         a TCP connection to there
//!     2, name (16), target                         the same, which may have been asked for before
//!     4, name (16), position (8)                   a stream that is open goes on over this connection
//!     3                                            datagrams from and to anywhere
//!                                          <-     0, position (8), address                       open
//!                                          <-     cause, length, reason                  it cannot be
//! ```
//!
//! What follows is [`crate::relay::frame`]s both ways, or [`super::datagram`]s. A client says what it has behind 1 at
//! once, and behind 2 and 4 what the server lacks: that begins at the position of the answer. The name is drawn
//! by the client and known to both ends alone, so that nobody else goes on with a stream. The instance is that of
//! the server's process: another one knows nothing of what was asked for, and is not asked again, since nobody
//! could tell whether it was done.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::target::{Host, MAX_TARGET_BYTES, Target, TargetError};
use crate::random::random;
use crate::transfer::name::printable;

const MAGIC: &[u8; 3] = b"tkt";
const VERSION: u8 = 2;
const CONNECT: u8 = 1;
const AGAIN: u8 = 2;
const ASSOCIATE: u8 = 3;
const RESUME: u8 = 4;
const OPEN: u8 = 0;

/// Most bytes of an opening.
pub const MAX_OPEN_BYTES: usize = 5 + 16 + MAX_TARGET_BYTES;
/// Most bytes of an answer.
pub const MAX_ANSWER_BYTES: usize = 9 + MAX_TARGET_BYTES;

/// What a stream is known by at both ends, and to nobody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; 16]);

/// What a program wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A TCP connection to this target.
    Connect(Target),
    /// Datagrams from and to anywhere.
    Associate,
}

/// What the client wants of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// A stream to this target, which was never asked for.
    Connect(Name, Target),
    /// The same; it may have been asked for.
    Again(Name, Target),
    /// The stream with this name; the client has everything before this position.
    Resume(Name, u64),
    /// Datagrams from and to anywhere.
    Associate,
}

/// A stream is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The server has everything before it.
    pub position: u64,
    /// The address of the server's that it is open from.
    pub from: SocketAddr,
}

/// What the server says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is open.
    Opened(Opened),
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
    /// The server knows no such stream any more.
    Gone = 8,
}

/// Bytes that are no opening or no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Another protocol.
    #[error("the other side speaks no tunnel protocol; is it `tack tunnel`?")]
    NotOurs,
    /// A version that we do not know.
    #[error("the other side speaks version {0} of the tunnel protocol, we speak 2")]
    Version(u8),
    /// No command.
    #[error("{0} is no command; 1 is connect, 2 again, 3 datagrams, 4 resume")]
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

/// What a server says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Of the server's process.
    pub instance: u64,
}

impl Greeting {
    /// Of a new process.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw() -> io::Result<Greeting> {
        Ok(Greeting { instance: u64::from_be_bytes(random()?) })
    }

    /// As bytes.
    pub fn bytes(self) -> Vec<u8> {
        [MAGIC, &[VERSION][..], &self.instance.to_be_bytes()].concat()
    }

    /// The greeting that `bytes` begin with and its length; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, ProtocolError> {
        let Some(rest) = after_version(bytes)? else { return Ok(None) };
        let instance = rest.first_chunk().map(|n| u64::from_be_bytes(*n));
        Ok(instance.map(|instance| (Greeting { instance }, 12)))
    }
}

/// What both sides' first message has behind the version; `None` if more bytes are needed.
fn after_version(bytes: &[u8]) -> Result<Option<&[u8]>, ProtocolError> {
    if !bytes.iter().zip(MAGIC).all(|(a, b)| a == b) {
        return Err(ProtocolError::NotOurs);
    }
    match bytes.get(3) {
        None => Ok(None),
        Some(&VERSION) => Ok(Some(&bytes[4..])),
        Some(&other) => Err(ProtocolError::Version(other)),
    }
}

impl Open {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [MAGIC, &[VERSION][..]].concat();
        match self {
            Open::Connect(name, target) => {
                out.push(CONNECT);
                out.extend(name.0);
                target.write(&mut out);
            }
            Open::Again(name, target) => {
                out.push(AGAIN);
                out.extend(name.0);
                target.write(&mut out);
            }
            Open::Resume(name, position) => {
                out.push(RESUME);
                out.extend(name.0);
                out.extend(position.to_be_bytes());
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
        let Some(rest) = after_version(bytes)? else { return Ok(None) };
        let Some((&command, rest)) = rest.split_first() else { return Ok(None) };
        if command == ASSOCIATE {
            return Ok(Some((Open::Associate, 5)));
        }
        if ![CONNECT, AGAIN, RESUME].contains(&command) {
            return Err(ProtocolError::Command(command));
        }
        let Some((name, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let name = Name(*name);
        let before = 5 + name.0.len();
        if command == RESUME {
            let position = rest.first_chunk().map(|at| u64::from_be_bytes(*at));
            return Ok(position.map(|position| (Open::Resume(name, position), before + 8)));
        }
        let Some((target, used)) = Target::read(rest)? else { return Ok(None) };
        let open = match command {
            CONNECT => Open::Connect(name, target),
            _ => Open::Again(name, target),
        };
        Ok(Some((open, before + used)))
    }
}

impl Name {
    /// One that nobody else draws.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw() -> io::Result<Name> {
        Ok(Name(random()?))
    }
}

impl fmt::Debug for Name {
    /// Not the whole of it: who knows it may go on with the stream.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

impl Answer {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Answer::Opened(Opened { position, from }) => {
                let mut out = vec![OPEN];
                out.extend(position.to_be_bytes());
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
            let Some((position, rest)) = rest.split_first_chunk() else { return Ok(None) };
            let position = u64::from_be_bytes(*position);
            return match Target::read(rest)? {
                None => Ok(None),
                Some((Target { host: Host::Ip(ip), port }, used)) => {
                    let from = SocketAddr::new(ip, port);
                    Ok(Some((Answer::Opened(Opened { position, from }), 9 + used)))
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
        Refusal::new(Cause::of_attempt(error), format!("cannot connect to {target}: {error}"))
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
        Cause::Gone,
    ];

    /// Why an attempt to connect failed.
    pub fn of_attempt(error: &io::Error) -> Cause {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Cause::ConnectionRefused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Cause::Unreachable
            }
            io::ErrorKind::TimedOut => Cause::TimedOut,
            _ => Cause::Failed,
        }
    }

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
        let name = Name::draw().unwrap();
        for open in [
            Open::Connect(name, target("example.org")),
            Open::Again(name, target("::1")),
            Open::Resume(name, u64::MAX),
            Open::Associate,
        ] {
            let bytes = open.bytes();
            (0..bytes.len()).for_each(|n| assert_eq!(Open::read(&bytes[..n]), Ok(None)));
            assert_eq!(Open::read(&bytes), Ok(Some((open, bytes.len()))));
        }
        let greeting = Greeting::draw().unwrap();
        let bytes = greeting.bytes();
        (0..bytes.len()).for_each(|n| assert_eq!(Greeting::read(&bytes[..n]), Ok(None)));
        assert_eq!(Greeting::read(&bytes), Ok(Some((greeting, bytes.len()))));
        let from = "10.0.0.1:7".parse().unwrap();
        let opened = Answer::Opened(Opened { position: 1 << 40, from });
        let refused = |cause| Answer::Refused(Refusal::new(cause, "why"));
        for answer in Cause::ALL.map(refused).into_iter().chain([opened]) {
            let bytes = answer.bytes();
            (0..bytes.len()).for_each(|n| assert_eq!(Answer::read(&bytes[..n]), Ok(None)));
            assert_eq!(Answer::read(&bytes), Ok(Some((answer, bytes.len()))));
        }
    }

    #[test]
    fn an_address_that_is_told_as_a_name_takes_the_bytes_it_came_in() {
        let name = Name::draw().unwrap();
        let mut bytes = [MAGIC, &[VERSION, CONNECT][..], &name.0].concat();
        bytes.extend(b"\x03\x02::\x01\xbb behind it");
        assert_eq!(Open::read(&bytes), Ok(Some((Open::Connect(name, target("::")), 5 + 16 + 6))));
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
        assert_eq!(Open::read(b"tkt\x01"), Err(ProtocolError::Version(1)));
        assert_eq!(Open::read(b"tkt\x02\x05"), Err(ProtocolError::Command(5)));
        assert_eq!(Answer::read(b"\x09"), Err(ProtocolError::Verdict(9)));
        assert_eq!(
            Answer::read(&[&[0; 9][..], b"\x03\x01a\x00\x50"].concat()),
            Err(ProtocolError::NoAddress)
        );
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
                bytes.splice(0..0, *b"tkt\x02\x01");
            }
            fuzz(&bytes);
        }
    }
}
