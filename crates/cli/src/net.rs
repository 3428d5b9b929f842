//! The commands' connections over [`tack_net`]: encrypted unless the user said otherwise.

mod origin;
mod way;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tack_net::budget::Peer;
use tack_net::tls::{Acceptor, Connector, Fingerprint, TlsError};
use tack_net::{
    AckCounts, ConnConfig, Endpoint, HostPort, Keepalive, Mode, SecureListener, SecureStream,
    StreamWatch, TackInfo, TackListener, TackStream,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use crate::admission::{self, Admission, Code, Door, Welcome};
use crate::conn::{Accept, Connection, Dial, Flow};
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use crate::terminal;
use crate::transfer::disk::blocking;

pub use origin::{Family, Origin};
pub use way::Way;

/// Time for being let in once the handshake is done.
const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait, at the end, for the peer to acknowledge our last bytes.
const LINGER: Duration = Duration::from_secs(5);

/// A stream, encrypted or not.
#[derive(Debug)]
pub enum NetConn {
    /// As it is. Boxed like the other, so that neither makes the enum large.
    Plain(Box<TackStream>),
    /// TLS 1.3.
    Tls(Box<SecureStream>),
}

impl NetConn {
    fn tack(&self) -> &TackStream {
        match self {
            NetConn::Plain(stream) => stream,
            NetConn::Tls(stream) => stream.get_ref(),
        }
    }

    /// The peer's key; `None` if it showed none.
    pub fn peer_fingerprint(&self) -> Option<Fingerprint> {
        match self {
            NetConn::Plain(_) => None,
            NetConn::Tls(stream) => stream.peer_fingerprint(),
        }
    }

    /// Looks on from beside whoever uses it; a peer that is silent is asked for a sign of life.
    pub fn watched(&self, probes: Keepalive) -> StreamWatch {
        self.tack().set_keepalive(Some(probes));
        self.tack().watch()
    }

    /// Waits until both directions have ended and the peer has acknowledged everything.
    pub async fn finished(&self) -> io::Result<()> {
        self.tack().finished().await
    }
}

impl Connection for NetConn {
    fn flow(&self) -> Option<Flow> {
        Some(flow_of(&self.tack().info()))
    }

    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some((self.tack().local_addr(), self.tack().peer_addr()))
    }

    fn abort(self) {
        match self {
            NetConn::Plain(stream) => stream.abort(),
            NetConn::Tls(stream) => stream.into_inner().abort(),
        }
    }
}

fn flow_of(info: &TackInfo) -> Flow {
    let micros =
        |d: Option<Duration>| d.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX));
    let counters = &info.counters;
    Flow {
        tack: info.mode == Mode::Tack,
        data_packets_sent: counters.data_segments_sent,
        data_packets_received: counters.data_segments_received,
        retransmits: counters.retransmissions,
        needless_retransmits: counters.needless,
        acks_received: by_kind(&counters.acks_received),
        acks_sent: by_kind(&counters.acks_sent),
        rtt_us: micros(info.srtt),
        rttvar_us: micros(info.rttvar),
        rtt_min_us: micros(info.rtt_min),
        eq4_acks_per_s: info.eq4_frequency.unwrap_or(0.0),
        snd_cwnd: info.cwnd,
        snd_wnd: info.snd_wnd,
        mss: u64::from(info.mss),
    }
}

fn by_kind(counts: &AckCounts) -> BTreeMap<String, u64> {
    let AckCounts { plain, tack, loss, window, frequency, ce } = *counts;
    [
        ("plain", plain),
        ("tack", tack),
        ("loss_iack", loss),
        ("window_iack", window),
        ("frequency_iack", frequency),
        ("ce_iack", ce),
    ]
    .map(|(kind, count)| (kind.to_owned(), count))
    .into()
}

/// Runs a poll method on whichever stream it is.
macro_rules! either {
    ($self:ident, $method:ident($($arg:expr),*)) => {
        match $self.get_mut() {
            NetConn::Plain(stream) => Pin::new(stream.as_mut()).$method($($arg),*),
            NetConn::Tls(stream) => Pin::new(stream.as_mut()).$method($($arg),*),
        }
    };
}

impl AsyncRead for NetConn {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for NetConn {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown(cx))
    }
}

/// Opens connections to one host.
#[derive(Debug)]
pub struct NetDial {
    endpoint: Endpoint,
    peer: SocketAddr,
    host: String,
    connector: Option<Connector>,
    code: Option<Code>,
    hint: &'static str,
    connect_timeout: Option<Duration>,
}

impl NetDial {
    /// Resolves `host` and opens a socket. Without `connector`, nothing is encrypted.
    pub async fn open(
        way: &Way,
        host: &HostPort,
        config: ConnConfig,
        connector: Option<Connector>,
        code: Option<Code>,
    ) -> Result<Self, Failure> {
        Self::open_from(&Origin::default(), way, host, config, connector, code).await
    }

    /// The same, with a say in where connections come from.
    pub async fn open_from(
        origin: &Origin,
        way: &Way,
        host: &HostPort,
        config: ConnConfig,
        connector: Option<Connector>,
        code: Option<Code>,
    ) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(ExitCode::Failed, why);
        let found = tokio::net::lookup_host((host.name.as_str(), host.port))
            .await
            .map_err(|e| failed(format!("cannot find host `{}`: {e}", host.name)))?;
        let reaches = |ip| way.reaches(ip) && origin.reaches(ip);
        let mut reachable = found.filter(|address| reaches(address.ip()));
        let peer = reachable.next().ok_or_else(|| {
            failed(format!("host `{}` has no address of a family that we have", host.name))
        })?;
        let config = config.with(|it| it.dscp = origin.dscp);
        let endpoint = way.endpoint(config, origin.local(peer))?;
        if *way == Way::Udp && !endpoint.set_dscp(origin.dscp) {
            return Err(Failure::usage("-S, --dscp: this system cannot mark datagrams"));
        }
        let (host, hint) = (host.to_string(), way.hint());
        Ok(Self { endpoint, peer, host, connector, code, hint, connect_timeout: None })
    }

    /// Connections that take longer than this fail.
    #[must_use]
    pub fn within(mut self, limit: Option<Duration>) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// A connection; failures say what could be wrong.
    pub async fn connect(&self) -> Result<NetConn, Failure> {
        let Some(limit) = self.connect_timeout else { return self.connect_at_leisure().await };
        let late = || {
            let why = format!("no connection to {} within {} ms", self.host, limit.as_millis());
            Failure::new(ExitCode::Failed, why)
        };
        timeout(limit, self.connect_at_leisure()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connect_at_leisure(&self) -> Result<NetConn, Failure> {
        let stream = self.endpoint.connect_plain(self.peer).await.map_err(|e| {
            let why = format!("cannot connect to {}: {e}; {}", self.host, self.hint);
            Failure::new(ExitCode::Failed, why)
        })?;
        let Some(connector) = &self.connector else {
            return Ok(NetConn::Plain(Box::new(stream)));
        };
        let tls = connector.connect(&self.host, stream).await;
        let tls = self.enter(connector, tls.map_err(|e| self.handshake_failed(&e))?).await?;
        Ok(NetConn::Tls(Box::new(tls)))
    }

    /// Makes sure that the server is the right one, and is let in there.
    async fn enter(
        &self,
        connector: &Connector,
        mut tls: SecureStream,
    ) -> Result<SecureStream, Failure> {
        let server = tls.peer_fingerprint().ok_or(TlsError::NoCertificate);
        let server = server.map_err(|e| self.handshake_failed(&e))?;
        let own = connector.fingerprint();
        // Our own key is in our own hands: the server is ours.
        let mut known = !tls.is_first_use() || own == Some(server);
        if !known && self.code.is_none() {
            self.confirm_first_contact(server).await?;
            known = true;
        }
        let asking = admission::ask(&mut tls, own, server, self.code.as_ref());
        let welcome = timeout(WELCOME_LIMIT, asking).await;
        let welcome =
            welcome.map_err(|_| self.handshake_failed(&TlsError::TimedOut(WELCOME_LIMIT)))?;
        match welcome.map_err(|e| Failure::new(e.code, format!("{}: {}", self.host, e.message)))? {
            Welcome::ByCode => {}
            Welcome::ByKey if known => {}
            // It took no interest in the code, and so has proved nothing.
            Welcome::ByKey => self.confirm_first_contact(server).await?,
        }
        if tls.is_first_use() {
            connector.remember(&self.host, server).map_err(|e| self.handshake_failed(&e))?;
        }
        Ok(tls)
    }

    /// Asks the user whether a server that was never met is the right one.
    async fn confirm_first_contact(&self, server: Fingerprint) -> Result<(), Failure> {
        let question = format!(
            "First contact with {}. Its key is {server}, which should be the one that the other \
             side shows. Go on and remember it? Type yes: ",
            self.host
        );
        let answer = blocking(move || Ok(terminal::ask(&question))).await;
        let why = match answer.ok().flatten() {
            Some(answer) if answer.trim() == "yes" => return Ok(()),
            Some(_) => "you did not confirm it".to_owned(),
            None => "there is no terminal to confirm it at; give --fingerprint, or --code with \
                     the code that the other side shows"
                .to_owned(),
        };
        let why = format!("first contact with {}, whose key is {server}: {why}", self.host);
        Err(Failure::new(ExitCode::Untrusted, why))
    }

    fn handshake_failed(&self, error: &TlsError) -> Failure {
        let code = match error {
            TlsError::Io(_) | TlsError::TimedOut(_) => ExitCode::Failed,
            _ => ExitCode::Untrusted,
        };
        let hint = match error {
            TlsError::Protocol(tack_net::tls::ProtocolError::InvalidMessage(_)) => {
                "; does the other side encrypt, without --insecure-plaintext or --no-tls?"
            }
            _ => "",
        };
        Failure::new(code, format!("no secure connection to {}: {error}{hint}", self.host))
    }

    /// The server's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Waits until what was written is acknowledged, for a while.
    pub async fn settle(&self, stop: &Stop) {
        settle(&self.endpoint, stop).await;
    }

    /// The same, unless the connection is `lost` and nothing of it will ever be.
    pub async fn settle_unless(&self, lost: bool, stop: &Stop) {
        if !lost || stop.is_asked() {
            self.settle(stop).await;
        }
    }
}

impl Dial for NetDial {
    type Conn = NetConn;

    async fn dial(&self) -> Result<NetConn, Failure> {
        self.connect().await
    }
}

/// Takes connections in.
#[derive(Debug)]
pub struct NetAccept {
    endpoint: Endpoint,
    listener: Listener,
    fingerprint: Option<Fingerprint>,
    door: Door,
}

/// Encrypted or not.
#[derive(Debug)]
enum Listener {
    Plain(TackListener),
    Tls(Box<SecureListener>),
}

impl NetAccept {
    /// Listens on `local`, of which a TUN takes the port only. Without an identity, nothing is
    /// encrypted, and anybody may come in.
    pub fn listen(
        way: &Way,
        local: SocketAddr,
        config: ConnConfig,
        identity: Option<(Acceptor, Fingerprint, Door)>,
    ) -> Result<Self, Failure> {
        let endpoint = way.endpoint(config.clone(), local)?;
        let port = match (way, endpoint.local_addr().port()) {
            (Way::Udp, port) => port,
            #[cfg(target_os = "linux")]
            (Way::Tun(_), _) if local.port() == 0 => {
                return Err(Failure::usage("over --tun, choose a port to listen on"));
            }
            #[cfg(target_os = "linux")]
            (Way::Tun(_), _) => local.port(),
        };
        let listen = tack_net::ListenConfig::default().with(|it| {
            it.conn = config;
            it.any_port = true;
        });
        let failed =
            |e| Failure::new(ExitCode::Failed, format!("cannot listen on port {port}: {e}"));
        let (listener, fingerprint, door) = match identity {
            Some((acceptor, key, door)) => {
                let listener = endpoint.listen_with(port, listen, acceptor).map_err(failed)?;
                let at = door.clone();
                let listener = listener.admitting(move |tls| let_in(at.clone(), key, tls));
                (Listener::Tls(Box::new(listener)), Some(key), door)
            }
            None => {
                let listener = endpoint.listen_plain_with(port, listen).map_err(failed)?;
                (Listener::Plain(listener), None, Door::open())
            }
        };
        Ok(Self { endpoint, listener, fingerprint, door })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.listener {
            Listener::Plain(listener) => listener.local_addr(),
            Listener::Tls(listener) => listener.local_addr(),
        }
    }

    /// What clients have to speak: `UDP`, or TCP and through which interface.
    pub fn medium(&self) -> String {
        #[cfg(target_os = "linux")]
        if let Some(name) = self.endpoint.interface() {
            return format!("TCP, interface {name}");
        }
        "UDP".to_owned()
    }

    /// What clients may compare; `None` without encryption.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Who may come in.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Turns away who has not been let in, and waits until what was written is acknowledged, for a
    /// while.
    pub async fn settle(self, stop: &Stop) {
        match self.listener {
            Listener::Plain(listener) => drop(listener),
            Listener::Tls(listener) => listener.close().await,
        }
        settle(&self.endpoint, stop).await;
    }
}

async fn settle(endpoint: &Endpoint, stop: &Stop) {
    // Who does not acknowledge it by then is left alone.
    let _ = stop.or_soon(LINGER, endpoint.wait_idle()).await;
}

impl Accept for NetAccept {
    type Conn = NetConn;

    fn mark(&mut self, dscp: u8) -> bool {
        self.endpoint.set_dscp(dscp) || dscp == 0
    }

    async fn accept(&mut self) -> io::Result<NetConn> {
        Ok(match &self.listener {
            Listener::Plain(listener) => {
                let (stream, peer) = listener.accept().await?;
                tracing::info!(%peer, "connection");
                NetConn::Plain(Box::new(stream))
            }
            Listener::Tls(listener) => NetConn::Tls(Box::new(listener.accept().await?.0)),
        })
    }
}

/// Lets in who may come in.
async fn let_in(
    door: Door,
    own: Fingerprint,
    mut tls: SecureStream,
) -> Result<SecureStream, TlsError> {
    let peer = tls.get_ref().peer_addr();
    let key = tls.peer_fingerprint();
    match door.admit(&mut tls, own, key, Peer::of(Some(peer))).await? {
        Admission::In => Ok(tls),
        Admission::ByCode(next) => {
            if let Some(code) = next {
                eprintln!("{peer} came in with the code. The next one is {code}");
            }
            Ok(tls)
        }
        Admission::Refused(why, next) => {
            eprintln!("tack: {peer} was turned away: {why}");
            if let Some(code) = next {
                eprintln!("tack: after too many wrong ones, the code is now {code}");
            }
            let _ = tls.shutdown().await;
            Err(TlsError::Io(io::Error::new(io::ErrorKind::PermissionDenied, why)))
        }
    }
}

/// Any address of this machine.
pub fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}
