//! Async TCP-TACK on tokio: endpoint, listener, stream, TLS.
//!
//! A thin shell: everything a transport decides is decided by [`tack_tcp`]; here are the socket,
//! the clock, the wake-ups and the locks. An [`Endpoint`] is one UDP socket, or on Linux one TUN
//! device, with any number of connections behind it; a [`TackStream`] is used like a `TcpStream`.
//!
//! ```
//! use tack_net::{Endpoint, TackListener};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = TackListener::bind("127.0.0.1:0".parse()?)?;
//! let address = listener.local_addr();
//! let server = tokio::spawn(async move {
//!     let (mut stream, _peer) = listener.accept().await?;
//!     let mut request = String::new();
//!     stream.read_to_string(&mut request).await?;
//!     stream.write_all(request.to_uppercase().as_bytes()).await?;
//!     stream.shutdown().await?;
//!     stream.finished().await
//! });
//!
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let mut stream = client.connect(address).await?;
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

mod driver;
mod endpoint;
mod error;
mod link;
mod listener;
mod shared;
mod split;
mod stream;
pub mod tls;
#[cfg(target_os = "linux")]
pub mod tun;
mod waiters;

pub use endpoint::{Builder, Endpoint, IoCounters};
pub use error::{ConnectError, ListenError};
pub use listener::TackListener;
pub use split::{OwnedReadHalf, OwnedWriteHalf};
pub use stream::TackStream;
pub use tack_device::SocketConfig;
#[cfg(target_os = "linux")]
pub use tack_device::{Prefix, Tun, TunError};
pub use tack_tcp::wire;
pub use tack_tcp::{
    AckCounts, AckStrategy, ConnConfig, ConnectionError, Counters, FallbackReason, HostConfig,
    Info as TackInfo, Keepalive, LimitedTime, ListenConfig, Mode, OwdHistogram, PathFacts, Remote,
    State,
};
#[cfg(target_os = "linux")]
pub use tun::{TunConfig, TunConfigError};
