//! Why a connection ended, and what a caller may be told.

use crate::wire::icmp::PathError;

/// Why a connection ended other than by both sides closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer answered the SYN with RST.
    #[error("connection refused")]
    Refused,
    /// The peer sent RST.
    #[error("connection reset by peer")]
    Reset,
    /// Nobody answered the SYN, or the handshake was not completed.
    #[error("handshake timed out")]
    HandshakeTimedOut,
    /// Data or FIN stayed unacknowledged too long.
    #[error("peer stopped acknowledging")]
    TimedOut,
    /// Keepalive probes stayed unanswered.
    #[error("peer stopped answering keepalive probes")]
    KeepaliveTimedOut,
    /// `abort` was called, or `close` with data unread.
    #[error("connection aborted locally")]
    Aborted,
    /// The network could not deliver what we sent: a SYN, or data until it timed out.
    #[error("{0}")]
    Unreachable(PathError),
}

/// Why an operation on a connection could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UseError {
    /// The id names no connection: it was closed.
    #[error("no such connection")]
    NoSuchConnection,
    /// Our stream was ended by `shutdown_write`.
    #[error("the sending side is shut down")]
    SendingEnded,
    /// The connection is over.
    #[error(transparent)]
    Ended(#[from] ConnectionError),
}
