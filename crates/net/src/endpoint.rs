//! One UDP socket or TUN device with any number of connections behind it.

use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::{fmt, io};

use tack_tcp::{ConnConfig, ConnectionError, Host, HostCounters, ListenConfig, Remote};
use tokio::net::ToSocketAddrs;

use crate::dial::{Reach, first_of, refused, resolve};
use crate::link::Link;
use crate::shared::{Machine, Shared};
use crate::stream::Conn;
use crate::tap::Gauge;
use crate::{Builder, ConnectError, ListenError, TackListener, TackStream};

/// What passed an endpoint's socket, or its device, where packets take the place of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounters {
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bursts they left in, a system call each where there is segmentation offload.
    pub bursts_sent: u64,
    /// Times the socket's buffer was full.
    pub sends_blocked: u64,
    /// Datagrams the kernel would not send: too big for the path, or no route.
    pub datagrams_refused: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Messages they came in, many datagrams each where the kernel coalesces.
    pub messages_received: u64,
    /// Errors the socket reported on receiving.
    pub receive_errors: u64,
}

#[cfg(all(target_os = "linux", feature = "tun"))]
impl IoCounters {
    pub(crate) fn add(&mut self, other: &IoCounters) {
        self.datagrams_sent += other.datagrams_sent;
        self.bursts_sent += other.bursts_sent;
        self.sends_blocked += other.sends_blocked;
        self.datagrams_refused += other.datagrams_refused;
        self.datagrams_received += other.datagrams_received;
        self.messages_received += other.messages_received;
        self.receive_errors += other.receive_errors;
    }
}

/// One UDP socket, or TUN device, with any number of connections behind it. Clones are the same
/// endpoint.
///
/// The socket or device lives until the last clone, listener and stream is dropped and what they wrote is
/// delivered.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) handle: Handle,
    pub(crate) local: SocketAddr,
    pub(crate) reach: Reach,
    pub(crate) conn: Arc<ConnConfig>,
    pub(crate) connect_timeout: Option<Duration>,
    #[cfg(all(target_os = "linux", feature = "tun"))]
    pub(crate) interface: Option<Arc<str>>,
}

impl Endpoint {
    /// A [`Builder`].
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An endpoint with defaults: to serve from, on a port that peers know, or to connect from, on
    /// the wildcard address of the peers' family with port 0 (`[::]:0` reaches both).
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn bind(local: SocketAddr) -> io::Result<Endpoint> {
        Builder::new().bind(local)
    }

    /// The socket's address; of a TUN endpoint the first address, with port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Name of the TUN device's interface; `None` over UDP.
    #[cfg(all(target_os = "linux", feature = "tun"))]
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Connects to a listener at `host` without encryption: an address, or a name with a port, of
    /// which all addresses are tried. The TCP port is the UDP port, if there is one.
    ///
    /// Cancel safe: an attempt that is given up ends.
    ///
    /// # Errors
    /// The name is unknown, or has no address in reach; nobody answered, or refused.
    pub async fn connect_plain(
        &self,
        host: impl ToSocketAddrs,
    ) -> Result<TackStream, ConnectError> {
        let addresses = resolve(host, self.reach).await?;
        first_of(addresses, |peer| {
            let endpoint = self.clone();
            async move {
                let config = (*endpoint.conn).clone();
                endpoint.connect_plain_with(peer, config).await
            }
        })
        .await
    }

    /// As [`Endpoint::connect_plain`], to a TCP port that differs from the UDP port, or with a
    /// configuration of its own.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_plain_with(
        &self,
        peer: impl Into<Remote>,
        config: ConnConfig,
    ) -> Result<TackStream, ConnectError> {
        let peer = peer.into();
        let conn = self.start(peer, config)?;
        let over_udp = matches!(self.handle.0.lock().way.link(), Link::Udp(_));
        let connected = async {
            tokio::select! {
                biased;
                connected = poll_fn(|cx| conn.poll_connected(cx)) => connected,
                () = refused(peer.path), if over_udp => Err(ConnectionError::Refused),
            }
        };
        match self.connect_timeout {
            None => connected.await?,
            Some(limit) => tokio::time::timeout(limit, connected)
                .await
                .map_err(|_| ConnectError::TimedOut(limit))??,
        }
        Ok(TackStream::new(conn))
    }

    fn start(&self, peer: Remote, mut config: ConnConfig) -> Result<Conn, ConnectError> {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        config.mss = config.mss.or_else(|| state.way.link().narrow_mss(peer.path));
        if state.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let id = state.host.connect(peer, config, shared.clock.now())?;
        state.settle(shared);
        drop(state);
        Ok(Conn::new(self.handle.clone(), id, self.local, peer))
    }

    /// Listens without encryption on the TCP port that equals the UDP port, so that peers need one
    /// number only.
    ///
    /// # Errors
    /// Somebody listens there already, or there is no UDP port: over a TUN device, choose a port
    /// for [`Endpoint::listen_plain_with`].
    pub fn listen_plain(&self) -> Result<TackListener, ListenError> {
        if self.local.port() == 0 {
            return Err(ListenError::NoPort);
        }
        let conn = (*self.conn).clone();
        self.listen_plain_with(self.local.port(), ListenConfig::default().with(|it| it.conn = conn))
    }

    /// Listens without encryption on a TCP port of this endpoint.
    ///
    /// # Errors
    /// Somebody listens there already.
    pub fn listen_plain_with(
        &self,
        port: u16,
        config: ListenConfig,
    ) -> Result<TackListener, ListenError> {
        let mut state = self.handle.0.lock();
        if state.closed {
            return Err(ListenError::EndpointClosed);
        }
        state.host.listen(port, config)?;
        drop(state);
        Ok(TackListener::new(self.handle.clone(), self.local, port))
    }

    /// Marks every datagram of this endpoint with a differentiated services codepoint, 6 bits
    /// [RFC 2474], from now on. Returns whether that can be done: over UDP on Linux; packets over IP
    /// carry that of their connection ([`ConnConfig::dscp`]).
    pub fn set_dscp(&self, dscp: u8) -> bool {
        self.handle.0.lock().way.link().set_dscp(dscp)
    }

    /// What passed the socket or device so far.
    pub fn io_counters(&self) -> IoCounters {
        self.handle.0.lock().io
    }

    /// Reads the state of the endpoint and its connections from elsewhere.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::new(Arc::downgrade(&self.handle.0)))
    }

    /// Segments that belonged to no connection, and what was done about them.
    pub fn host_counters(&self) -> HostCounters {
        self.handle.0.lock().host.counters()
    }

    /// Starts nothing new: connection attempts fail and listeners end. Streams go on.
    pub fn close(&self) {
        let mut state = self.handle.0.lock();
        state.closed = true;
        state.waiters.wake_everyone();
    }

    /// Waits until no stream is open and what dropped streams wrote is delivered (or given up).
    /// After [`Endpoint::close`], streams that are still held need not end: that what was written to
    /// them is delivered is enough.
    ///
    /// Cancel safe.
    pub async fn wait_idle(&self) {
        wait_idle(&self.handle).await;
    }
}

/// Waits until whatever was written has arrived.
#[cfg(feature = "quic")]
pub(crate) async fn wait_delivered<M: Machine>(handle: &Handle<M>) {
    poll_fn(|cx| {
        let mut state = handle.0.lock();
        if state.is_delivered() {
            return Poll::Ready(());
        }
        state.waiters.await_idle(cx);
        Poll::Pending
    })
    .await;
}

/// Waits until nothing is left to do.
pub(crate) async fn wait_idle<M: Machine>(handle: &Handle<M>) {
    poll_fn(|cx| {
        let mut state = handle.0.lock();
        if state.nothing_is_left() {
            return Poll::Ready(());
        }
        state.waiters.await_idle(cx);
        Poll::Pending
    })
    .await;
}

/// The wildcard address of the same family, with a port of the system's choice.
pub(crate) fn any_addr_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Keeps an endpoint's driver running.
pub(crate) struct Handle<M: Machine = Host>(pub(crate) Arc<Shared<M>>);

impl<M: Machine> Handle<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Handle<M> {
        shared.lock().handles += 1;
        Handle(shared)
    }
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Handle<M> {
        Handle::new(self.0.clone())
    }
}

impl<M: Machine> Drop for Handle<M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.handles -= 1;
        if state.handles == 0 {
            state.wake_driver();
        }
    }
}

impl<M: Machine> fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
