//! A file server over HTTP/3 and QUIC-TACK.
//!
//! `cargo run -p tack-h3 --example server -- DIRECTORY [ADDRESS:PORT]` prints what the client is to believe.

use std::error::Error;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use h3::server::RequestResolver;
use http::{Method, Response, StatusCode};
use tack_h3::{Connection, PROTOCOL};
use tack_net::quic::{Config, Endpoint, Listen};
use tack_net::tls::{Acceptor, ServerIdentity};
use tokio::io::AsyncReadExt;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of a file that are handed on at a time.
const PIECE_BYTES: usize = 64 << 10;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let root = PathBuf::from(args.next().ok_or("which directory?")?);
    let at = args.next().unwrap_or_else(|| "[::]:4433".to_owned());
    // `ServerIdentity::load_or_generate` keeps it for the next time.
    let identity = ServerIdentity::generate(&["localhost"])?;
    let tls = Acceptor::new(&identity)?.for_quic(&[PROTOCOL]);
    let endpoint = Endpoint::server(at.parse()?, Listen::new(tls, Config::default()))?;
    println!("https://localhost:{} {}", endpoint.local_addr().port(), identity.fingerprint());
    serve(endpoint, root).await
}

/// Serves files below `root` until the endpoint is closed.
pub(crate) async fn serve(endpoint: Endpoint, root: PathBuf) -> Result<()> {
    while let Some(connection) = endpoint.accept().await {
        let (peer, root) = (connection.remote_address(), root.clone());
        tokio::spawn(async move {
            if let Err(error) = converse(Connection::new(connection), &root).await {
                println!("{peer}: {error}");
            }
        });
    }
    Ok(())
}

async fn converse(connection: Connection, root: &Path) -> Result<()> {
    let mut http = h3::server::Connection::new(connection).await?;
    // The transport bounds how many requests there are at a time.
    while let Some(resolver) = http.accept().await? {
        let root = root.to_owned();
        tokio::spawn(async move {
            if let Err(error) = answer(resolver, &root).await {
                println!("a request failed: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(resolver: RequestResolver<Connection, Bytes>, root: &Path) -> Result<()> {
    let (request, mut stream) = resolver.resolve_request().await?;
    let refused = |status| Response::builder().status(status).body(());
    if request.method() != Method::GET {
        stream.send_response(refused(StatusCode::METHOD_NOT_ALLOWED)?).await?;
        return Ok(stream.finish().await?);
    }
    let file = match below(root, request.uri().path()) {
        Some(path) => tokio::fs::File::open(path).await.ok(),
        None => None,
    };
    let Some(mut file) = file else {
        stream.send_response(refused(StatusCode::NOT_FOUND)?).await?;
        return Ok(stream.finish().await?);
    };
    stream.send_response(Response::new(())).await?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).await? {
            0 => return Ok(stream.finish().await?),
            n => stream.send_data(Bytes::copy_from_slice(&piece[..n])).await?,
        }
    }
}

/// Where a request's path leads, if that is below `root`.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then(|| root.join(path))
}
