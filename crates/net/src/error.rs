//! What a caller is told.

use std::io;
use std::time::Duration;

use tack_tcp::{ConnectionError, UseError};

use crate::HostError;
use crate::race::NoneAnswered;
#[cfg(feature = "tls")]
use crate::tls::TlsError;

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host is not written as a host and a port.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The host's name could not be resolved.
    #[error("cannot find the host: {0}")]
    NoSuchHost(io::Error),
    /// The host has no address of a family that the endpoint reaches.
    #[error("the host has no address that can be reached from here")]
    OutOfReach,
    /// The attempt could not start.
    #[error(transparent)]
    Start(#[from] tack_tcp::ConnectError),
    /// The peer refused, the network said why it cannot be reached, or the attempt ended otherwise.
    #[error(transparent)]
    Failed(#[from] ConnectionError),
    /// The server is not to be believed, or would not have us; in the latter case with its own
    /// reason ([`TlsError::Refused`]).
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The handshake of QUIC failed, or nobody answered.
    #[cfg(feature = "quic")]
    #[error(transparent)]
    Quic(tack_quic::ConnectionError),
    /// The host has several addresses, and nobody answered at any: what came of each.
    #[error(transparent)]
    NoneAnswered(Box<NoneAnswered<ConnectError>>),
    /// Nobody answered in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// No socket could be made.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] io::Error),
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
}

impl ConnectError {
    /// The kind a kernel's socket would report. Of several addresses that of the first which failed.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            ConnectError::Host(_) => io::ErrorKind::InvalidInput,
            ConnectError::NoSuchHost(e) => e.kind(),
            ConnectError::OutOfReach => io::ErrorKind::AddrNotAvailable,
            #[cfg(feature = "tls")]
            ConnectError::Tls(e) => e.kind(),
            ConnectError::Start(_) => io::ErrorKind::AddrNotAvailable,
            ConnectError::Failed(ended) => kind_of(*ended),
            #[cfg(feature = "quic")]
            ConnectError::Quic(ended) => crate::quic::kind_of(ended),
            ConnectError::NoneAnswered(all) => {
                all.attempts().first().map_or(io::ErrorKind::NotConnected, |(_, e)| e.kind())
            }
            ConnectError::TimedOut(_) => io::ErrorKind::TimedOut,
            ConnectError::Socket(e) => e.kind(),
            ConnectError::EndpointClosed => io::ErrorKind::NotConnected,
        }
    }
}

impl From<ConnectError> for io::Error {
    fn from(e: ConnectError) -> io::Error {
        io::Error::new(e.kind(), e)
    }
}

/// Of the only address its own failure.
impl From<NoneAnswered<ConnectError>> for ConnectError {
    fn from(none: NoneAnswered<ConnectError>) -> ConnectError {
        none.only().unwrap_or_else(|several| ConnectError::NoneAnswered(Box::new(several)))
    }
}

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The host refused.
    #[error(transparent)]
    Port(#[from] tack_tcp::ListenError),
    /// No socket could be made.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] io::Error),
    /// Over a TUN device there is no port to take by default.
    #[error("no port to listen on was given")]
    NoPort,
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
}

impl From<ListenError> for io::Error {
    fn from(e: ListenError) -> io::Error {
        let kind = match &e {
            ListenError::Port(_) => io::ErrorKind::AddrInUse,
            ListenError::Socket(e) => e.kind(),
            ListenError::NoPort => io::ErrorKind::InvalidInput,
            ListenError::EndpointClosed => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, e)
    }
}

/// The kind a kernel's socket would report.
fn kind_of(ended: ConnectionError) -> io::ErrorKind {
    match ended {
        ConnectionError::Refused => io::ErrorKind::ConnectionRefused,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::HandshakeTimedOut
        | ConnectionError::TimedOut
        | ConnectionError::KeepaliveTimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::ConnectionAborted,
    }
}

pub(crate) fn ended(e: ConnectionError) -> io::Error {
    io::Error::new(kind_of(e), e)
}

pub(crate) fn misused(e: UseError) -> io::Error {
    match e {
        UseError::Ended(ended) => io::Error::new(kind_of(ended), ended),
        UseError::SendingEnded => io::Error::new(io::ErrorKind::BrokenPipe, e),
        _ => io::Error::new(io::ErrorKind::NotConnected, e),
    }
}
