//! Datagrams through a stream: SOCKS' UDP ASSOCIATE, both ends of it.
//!
//! They travel in order and arrive for certain, as everything in a stream does; that suits DNS and
//! games less than QUIC's own datagrams would, and is said in the manual. Where the stream is full,
//! what a socket cannot hold is lost, as on any UDP path.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::allow::AllowList;
use super::datagram::{Datagram, MAX_FRAME_BYTES};
use super::egress::{resolve, wildcard};
use super::target::{Host, Target};
use crate::conn::Connection;

/// Names whose address is remembered, and peers whose answers are passed on; beyond it all are
/// forgotten.
const MOST_PEERS: usize = 1_024;

/// The server's end: datagrams leave from a socket of their own, and only those that were sent to
/// may answer, as behind a NAT.
///
/// # Errors
/// The stream or the socket broke, or the client broke the protocol.
pub async fn serve(
    stream: impl Connection,
    socket: UdpSocket,
    allow: &AllowList,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let known = std::sync::Mutex::new(BTreeSet::new());
    let is_v6 = socket.local_addr()?.is_ipv6();
    let outward = async {
        let mut names: BTreeMap<Target, SocketAddr> = BTreeMap::new();
        let mut frames = Frames::default();
        while let Some(frame) = frames.next(&mut reader).await? {
            let (datagram, _) = parse(&frame)?;
            let Some(to) = address(&datagram.target, allow, &mut names).await else { continue };
            // A socket of one family cannot send to the other.
            let to = match (is_v6, to) {
                (true, SocketAddr::V4(v4)) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
                (false, SocketAddr::V6(_)) => continue,
                (_, to) => to,
            };
            remember(&mut known.lock().unwrap_or_else(|e| e.into_inner()), to);
            if let Err(error) = socket.send_to(datagram.data, to).await {
                tracing::debug!(%to, %error, "a datagram was not sent");
            }
        }
        Ok(())
    };
    let inward = async {
        let mut buffer = vec![0; MAX_FRAME_BYTES];
        loop {
            let (length, from) = match socket.recv_from(&mut buffer).await {
                Ok(got) => got,
                // The network's word about an earlier one.
                Err(error) => {
                    tracing::debug!(%error, "receiving datagrams");
                    continue;
                }
            };
            if known.lock().unwrap_or_else(|e| e.into_inner()).contains(&from) {
                let datagram = Datagram { target: from.into(), data: &buffer[..length] };
                send(&datagram, &mut writer).await?;
            }
        }
    };
    tokio::select! {
        ended = outward => ended,
        ended = inward => ended,
    }
}

/// A socket for the server's end: of both families where the system has them.
///
/// # Errors
/// No socket is left.
pub async fn any_socket() -> io::Result<UdpSocket> {
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
        Ok(socket) => Ok(socket),
        Err(_) => UdpSocket::bind(wildcard(std::net::Ipv4Addr::UNSPECIFIED.into())).await,
    }
}

/// The client's end, as long as the program keeps its connection `control`. Only datagrams of who
/// sent the first one are taken, and only from the program's own address.
///
/// # Errors
/// The stream or the socket broke, or the server broke the protocol.
pub async fn relay(
    stream: impl Connection,
    socket: UdpSocket,
    mut control: TcpStream,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let owner = control.peer_addr()?.ip().to_canonical();
    let (tell, told) = tokio::sync::watch::channel(None::<SocketAddr>);
    let outward = async {
        let mut buffer = vec![0; MAX_FRAME_BYTES];
        let mut program = None;
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            let is_ours = from.ip().to_canonical() == owner && program.is_none_or(|p| p == from);
            let Some(datagram) = Datagram::unwrap(&buffer[..length]).filter(|_| is_ours) else {
                continue;
            };
            if program.is_none() {
                program = Some(from);
                tell.send_replace(program);
            }
            send(&datagram, &mut writer).await?;
        }
    };
    let inward = async {
        let mut frames = Frames::default();
        while let Some(frame) = frames.next(&mut reader).await? {
            let (datagram, _) = parse(&frame)?;
            let to = *told.borrow();
            let Some(to) = to else { continue };
            if let Err(error) = socket.send_to(&datagram.wrap(), to).await {
                tracing::debug!(%to, %error, "a datagram was not passed on");
            }
        }
        Ok(())
    };
    let over = async {
        let mut ignored = [0; 64];
        while control.read(&mut ignored).await? > 0 {}
        Ok(())
    };
    tokio::select! {
        ended = outward => ended,
        ended = inward => ended,
        ended = over => ended,
    }
}

async fn send(datagram: &Datagram<'_>, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut frame = Vec::with_capacity(datagram.data.len() + 32);
    if datagram.frame(&mut frame) {
        writer.write_all(&frame).await?;
        writer.flush().await?;
    }
    Ok(())
}

/// Where a datagram goes; `None` if it may not, or nobody knows. Names are asked for once.
async fn address(
    target: &Target,
    allow: &AllowList,
    names: &mut BTreeMap<Target, SocketAddr>,
) -> Option<SocketAddr> {
    if let Some(known) = names.get(target) {
        return Some(*known);
    }
    let found = match resolve(target, allow).await {
        Ok(found) => found.first().copied(),
        Err(refusal) => {
            tracing::info!("a datagram: {}", refusal.why);
            None
        }
    };
    if let (Host::Name(_), Some(found)) = (&target.host, found) {
        if names.len() >= MOST_PEERS {
            names.clear();
        }
        names.insert(target.clone(), found);
    }
    found
}

fn remember(known: &mut BTreeSet<SocketAddr>, peer: SocketAddr) {
    if known.len() >= MOST_PEERS && !known.contains(&peer) {
        known.clear();
    }
    known.insert(peer);
}

fn parse(frame: &[u8]) -> io::Result<(Datagram<'_>, usize)> {
    let read = Datagram::read_frame(frame);
    let read = read.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    read.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Cuts a stream into frames.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    /// The next frame, whole; `None` at the end.
    async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
        loop {
            let end = self.0.first_chunk::<2>().map(|n| 2 + usize::from(u16::from_be_bytes(*n)));
            if let Some(end) = end.filter(|end| *end <= self.0.len()) {
                let rest = self.0.split_off(end);
                return Ok(Some(std::mem::replace(&mut self.0, rest)));
            }
            let mut chunk = [0; 4_096];
            let read = from.read(&mut chunk).await?;
            if read == 0 {
                return Ok(None);
            }
            self.0.extend_from_slice(&chunk[..read]);
        }
    }
}
