//! An echo: a server that knows who it is, and a client that knows whom to believe.
//!
//! `cargo run -p tack-net --example echo`

use std::error::Error;

use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{SecureListener, SecureStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // `ServerIdentity::load_or_generate` keeps it for the next time.
    let identity = ServerIdentity::generate(&["localhost"])?;
    let listener = SecureListener::bind("127.0.0.1:0".parse()?, Acceptor::new(&identity)?)?;
    let host = format!("localhost:{}", listener.local_addr().port());
    tokio::spawn(serve(listener));

    // What the server's owner told us. `ClientTrust::FirstUse` remembers hosts as ssh does.
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let mut stream = SecureStream::connect(&host, &connector).await?;
    for word in ["one", "two", "three"] {
        stream.write_all(word.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = vec![0; word.len()];
        stream.read_exact(&mut answer).await?;
        println!("{word}, said {host}: {}", String::from_utf8(answer)?);
    }
    stream.shutdown().await?;
    Ok(())
}

async fn serve(listener: SecureListener) {
    while let Ok((stream, _peer)) = listener.accept().await {
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
    }
}
