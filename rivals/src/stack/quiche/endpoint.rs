//! A socket, and whose the datagrams are that arrive at it.

use std::array;
use std::collections::HashMap;
use std::io::{ErrorKind, IoSliceMut, Result as IoResult};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use quiche::{Config, ConnectionId, Header, RecvInfo, Type};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::connection::{Connection, Output};
use crate::keys::NAME;
use crate::stack::{any, udp_socket};

/// Longest datagram: what a packet of 1500 bytes has room for behind IPv4 and UDP.
pub(super) const MAX_DATAGRAM_BYTES: usize = 1_500 - 20 - 8;
/// Most that the kernel takes, or hands over, as one.
const MAX_BURST_BYTES: usize = 65_535 - 20 - 8;
const CID_BYTES: usize = 16;

/// A connection's name towards us, or what its client called it at first.
type Cid = Vec<u8>;

pub(super) struct Endpoint {
    socket: UdpSocket,
    udp: UdpSocketState,
    local: SocketAddr,
    config: Mutex<Config>,
    known: Mutex<HashMap<Cid, Arc<Connection>>>,
    /// What is under way to the socket.
    out: tokio::sync::Mutex<Vec<u8>>,
    /// Where connections go that others open; `None`: nobody may.
    accepts: Option<mpsc::Sender<Arc<Connection>>>,
}

impl Endpoint {
    /// Opens it, and takes what arrives from now on.
    pub(super) fn bind(
        port: u16,
        config: Config,
        accepts: Option<mpsc::Sender<Arc<Connection>>>,
    ) -> Result<Arc<Endpoint>> {
        let socket = UdpSocket::from_std(udp_socket(port)?)?;
        let endpoint = Arc::new(Endpoint {
            udp: UdpSocketState::new((&socket).into())?,
            local: any(socket.local_addr()?.port()),
            socket,
            config: Mutex::new(config),
            known: Mutex::default(),
            out: tokio::sync::Mutex::new(vec![0; MAX_BURST_BYTES]),
            accepts,
        });
        let receiving = endpoint.clone();
        tokio::spawn(async move {
            if let Err(e) = receiving.receive().await {
                eprintln!("nothing arrives any more: {e}");
            }
        });
        Ok(endpoint)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Cid, Arc<Connection>>> {
        self.known.lock().expect("nobody panics who holds it")
    }

    fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().expect("nobody panics who holds it")
    }

    pub(super) fn connect(self: &Arc<Self>, peer: SocketAddr) -> Result<Arc<Connection>> {
        let cid = fresh_cid()?;
        let (scid, local) = (ConnectionId::from_ref(&cid), self.local);
        let state = quiche::connect_with_buffer_factory(
            Some(NAME),
            &scid,
            local,
            peer,
            &mut self.config(),
        )?;
        Ok(self.open(Connection::new(state), [cid].into()))
    }

    /// A client's first datagram arrived, or one of another's that is over.
    fn accept(self: &Arc<Self>, first: &Header, peer: SocketAddr) -> Result<Arc<Connection>> {
        let accepts = self.accepts.as_ref().context("nobody may connect")?;
        ensure!(first.ty == Type::Initial, "no connection begins so");
        let place = accepts.try_reserve()?;
        let cid = fresh_cid()?;
        let (scid, local) = (ConnectionId::from_ref(&cid), self.local);
        let state = quiche::accept_with_buf_factory(&scid, None, local, peer, &mut self.config())?;
        // The client's own name for it serves until it knows ours.
        let connection = self.open(Connection::new(state), [cid, first.dcid.to_vec()].into());
        place.send(connection.clone());
        Ok(connection)
    }

    /// Has a connection go on, which is called `cids`, until it is closed.
    fn open(self: &Arc<Self>, connection: Connection, cids: Vec<Cid>) -> Arc<Connection> {
        let connection = Arc::new(connection);
        self.known().extend(cids.iter().map(|cid| (cid.clone(), connection.clone())));
        let (endpoint, driven) = (self.clone(), connection.clone());
        tokio::spawn(async move {
            driven.drive(&endpoint).await;
            let mut known = endpoint.known();
            for cid in &cids {
                known.remove(cid);
            }
        });
        connection
    }

    async fn receive(self: Arc<Self>) -> IoResult<()> {
        let mut buffer = vec![0; BATCH_SIZE * MAX_BURST_BYTES];
        loop {
            self.socket.readable().await?;
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let mut parts = buffer.chunks_exact_mut(MAX_BURST_BYTES);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                array::from_fn(|_| IoSliceMut::new(parts.next().expect("as many as slices")));
            let received = self.socket.try_io(Interest::READABLE, || {
                self.udp.recv((&self.socket).into(), &mut slices, &mut metas)
            });
            let count = match received {
                Ok(count) => count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
                Err(e) => return Err(e),
            };
            for (slice, meta) in slices.iter_mut().zip(&metas).take(count) {
                for datagram in slice[..meta.len].chunks_mut(meta.stride.max(1)) {
                    self.take(datagram, meta.addr);
                }
            }
            // What came is read and answered before more is fetched.
            yield_now().await;
        }
    }

    fn take(self: &Arc<Self>, datagram: &mut [u8], from: SocketAddr) {
        let Ok(header) = Header::from_slice(datagram, CID_BYTES) else { return };
        let known = self.known().get(&header.dcid[..]).cloned();
        let Some(connection) = known.or_else(|| self.accept(&header, from).ok()) else { return };
        connection.take(datagram, RecvInfo { from, to: self.local });
    }

    /// Sends what may leave; until when pacing holds back the rest.
    pub(super) async fn flush(&self, connection: &Connection) -> Option<Instant> {
        loop {
            let mut out = self.out.lock().await;
            let now = tokio::time::Instant::now().into_std();
            match connection.output(&mut out, self.udp.max_gso_segments(), now) {
                Output::Wait(until) => return until,
                Output::Send(burst) => {
                    let (even, odd) = out.split_at(burst.even_bytes);
                    self.send(burst.to, even, burst.segment_bytes).await;
                    if burst.odd_bytes > 0 {
                        self.send(burst.to, &odd[..burst.odd_bytes], burst.odd_bytes).await;
                    }
                }
            }
            // Others have their turn, and what arrived meanwhile is looked at.
            drop(out);
            yield_now().await;
        }
    }

    async fn send(&self, destination: SocketAddr, contents: &[u8], segment_bytes: usize) {
        let segment_size = Some(segment_bytes).filter(|bytes| *bytes < contents.len());
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        loop {
            let sent = self
                .socket
                .try_io(Interest::WRITABLE, || self.udp.try_send((&self.socket).into(), &transmit));
            match sent {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // An error comes once more with what is sent next.
                    let _ = self.socket.writable().await;
                }
                // What the kernel refuses, such as a probe that is too long, is lost.
                _ => return,
            }
        }
    }
}

fn fresh_cid() -> Result<Cid> {
    let mut cid = vec![0; CID_BYTES];
    SystemRandom::new().fill(&mut cid).map_err(|_| anyhow!("there are no random bytes"))?;
    Ok(cid)
}
