//! How connections and streams end, in h3's words.

use std::io;
use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use tack_net::quic::{ConnectionError, UseError};

/// `error` is how an operation on a connection failed.
pub(crate) fn of_connection(error: io::Error) -> ConnectionErrorIncoming {
    match inner::<ConnectionError>(&error) {
        Some(ConnectionError::ClosedByApplication { code, .. }) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: *code }
        }
        Some(ConnectionError::TimedOut) => ConnectionErrorIncoming::Timeout,
        _ => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// `error` is how an operation on a stream failed.
pub(crate) fn of_stream(error: io::Error) -> StreamErrorIncoming {
    match inner::<UseError>(&error) {
        Some(UseError::Reset(code) | UseError::Stopped(code)) => {
            StreamErrorIncoming::StreamTerminated { error_code: *code }
        }
        Some(_) => StreamErrorIncoming::Unknown(Box::new(error)),
        None => {
            let connection_error = of_connection(error);
            StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
        }
    }
}

fn inner<E: std::error::Error + 'static>(error: &io::Error) -> Option<&E> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_peer_s_code_is_told_as_it_came() {
        let closed = ConnectionError::ClosedByApplication { code: 0x10c, reason: Vec::new() };
        let closed = || io::Error::new(ErrorKind::ConnectionAborted, closed.clone());
        let ConnectionErrorIncoming::ApplicationClose { error_code: 0x10c } =
            of_connection(closed())
        else {
            panic!("it was closed by the application");
        };
        let StreamErrorIncoming::ConnectionErrorIncoming { .. } = of_stream(closed()) else {
            panic!("it was no stream's end");
        };
        for (error, code) in [(UseError::Reset(5), 5), (UseError::Stopped(6), 6)] {
            let error = io::Error::new(ErrorKind::BrokenPipe, error);
            let StreamErrorIncoming::StreamTerminated { error_code } = of_stream(error) else {
                panic!("the stream ended");
            };
            assert_eq!(error_code, code);
        }
    }

    #[test]
    fn silence_is_a_timeout() {
        let silent = io::Error::new(ErrorKind::TimedOut, ConnectionError::TimedOut);
        assert!(matches!(of_connection(silent), ConnectionErrorIncoming::Timeout));
    }
}
