//! Async TCP-TACK on tokio: listener, stream, TLS.
