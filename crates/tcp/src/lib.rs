//! A user-space, sans-IO TCP that speaks TACK and falls back to plain TCP.

pub mod config;
pub mod conn;
pub mod delayed_ack;
pub mod host;
mod listener;
pub mod recovery;
pub mod seq;
pub mod stats;

pub mod wire;

pub use config::{ConnConfig, Encapsulation, HostConfig, Keepalive, ListenConfig};
pub use conn::{ConnectionError, State, UseError};
pub use host::{
    ConnId, ConnectError, Ecn, Event, EventKind, Host, HostCounters, ListenError, Remote, Transmit,
};
pub use stats::{AckCounts, Counters, FallbackReason, Info, LimitedTime, Mode, OwdHistogram};
