//! QUIC on loopback: streams, datagrams, ends, moved clients, stock peers, strangers.
#![cfg(feature = "quic")]

mod dropped;
mod early;
mod ends;
#[cfg(target_os = "linux")]
mod narrow;
mod stock;
mod strangers;
mod streams;

use std::net::SocketAddr;
use std::time::Duration;

use tack_net::quic::{Config, Connection, Endpoint, Listen};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PROTOCOL: &[u8] = b"test";

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 255 + i / 65_537) as u8).collect()
}

/// Fails rather than hangs.
async fn soon<F: Future>(f: F) -> F::Output {
    timeout(Duration::from_secs(30), f).await.expect("took too long")
}

/// A server, and how to connect to it.
struct Server {
    host: String,
    endpoint: Endpoint,
    connector: Connector,
}

impl Server {
    fn new(config: Config) -> Server {
        let identity = ServerIdentity::generate(&["localhost"]).unwrap();
        let tls = Acceptor::new(&identity).unwrap().for_quic(&[PROTOCOL]);
        let endpoint = Endpoint::server(loopback(), Listen::new(tls, config)).unwrap();
        let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
        let host = format!("localhost:{}", endpoint.local_addr().port());
        Server { host, endpoint, connector }
    }

    async fn connect(&self, client: &Endpoint) -> Connection {
        let connecting =
            client.connect(&self.host, &self.connector, &[PROTOCOL], Config::default());
        soon(connecting).await.unwrap()
    }

    /// Both ends of a connection.
    async fn pair(&self) -> (Connection, Connection) {
        let client = Endpoint::client(loopback()).unwrap();
        let (near, far) = tokio::join!(self.connect(&client), soon(self.endpoint.accept()));
        (near, far.unwrap())
    }
}

async fn pair() -> (Connection, Connection) {
    Server::new(Config::default()).pair().await
}

/// Sends back whatever comes on any stream.
async fn echo(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                let _ = send.shutdown().await;
            }
        });
    }
}

/// What comes back of `data`.
async fn echoed(connection: &Connection, data: Vec<u8>) -> Vec<u8> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let writing = tokio::spawn(async move {
        send.write_all(&data).await.unwrap();
        send.shutdown().await.unwrap();
        send.finished().await.unwrap();
    });
    let mut back = Vec::new();
    recv.read_to_end(&mut back).await.unwrap();
    writing.await.unwrap();
    back
}
