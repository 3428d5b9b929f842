//! One UDP socket or TUN device with any number of connections behind it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tack_tcp::{ConnConfig, ConnectionError, HostCounters, ListenConfig, Remote};
use tokio::net::ToSocketAddrs;

use crate::conn::Conn;
use crate::dial::{Reach, refused, resolve};
use crate::handle::{Handle, wait_idle};
use crate::link::Link;
use crate::passed::IoCounters;
use crate::race::first_of;
use crate::tap::Gauge;
use crate::{ConnectError, ListenError, TackListener, TackStream};

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
        let met = first_of(addresses, |peer| {
            let endpoint = self.clone();
            async move {
                let config = (*endpoint.conn).clone();
                endpoint.connect_plain_with(peer, config).await
            }
        });
        Ok(met.await?)
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
        state.forget_address_if_gone(peer.path);
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
