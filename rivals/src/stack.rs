//! Listening and connecting over each stack.

#[cfg(feature = "noq")]
mod noq;
mod quic_tack;
#[cfg(feature = "quiche")]
pub(crate) mod quiche;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "s2n")]
mod s2n;
mod tack;
mod tcp;
#[cfg(feature = "utp")]
mod utp;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;

use crate::stream::Stream;
use crate::{Ask, Settings, Stack};

/// Kernel buffers of every UDP socket, bytes; the kernel caps them.
pub(crate) const RECV_BUFFER_BYTES: usize = 8 << 20;
pub(crate) const SEND_BUFFER_BYTES: usize = 4 << 20;
/// Most that any stream may have under way: as in the kernel's `tcp_rmem` there.
pub(crate) const WINDOW_BYTES: u32 = 64 << 20;
/// Connections of a server where it bounds them: as many as any workload has at a time, so that none sends
/// clients away or has them ask twice.
const MAX_CONNECTIONS: usize = 4_096;

/// What this is, for the report.
pub(crate) fn version(stack: Stack) -> String {
    let lock = include_str!("../Cargo.lock");
    let of = |name: &str| {
        // The last of several is the newest: ours.
        let at = lock.rfind(&format!("name = \"{name}\"\n")).map(|at| &lock[at..]);
        let line = at.and_then(|rest| rest.lines().nth(1));
        let version = line.and_then(|line| line.split('"').nth(1)).unwrap_or("unknown");
        format!("{name} {version}")
    };
    match stack {
        Stack::Tack => of("tack-net"),
        Stack::QuicTack => of("tack-quic"),
        Stack::Tcp | Stack::Tls => {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
            format!("Linux {}", release.unwrap_or_default().trim())
        }
        #[cfg(feature = "quinn")]
        Stack::Quinn => of("quinn"),
        #[cfg(feature = "noq")]
        Stack::Noq => of("noq"),
        #[cfg(feature = "s2n")]
        Stack::S2n => of("s2n-quic"),
        #[cfg(feature = "quiche")]
        Stack::Quiche => of("quiche"),
        #[cfg(feature = "utp")]
        Stack::Utp => of("librqbit-utp"),
        Stack::Udp => of("quinn-udp"),
    }
}

/// Who listens.
pub(crate) enum Listener {
    Tack(tack::Server),
    QuicTack(tack_net::quic::Endpoint),
    Tcp(tcp::Server),
    #[cfg(feature = "quinn")]
    Quinn(::quinn::Endpoint),
    #[cfg(feature = "noq")]
    Noq(::noq::Endpoint),
    #[cfg(feature = "s2n")]
    S2n(tokio::sync::Mutex<s2n_quic::Server>),
    #[cfg(feature = "quiche")]
    Quiche(quiche::Server),
    #[cfg(feature = "utp")]
    Utp(std::sync::Arc<librqbit_utp::UtpSocketUdp>),
}

/// A connection that was accepted, before its handshake.
pub(crate) enum Incoming {
    Tack(tack::Incoming),
    QuicTack(tack_net::quic::Connection),
    Tcp(tcp::Incoming),
    #[cfg(feature = "quinn")]
    Quinn(::quinn::Incoming),
    #[cfg(feature = "noq")]
    Noq(::noq::Incoming),
    #[cfg(feature = "s2n")]
    S2n(s2n_quic::Connection),
    #[cfg(feature = "quiche")]
    Quiche(std::sync::Arc<quiche::Connection>),
    #[cfg(feature = "utp")]
    Utp(Box<librqbit_utp::UtpStream>),
}

impl Listener {
    pub(crate) async fn bind(stack: Stack, settings: &Settings) -> Result<Listener> {
        Ok(match stack {
            Stack::Tack => Listener::Tack(tack::Server::bind(settings)?),
            Stack::QuicTack => Listener::QuicTack(quic_tack::serve(settings)?),
            Stack::Tcp | Stack::Tls => {
                Listener::Tcp(tcp::Server::bind(settings, stack == Stack::Tls).await?)
            }
            #[cfg(feature = "quinn")]
            Stack::Quinn => Listener::Quinn(quinn::serve(settings)?),
            #[cfg(feature = "noq")]
            Stack::Noq => Listener::Noq(noq::serve(settings)?),
            #[cfg(feature = "s2n")]
            Stack::S2n => Listener::S2n(tokio::sync::Mutex::new(s2n::serve(settings)?)),
            #[cfg(feature = "quiche")]
            Stack::Quiche => Listener::Quiche(quiche::Server::bind(settings)?),
            #[cfg(feature = "utp")]
            Stack::Utp => Listener::Utp(utp::socket(any(settings.port)).await?),
            Stack::Udp => anyhow::bail!("datagrams have no streams"),
        })
    }

    pub(crate) async fn accept(&self) -> Result<Incoming> {
        const ENDED: &str = "the endpoint ended";
        Ok(match self {
            Listener::Tack(server) => Incoming::Tack(server.accept().await?),
            Listener::QuicTack(endpoint) => Incoming::QuicTack(quic_tack::accept(endpoint).await?),
            Listener::Tcp(server) => Incoming::Tcp(server.accept().await?),
            #[cfg(feature = "quinn")]
            Listener::Quinn(endpoint) => {
                Incoming::Quinn(endpoint.accept().await.ok_or(anyhow::anyhow!(ENDED))?)
            }
            #[cfg(feature = "noq")]
            Listener::Noq(endpoint) => {
                Incoming::Noq(endpoint.accept().await.ok_or(anyhow::anyhow!(ENDED))?)
            }
            #[cfg(feature = "s2n")]
            Listener::S2n(server) => {
                Incoming::S2n(server.lock().await.accept().await.ok_or(anyhow::anyhow!(ENDED))?)
            }
            #[cfg(feature = "quiche")]
            Listener::Quiche(server) => Incoming::Quiche(server.accept().await?),
            #[cfg(feature = "utp")]
            Listener::Utp(socket) => Incoming::Utp(Box::new(socket.accept().await?)),
        })
    }
}

impl Incoming {
    /// Its stream, after the handshake.
    pub(crate) async fn stream(self) -> Result<Stream> {
        match self {
            Incoming::Tack(incoming) => incoming.stream().await,
            Incoming::QuicTack(connection) => quic_tack::stream(connection).await,
            Incoming::Tcp(incoming) => incoming.stream().await,
            #[cfg(feature = "quinn")]
            Incoming::Quinn(incoming) => {
                let connection = incoming.await?;
                let (send, recv) = connection.accept_bi().await?;
                Ok(Stream::Quinn(send, recv, connection))
            }
            #[cfg(feature = "noq")]
            Incoming::Noq(incoming) => {
                let connection = incoming.await?;
                let (send, recv) = connection.accept_bi().await?;
                Ok(Stream::Noq(send, recv, connection))
            }
            #[cfg(feature = "s2n")]
            Incoming::S2n(mut connection) => {
                let stream = connection.accept_bidirectional_stream().await?;
                let stream = stream.ok_or(anyhow::anyhow!("no stream came"))?;
                Ok(Stream::S2n(stream, connection.handle()))
            }
            #[cfg(feature = "quiche")]
            Incoming::Quiche(connection) => {
                Ok(Stream::Quiche(quiche::Stream::accept(connection).await?))
            }
            #[cfg(feature = "utp")]
            Incoming::Utp(stream) => Ok(Stream::Plain(stream)),
        }
    }
}

/// Who connects.
pub(crate) struct Dialer {
    peer: SocketAddr,
    over: Over,
}

enum Over {
    Tack(tack::Client),
    QuicTack(quic_tack::Client),
    Tcp(tcp::Client),
    #[cfg(feature = "quinn")]
    Quinn(::quinn::Endpoint),
    #[cfg(feature = "noq")]
    Noq(::noq::Endpoint),
    #[cfg(feature = "s2n")]
    S2n(Box<s2n_quic::Client>),
    #[cfg(feature = "quiche")]
    Quiche(quiche::Client),
    #[cfg(feature = "utp")]
    Utp(std::sync::Arc<librqbit_utp::UtpSocketUdp>),
}

impl Dialer {
    pub(crate) async fn new(stack: Stack, ask: &Ask) -> Result<Dialer> {
        let over = match stack {
            Stack::Tack => Over::Tack(tack::Client::new()?),
            Stack::QuicTack => Over::QuicTack(quic_tack::Client::new()?),
            Stack::Tcp | Stack::Tls => Over::Tcp(tcp::Client::new(stack == Stack::Tls)?),
            #[cfg(feature = "quinn")]
            Stack::Quinn => Over::Quinn(quinn::client(&ask.settings)?),
            #[cfg(feature = "noq")]
            Stack::Noq => Over::Noq(noq::client(&ask.settings)?),
            #[cfg(feature = "s2n")]
            Stack::S2n => Over::S2n(Box::new(s2n::client(&ask.settings)?)),
            #[cfg(feature = "quiche")]
            Stack::Quiche => Over::Quiche(quiche::Client::new(&ask.settings)?),
            #[cfg(feature = "utp")]
            Stack::Utp => Over::Utp(utp::socket(any(0)).await?),
            Stack::Udp => anyhow::bail!("datagrams have no streams"),
        };
        Ok(Dialer { peer: ask.peer(), over })
    }

    pub(crate) async fn connect(&self) -> Result<Stream> {
        let peer = self.peer;
        match &self.over {
            Over::Tack(client) => client.connect(peer).await,
            Over::QuicTack(client) => client.connect(peer).await,
            Over::Tcp(client) => client.connect(peer).await,
            #[cfg(feature = "quinn")]
            Over::Quinn(endpoint) => {
                let connection = endpoint.connect(peer, crate::keys::NAME)?.await?;
                let (send, recv) = connection.open_bi().await?;
                Ok(Stream::Quinn(send, recv, connection))
            }
            #[cfg(feature = "noq")]
            Over::Noq(endpoint) => {
                let connection = endpoint.connect(peer, crate::keys::NAME)?.await?;
                let (send, recv) = connection.open_bi().await?;
                Ok(Stream::Noq(send, recv, connection))
            }
            #[cfg(feature = "s2n")]
            Over::S2n(client) => s2n::connect(client, peer).await,
            #[cfg(feature = "quiche")]
            Over::Quiche(client) => Ok(Stream::Quiche(client.connect(peer).await?)),
            #[cfg(feature = "utp")]
            Over::Utp(socket) => Ok(Stream::plain(socket.connect(peer).await?)),
        }
    }
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)
}

/// A UDP socket with the buffers that all have.
fn udp_socket(port: u16) -> Result<std::net::UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECV_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&any(port).into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
