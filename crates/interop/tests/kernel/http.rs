//! curl against a server of ours, and a client of ours against nginx.

use std::fs;
use std::io;
use std::process::Stdio;

use tack_interop::world::within;
use tack_interop::{Family, Program, Received, Setup, program, stream};
use tack_link::loss::LossConfig;
use tack_link::wired::DirectionConfig;
use tack_net::{ConnConfig, TackListener, TackStream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::task::JoinSet;

use crate::iperf::until_it_listens;
use crate::support::{LIMIT, way};

type Stream = BufStream<TackStream>;

/// The head of a request or an answer: its first line, and how much follows it.
async fn head(stream: &mut Stream) -> io::Result<Option<(String, u64, bool)>> {
    let (mut first, mut length, mut waits) = (String::new(), 0, false);
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            None => return Ok(Some((first.trim_end().to_owned(), length, waits))),
            Some(("content-length", n)) => length = n.parse().expect("a number"),
            Some(("expect", _)) => waits = true,
            Some(_) => {}
        }
    }
}

/// HTTP/1.1, as much as curl needs: `GET /SEED/BYTES` and `PUT`, whose answer is the hash.
async fn serve_one(stream: TackStream) -> io::Result<u32> {
    let (mut stream, mut requests) = (BufStream::new(stream), 0);
    while let Some((request, length, waits)) = head(&mut stream).await? {
        requests += 1;
        if waits {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            stream.flush().await?;
        }
        let got = stream::receive_at_most(&mut stream, length).await?;
        let mut parts = request.split([' ', '/']).filter(|part| !part.is_empty());
        let method = parts.next().unwrap_or_default();
        let mut number = || parts.next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let (seed, bytes) = (number(), number());
        let answer = if method == "PUT" { stream::hex(&got.sha256) } else { String::new() };
        let length = bytes + answer.len() as u64;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
        stream.write_all(head.as_bytes()).await?;
        stream::send(&mut stream, seed, bytes).await?;
        stream.flush().await?;
    }
    stream.shutdown().await?;
    Ok(requests)
}

async fn serve(listener: TackListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve_one(stream));
    }
}

fn host(ip: std::net::IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

fn lossy() -> DirectionConfig {
    DirectionConfig { loss: LossConfig::Bernoulli(0.002), ..way(200, 5) }
}

#[tokio::test]
async fn curl_downloads_from_our_server_and_uploads_to_it() {
    if !program::is_installed("curl") {
        return;
    }
    let Some(world) = Setup::over(lossy()).start() else { return };
    let server = tokio::spawn(serve(world.listen(80, ConnConfig::default())));
    for family in Family::BOTH {
        let base = format!("http://{}", host(world.ours(family, 80).ip()));
        let expected = stream::of(&stream::Source::new(31, 10 << 20).bytes());
        let url = format!("{base}/31/{}", 10 << 20);
        let args = ["-sS", "--fail", "--noproxy", "*", &url];
        let curl = Program::start(world.far(), "curl", &args, Stdio::null()).unwrap();
        let outcome = curl.wait(LIMIT).await.unwrap().expect_success("curl");
        assert_eq!(stream::of(&outcome.stdout), expected);

        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), stream::Source::new(32, 7 << 20).bytes()).unwrap();
        let path = file.path().display().to_string();
        // The second upload goes over the first one's connection.
        let url = format!("{base}/0/0");
        let args = ["-sS", "--fail", "--noproxy", "*", "-T", &path, &url, "-T", &path, &url];
        let curl = Program::start(world.far(), "curl", &args, Stdio::null()).unwrap();
        let outcome = curl.wait(LIMIT).await.unwrap().expect_success("curl");
        let hash = stream::hex(&stream::of(&stream::Source::new(32, 7 << 20).bytes()).sha256);
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), format!("{hash}{hash}"));
    }
    server.abort();
}

async fn get(stream: TackStream, path: &str) -> io::Result<(Received, Stream)> {
    let mut stream = BufStream::new(stream);
    let request = format!("GET {path} HTTP/1.1\r\nHost: far\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let (status, length, _) = head(&mut stream).await?.expect("an answer");
    assert_eq!(status, "HTTP/1.1 200 OK");
    Ok((stream::receive_at_most(&mut stream, length).await?, stream))
}

const NGINX: &str = "daemon off; master_process off; error_log stderr; pid DIR/pid; user root root;
events { worker_connections 256; }
http {
  access_log off; root DIR; keepalive_timeout 60s;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  server { listen 80; listen [::]:80 ipv6only=on; }
}
";

#[tokio::test]
async fn our_client_fetches_from_nginx_over_one_connection_and_over_many() {
    if !program::is_installed("nginx") {
        return;
    }
    let Some(world) = Setup::over(lossy()).start() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("large"), stream::Source::new(33, 10 << 20).bytes()).unwrap();
    fs::write(dir.path().join("small"), stream::Source::new(34, 5_000).bytes()).unwrap();
    let config = NGINX.replace("DIR", &dir.path().display().to_string());
    fs::write(dir.path().join("config"), config).unwrap();
    let config = dir.path().join("config").display().to_string();
    let mut nginx = Program::start(world.far(), "nginx", &["-c", &config], Stdio::null()).unwrap();
    until_it_listens(&world, &mut nginx, Family::V4, 80).await;
    let large = stream::of(&stream::Source::new(33, 10 << 20).bytes());
    let small = stream::of(&stream::Source::new(34, 5_000).bytes());
    for family in Family::BOTH {
        let to = world.kernel(family, 80);
        let fetching = async {
            let stream = world.endpoint.connect_plain(to).await.unwrap();
            let (got, stream) = get(stream, "/large").await.unwrap();
            assert_eq!(got, large);
            let (got, mut stream) = get(stream.into_inner(), "/small").await.unwrap();
            assert_eq!(got, small);
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "nginx ends its half, too");
        };
        within(LIMIT, "two files", fetching).await;
        let mut many = JoinSet::new();
        for _ in 0..20 {
            let (endpoint, small) = (world.endpoint.clone(), small.clone());
            many.spawn(async move {
                let stream = endpoint.connect_plain(to).await.unwrap();
                assert_eq!(get(stream, "/small").await.unwrap().0, small);
            });
        }
        within(LIMIT, "twenty files", many.join_all()).await;
    }
}
