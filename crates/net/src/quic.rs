//! QUIC-TACK on tokio: endpoint, connection, streams, datagrams.
//!
//! Everything a transport decides is decided by [`tack_quic`]; the socket, the clock and the task that
//! drives are those of TCP-TACK. Among ends of ours connections speak TACK; towards stock peers they are
//! plain QUIC, which asks for fewer acknowledgments where the peer knows how.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tack_net::quic::{Config, Endpoint, Listen};
//! use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let identity = ServerIdentity::generate(&["localhost"])?;
//! let tls = Acceptor::new(&identity)?.for_quic(&[b"shout"]);
//! let server = Endpoint::server("127.0.0.1:0".parse()?, Listen::new(tls, Config::default()))?;
//! let at = format!("localhost:{}", server.local_addr().port());
//! tokio::spawn(async move {
//!     let connection = server.accept().await.expect("nobody closes the endpoint");
//!     let (mut send, mut recv) = connection.accept_bi().await?;
//!     let mut request = String::new();
//!     recv.read_to_string(&mut request).await?;
//!     send.write_all(request.to_uppercase().as_bytes()).await?;
//!     send.shutdown().await?;
//!     connection.closed().await;
//!     std::io::Result::Ok(())
//! });
//!
//! let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
//! let client = Endpoint::client("0.0.0.0:0".parse()?)?;
//! let connection = client.connect(&at, &connector, &[b"shout"], Config::default()).await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.shutdown().await?;
//! let mut answer = String::new();
//! recv.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//! # Ok(())
//! # }
//! ```

mod connection;
mod endpoint;
mod error;
mod listener;
mod machine;
mod recv;
mod send;
mod stream;

pub(crate) use error::kind_of;

pub use connection::{Connection, ConnectionWatch};
pub use endpoint::{Builder, Endpoint};
pub use listener::Listener;
pub use recv::RecvStream;
pub use send::SendStream;
pub use stream::{GIVEN_UP, QuicStream};
pub use tack_quic::streams::{Dir, StreamId};
pub use tack_quic::wire::{self, Version};
pub use tack_quic::{
    AckReason, Config, ConnectionError, Counters, DropReason, Early, EndpointCounters, Info,
    Listen, LossReason, PacketKind, Seen, SeenPacket, UseError, What,
};
