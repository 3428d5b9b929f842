//! What all programs around a stack have in common: a command line, and what server and client say.
//!
//! ```text
//! PROGRAM server ADDRESS PORT --case NAME --protocol hq|h3 --root DIR --cert FILE --key FILE
//! PROGRAM client ADDRESS PORT --case NAME --protocol hq|h3 --out DIR --ca FILE --files NAME...
//! PROGRAM version
//! ```
//!
//! Over `hq-interop` a request is `GET /name` and a line's end on a stream of its own, and the answer is the
//! file. Whatever else a client says is said back to it. `GET /close` has the connection closed, with code 9.
//! What no file shows is a line on standard output: `resumed`, `echoed N`, `datagrams N`, `closed CODE`,
//! `reset`, `negotiated`, `moved`, `updated`, `early`, `early taken`, `early refused`, `heard early`.

#[cfg(feature = "h3")]
pub mod http;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// The protocol of small files, and HTTP/3.
pub const HQ: &[u8] = b"hq-interop";
pub const H3: &[u8] = b"h3";
/// Whom certificates name.
pub const NAME: &str = "localhost";
/// What a server closes a connection with that is asked to, and a client that is done.
pub const CLOSE: u32 = 9;
pub const DONE: u32 = 7;
/// Datagrams that go there and back.
pub const DATAGRAMS: usize = 20;
/// Windows, where a stack wants to be told.
pub const WINDOW: u32 = 4 << 20;
/// Bytes that go there and back on a stream.
const ECHO: usize = 1_500_000;
/// No request is longer.
pub const MAX_REQUEST: usize = 4 << 20;
/// Streams at a time.
pub const PARALLEL: usize = 50;

/// The command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub is_server: bool,
    pub at: SocketAddr,
    pub case: String,
    /// HTTP/3 in place of `hq-interop`.
    pub h3: bool,
    pub root: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
    pub out: PathBuf,
    pub ca: PathBuf,
    pub files: Vec<String>,
}

impl Settings {
    /// Reads the command line. `None`: the version is asked for.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Settings>> {
        let mut args = args.into_iter();
        let role = args.next().context("server, client or version?")?;
        if role == "version" {
            return Ok(None);
        }
        let address: IpAddr = args.next().context("an address is missing")?.parse()?;
        let port = args.next().context("a port is missing")?.parse()?;
        let mut settings = Settings {
            is_server: role == "server",
            at: SocketAddr::new(address, port),
            case: String::new(),
            h3: false,
            root: PathBuf::new(),
            cert: PathBuf::new(),
            key: PathBuf::new(),
            out: PathBuf::new(),
            ca: PathBuf::new(),
            files: Vec::new(),
        };
        while let Some(option) = args.next() {
            if option == "--files" {
                settings.files = args.by_ref().collect();
                break;
            }
            let value = args.next().with_context(|| format!("{option} lacks a value"))?;
            match option.as_str() {
                "--case" => settings.case = value,
                "--protocol" => settings.h3 = value == "h3",
                "--root" => settings.root = value.into(),
                "--cert" => settings.cert = value.into(),
                "--key" => settings.key = value.into(),
                "--out" => settings.out = value.into(),
                "--ca" => settings.ca = value.into(),
                _ => bail!("unknown option {option}"),
            }
        }
        Ok(Some(settings))
    }

    pub fn is(&self, case: &str) -> bool {
        self.case == case
    }

    pub fn protocol(&self) -> &'static [u8] {
        if self.h3 { H3 } else { HQ }
    }

    /// An address to connect from.
    pub fn any(&self) -> SocketAddr {
        if self.at.is_ipv4() {
            ([127, 0, 0, 1], 0).into()
        } else {
            (std::net::Ipv6Addr::LOCALHOST, 0).into()
        }
    }

    /// Connections that a client makes one after the other.
    pub fn connections(&self) -> usize {
        if has_second(&self.case) { 2 } else { 1 }
    }

    /// The second connection says its requests before its handshake is done (0-RTT).
    pub fn is_early(&self) -> bool {
        is_early(&self.case)
    }

    /// The answer to a request; `None`: the connection is to be closed.
    pub fn answer(&self, request: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(name) = request.strip_prefix(b"GET /") else { return Ok(Some(request.to_vec())) };
        let name = std::str::from_utf8(name)?.trim_end();
        if name == "close" { Ok(None) } else { self.file(name).map(Some) }
    }

    /// A file of the server's.
    pub fn file(&self, name: &str) -> Result<Vec<u8>> {
        let name = Path::new(name).file_name().with_context(|| format!("{name:?} is no file"))?;
        Ok(std::fs::read(self.root.join(name))?)
    }

    /// Keeps what came.
    pub fn store(&self, name: &str, body: &[u8]) -> Result<()> {
        Ok(std::fs::write(self.out.join(name), body)?)
    }
}

/// Whether the second connection says its requests before its handshake is done.
pub fn is_early(case: &str) -> bool {
    matches!(case, "zerortt" | "zerorttrefused")
}

/// Whether a second connection is made after the first.
pub fn has_second(case: &str) -> bool {
    is_early(case) || matches!(case, "resumption" | "compatible")
}

/// The request for a file.
pub fn request(name: &str) -> Vec<u8> {
    format!("GET /{name}\r\n").into_bytes()
}

/// What is said to be said back.
pub fn speech() -> Vec<u8> {
    (0..ECHO).map(|at| (at * 31 + at / 255) as u8).collect()
}

/// It came back as it was.
pub fn check_echo(back: &[u8]) -> Result<()> {
    ensure!(back == speech(), "{} bytes came back, and not those that were sent", back.len());
    say(format_args!("echoed {}", back.len()));
    Ok(())
}

/// A datagram that goes there and back.
pub fn datagram(number: usize) -> Vec<u8> {
    vec![number as u8; 500]
}

/// Tells whoever runs the cases.
pub fn say(what: impl std::fmt::Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{what}").and_then(|()| out.flush());
}

/// Waits for what is said on standard input: a line, or its end.
pub async fn told() {
    use tokio::io::AsyncBufReadExt;
    let mut line = String::new();
    let _ = tokio::io::BufReader::new(tokio::io::stdin()).read_line(&mut line).await;
}

/// Runs `server` or `client` until done, or says the version of the package `name` in `lock`.
pub fn run<S, C>(
    version: &str,
    server: impl FnOnce(Settings) -> S,
    client: impl FnOnce(Settings) -> C,
) -> Result<()>
where
    S: Future<Output = Result<()>>,
    C: Future<Output = Result<()>>,
{
    let Some(settings) = Settings::parse(std::env::args().skip(1))? else {
        println!("{version}");
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if settings.is_server { server(settings).await } else { client(settings).await }
    })
}

/// The version of a package as it is locked.
pub fn locked(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let mut lines = lock.lines();
    let name = format!("name = \"{package}\"");
    let found = lines.find(|line| *line == name).and_then(|_| lines.next());
    let version = found.and_then(|line| line.split('"').nth(1)).unwrap_or("unknown");
    format!("{package} {version}")
}

/// An error of a stack's own, in words.
pub fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}
