//! How a connection and its streams end, as `std::io` says it.

use std::io;

use tack_quic::{ConnId, ConnectionError, Endpoint, UseError};

use crate::shared::State;

/// The kind a kernel's socket would report.
pub(crate) fn kind_of(ended: &ConnectionError) -> io::ErrorKind {
    match ended {
        ConnectionError::Closed => io::ErrorKind::NotConnected,
        ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => io::ErrorKind::TimedOut,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        _ => io::ErrorKind::ConnectionAborted,
    }
}

pub(super) fn ended(error: ConnectionError) -> io::Error {
    io::Error::new(kind_of(&error), error)
}

/// How a connection ended; one that nobody knows was closed here.
pub(super) fn closed(state: &State<Endpoint>, id: ConnId) -> Option<ConnectionError> {
    match state.host.peek(id) {
        Some(conn) => conn.closed().cloned(),
        None => Some(ConnectionError::Closed),
    }
}

/// Why a stream cannot be used: the connection's end goes before its own.
pub(super) fn refused(state: &State<Endpoint>, id: ConnId, error: UseError) -> io::Error {
    let kind = match error {
        UseError::Reset(_) => io::ErrorKind::ConnectionReset,
        UseError::WrongWay | UseError::Datagram(_) => io::ErrorKind::InvalidInput,
        UseError::Limit => io::ErrorKind::WouldBlock,
        UseError::Closed => return ended(closed(state, id).unwrap_or(ConnectionError::Closed)),
        _ => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, error)
}
