//! One UDP socket or TUN device with any number of connections behind it.

use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::{fmt, io};

#[cfg(target_os = "linux")]
use tack_device::Tun;
use tack_device::{Clock, SocketConfig, UdpSocket};
use tack_tcp::{
    ConnConfig, ConnectionError, Encapsulation, Host, HostConfig, HostCounters, ListenConfig,
    Remote,
};

use crate::driver::Driver;
use crate::link::Link;
use crate::shared::Shared;
use crate::stream::Conn;
use crate::{ConnectError, ListenError, TackListener, TackStream, tls};

/// How long [`Endpoint::connect`] waits unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

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

#[cfg(target_os = "linux")]
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

/// Configures an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct Builder {
    socket: SocketConfig,
    host: HostConfig,
    conn: ConnConfig,
    connect_timeout: Option<Duration>,
    answer_each_datagram: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            socket: SocketConfig::default(),
            host: HostConfig::default(),
            conn: ConnConfig::default(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            answer_each_datagram: false,
        }
    }
}

impl Builder {
    /// The defaults.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Kernel buffers of the socket.
    #[must_use]
    pub fn socket(mut self, config: SocketConfig) -> Builder {
        self.socket = config;
        self
    }

    /// Limits and codepoints of the host. Its encapsulation is what the endpoint is bound to.
    #[must_use]
    pub fn host(mut self, config: HostConfig) -> Builder {
        self.host = config;
        self
    }

    /// What connections get unless told otherwise: buffers, congestion control, TACK or not.
    #[must_use]
    pub fn conn(mut self, config: ConnConfig) -> Builder {
        self.conn = config;
        self
    }

    /// How long a connection attempt may take; `None`: until the host's SYNs are used up, about
    /// two minutes by default. 15 s if not set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Option<Duration>) -> Builder {
        self.connect_timeout = timeout;
        self
    }

    /// Answers each datagram before it looks at the next, as a host without receive offload does.
    ///
    /// Off by default: datagrams that arrive together are answered together, which saves
    /// acknowledgments of plain TCP and processor time. On, plain TCP acknowledges every `L`
    /// segments [RFC 5681 §4.2] however they arrive.
    #[must_use]
    pub fn answer_each_datagram(mut self, each: bool) -> Builder {
        self.answer_each_datagram = each;
        self
    }

    /// Opens the endpoint on `local`; port 0 takes a free one. Must be called in a tokio runtime
    /// with I/O enabled; its driver task runs there.
    ///
    /// # Errors
    /// The address is taken or not ours, or no file descriptor is left.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn bind(self, local: SocketAddr) -> io::Result<Endpoint> {
        self.with_socket(UdpSocket::bind(local, &self.socket)?)
    }

    /// Opens the endpoint on a socket bound elsewhere.
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn from_std(self, socket: std::net::UdpSocket) -> io::Result<Endpoint> {
        self.with_socket(UdpSocket::from_std(socket)?)
    }

    /// Opens the endpoint on a TUN device of its own, for peers that speak TCP over IP; see
    /// [`TunConfig`](crate::TunConfig) for who is reached how. Takes privileges, which the error
    /// names.
    ///
    /// # Errors
    /// [`tack_device::TunError`], inside the [`io::Error`].
    ///
    /// # Panics
    /// Outside a runtime.
    #[cfg(target_os = "linux")]
    pub fn bind_tun(self, config: &crate::TunConfig) -> io::Result<Endpoint> {
        self.from_tun(Tun::open(&config.device)?, &config.local)
    }

    /// Opens the endpoint on a device opened elsewhere, in another network namespace say, and
    /// answers for these addresses.
    ///
    /// # Errors
    /// No address (`InvalidInput`), or no file descriptor is left.
    ///
    /// # Panics
    /// Outside a runtime.
    #[cfg(target_os = "linux")]
    pub fn from_tun(self, tun: Tun, local: &[std::net::IpAddr]) -> io::Result<Endpoint> {
        use crate::tun::{TunConfigError, TunLink, host_config};

        let no_address = || io::Error::new(io::ErrorKind::InvalidInput, TunConfigError::NoAddress);
        let first = SocketAddr::new(*local.first().ok_or_else(no_address)?, 0);
        let host = host_config(&self.host, &tun, local);
        self.with_link(Link::Tun(TunLink(tun)), host, first)
    }

    fn with_socket(&self, socket: UdpSocket) -> io::Result<Endpoint> {
        let local = socket.local_addr();
        let host = HostConfig { encapsulation: Encapsulation::Udp, ..self.host.clone() };
        self.with_link(Link::Udp(socket), host, local)
    }

    fn with_link(&self, link: Link, host: HostConfig, local: SocketAddr) -> io::Result<Endpoint> {
        let clock = Clock::start();
        let secret = tls::random_bytes::<32>()?;
        let host = Host::new(host, secret, clock.now());
        let shared = Arc::new(Shared::new(link, host, clock, self.answer_each_datagram)?);
        let handle = Handle::new(shared.clone());
        tokio::spawn(Driver(shared));
        Ok(Endpoint {
            handle,
            local,
            conn: Arc::new(self.conn.clone()),
            connect_timeout: self.connect_timeout,
        })
    }
}

/// One UDP socket, or TUN device, with any number of connections behind it. Clones are the same
/// endpoint.
///
/// The socket or device lives until the last clone, listener and stream is dropped and what they wrote is
/// delivered.
#[derive(Clone, Debug)]
pub struct Endpoint {
    handle: Handle,
    local: SocketAddr,
    conn: Arc<ConnConfig>,
    connect_timeout: Option<Duration>,
}

impl Endpoint {
    /// A [`Builder`].
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An endpoint to connect from, with defaults. `local` is usually the wildcard address of the
    /// peers' family with port 0.
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn client(local: SocketAddr) -> io::Result<Endpoint> {
        Builder::new().bind(local)
    }

    /// An endpoint to serve from, with defaults, and a listener on its port.
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn server(local: SocketAddr) -> Result<(Endpoint, TackListener), ListenError> {
        let endpoint = Builder::new().bind(local)?;
        let listener = endpoint.listen()?;
        Ok((endpoint, listener))
    }

    /// The socket's address; of a TUN endpoint the first address, with port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Name of the TUN device's interface; `None` over UDP.
    #[cfg(target_os = "linux")]
    pub fn interface(&self) -> Option<&str> {
        match self.handle.0.link.get_ref() {
            Link::Udp(_) => None,
            Link::Tun(link) => Some(link.name()),
        }
    }

    /// Connects to a listener at `peer`, whose TCP port is its UDP port if there is one.
    ///
    /// Cancel safe: dropping the future gives the attempt up.
    ///
    /// # Errors
    /// Refused, timed out, or out of ports.
    pub async fn connect(&self, peer: SocketAddr) -> Result<TackStream, ConnectError> {
        self.connect_with(peer, (*self.conn).clone()).await
    }

    /// As [`Endpoint::connect`], to a TCP port that differs from the UDP port, or with a
    /// configuration of its own.
    ///
    /// # Errors
    /// As for [`Endpoint::connect`].
    pub async fn connect_with(
        &self,
        peer: impl Into<Remote>,
        config: ConnConfig,
    ) -> Result<TackStream, ConnectError> {
        let peer = peer.into();
        let conn = self.start(peer, config)?;
        let over_udp = matches!(self.handle.0.link.get_ref(), Link::Udp(_));
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
        config.mss = config.mss.or_else(|| shared.link.get_ref().narrow_mss(peer.path));
        let mut state = shared.lock();
        if state.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let id = state.host.connect(peer, config, shared.clock.now())?;
        state.waiters.add_conn(id);
        state.settle(shared);
        drop(state);
        Ok(Conn::new(self.handle.clone(), id, self.local, peer))
    }

    /// Listens on the TCP port that equals the UDP port, so that peers need one number only.
    ///
    /// # Errors
    /// Somebody listens there already, or there is no UDP port: over a TUN device, choose a port
    /// for [`Endpoint::listen_with`].
    pub fn listen(&self) -> Result<TackListener, ListenError> {
        if self.local.port() == 0 {
            return Err(ListenError::NoPort);
        }
        let conn = (*self.conn).clone();
        self.listen_with(self.local.port(), ListenConfig { conn, ..ListenConfig::default() })
    }

    /// Listens on a TCP port of this endpoint.
    ///
    /// # Errors
    /// Somebody listens there already.
    pub fn listen_with(
        &self,
        port: u16,
        config: ListenConfig,
    ) -> Result<TackListener, ListenError> {
        let mut state = self.handle.0.lock();
        if state.closed {
            return Err(ListenError::EndpointClosed);
        }
        state.host.listen(port, config)?;
        state.waiters.add_listener(port);
        drop(state);
        Ok(TackListener::new(self.handle.clone(), self.local, port))
    }

    /// What passed the socket or device so far.
    pub fn io_counters(&self) -> IoCounters {
        self.handle.0.lock().io
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
    ///
    /// Cancel safe.
    pub async fn wait_idle(&self) {
        poll_fn(|cx| {
            let mut state = self.handle.0.lock();
            if state.is_idle() {
                return Poll::Ready(());
            }
            state.waiters.await_idle(cx);
            Poll::Pending
        })
        .await;
    }
}

/// How long an answer is waited for before we ask whether there is anybody.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often we ask: one datagram may be lost.
const QUESTIONS: usize = 3;

/// Waits until the network says that nobody has `peer`'s port. The kernel tells only a socket that
/// has no other peers, and only what was answered to that socket; so an empty datagram goes from one
/// of its own. Nobody who listens takes notice of it.
async fn refused(peer: SocketAddr) {
    let asking = async {
        let socket = tokio::net::UdpSocket::bind(any_addr_like(peer)).await?;
        socket.connect(peer).await?;
        for _ in 0..QUESTIONS {
            tokio::time::sleep(PATIENCE).await;
            socket.send(&[]).await?;
            let answer = tokio::time::timeout(PATIENCE, socket.recv(&mut [])).await;
            answer.map_or(Ok(0), |answer| answer)?;
        }
        Ok::<(), io::Error>(())
    };
    match asking.await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
        // It cannot be found out so.
        _ => std::future::pending().await,
    }
}

/// The wildcard address of the same family, with a port of the system's choice.
pub(crate) fn any_addr_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Keeps an endpoint's driver running.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    fn new(shared: Arc<Shared>) -> Handle {
        shared.lock().handles += 1;
        Handle(shared)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        Handle::new(self.0.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.handles -= 1;
        if state.handles == 0 {
            state.wake_driver();
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.0.link).finish()
    }
}
