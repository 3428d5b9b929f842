//! What strangers do.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_net::tls::{ClientTrust, Connector, TlsStream};
use tack_net::{Endpoint, TackStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
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
}

impl Attack {
    pub(super) const ALL: [Attack; 7] = [
        Attack::Nothing,
        Attack::Garbage,
        Attack::Syns,
        Attack::Silent,
        Attack::Handshakes,
        Attack::Lists,
        Attack::Noops,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Attack::Nothing => "none",
            Attack::Garbage => "random datagrams",
            Attack::Syns => "SYN flood",
            Attack::Silent => "silent connections",
            Attack::Handshakes => "handshakes",
            Attack::Lists => "endless lists",
            Attack::Noops => "signs of life",
        }
    }

    /// Goes on until it is `over`; says what was done.
    pub(super) fn run(self, server: SocketAddr, over: &AtomicBool) -> Result<String> {
        match self {
            Attack::Nothing => Ok(String::new()),
            Attack::Garbage | Attack::Syns => self.flood(server, over),
            _ => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let did = runtime.block_on(self.connect(server, over));
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

    async fn connect(self, server: SocketAddr, over: &AtomicBool) -> Result<String> {
        let (mut tasks, mut done) = (JoinSet::new(), 0_u64);
        let at_once = if matches!(self, Attack::Handshakes | Attack::Lists) { 32 } else { HELD };
        let endpoint = Endpoint::bind(SocketAddr::new(ATTACKER, 0))?;
        let tcp = self == Attack::Silent && !speaks_tack(&endpoint, server).await;
        while !over.load(Relaxed) {
            while tasks.len() < at_once && !over.load(Relaxed) {
                let endpoint = endpoint.clone();
                tasks.spawn(async move {
                    match tcp {
                        true => be_silent(server).await,
                        false => self.visit(&endpoint, server).await,
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
    async fn visit(self, endpoint: &Endpoint, server: SocketAddr) -> Result<()> {
        let mut stream = timeout(SOON, endpoint.connect_plain(server)).await??;
        if self == Attack::Silent {
            let _ended = stream.read(&mut [0; 1]).await?;
            return Ok(());
        }
        let any = tempfile::NamedTempFile::new()?;
        let known = tack_net::tls::KnownHosts::new(any.path());
        let connector = Connector::new(ClientTrust::FirstUse(known))?;
        let mut stream = timeout(SOON, connector.connect("server", stream)).await??;
        if self == Attack::Handshakes {
            return Ok(());
        }
        open(&mut stream).await?;
        match self {
            Attack::Lists => {
                for number in 0_u64.. {
                    stream.write_all(&entry(number)).await?;
                }
            }
            _ => loop {
                stream.write_all(&[0x40, 0, 0, 0, 0]).await?;
                stream.flush().await?;
                sleep(Duration::from_secs(3)).await;
            },
        }
        Ok(())
    }
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
async fn open(stream: &mut TlsStream<TackStream>) -> Result<()> {
    let hello = [&[0x01, 0, 0, 0, 35, 0, 2, 0][..], &[7; 32]].concat();
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
