//! Datagrams through a stream: SOCKS' UDP ASSOCIATE, both ends of it.
//!
//! They travel in order and arrive for certain, as everything in a stream does; that suits DNS and
//! games less than QUIC's own datagrams would, and is said in the manual. Where the stream is full,
//! what a socket cannot hold is lost, as on any UDP path.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::allow::AllowList;
use super::datagram::{Datagram, MAX_FRAME_BYTES};
use super::egress::resolve;
use super::protocol::Refusal;
use super::target::{Host, Target};
use crate::conn::Connection;
use crate::task::task;

/// Names whose address is remembered, and peers whose answers are passed on; beyond it all are
/// forgotten.
const MOST_PEERS: usize = 1_024;

/// Names that are asked for at once, and datagrams that wait for each.
const MOST_ASKED: usize = 32;
const MOST_WAITING: usize = 8;
/// Bytes of all of them.
const MOST_WAITING_BYTES: usize = 256 << 10;

/// How often in a row receiving may fail, and a pause between: a socket that is broken for good fails
/// without end.
const MOST_FAILURES: u32 = 64;
const BREATHER: Duration = Duration::from_millis(50);

/// The server's end: datagrams leave from a socket of their own, and only those that were sent to
/// may answer, as behind a NAT.
///
/// # Errors
/// The stream or the socket broke, or the client broke the protocol.
pub async fn serve(
    stream: impl Connection,
    socket: UdpSocket,
    allow: &Arc<AllowList>,
) -> io::Result<()> {
    let resolving = |target: Target| {
        let allow = allow.clone();
        async move {
            let found = resolve(&target, &allow).await;
            found.map(|found| found.first().copied())
        }
    };
    serve_by(stream, socket, resolving).await
}

/// The same, where names are found by `resolving`.
async fn serve_by<R>(
    stream: impl Connection,
    socket: UdpSocket,
    resolving: impl Fn(Target) -> R,
) -> io::Result<()>
where
    R: Future<Output = Result<Option<SocketAddr>, Refusal>> + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let known = Mutex::new(BTreeSet::new());
    let outward = async {
        let mut names = Names::default();
        let mut frames = Frames::default();
        loop {
            tokio::select! {
                frame = frames.next(&mut reader) => {
                    let Some(frame) = frame? else { return Ok(()) };
                    let (datagram, _) = parse(&frame)?;
                    let data = datagram.data.to_vec();
                    if let Some(to) = names.look_up(datagram.target, data, &resolving).await {
                        send_out(&socket, to, datagram.data, &known).await?;
                    }
                }
                Some((to, waiting)) = names.found() => {
                    for data in waiting {
                        send_out(&socket, to, &data, &known).await?;
                    }
                }
            }
        }
    };
    let inward = async {
        let (mut buffer, mut failures) = (vec![0; MAX_FRAME_BYTES], Failures::default());
        loop {
            let (length, from) = failures.receive(&socket, &mut buffer).await?;
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

/// Sends a datagram from our socket, whose answers are wanted then.
async fn send_out(
    socket: &UdpSocket,
    to: SocketAddr,
    data: &[u8],
    known: &Mutex<BTreeSet<SocketAddr>>,
) -> io::Result<()> {
    // A socket of one family cannot send to the other.
    let to = match (socket.local_addr()?.is_ipv6(), to) {
        (true, SocketAddr::V4(v4)) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        (false, SocketAddr::V6(_)) => return Ok(()),
        (_, to) => to,
    };
    remember(&mut known.lock().unwrap_or_else(|e| e.into_inner()), to);
    if let Err(error) = socket.send_to(data, to).await {
        tracing::debug!(%to, %error, "a datagram was not sent");
    }
    Ok(())
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
        let (mut buffer, mut failures) = (vec![0; MAX_FRAME_BYTES], Failures::default());
        let mut program = None;
        loop {
            let (length, from) = failures.receive(&socket, &mut buffer).await?;
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

/// Where datagrams go. Names are asked for once, beside each other and beside the datagrams: one that is
/// slow delays its own only.
#[derive(Default)]
struct Names {
    known: BTreeMap<Target, SocketAddr>,
    /// What is to be sent once the name is found.
    waiting: BTreeMap<Target, Vec<Vec<u8>>>,
    asked: JoinSet<(Target, Result<Option<SocketAddr>, Refusal>)>,
}

impl Names {
    /// Where `data` goes, if that is known; else it waits, or is lost where too much waits.
    async fn look_up<R>(
        &mut self,
        target: Target,
        data: Vec<u8>,
        resolving: impl Fn(Target) -> R,
    ) -> Option<SocketAddr>
    where
        R: Future<Output = Result<Option<SocketAddr>, Refusal>> + Send + 'static,
    {
        if let Some(known) = self.known.get(&target) {
            return Some(*known);
        }
        if let Host::Ip(_) = target.host {
            // Nobody has to be asked.
            let found = heeded(resolving(target.clone()).await)?;
            self.remember(target, found);
            return Some(found);
        }
        let bytes: usize = self.waiting.values().flatten().map(Vec::len).sum();
        if bytes + data.len() > MOST_WAITING_BYTES {
            return None;
        }
        if let Some(waiting) = self.waiting.get_mut(&target) {
            if waiting.len() < MOST_WAITING {
                waiting.push(data);
            }
        } else if self.waiting.len() < MOST_ASKED {
            let finding = resolving(target.clone());
            self.waiting.insert(target.clone(), vec![data]);
            self.asked.spawn(task(async move { (target, finding.await) }));
        }
        None
    }

    /// Waits until a name is found, and what was to be sent there. `None`: nobody asks.
    ///
    /// Cancel safe.
    async fn found(&mut self) -> Option<(SocketAddr, Vec<Vec<u8>>)> {
        loop {
            let Ok((target, found)) = self.asked.join_next().await? else { continue };
            let waiting = self.waiting.remove(&target).unwrap_or_default();
            let Some(found) = heeded(found) else { continue };
            self.remember(target, found);
            return Some((found, waiting));
        }
    }

    fn remember(&mut self, target: Target, found: SocketAddr) {
        if self.known.len() >= MOST_PEERS {
            self.known.clear();
        }
        self.known.insert(target, found);
    }
}

/// An address, or a word in the log.
fn heeded(found: Result<Option<SocketAddr>, Refusal>) -> Option<SocketAddr> {
    found.inspect_err(|refusal| tracing::info!("a datagram: {}", refusal.why)).ok().flatten()
}

/// How receiving fails: now and then, with the network's word about an earlier datagram, or for good.
#[derive(Default)]
struct Failures(u32);

impl Failures {
    /// The next datagram.
    ///
    /// # Errors
    /// Receiving fails again and again.
    async fn receive(
        &mut self,
        socket: &UdpSocket,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        loop {
            match socket.recv_from(buffer).await {
                Ok(got) => {
                    self.0 = 0;
                    return Ok(got);
                }
                Err(error) if self.0 >= MOST_FAILURES => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "receiving datagrams");
                    self.0 += 1;
                    if self.0 > 1 {
                        sleep(BREATHER).await;
                    }
                }
            }
        }
    }
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

#[cfg(test)]
#[path = "udp_tests.rs"]
mod tests;
