//! Taking connections in, from whoever may come in.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::budget::Peer;
use tack_net::quic::QuicStream;
use tack_net::tls::{Acceptor, Fingerprint, TlsError};
use tack_net::{
    ConnConfig, HandshakeLimits, SecureListener, SecureStream, SocketConfig, TackListener, quic,
};
use tokio::io::{self as aio, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::carrier::Carrier;
use super::conn::Carried;
use super::{NetConn, Way, settle};
use crate::admission::{Admission, Door};
use crate::conn::Accept;
use crate::exit::{ExitCode, Failure};
use crate::notices::Notices;
use crate::stop::Stop;
use crate::terminal::say;

/// How long, and for how many bytes, to listen to whoever is turned away.
const TURNING_AWAY: Duration = Duration::from_secs(1);
const MOST_UNHEARD: u64 = 1 << 20;

/// Takes connections in.
#[derive(Debug)]
pub struct NetAccept {
    carrier: Carrier,
    listener: Listener,
    fingerprint: Option<Fingerprint>,
    door: Door,
}

/// Of which transport, encrypted or not.
#[derive(Debug)]
enum Listener {
    Plain(TackListener),
    Tls(Box<SecureListener>),
    Quic(Box<quic::Listener>),
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
        way.protects(identity.is_some())?;
        let acceptor = identity.as_ref().map(|(acceptor, ..)| acceptor);
        let carrier = way.open(config.clone(), local, SocketConfig::default(), acceptor)?;
        let fingerprint = identity.as_ref().map(|(_, key, _)| *key);
        let door = identity.as_ref().map_or_else(Door::open, |(.., door)| door.clone());
        let at = (door.clone(), Notices::default());
        let listener = match (&carrier, identity) {
            (Carrier::Quic(endpoint, _), _) => {
                let own = fingerprint.expect("QUIC has an identity");
                let listener = quic::Listener::new(endpoint.clone());
                let listener = listener.admitting(move |mut stream: QuicStream| {
                    let at = at.clone();
                    async move {
                        let peer = (stream.peer_addr(), stream.connection().peer_fingerprint());
                        let_in(&at, own, peer, &mut stream).await.map(|()| stream)
                    }
                });
                Listener::Quic(Box::new(listener))
            }
            (Carrier::Tack(endpoint), identity) => {
                let port = way.tcp_port(endpoint, local)?;
                let listen = tack_net::ListenConfig::default().with(|it| {
                    it.conn = config;
                    it.any_port = true;
                });
                let failed = |e| {
                    Failure::new(ExitCode::Failed, format!("cannot listen on port {port}: {e}"))
                };
                match identity {
                    Some((acceptor, own, _)) => {
                        let listener = endpoint.listen_with(port, listen, acceptor);
                        let admit = move |mut tls: SecureStream| {
                            let at = at.clone();
                            async move {
                                let peer = (tls.get_ref().peer_addr(), tls.peer_fingerprint());
                                let_in(&at, own, peer, &mut tls).await.map(|()| tls)
                            }
                        };
                        Listener::Tls(Box::new(listener.map_err(failed)?.admitting(admit)))
                    }
                    None => {
                        Listener::Plain(endpoint.listen_plain_with(port, listen).map_err(failed)?)
                    }
                }
            }
        };
        Ok(Self { carrier, listener, fingerprint, door })
    }

    /// The same with other limits on who has not come in yet; without encryption nobody waits for that.
    #[must_use]
    pub fn within(self, limits: HandshakeLimits) -> Self {
        let listener = match self.listener {
            Listener::Plain(listener) => Listener::Plain(listener),
            Listener::Tls(listener) => Listener::Tls(Box::new(listener.limits(limits))),
            Listener::Quic(listener) => Listener::Quic(Box::new(listener.limits(limits))),
        };
        Self { listener, ..self }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.listener {
            Listener::Plain(listener) => listener.local_addr(),
            Listener::Tls(listener) => listener.local_addr(),
            Listener::Quic(listener) => listener.local_addr(),
        }
    }

    /// What clients have to speak: `UDP`, `QUIC`, or TCP and through which interface.
    pub fn medium(&self) -> String {
        self.carrier.medium()
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
            Listener::Quic(listener) => listener.close().await,
        }
        settle(&self.carrier, stop).await;
    }
}

impl Accept for NetAccept {
    type Conn = NetConn;

    fn mark(&mut self, dscp: u8) -> bool {
        self.carrier.set_dscp(dscp) || dscp == 0
    }

    async fn accept(&mut self) -> io::Result<NetConn> {
        let carried = match &self.listener {
            Listener::Plain(listener) => {
                let (stream, peer) = listener.accept().await?;
                tracing::info!(%peer, "connection");
                Carried::Plain(Box::new(stream))
            }
            Listener::Tls(listener) => Carried::Tls(Box::new(listener.accept().await?.0)),
            Listener::Quic(listener) => Carried::Quic(Box::new(listener.accept().await?.0)),
        };
        Ok(carried.into())
    }
}

/// Lets in who may come in: the peer has this address and shows this key.
async fn let_in(
    (door, notices): &(Door, Notices),
    own: Fingerprint,
    (peer, key): (SocketAddr, Option<Fingerprint>),
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<(), TlsError> {
    match door.admit(stream, own, key, Peer::of(Some(peer))).await? {
        Admission::In => Ok(()),
        Admission::ByCode(next) => {
            if let Some(code) = next {
                say(format_args!("{peer} came in with the code. The next one is {code}"));
            }
            Ok(())
        }
        Admission::Refused(why, next) => {
            notices.say(format_args!("{peer} was turned away: {why}"));
            if let Some(code) = next {
                say(format_args!("tack: after too many wrong ones, the code is now {code}"));
            }
            let _ = stream.shutdown().await;
            // It may have said more already. Unread, that would turn the close into a reset, and our word be lost.
            let (mut rest, mut nowhere) = (stream.take(MOST_UNHEARD), aio::sink());
            let _ = timeout(TURNING_AWAY, aio::copy(&mut rest, &mut nowhere)).await;
            Err(TlsError::Io(io::Error::new(io::ErrorKind::PermissionDenied, why)))
        }
    }
}
