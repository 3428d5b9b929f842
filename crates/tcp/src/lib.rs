//! A user-space, sans-IO TCP that speaks TACK and falls back to plain TCP.
//!
//! A [`Host`] holds any number of connections and no clock, socket, thread or randomness of its
//! own: datagrams and a time go in; bursts, events and a deadline come out. Segments travel as
//! whole IP packets, or as the payload of UDP datagrams ([`Encapsulation`]).
//!
//! ```text
//!              datagrams                                   bytes
//! socket ---> Host::handle ----> Connection <------- Host::write, read ---- application
//!        <--- Host::poll_transmit    |         ----> Host::poll_event --->
//! clock  ---> Host::handle_timeout   |
//!        <--- Host::deadline         +-- tack: when to acknowledge, what is lost
//!                                    +-- tack_cc: window and rate
//!                                    +-- recovery, tack_strategies: the same for plain TCP
//! ```
//!
//! The rule of the interface: one mutation, then poll until there is nothing more. Whoever owns the
//! socket does this:
//!
//! ```
//! use std::collections::VecDeque;
//! use tack_tcp::{ConnConfig, Ecn, Event, EventKind, Host, HostConfig, ListenConfig};
//! use tack_units::Instant;
//!
//! let mut now = Instant::ZERO;
//! let (a, b) = (([10, 0, 0, 1], 7000).into(), ([10, 0, 0, 2], 7000).into());
//! let mut client = Host::new(HostConfig::default(), [1; 32], now);
//! let mut server = Host::new(HostConfig::default(), [2; 32], now);
//! server.listen(7000, ListenConfig::default()).unwrap();
//! let conn = client.connect(b, ConnConfig::default(), now).unwrap();
//! client.write(conn, b"hello", now).unwrap();
//! client.shutdown_write(conn, now).unwrap();
//!
//! let mut received = Vec::new();
//! while received.len() < 5 {
//!     // Drain both hosts onto a wire that takes 10 ms.
//!     let mut wire = VecDeque::new();
//!     for (host, from) in [(&mut client, a), (&mut server, b)] {
//!         let mut burst = Vec::new();
//!         while let Some(transmit) = host.poll_transmit(&mut burst, 65_000, now) {
//!             wire.push_back((transmit, std::mem::take(&mut burst), from));
//!         }
//!     }
//!     now += core::time::Duration::from_millis(10);
//!     for (transmit, bytes, from) in wire {
//!         let to = if transmit.to == a { &mut client } else { &mut server };
//!         to.handle(from, &bytes, transmit.segment_size, Ecn::NotEct, now);
//!     }
//!     for host in [&mut client, &mut server] {
//!         if host.deadline().is_some_and(|at| at <= now) {
//!             host.handle_timeout(now);
//!         }
//!     }
//!     // Tell the applications.
//!     while let Some(Event { conn, kind }) = server.poll_event() {
//!         if kind == EventKind::Readable {
//!             let mut buffer = [0; 100];
//!             while let Ok(Some(n @ 1..)) = server.read(conn, &mut buffer, now) {
//!                 received.extend_from_slice(&buffer[..n]);
//!             }
//!         }
//!     }
//!     while client.poll_event().is_some() {}
//! }
//! assert_eq!(received, b"hello");
//! ```
//!
//! Over IP the host is an end of the network itself: [`Host::handle_packet`] takes packets and
//! super-packets from a device, [`IpConfig`] says what the device can do, ICMP is answered and
//! heeded, and how large packets may be is found out with routers' help or without it.
//!
//! Where to look: [`conn`] for the states and how a segment is taken, [`host`] for
//! demultiplexing, listeners and TIME-WAIT, [`wire`] for formats, [`recovery`] for plain TCP,
//! [`tack_strategies`] for the acknowledgment strategies, [`config`] for every knob and its reason,
//! [`stats`] for what can be seen.

pub mod config;
pub mod conn;
pub mod host;
pub mod recovery;
pub mod seq;
mod state;
pub mod stats;
pub mod wire;

pub use config::{ConnConfig, Encapsulation, HostConfig, IpConfig, Keepalive, ListenConfig};
pub use conn::{ConnectionError, State, UseError};
pub use host::{
    ConnId, ConnectError, Ecn, Event, EventKind, Host, HostCounters, IcmpCounters, Incoming,
    IpCounters, ListenError, Offload, Remote, Transmit,
};
pub use stats::{
    AckCounts, Counters, FallbackReason, Glance, Info, LimitedTime, Mode, OwdHistogram,
};
pub use tack_strategies::{AckStrategy, PathFacts, UnknownStrategy};
pub use wire::icmp::PathError;
