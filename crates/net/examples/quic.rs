//! QUIC with TACK in it: a stream per question on one connection, whose client moves to another port half-way.
//!
//! `cargo run -p tack-net --features quic --example quic`

use std::error::Error;

use tack_net::quic::{Config, Connection, Endpoint, Listen};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Both ends must speak the same application protocol.
const PROTOCOL: &[u8] = b"square";

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let identity = ServerIdentity::generate(&["localhost"])?;
    let tls = Acceptor::new(&identity)?.for_quic(&[PROTOCOL]);
    let server = Endpoint::server("127.0.0.1:0".parse()?, Listen::new(tls, Config::default()))?;
    let host = format!("localhost:{}", server.local_addr().port());
    tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            tokio::spawn(serve(connection));
        }
    });

    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect(&host, &connector, &[PROTOCOL], Config::default()).await?;
    for number in 1..=6_u32 {
        if number == 4 {
            // As when a laptop leaves one network for another: the connection stays.
            client.rebind("127.0.0.1:0".parse()?)?;
        }
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_u32(number).await?;
        send.shutdown().await?;
        println!("from {}: {number}² = {}", connection.local_address(), recv.read_u32().await?);
    }
    let info = connection.info();
    println!("TACK: {}; {} acknowledgments sent", info.is_tack, info.counters.acks_sent);
    connection.close(0, b"that was all");
    client.wait_idle().await;
    Ok(())
}

async fn serve(connection: Connection) -> std::io::Result<()> {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let number = recv.read_u32().await?;
        send.write_u32(number * number).await?;
        send.shutdown().await?;
    }
    Ok(())
}
