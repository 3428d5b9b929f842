//! What strangers do.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_net::tls::{ClientTrust, Connector};
use tack_net::{Endpoint, quic};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{ATTACKER, pause};

/// Connections of attacks that hold on to them: more than there are places.
const HELD: usize = 1_100;
const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    Nothing,
    /// Datagrams of random bytes.
    Garbage,
    /// SYNs, each of another connection, that nobody completes.
    Syns,
    /// Connections that say nothing.
    Silent,
    /// TLS handshakes, one after the other.
    Handshakes,
    /// Sessions that list files without end.
    Lists,
    /// Sessions that only say that they live.
    Noops,
    /// Streams of a tunnel to a target that says what it can, of which nothing is read.
    Streams,
}

impl Attack {
    pub(super) fn name(self) -> &'static str {
        match self {
            Attack::Nothing => "none",
            Attack::Garbage => "random datagrams",
            Attack::Syns => "SYN flood",
            Attack::Silent => "silent connections",
            Attack::Handshakes => "handshakes",
            Attack::Lists => "endless lists",
            Attack::Noops => "signs of life",
            Attack::Streams => "streams nobody reads",
        }
    }

    /// Goes on until it is `over`; says what was done.
    pub(super) fn run(self, server: SocketAddr, quic: bool, over: &AtomicBool) -> Result<String> {
        match self {
            Attack::Nothing => Ok(String::new()),
            Attack::Garbage | Attack::Syns => self.flood(server, over),
            _ => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let did = runtime.block_on(self.connect(server, quic, over));
                runtime.shutdown_background();
                did
            }
        }
    }

    fn flood(self, server: SocketAddr, over: &AtomicBool) -> Result<String> {
        let socket = bound()?;
        let mut rng = Pcg64::seed_from_u64(1);
        let mut sent = 0_u64;
        while !over.load(Relaxed) {
            let mut datagram = [0; 60];
            rng.fill_bytes(&mut datagram);
            if self == Attack::Syns {
                // [RFC 9293 §3.1]: ports, number, no acknowledgment, five words, SYN, a window.
                datagram[2..4].copy_from_slice(&server.port().to_be_bytes());
                datagram[8..12].fill(0);
                datagram[12..20].copy_from_slice(&[0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
            }
            let len = if self == Attack::Syns { 20 } else { rng.random_range(1..60) };
            sent += u64::from(socket.send_to(&datagram[..len], server).is_ok());
            if sent.is_multiple_of(64) {
                // Some 50 000 a second: the machine is ours as well.
                pause(Duration::from_millis(1));
            }
        }
        Ok(format!("{sent} datagrams"))
    }

    async fn connect(self, server: SocketAddr, quic: bool, over: &AtomicBool) -> Result<String> {
        let (mut tasks, mut done) = (JoinSet::new(), 0_u64);
        let at_once = if matches!(self, Attack::Handshakes | Attack::Lists) { 32 } else { HELD };
        let local = SocketAddr::new(ATTACKER, 0);
        let endpoint = Endpoint::bind(local)?;
        let over_quic = quic.then(|| quic::Endpoint::client(local)).transpose()?;
        let tcp = self == Attack::Silent && !quic && !speaks_tack(&endpoint, server).await;
        let target = babbler().await?;
        while !over.load(Relaxed) {
            while tasks.len() < at_once && !over.load(Relaxed) {
                let (endpoint, over_quic) = (endpoint.clone(), over_quic.clone());
                tasks.spawn(async move {
                    match (tcp, over_quic) {
                        (true, _) => be_silent(server).await,
                        (_, Some(endpoint)) => self.visit_quic(&endpoint, server, target).await,
                        (_, None) => self.visit(&endpoint, server, target).await,
                    }
                });
            }
            if let Ok(Some(_)) = timeout(Duration::from_millis(20), tasks.join_next()).await {
                done += 1;
            }
        }
        Ok(format!("{at_once} at a time, {done} ended"))
    }

    /// One connection, as long as it is borne.
    async fn visit(
        self,
        endpoint: &Endpoint,
        server: SocketAddr,
        target: SocketAddr,
    ) -> Result<()> {
        let mut stream = timeout(SOON, endpoint.connect_plain(server)).await??;
        if self == Attack::Silent {
            let _ended = stream.read(&mut [0; 1]).await?;
            return Ok(());
        }
        let stream = timeout(SOON, connector()?.connect("server", stream)).await??;
        self.molest(stream, target).await
    }

    /// The same over QUIC, where whoever is silent is so at the door.
    async fn visit_quic(
        self,
        endpoint: &quic::Endpoint,
        server: SocketAddr,
        target: SocketAddr,
    ) -> Result<()> {
        let (connector, config) = (connector()?, quic::Config::default());
        let meeting = endpoint.meet(server, "server", &connector, &[b"tack"], config);
        let (connection, _) = timeout(SOON, meeting).await??;
        let mut stream = quic::QuicStream::open(connection).await?;
        if self == Attack::Silent {
            let _ended = stream.read(&mut [0; 1]).await?;
            return Ok(());
        }
        self.molest(stream, target).await
    }

    /// What comes after the handshake.
    async fn molest(
        self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        target: SocketAddr,
    ) -> Result<()> {
        match self {
            Attack::Handshakes => {}
            Attack::Streams => {
                stream.write_all(&opening(target)).await?;
                stream.flush().await?;
                // As much as shows that it is open.
                stream.read_exact(&mut [0; 64]).await?;
                std::future::pending::<()>().await;
            }
            Attack::Lists => {
                open(&mut stream).await?;
                for number in 0_u64.. {
                    stream.write_all(&entry(number)).await?;
                }
            }
            _ => {
                open(&mut stream).await?;
                loop {
                    stream.write_all(&[0x40, 0, 0, 0, 0]).await?;
                    stream.flush().await?;
                    sleep(Duration::from_secs(3)).await;
                }
            }
        }
        Ok(())
    }
}

/// Of somebody who knows nobody.
fn connector() -> Result<Connector> {
    let any = tempfile::NamedTempFile::new()?;
    let known = tack_net::tls::KnownHosts::new(any.path());
    Ok(Connector::new(ClientTrust::FirstUse(known))?)
}

/// A target that says what it can to everybody.
async fn babbler() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let at = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut conn, _)) = listener.accept().await {
            tokio::spawn(async move { while conn.write_all(&[0x62; 16 << 10]).await.is_ok() {} });
        }
    });
    Ok(at)
}

/// By our key at the door, then CONNECT of a tunnel's client with a name of its own.
fn opening(target: SocketAddr) -> Vec<u8> {
    let name: [u8; 16] = rand::random();
    let mut bytes = [&[0][..], b"tkt", &[2, 1], &name].concat();
    if let SocketAddr::V4(v4) = target {
        bytes.push(1);
        bytes.extend(v4.ip().octets());
    }
    bytes.extend(target.port().to_be_bytes());
    bytes
}

fn bound() -> Result<UdpSocket> {
    #[expect(clippy::disallowed_methods, reason = "attackers speak no protocol of ours")]
    Ok(UdpSocket::bind(SocketAddr::new(ATTACKER, 0))?)
}

async fn speaks_tack(endpoint: &Endpoint, server: SocketAddr) -> bool {
    matches!(timeout(SOON, endpoint.connect_plain(server)).await, Ok(Ok(_)))
}

/// A connection of the kernel's TCP.
async fn be_silent(server: SocketAddr) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(ATTACKER, 0))?;
    let mut stream = timeout(SOON, socket.connect(server)).await??;
    let mut heard = [0; 256];
    while stream.read(&mut heard).await? > 0 {}
    Ok(())
}

/// Up to where a list is expected: by our key at the door, then HELLO.
async fn open(stream: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    let hello = [&[0x01, 0, 0, 0, 35, 0, 3, 0][..], &[7; 32]].concat();
    stream.write_all(&[&[0][..], b"tackfile", &hello].concat()).await?;
    stream.flush().await?;
    Ok(())
}

/// An ENTRY: an empty file with a long name.
fn entry(number: u64) -> Vec<u8> {
    let name = format!("{number:0>200}");
    let mut body = vec![1, 0, 0, 1, 0xa4];
    // Modification time, size.
    body.extend([0; 8 + 4 + 8]);
    body.extend((name.len() as u16).to_be_bytes());
    body.extend(name.as_bytes());
    body.extend([0, 0]);
    [&[0x10][..], &(body.len() as u32).to_be_bytes(), &body].concat()
}
