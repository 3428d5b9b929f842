//! A thousand connections at once: two sockets, one task each.
//!
//! `cargo run --release -p tack-net --example thousand`

use std::error::Error;

use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{ConnConfig, Endpoint, HandshakeLimits, SecureListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const CONNECTIONS: u32 = 1_000;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Outcome<()> {
    let identity = ServerIdentity::generate(&["localhost"])?;
    // Buffers grow with use. These are what one connection of many may take at most.
    let modest = ConnConfig::default().with(|it| {
        it.send_buffer = 256 << 10;
        it.recv_buffer = 256 << 10;
    });
    let server = Endpoint::builder().conn(modest.clone()).bind("127.0.0.1:0".parse()?)?;
    // All of them come from one address here, which a server among strangers should not allow.
    let limits = HandshakeLimits::default().with(|it| {
        (it.at_once, it.of_one_peer) = (2_000, 2_000);
    });
    let listener = server.listen(Acceptor::new(&identity)?)?.limits(limits);
    tokio::spawn(serve(listener));

    let client = Endpoint::builder().conn(modest).bind("127.0.0.1:0".parse()?)?;
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let (host, mut asking) = (server.local_addr().to_string(), JoinSet::new());
    for number in 0..CONNECTIONS {
        let (client, connector, host) = (client.clone(), connector.clone(), host.clone());
        asking.spawn(async move {
            let mut stream = client.connect(&host, &connector).await?;
            stream.write_u32(number).await?;
            stream.flush().await?;
            let answer = stream.read_u32().await?;
            stream.shutdown().await?;
            Outcome::Ok(answer == number + 1)
        });
    }
    let (mut right, mut ended) = (0, 0);
    while let Some(answered) = asking.join_next().await {
        right += u32::from(answered??);
        ended += 1;
    }
    println!("{right} of {ended} connections had the right answer");
    assert_eq!((right, ended), (CONNECTIONS, CONNECTIONS));
    client.wait_idle().await;
    Ok(())
}

async fn serve(listener: SecureListener) {
    while let Ok((mut stream, _peer)) = listener.accept().await {
        tokio::spawn(async move {
            let number = stream.read_u32().await?;
            stream.write_u32(number + 1).await?;
            stream.shutdown().await
        });
    }
}
