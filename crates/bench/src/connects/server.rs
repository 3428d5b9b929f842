//! The server's end: says where it is, and serves until it is killed.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tack_device::Clock;
use tack_net::tls::Acceptor;
use tack_net::{Endpoint, TackListener, quic};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::net::{TcpListener, TcpSocket};

use super::client::say;
use super::opener::{PROTOCOL, quic_config, quinn_endpoint, tack_config};
use super::stream::{Duplex, Stream};
use super::who::Who;
use super::{ConnectsArgs, PATIENCE, Phase};
use crate::tack::identity;

/// What each connection has brought so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Brought {
    /// When that was, in seconds since some moment.
    pub(super) at: f64,
    pub(super) bytes: Vec<u64>,
}

type Counts = Arc<Mutex<Vec<Arc<AtomicU64>>>>;

pub(super) async fn run(args: &ConnectsArgs, at: SocketAddr, keys: &Path) -> Result<()> {
    let (phase, who) = args.part()?;
    let taker = Taker::new(who, args.at_once.max(args.busy), at, keys)?;
    say(&taker.address()?)?;
    let counts = Counts::default();
    if phase == Phase::Busy {
        tokio::spawn(answer(counts.clone()));
    }
    loop {
        let newcomer = taker.next().await?;
        let count = (phase == Phase::Busy).then(|| {
            let count = Arc::<AtomicU64>::default();
            counts.lock().unwrap_or_else(PoisonError::into_inner).push(count.clone());
            count
        });
        tokio::spawn(async move {
            let stream = newcomer.shake().await?;
            match count {
                None => stream.echo().await,
                Some(count) => stream.drain(&count).await,
            }
        });
    }
}

/// Says what came whenever it is asked.
async fn answer(counts: Counts) -> Result<()> {
    let clock = Clock::start();
    let mut asked = BufReader::new(stdin()).lines();
    while asked.next_line().await?.is_some() {
        let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = counts.iter().map(|count| count.load(Relaxed)).collect();
        say(&Brought { at: clock.now().as_nanos() as f64 / 1e9, bytes })?;
    }
    Ok(())
}

/// Takes connections in.
enum Taker {
    Kernel(TcpListener, Option<Acceptor>),
    Tack(TackListener, Option<Acceptor>),
    Quic(quic::Endpoint),
    Quinn(quinn::Endpoint),
}

/// Somebody whose handshake is another task's.
enum Newcomer {
    Kernel(tokio::net::TcpStream, Option<Acceptor>),
    Tack(tack_net::TackStream, Option<Acceptor>),
    Quic(quic::Connection),
    Quinn(Box<quinn::Incoming>),
}

impl Taker {
    fn new(who: Who, most: usize, at: SocketAddr, keys: &Path) -> Result<Taker> {
        let acceptor = Acceptor::new(&identity(keys)?)?;
        Ok(match who {
            Who::Kernel | Who::KernelTls | Who::Tunnel | Who::TunnelQuic => {
                let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.bind(at)?;
                Taker::Kernel(socket.listen(4_096)?, (who == Who::KernelTls).then_some(acceptor))
            }
            Who::Tack | Who::TackClear | Who::PlainClear => {
                let endpoint = Endpoint::builder().conn(tack_config(who)).bind(at)?;
                Taker::Tack(endpoint.listen_plain()?, (who == Who::Tack).then_some(acceptor))
            }
            Who::QuicTack => {
                let tls = acceptor.for_quic(&[PROTOCOL]);
                let mut listen = quic::Listen::new(tls, quic_config(None));
                // quinn has no such limits, or wider ones.
                (listen.max_connections, listen.max_waiting) = (2 * most, 2 * most);
                (listen.max_handshakes, listen.max_at_once) = (2 * most, 2 * most);
                listen.handshake_time = PATIENCE;
                Taker::Quic(quic::Endpoint::server(at, listen)?)
            }
            Who::Quinn => {
                let mut config = crate::quic::server_config(keys)?;
                let mut transport = quinn::TransportConfig::default();
                transport.max_idle_timeout(None);
                config.transport_config(Arc::new(transport));
                Taker::Quinn(quinn_endpoint(at, Some(config))?)
            }
        })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Taker::Kernel(listener, _) => listener.local_addr(),
            Taker::Tack(listener, _) => Ok(listener.local_addr()),
            Taker::Quic(endpoint) => Ok(endpoint.local_addr()),
            Taker::Quinn(endpoint) => endpoint.local_addr(),
        }
    }

    async fn next(&self) -> Result<Newcomer> {
        Ok(match self {
            Taker::Kernel(listener, tls) => {
                Newcomer::Kernel(listener.accept().await?.0, tls.clone())
            }
            Taker::Tack(listener, tls) => Newcomer::Tack(listener.accept().await?.0, tls.clone()),
            Taker::Quic(endpoint) => {
                Newcomer::Quic(endpoint.accept().await.context("the endpoint ended")?)
            }
            Taker::Quinn(endpoint) => {
                let incoming = endpoint.accept().await.context("the endpoint ended")?;
                Newcomer::Quinn(Box::new(incoming))
            }
        })
    }
}

impl Newcomer {
    async fn shake(self) -> io::Result<Stream> {
        match self {
            Newcomer::Kernel(stream, tls) => {
                stream.set_nodelay(true)?;
                secured(tls, stream).await
            }
            Newcomer::Tack(stream, tls) => secured(tls, stream).await,
            Newcomer::Quic(connection) => {
                Ok(Stream::of(quic::QuicStream::accept(connection).await?))
            }
            Newcomer::Quinn(incoming) => {
                let connection = (*incoming).await?;
                let (send, recv) = connection.accept_bi().await?;
                Ok(Stream::Quinn(connection, send, recv))
            }
        }
    }
}

async fn secured(tls: Option<Acceptor>, stream: impl Duplex + 'static) -> io::Result<Stream> {
    match tls {
        Some(tls) => Ok(Stream::of(tls.accept(stream).await?)),
        None => Ok(Stream::of(stream)),
    }
}
