//! HTTP/3 over QUIC-TACK: the traits of the crate [`h3`] for [`tack_net::quic`].
//!
//! A [`Connection`] is what `h3::client` and `h3::server` want of a transport. Everything of HTTP, its frames
//! and its header compression, is decided there; here bytes are handed on, and ends are told in its words.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bytes::{Buf, Bytes};
//! use tack_h3::{Connection, PROTOCOL};
//! use tack_net::quic::{Config, Endpoint, Listen};
//! use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
//!
//! let identity = ServerIdentity::generate(&["localhost"])?;
//! let tls = Acceptor::new(&identity)?.for_quic(&[PROTOCOL]);
//! let server = Endpoint::server("127.0.0.1:0".parse()?, Listen::new(tls, Config::default()))?;
//! let at = format!("localhost:{}", server.local_addr().port());
//! tokio::spawn(async move {
//!     let connection = server.accept().await.expect("nobody closes the endpoint");
//!     let mut http = h3::server::Connection::<_, Bytes>::new(Connection::new(connection)).await?;
//!     while let Some(resolver) = http.accept().await? {
//!         let (request, mut stream) = resolver.resolve_request().await?;
//!         stream.send_response(http::Response::new(())).await?;
//!         stream.send_data(Bytes::from(format!("this is {}", request.uri().path()))).await?;
//!         stream.finish().await?;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
//! let client = Endpoint::client("0.0.0.0:0".parse()?)?;
//! let connection = client.connect(&at, &connector, &[PROTOCOL], Config::default()).await?;
//! let (mut driver, mut requests) = h3::client::new(Connection::new(connection)).await?;
//! tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
//! let request = http::Request::get(format!("https://{at}/hello")).body(())?;
//! let mut stream = requests.send_request(request).await?;
//! stream.finish().await?;
//! assert_eq!(stream.recv_response().await?.status(), http::StatusCode::OK);
//! let mut body = Vec::new();
//! while let Some(mut piece) = stream.recv_data().await? {
//!     body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
//! }
//! assert_eq!(body, b"this is /hello");
//! # Ok(())
//! # }
//! ```

mod connection;
mod error;
mod recv;
mod send;
mod stream;

pub use connection::{Connection, OpenStreams};
pub use recv::RecvStream;
pub use send::SendStream;
pub use stream::BidiStream;

/// What endpoints of HTTP/3 agree to speak [RFC 9114 §3.1].
pub const PROTOCOL: &[u8] = b"h3";
