//! A client of HTTP/3 over QUIC-TACK.
//!
//! `cargo run -p tack-h3 --example client -- https://HOST:PORT/PATH FINGERPRINT` writes what comes to standard
//! output; `examples/server.rs` prints the fingerprint.

use std::error::Error;
use std::io::Write;

use bytes::Buf;
use http::{Request, StatusCode, Uri};
use tack_h3::{Connection, PROTOCOL};
use tack_net::quic::{Config, Endpoint};
use tack_net::tls::{ClientTrust, Connector};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let uri: Uri = args.next().ok_or("which file?")?.parse()?;
    let fingerprint = args.next().ok_or("what is the server's fingerprint?")?.parse()?;
    let connector = Connector::new(ClientTrust::Pinned(fingerprint))?;
    fetch(&uri, &connector, &mut std::io::stdout()).await
}

/// Writes what is found at `uri` to `out`.
pub(crate) async fn fetch(uri: &Uri, connector: &Connector, out: &mut impl Write) -> Result<()> {
    let at = format!("{}:{}", uri.host().ok_or("which host?")?, uri.port_u16().unwrap_or(443));
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect(&at, connector, &[PROTOCOL], Config::default()).await?;
    let (mut driver, mut requests) = h3::client::new(Connection::new(connection)).await?;
    let driving =
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    let mut stream = requests.send_request(Request::get(uri).body(())?).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(response.status().to_string().into());
    }
    while let Some(mut piece) = stream.recv_data().await? {
        while piece.has_remaining() {
            let n = piece.chunk().len();
            out.write_all(piece.chunk())?;
            piece.advance(n);
        }
    }
    // Who asks no more closes the connection, and the server hears of it.
    drop((stream, requests));
    driving.await?;
    endpoint.wait_idle().await;
    Ok(())
}
