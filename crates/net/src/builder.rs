//! How an endpoint is made.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(all(target_os = "linux", feature = "tun"))]
use tack_device::Tun;
use tack_device::{Clock, SocketConfig, UdpSocket};
use tack_tcp::{ConnConfig, Encapsulation, Host, HostConfig};
use tokio::net::ToSocketAddrs;

use crate::dial::{Reach, any_addr_like, resolve};
use crate::driver::start;
use crate::link::Link;
use crate::race::first_of;
use crate::tap::{SharedTap, Tapped};
use crate::{ConnectError, Endpoint, ListenError, TackListener, TackStream};

/// How long [`Endpoint::connect_plain`] waits for an address unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Configures an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct Builder {
    socket: SocketConfig,
    host: HostConfig,
    conn: ConnConfig,
    connect_timeout: Option<Duration>,
    answer_each_datagram: bool,
    tap: Option<SharedTap>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            socket: SocketConfig::default(),
            host: HostConfig::default(),
            conn: ConnConfig::default(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            answer_each_datagram: false,
            tap: None,
        }
    }
}

impl Builder {
    /// The defaults.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// How the socket is made, and its kernel buffers.
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

    /// How long an attempt at one address may take; `None`: until the host's SYNs are used up, about
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

    /// Tells `tap` of every datagram, and of what is in it.
    #[must_use]
    pub fn tap(mut self, tap: SharedTap) -> Builder {
        self.tap = Some(tap);
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
    #[cfg(all(target_os = "linux", feature = "tun"))]
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
    #[cfg(all(target_os = "linux", feature = "tun"))]
    pub fn from_tun(self, tun: Tun, local: &[std::net::IpAddr]) -> io::Result<Endpoint> {
        use crate::tun::{TunConfigError, TunLink, host_config};

        let no_address = || io::Error::new(io::ErrorKind::InvalidInput, TunConfigError::NoAddress);
        let first = SocketAddr::new(*local.first().ok_or_else(no_address)?, 0);
        let host = host_config(&self.host, &tun, local);
        let reach = Reach::through_device(local);
        self.with_link(Link::Tun(TunLink(tun)), host, first, reach)
    }

    fn with_socket(&self, socket: UdpSocket) -> io::Result<Endpoint> {
        let local = socket.local_addr();
        let host = self.host.clone().with(|it| it.encapsulation = Encapsulation::Udp);
        let reach = Reach::from_socket(local, self.socket.v6_only);
        self.with_link(Link::Udp(socket), host, local, reach)
    }

    fn with_link(
        &self,
        link: Link,
        host: HostConfig,
        local: SocketAddr,
        reach: Reach,
    ) -> io::Result<Endpoint> {
        let clock = Clock::start();
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let host = Host::new(host, secret, clock.now());
        let tap = self.tap.clone().filter(|_| matches!(link, Link::Udp(_)));
        let tapped = tap.map(|tap| Tapped { tap, local });
        #[cfg(all(target_os = "linux", feature = "tun"))]
        let interface = match &link {
            Link::Udp(_) => None,
            Link::Tun(tun) => Some(Arc::from(tun.name())),
        };
        let handle = start(link, host, clock, self.answer_each_datagram, tapped)?;
        Ok(Endpoint {
            handle,
            local,
            reach,
            conn: Arc::new(self.conn.clone()),
            connect_timeout: self.connect_timeout,
            #[cfg(all(target_os = "linux", feature = "tun"))]
            interface,
        })
    }
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
}

impl TackStream {
    /// Connects to a listener at `host` without encryption, from an endpoint of its own with
    /// defaults; see [`Endpoint::connect_plain`].
    ///
    /// # Errors
    /// As there, or no socket.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect_plain(host: impl ToSocketAddrs) -> Result<TackStream, ConnectError> {
        let addresses = resolve(host, Reach::ALL).await?;
        let met = first_of(addresses, |peer| async move {
            Endpoint::bind(any_addr_like(peer))?.connect_plain(peer).await
        });
        Ok(met.await?)
    }
}

impl TackListener {
    /// An endpoint of its own on `local` with defaults, and a listener without encryption on its
    /// port.
    ///
    /// # Errors
    /// The address is taken or not ours.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind_plain(local: SocketAddr) -> Result<TackListener, ListenError> {
        Endpoint::bind(local)?.listen_plain()
    }
}
