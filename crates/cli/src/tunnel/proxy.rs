//! What programs say to a proxy: SOCKS5 [RFC 1928] or HTTP CONNECT [RFC 9110 §9.3.6], on one port.
//!
//! The first byte tells which: 5, or a letter. Of SOCKS, CONNECT and UDP ASSOCIATE are spoken, and
//! no authentication; who may use the proxy is who can reach its address.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::protocol::{Cause, Refusal, Wish};
use super::target::{Host, Target, TargetError};
use tack_net::HostPort;

const SOCKS5: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;

/// Most bytes of the head of an HTTP request.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The beginning of a conversation with a program.
#[derive(Debug, Default)]
pub struct Handshake {
    stage: Stage,
    /// What came and was not looked at yet; bounded by what a stage may wait for.
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Start,
    /// SOCKS, after the choice of no authentication.
    Request,
    /// The program said what it wants.
    Over,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing until more bytes come.
    Wait,
    /// Send this to the program, then ask again.
    Send(Vec<u8>),
    /// The program wants this, and waits for an answer in this way. What came behind it belongs to
    /// the stream.
    Wants(Wish, Speech, Vec<u8>),
}

/// How the program wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// SOCKS5.
    Socks,
    /// HTTP.
    Http,
}

/// Why a program is turned away. [`ProxyError::answer`] is what it is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Another protocol, or another version of SOCKS.
    #[error("neither SOCKS5 nor HTTP; the first byte is {0}")]
    NotOurs(u8),
    /// The program insists on authentication.
    #[error("the program knows no SOCKS without authentication")]
    NoMethod,
    /// A command of SOCKS that is not spoken here.
    #[error("SOCKS command {0}; only CONNECT (1) and UDP ASSOCIATE (3) are spoken")]
    Command(u8),
    /// The target is none.
    #[error("SOCKS: {0}")]
    Target(#[from] TargetError),
    /// A method of HTTP other than CONNECT.
    #[error("HTTP method {0}; only CONNECT is spoken (curl: --proxytunnel)")]
    Method(String),
    /// The target of CONNECT is none.
    #[error("HTTP CONNECT to `{0}`; expected HOST:PORT")]
    Authority(String),
    /// Not HTTP, or without end.
    #[error("a request of HTTP that is malformed or longer than 16 KiB")]
    Head,
}

impl Handshake {
    /// Bytes that the program sent. After [`Output::Wants`], none.
    pub fn handle(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// What follows from what came so far.
    ///
    /// # Errors
    /// The program is to be turned away.
    pub fn poll(&mut self) -> Result<Output, ProxyError> {
        let output = match (self.stage, self.buffer.first()) {
            (Stage::Over, _) | (_, None) => return Ok(Output::Wait),
            (Stage::Start, Some(&SOCKS5)) => self.socks_greeting()?,
            (Stage::Start, Some(b)) if b.is_ascii_alphabetic() => self.http_head()?,
            (Stage::Start, Some(&other)) => return Err(ProxyError::NotOurs(other)),
            (Stage::Request, _) => self.socks_request()?,
        };
        if matches!(output, Output::Wants(..)) {
            self.stage = Stage::Over;
        }
        Ok(output)
    }

    fn socks_greeting(&mut self) -> Result<Output, ProxyError> {
        let Some(&count) = self.buffer.get(1) else { return Ok(Output::Wait) };
        let end = 2 + usize::from(count);
        let Some(methods) = self.buffer.get(2..end) else { return Ok(Output::Wait) };
        if !methods.contains(&NO_AUTHENTICATION) {
            return Err(ProxyError::NoMethod);
        }
        self.buffer.drain(..end);
        self.stage = Stage::Request;
        Ok(Output::Send(vec![SOCKS5, NO_AUTHENTICATION]))
    }

    fn socks_request(&mut self) -> Result<Output, ProxyError> {
        let (command, rest) = match &self.buffer[..] {
            [SOCKS5, command, _, rest @ ..] => (*command, rest),
            [SOCKS5] | [SOCKS5, _] => return Ok(Output::Wait),
            [other, ..] => return Err(ProxyError::NotOurs(*other)),
            [] => return Ok(Output::Wait),
        };
        if ![CONNECT, ASSOCIATE].contains(&command) {
            return Err(ProxyError::Command(command));
        }
        let Some((target, used)) = Target::read(rest)? else { return Ok(Output::Wait) };
        let wish = if command == CONNECT { Wish::Connect(target) } else { Wish::Associate };
        Ok(Output::Wants(wish, Speech::Socks, self.buffer.split_off(3 + used)))
    }

    fn http_head(&mut self) -> Result<Output, ProxyError> {
        let end = self.buffer.windows(4).take(MAX_HEAD_BYTES).position(|w| w == b"\r\n\r\n");
        let Some(end) = end else {
            let too_long = self.buffer.len() > MAX_HEAD_BYTES;
            return if too_long { Err(ProxyError::Head) } else { Ok(Output::Wait) };
        };
        let rest = self.buffer.split_off(end + 4);
        // Fields may have bytes that are no text [RFC 9110 §5.5]; nobody reads them here.
        let line = self.buffer.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| ProxyError::Head)?;
        let mut words = line.split(' ');
        let (method, authority, version) = (words.next(), words.next(), words.next());
        let Some((method, (authority, version))) = method.zip(authority.zip(version)) else {
            return Err(ProxyError::Head);
        };
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return Err(ProxyError::Head);
        }
        if method != "CONNECT" {
            return Err(ProxyError::Method(shown(method)));
        }
        let target = target_of(authority);
        let target = target.ok_or_else(|| ProxyError::Authority(shown(authority)))?;
        Ok(Output::Wants(Wish::Connect(target), Speech::Http, rest))
    }
}

/// What CONNECT leads to; `None` also without a port.
fn target_of(authority: &str) -> Option<Target> {
    // wget writes addresses of IPv6 without brackets: since a port always follows, it is the last number.
    let bare = authority.rsplit_once(':').filter(|(ip, _)| ip.parse::<Ipv6Addr>().is_ok());
    let bracketed = bare.map(|(ip, port)| format!("[{ip}]:{port}"));
    let host = HostPort::parse(bracketed.as_deref().unwrap_or(authority), 0).ok()?;
    // No port is no authority of CONNECT: port 0 says so.
    (host.port != 0).then_some(Target::new(Host::parse(&host.name).ok()?, host.port))
}

/// Bytes of a program as text for an error: short, and nothing that a terminal would obey.
fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_default).collect()
}

impl Speech {
    /// The stream is open; `bound` is the address to tell of.
    pub fn opened(self, bound: SocketAddr) -> Vec<u8> {
        match self {
            Speech::Socks => socks_reply(0, bound),
            Speech::Http => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        }
    }

    /// It cannot be.
    pub fn refused(self, refusal: &Refusal) -> Vec<u8> {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        match (self, refusal.cause) {
            (Speech::Socks, cause) => {
                let code = match cause {
                    Cause::NotAllowed => 2,
                    Cause::NoSuchHost | Cause::Unreachable | Cause::Gone => 4,
                    Cause::ConnectionRefused => 5,
                    Cause::TimedOut => 6,
                    Cause::Busy | Cause::Failed => 1,
                };
                socks_reply(code, nowhere)
            }
            (Speech::Http, cause) => {
                let status = match cause {
                    Cause::NotAllowed => "403 Forbidden",
                    Cause::TimedOut => "504 Gateway Timeout",
                    Cause::Busy => "503 Service Unavailable",
                    _ => "502 Bad Gateway",
                };
                http_refusal(status, &refusal.why)
            }
        }
    }
}

impl ProxyError {
    /// What to tell the program before hanging up.
    pub fn answer(&self) -> Vec<u8> {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        match self {
            ProxyError::NotOurs(_) => Vec::new(),
            ProxyError::NoMethod => vec![SOCKS5, NO_METHOD],
            ProxyError::Command(_) => socks_reply(7, nowhere),
            ProxyError::Target(TargetError::BadType(_)) => socks_reply(8, nowhere),
            ProxyError::Target(TargetError::BadName(_) | TargetError::Zone(_)) => {
                socks_reply(4, nowhere)
            }
            ProxyError::Method(_) => http_refusal("501 Not Implemented", &self.to_string()),
            ProxyError::Authority(_) | ProxyError::Head => {
                http_refusal("400 Bad Request", &self.to_string())
            }
        }
    }
}

fn socks_reply(code: u8, bound: SocketAddr) -> Vec<u8> {
    let mut reply = vec![SOCKS5, code, 0];
    Target::from(bound).write(&mut reply);
    reply
}

fn http_refusal(status: &str, why: &str) -> Vec<u8> {
    let length = why.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    )
    .into_bytes()
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
