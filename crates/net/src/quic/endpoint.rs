//! One UDP socket with any number of connections behind it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tack_device::{Clock, SocketConfig, UdpSocket};
use tack_quic::{Config, ConnectionError, EndpointCounters, Listen, code};
use tokio::time::sleep;

use super::Connection;
use super::machine::{Key, close_all};
use crate::dial::{Reach, refused, resolve};
use crate::driver::start;
use crate::handle::{Handle, wait, wait_delivered, wait_idle};
use crate::link::Link;
use crate::passed::IoCounters;
use crate::race::first_of;
use crate::shared::State;
use crate::tap::{Gauge, SharedTap, Tapped};
use crate::tls::{AlertDescription, Connector, ForQuic, TlsError};
use crate::{ConnectError, HostPort};

type Quic = tack_quic::Endpoint;

/// How long an attempt to connect may take unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Configures an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct Builder {
    socket: SocketConfig,
    listen: Option<Listen>,
    reset_secret: Option<[u8; 32]>,
    connect_timeout: Option<Duration>,
    tap: Option<SharedTap>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            socket: SocketConfig::default(),
            listen: None,
            reset_secret: None,
            connect_timeout: Some(CONNECT_TIMEOUT),
            tap: None,
        }
    }
}

impl Builder {
    /// The defaults: nobody may connect.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// How the socket is made, and its kernel buffers.
    #[must_use]
    pub fn socket(mut self, config: SocketConfig) -> Builder {
        self.socket = config;
        self
    }

    /// Others may connect.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Builder {
        self.listen = Some(listen);
        self
    }

    /// What stateless resets come from, 32 secret bytes that outlive the process: then a server that was
    /// started again on the same address tells clients at once that their connections are gone. Without,
    /// they find out by silence. See [`Acceptor::secret`](crate::tls::Acceptor::secret).
    #[must_use]
    pub fn reset_secret(mut self, secret: [u8; 32]) -> Builder {
        self.reset_secret = Some(secret);
        self
    }

    /// How long a handshake that is begun here may take at one address, whatever the server says
    /// meanwhile; `None`: until it is silent for the connection's idle timeout. 15 s if not set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Option<Duration>) -> Builder {
        self.connect_timeout = timeout;
        self
    }

    /// Tells `tap` of every datagram, and of every packet in clear.
    #[must_use]
    pub fn tap(mut self, tap: SharedTap) -> Builder {
        self.tap = Some(tap);
        self
    }

    /// Opens the endpoint on `local`; port 0 takes a free one. Must be called in a tokio runtime with
    /// I/O enabled; its driver task runs there.
    ///
    /// # Errors
    /// The address is taken or not ours, or no file descriptor is left.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn bind(self, local: SocketAddr) -> io::Result<Endpoint> {
        let socket = UdpSocket::bind(local, &self.socket)?;
        self.with_socket(socket)
    }

    /// Opens the endpoint on a socket bound elsewhere.
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn from_std(self, socket: std::net::UdpSocket) -> io::Result<Endpoint> {
        self.with_socket(UdpSocket::from_std(socket)?)
    }

    fn with_socket(self, socket: UdpSocket) -> io::Result<Endpoint> {
        let local = socket.local_addr();
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let quic = Quic::new(secret, self.listen);
        let mut quic = match self.reset_secret {
            Some(secret) => quic.with_reset_key(&secret, local.to_string().as_bytes()),
            None => quic,
        };
        let tapped = self.tap.map(|tap| Tapped { tap, local });
        if tapped.is_some() {
            quic.look();
        }
        let link = Link::Udp(socket.without_fragments());
        let handle = start(link, quic, Clock::start(), false, tapped)?;
        let (socket, connect_timeout) = (self.socket, self.connect_timeout);
        let door = Arc::new(Door(handle.clone()));
        Ok(Endpoint { handle, _door: door, socket, connect_timeout })
    }
}

/// One UDP socket with any number of connections behind it. Clones are the same endpoint.
///
/// The socket lives until the last clone, connection and stream is dropped and the peers know. With the last clone
/// nobody can accept connections any more: no others are taken in, and those that wait for it are refused.
#[derive(Clone, Debug)]
pub struct Endpoint {
    handle: Handle<Quic>,
    _door: Arc<Door>,
    socket: SocketConfig,
    connect_timeout: Option<Duration>,
}

/// Through which others come in, as long as somebody may accept them.
#[derive(Debug)]
struct Door(Handle<Quic>);

impl Drop for Door {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut state = shared.lock();
        state.host.stop_listening(shared.clock.now());
        state.settle(shared);
    }
}

impl Endpoint {
    /// A [`Builder`].
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An endpoint to connect from, on the wildcard address of the peers' family with port 0
    /// (`[::]:0` reaches both).
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn client(local: SocketAddr) -> io::Result<Endpoint> {
        Builder::new().bind(local)
    }

    /// An endpoint that others may connect to.
    ///
    /// # Errors
    /// As for [`Builder::bind`].
    pub fn server(local: SocketAddr, listen: Listen) -> io::Result<Endpoint> {
        Builder::new().listen(listen).bind(local)
    }

    /// The socket's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.0.lock().way.link().local_addr()
    }

    /// Leaves the socket for another one on `local`, and takes the connections along: to another network, or
    /// away from an address that is about to go. Servers are asked whether they hear us there, under connection
    /// IDs that nobody on the old path has seen [RFC 9000 §9.5], and what was known of the old path is
    /// forgotten. A connection whose server forbids it, or whose handshake is not done, cannot move like that:
    /// its server takes us for a client behind a NAT, or hears us no more.
    ///
    /// Clients of this endpoint do not follow: a server's address is where it began.
    ///
    /// # Errors
    /// The address is taken or not ours, or no file descriptor is left; everything is as it was then.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn rebind(&self, local: SocketAddr) -> io::Result<()> {
        self.rebind_to(UdpSocket::bind(local, &self.socket)?)
    }

    /// As [`Self::rebind`], to a socket bound elsewhere.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn rebind_from_std(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        self.rebind_to(UdpSocket::from_std(socket)?)
    }

    fn rebind_to(&self, socket: UdpSocket) -> io::Result<()> {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        state.exchange(Link::Udp(socket.without_fragments()))?;
        let now = shared.clock.now();
        let all: Vec<_> = state.host.connections().collect();
        for id in all {
            if state.host.peek(id).is_some_and(|conn| conn.can_migrate())
                && let Some(conn) = state.host.connection(id)
            {
                // Fails only if it cannot move, which was asked.
                let _ = conn.migrate(now);
            }
        }
        state.settle(shared);
        Ok(())
    }

    /// Connects to the server called `host` (`example.org:9000`, `[fd00::1]:9000`), whose key or
    /// certificate `connector` believes, to speak one of `protocols`. All addresses of a name are tried.
    ///
    /// Cancel safe: an attempt that is given up ends.
    ///
    /// # Errors
    /// The name is unknown, or has no address in reach; nobody answered; the server is not to be
    /// believed, or would not have us. A host that was never met is [`TlsError::NotKnown`]; see
    /// [`crate::Endpoint::connect`].
    pub async fn connect(
        &self,
        host: &str,
        connector: &Connector,
        protocols: &[&[u8]],
        config: Config,
    ) -> Result<Connection, ConnectError> {
        let at: HostPort = host.parse()?;
        let reach = Reach::from_socket(self.local_addr(), self.socket.v6_only);
        let addresses = resolve((at.name.as_str(), at.port), reach).await?;
        let host = at.to_string();
        let protocols: Vec<_> = protocols.iter().map(|name| name.to_vec()).collect();
        let met = first_of(addresses, |peer| {
            let (endpoint, connector, host) = (self.clone(), connector.clone(), host.clone());
            let (protocols, config) = (protocols.clone(), config.clone());
            async move {
                let protocols: Vec<_> = protocols.iter().map(Vec::as_slice).collect();
                endpoint.meet(peer, &host, &connector, &protocols, config).await
            }
        });
        let (connection, is_first_use) = met.await?;
        if !is_first_use {
            return Ok(connection);
        }
        let found = connection.peer_fingerprint().ok_or(TlsError::NoCertificate)?;
        Err(TlsError::NotKnown { host, found }.into())
    }

    /// Connects to the server at `peer`, called `host`, as [`Self::connect`] does. True: it was never
    /// met, and whoever has compared its key [remembers](Connector::remember) it.
    ///
    /// Cancel safe: an attempt that is given up ends.
    ///
    /// # Errors
    /// As there.
    pub async fn meet(
        &self,
        peer: SocketAddr,
        host: &str,
        connector: &Connector,
        protocols: &[&[u8]],
        config: Config,
    ) -> Result<(Connection, bool), ConnectError> {
        let ForQuic { name, config: tls, verdict } = connector.for_quic(host, protocols)?;
        let connected = self.connect_with(peer, name, tls, config).await;
        let Some(verdict) = verdict else { return Ok((connected?, false)) };
        let mut verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match (connected, verdict.error.take()) {
            (Err(ConnectError::Quic(_) | ConnectError::Tls(_)), Some(reason)) => Err(reason.into()),
            (connected, _) => Ok((connected?, verdict.first_use)),
        }
    }

    /// Connects to the server at `peer`, which must be `name` to TLS as `tls` is configured.
    ///
    /// Cancel safe: an attempt that is given up ends.
    ///
    /// # Errors
    /// TLS cannot do QUIC as it is configured; nobody answered, or the handshake failed.
    pub async fn connect_with(
        &self,
        peer: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
        config: Config,
    ) -> Result<Connection, ConnectError> {
        let connection = self.connect_early(peer, name, tls, config)?;
        let late = async {
            let Some(limit) = self.connect_timeout else { return std::future::pending().await };
            sleep(limit).await;
            limit
        };
        tokio::select! {
            biased;
            established = connection.established() => established?,
            () = refused(peer) => return Err(tack_tcp::ConnectionError::Refused.into()),
            limit = late => return Err(ConnectError::TimedOut(limit)),
        }
        Ok(connection)
    }

    /// Begins a connection to the server at `peer`, which must be `name` to TLS as `tls` is configured, and
    /// does not wait for it. Where `tls` has `enable_early_data` and remembers the server, and the server took
    /// early data then, streams can be opened and written at once (0-RTT): [`Connection::early`]. Else that
    /// waits until the handshake is done, which [`Connection::established`] tells.
    ///
    /// What is said early **can be repeated by whoever has recorded it**, see [`Config::max_early_data`], and
    /// at first nobody has shown that the server is there. What the server has not taken is sent again when the
    /// handshake is done; an application that does not want that resets its streams.
    ///
    /// # Errors
    /// TLS cannot do QUIC as it is configured, or the endpoint was closed.
    pub fn connect_early(
        &self,
        peer: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
        config: Config,
    ) -> Result<Connection, ConnectError> {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        if state.closed {
            return Err(ConnectError::EndpointClosed);
        }
        state.forget_address_if_gone(peer);
        let id = state.host.connect(peer, name, tls, config, shared.clock.now());
        let id = id.map_err(TlsError::from)?;
        state.host.hold(id);
        state.settle(shared);
        drop(state);
        Ok(Connection::new(self.handle.clone(), id))
    }

    /// The next connection that another began, its handshake done; `None`: the endpoint was closed. Where
    /// [early data](Config::max_early_data) is taken, the handshake of a client that has some is under way
    /// yet: [`Connection::early`], [`Connection::established`].
    ///
    /// Cancel safe: a connection is taken only when it is returned.
    pub async fn accept(&self) -> Option<Connection> {
        let accepted = |state: &mut State<Quic>| match state.closed {
            true => Some(None),
            false => state.host.accept().map(Some),
        };
        let id = wait(&self.handle, Key::Accept, accepted).await?;
        Some(Connection::new(self.handle.clone(), id))
    }

    /// Ends all connections, and tells the peers the application's `code` and `reason`; nothing new
    /// starts. [`Self::wait_idle`] waits until they know.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        state.closed = true;
        close_all(&mut state.host, code, reason, shared.clock.now());
        state.settle(shared);
        state.waiters.wake_everyone();
    }

    /// Waits until no connection is left, and their peers know, or three probe timeouts have passed.
    ///
    /// Cancel safe.
    pub async fn wait_idle(&self) {
        wait_idle(&self.handle).await;
    }

    /// Waits until what was written to streams has arrived, and their ends, or never will.
    ///
    /// Cancel safe.
    pub async fn wait_delivered(&self) {
        wait_delivered(&self.handle).await;
    }

    /// Marks every datagram with a differentiated services codepoint, 6 bits [RFC 2474], from now on.
    /// Returns whether that can be done: on Linux.
    pub fn set_dscp(&self, dscp: u8) -> bool {
        self.handle.0.lock().way.link().set_dscp(dscp)
    }

    /// What passed the socket so far.
    pub fn io_counters(&self) -> IoCounters {
        self.handle.0.lock().io
    }

    /// Reads the state of the endpoint and its connections from elsewhere.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::new(Arc::downgrade(&self.handle.0)))
    }

    /// What strangers were told.
    pub fn counters(&self) -> EndpointCounters {
        self.handle.0.lock().host.counters()
    }
}

impl From<ConnectionError> for ConnectError {
    fn from(error: ConnectionError) -> ConnectError {
        // What TLS says is told as it is over a stream [RFC 9001 §4.8].
        let alert = |code: u64| {
            let alert = code.checked_sub(code::CRYPTO_ERROR)?;
            u8::try_from(alert).ok().map(AlertDescription::from)
        };
        let tls = match &error {
            ConnectionError::ClosedByPeer { code, .. } => alert(*code).map(TlsError::Refused),
            ConnectionError::Violation { code, reason } => alert(*code).map(|alert| {
                let why = format!("{reason} ({alert:?})");
                TlsError::Protocol(rustls::Error::General(why))
            }),
            _ => None,
        };
        tls.map_or(ConnectError::Quic(error), ConnectError::Tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_another_takes_the_place_of_hands_its_codepoint_on() {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let endpoint = Endpoint::client(loopback).unwrap();
        let dscp = || endpoint.handle.0.lock().way.link().dscp();
        if !endpoint.set_dscp(46) {
            return;
        }
        endpoint.rebind(loopback).unwrap();
        assert_eq!(dscp(), 46);
    }
}
