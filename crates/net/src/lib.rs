//! Async TCP-TACK on tokio: endpoint, listener, stream, encrypted unless you say `plain`.
//!
//! A thin shell: everything a transport decides is decided by [`tack_tcp`]; here are the socket,
//! the clock, the wake-ups and the locks. An [`Endpoint`] is one UDP socket, or on Linux one TUN
//! device, with any number of connections behind it; a stream is used like a `TcpStream`.
//!
//! ```
//! # #[cfg(not(feature = "tls"))] fn main() {}
//! # #[cfg(feature = "tls")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
//! use tack_net::{SecureListener, SecureStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let identity = ServerIdentity::generate(&["localhost"])?;
//! let listener = SecureListener::bind("127.0.0.1:0".parse()?, Acceptor::new(&identity)?)?;
//! let port = listener.local_addr().port();
//! let server = tokio::spawn(async move {
//!     let (mut stream, _peer) = listener.accept().await?;
//!     let mut request = String::new();
//!     stream.read_to_string(&mut request).await?;
//!     stream.write_all(request.to_uppercase().as_bytes()).await?;
//!     stream.shutdown().await?;
//!     stream.get_ref().finished().await
//! });
//!
//! let trust = ClientTrust::Pinned(identity.fingerprint());
//! let connector = Connector::new(trust)?;
//! let mut stream = SecureStream::connect(&format!("localhost:{port}"), &connector).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//! server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Whoever wants it without encryption says so: [`TackStream::connect_plain`],
//! [`TackListener::bind_plain`], [`Endpoint::connect_plain`], [`Endpoint::listen_plain`]. What serves
//! many connections, or wants buffers or a controller of its own, begins with an [`Endpoint::builder`].
//! `examples/` has an echo, a file, statistics, a thousand connections and a controller.
//!
//! # Features
//!
//! On by default: `tls`, everything encrypted, which takes rustls; `tun`, endpoints on a TUN device, on
//! Linux. `quic` is not: QUIC-TACK on the same driver, module `quic`.
//!
//! # What differs from a kernel's TCP
//!
//! The transport lives in the process. When the process ends, what it wrote and the peer has not
//! acknowledged is lost: wait for [`TackStream::finished`] or [`Endpoint::wait_idle`] first.
//!
//! # Where the work is done
//!
//! Reads and writes drive the transport in place, under the endpoint's lock; a driver task per
//! endpoint does what timers and arrivals ask for while no application task is running. In a
//! current-thread runtime nothing ever crosses a thread, which is the fastest way to serve one
//! connection. Timers come from [`tack_device::Timer`], because those of the runtime are too coarse
//! to pace with.

mod alarm;
mod arrivals;
pub mod budget;
mod builder;
mod conn;
mod dial;
mod driver;
mod endpoint;
mod error;
mod handle;
mod host;
mod host_port;
mod link;
mod listener;
#[cfg(feature = "tls")]
mod lobby;
mod passed;
#[cfg(feature = "quic")]
pub mod quic;
pub mod race;
#[cfg(feature = "tls")]
mod secure;
mod shared;
mod stream;
mod tap;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(all(target_os = "linux", feature = "tun"))]
pub mod tun;
mod waiters;
mod watch;

pub use builder::Builder;
pub use endpoint::Endpoint;
pub use error::{ConnectError, ListenError};
pub use host_port::{HostError, HostPort};
pub use listener::TackListener;
#[cfg(feature = "tls")]
pub use lobby::HandshakeLimits;
pub use passed::IoCounters;
#[cfg(feature = "tls")]
pub use secure::{SecureListener, SecureStream};
pub use stream::{OwnedReadHalf, OwnedWriteHalf, StreamWatch, TackStream};
pub use tack_cc as cc;
pub use tack_device::SocketConfig;
#[cfg(all(target_os = "linux", feature = "tun"))]
pub use tack_device::{Prefix, Tun, TunError};
pub use tack_tcp::seq::SeqNum;
pub use tack_tcp::wire;
pub use tack_tcp::{
    AckCounts, AckStrategy, ConnConfig, ConnectionError, Counters, FallbackReason, HostConfig,
    Info as TackInfo, Keepalive, LimitedTime, ListenConfig, Mode, OwdHistogram, PathFacts, Remote,
    State,
};
pub use tack_transport::Figures;
pub use tack_units as units;
pub use tap::{Direction, Gauge, Reading, Seen, SharedTap, Tap};
#[cfg(all(target_os = "linux", feature = "tun"))]
pub use tun::{TunConfig, TunConfigError};
