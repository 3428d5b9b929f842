//! A file: sent, and known to have arrived before the program ends.
//!
//! `cargo run -p tack-net --example file`

use std::error::Error;
use std::path::Path;

use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{SecureListener, SecureStream};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let identity = ServerIdentity::generate(&["localhost"])?;
    let listener = SecureListener::bind("127.0.0.1:0".parse()?, Acceptor::new(&identity)?)?;
    let host = format!("localhost:{}", listener.local_addr().port());
    let (inbox, source) =
        (tempfile::tempdir()?, Path::new(file!()).file_name().unwrap_or_default());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(source);
    let copy = inbox.path().join("received");

    let receiving = tokio::spawn(receive(listener, copy.clone()));
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let sent = send(SecureStream::connect(&host, &connector).await?, &source).await?;
    receiving.await??;
    assert_eq!(fs::read(&copy).await?, fs::read(&source).await?);
    println!("{sent} bytes of {} arrived", source.display());
    Ok(())
}

async fn send(mut stream: SecureStream, source: &Path) -> std::io::Result<u64> {
    let sent = copy(&mut File::open(source).await?, &mut stream).await?;
    stream.shutdown().await?;
    // The transport lives in this process: who leaves now may take the last bytes along.
    stream.read_to_end(&mut Vec::new()).await?;
    stream.get_ref().finished().await?;
    Ok(sent)
}

async fn receive(listener: SecureListener, target: impl AsRef<Path>) -> std::io::Result<()> {
    let (mut stream, _peer) = listener.accept().await?;
    let mut file = File::create(target).await?;
    // Ends with an error where the sender broke off: only a whole file ends in order.
    copy(&mut stream, &mut file).await?;
    file.sync_all().await?;
    stream.shutdown().await?;
    stream.get_ref().finished().await
}
