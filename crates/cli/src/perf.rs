//! `tack perf`: how much goes through, measured the way iperf3 does, with what it cost in
//! acknowledgments.
//!
//! # Protocol, version 2
//!
//! Every connection opens with `tackperf` and a byte: 0 is the control connection, 1 a stream,
//! followed by the test's cookie (16 bytes) and the stream's number (u16). On the control
//! connection each side sends messages, a length (u32) and that much JSON ([`control::Message`]):
//!
//! ```text
//! client                                 server
//!   open {params}                ->
//!                                <-        accepted {cookie}  |  refused {reason}
//!   (its streams, with the cookie) ->
//!                                <-        start
//!   end                          ->        at the deadline, or when all bytes are through
//!   results {…}                  ->
//!                                <-        results {…}
//!                                <-        output {…}   where the client asked for it
//! ```
//!
//! Whoever is interrupted by its user says `end {interrupted}` before that and then its results;
//! the other answers with its own, whatever is missing of the test.
//!
//! A stream carries bytes in one direction only: streams `0..n` from the client, or from the
//! server with `-R`; with `--bidir` streams `n..2n` come from the server besides.

pub mod affinity;
#[cfg(unix)]
pub mod background;
pub mod client;
pub mod control;
pub mod cpu;
pub mod ending;
pub mod engine;
pub mod json;
pub mod out;
pub mod pace;
pub mod params;
pub mod pump;
pub mod report;
pub mod server;
pub mod text;

use std::io;

use crate::exit::{ExitCode, Failure};

/// The default port: iperf3's.
pub const DEFAULT_PORT: u16 = 5201;

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// A connection could not be made or broke.
    #[error("{during}: {source}")]
    Connection {
        /// What was under way.
        during: &'static str,
        /// Why.
        source: io::Error,
    },
    /// No connection to the server.
    #[error("{0}")]
    Dial(Failure),
    /// The server doesn't want this test.
    #[error("the server refused the test: {0}")]
    Refused(String),
    /// The other side is something else, or breaks the protocol.
    #[error("the peer does not speak tack's measuring protocol (is it `tack perf -s`?): {0}")]
    Protocol(&'static str),
    /// Too long a silence.
    #[error("nothing moved for {0} s; giving up")]
    Stalled(u64),
    /// Our user wants no more, and nothing is measured yet.
    #[error("interrupted before the test began")]
    Interrupted,
    /// Parameters out of range.
    #[error("{0}")]
    Params(#[from] params::ParamsError),
}

impl PerfError {
    pub(crate) fn connection(during: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Connection { during, source }
    }
}

impl From<PerfError> for Failure {
    fn from(error: PerfError) -> Self {
        let code = match error {
            PerfError::Dial(failure) => return failure,
            PerfError::Connection { .. } | PerfError::Stalled(_) => ExitCode::Failed,
            PerfError::Refused(_) => ExitCode::Refused,
            PerfError::Protocol(_) => ExitCode::Integrity,
            PerfError::Params(_) => ExitCode::Usage,
            PerfError::Interrupted => ExitCode::Interrupted,
        };
        Self::new(code, error.to_string())
    }
}
