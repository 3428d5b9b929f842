//! Opening connections: to the right server, which lets us in.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tack_net::race::{NoneAnswered, first_of, in_turn};
use tack_net::tls::{Connector, Fingerprint, TlsError};
use tack_net::{ConnConfig, ConnectError, ConnectionError};
use tokio::time::timeout;

use super::carrier::Carrier;
use super::sockets::Sockets;
use super::{NetConn, Network, Origin, Way, Whom, other_way, settle};
use crate::admission::{self, Code, Welcome};
use crate::conn::Dial;
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use crate::terminal;
use crate::transfer::disk::blocking;

/// Time for being let in once the handshake is done.
const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// How often to look, in a handshake, whether the network is still the same: half of one leads nowhere from another.
const LOOK: Duration = Duration::from_millis(100);

/// Handshakes that may be damaged on their way, one after the other, before that is a failure.
const HANDSHAKES: usize = 3;

/// Opens connections to one host: at the first of its addresses that answers, and from then on there.
#[derive(Debug)]
pub struct NetDial {
    addresses: Vec<SocketAddr>,
    /// Which of them answered.
    chosen: Arc<OnceLock<SocketAddr>>,
    sockets: Sockets,
    host: String,
    connector: Option<Connector>,
    code: Option<Code>,
    connect_timeout: Option<Duration>,
}

impl NetDial {
    /// Resolves `host`. Without `connector`, nothing is encrypted.
    pub async fn open(
        way: &Way,
        host: impl Into<Whom>,
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
        host: impl Into<Whom>,
        config: ConnConfig,
        connector: Option<Connector>,
        code: Option<Code>,
    ) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(ExitCode::Failed, why);
        let whom = host.into();
        let host = whom.host();
        let found = whom
            .addresses()
            .await
            .map_err(|e| failed(format!("cannot find host `{}`: {e}", host.name)))?;
        let has_way = found.iter().any(|address| way.reaches(address.ip()));
        let reaches = |ip| way.reaches(ip) && origin.reaches(ip);
        let addresses = in_turn(found.into_iter().filter(|address| reaches(address.ip())));
        let first = addresses.first().copied().ok_or_else(|| {
            let which = if has_way {
                "the family that -4, -6 or -B asks for"
            } else {
                "a family that we have"
            };
            failed(format!("host `{}` has no address of {which}", host.name))
        })?;
        way.protects(connector.is_some())?;
        let sockets = Sockets::new(way.clone(), *origin, config);
        // Where there is a second way to go about it, that one has no socket is not the end.
        if way.is_ip() || addresses.len() == 1 {
            sockets.towards(first)?;
        }
        Ok(Self::to(addresses, host.to_string(), sockets, connector, code))
    }

    fn to(
        addresses: Vec<SocketAddr>,
        host: String,
        sockets: Sockets,
        connector: Option<Connector>,
        code: Option<Code>,
    ) -> Self {
        let chosen = Arc::default();
        Self { addresses, chosen, sockets, host, connector, code, connect_timeout: None }
    }

    /// Connections to the same address of the same host, configured otherwise.
    #[must_use]
    pub fn beside(&self, config: ConnConfig) -> Self {
        Self {
            addresses: self.addresses.clone(),
            chosen: self.chosen.clone(),
            sockets: self.sockets.configured(config),
            host: self.host.clone(),
            connector: self.connector.clone(),
            code: self.code.clone(),
            connect_timeout: self.connect_timeout,
        }
    }

    /// Connections that take longer than this fail.
    #[must_use]
    pub fn within(mut self, limit: Option<Duration>) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// A connection; failures say what could be wrong.
    pub async fn connect(&self) -> Result<NetConn, Failure> {
        let Some(limit) = self.connect_timeout else { return self.connected(false).await };
        let late = || {
            let why = format!("no connection to {} within {} ms", self.host, limit.as_millis());
            Failure::new(ExitCode::Failed, why)
        };
        timeout(limit, self.connected(false)).await.unwrap_or_else(|_| Err(late()))
    }

    /// A connection on which may be written before its server has let us in, which saves a round trip. Whether it has
    /// shows when something is read: an error is [`NotLetIn`](crate::transfer::TransferError::NotLetIn) then.
    pub async fn connect_ahead(&self) -> Result<NetConn, Failure> {
        self.connected(true).await
    }

    async fn connected(&self, ahead: bool) -> Result<NetConn, Failure> {
        let addresses = match self.chosen.get() {
            Some(chosen) => vec![*chosen],
            None => self.addresses.clone(),
        };
        let mut network = Network::now(addresses[0], LOOK);
        let met = loop {
            let meeting = first_of(addresses.clone(), |peer| {
                let (carrier, host) = (self.sockets.towards(peer), self.host.clone());
                let connector = self.connector.clone();
                async move {
                    let met = meet(&carrier?, peer, &host, connector.as_ref()).await;
                    let (conn, is_first_use) = met?;
                    Ok::<_, Missed>((peer, conn, is_first_use))
                }
            });
            tokio::select! {
                met = meeting => break met,
                how = network.changed() => {
                    tracing::info!(how, "meeting the server anew");
                    self.sockets.forget();
                }
                () = other_way::answers(self.sockets.way(), self.sockets.origin(), addresses.clone()) => {
                    let advice = other_way::advice(self.sockets.way());
                    let why = format!("cannot connect to {}: {advice}", self.host);
                    return Err(Failure::new(ExitCode::Failed, why));
                }
            }
        };
        let (peer, conn, is_first_use) = met.map_err(|none| self.none_answered(&none))?;
        // Whoever was there before us stays chosen: another is as good.
        let _ = self.chosen.set(peer);
        match &self.connector {
            Some(connector) => self.enter(connector, conn, is_first_use, ahead).await,
            None => Ok(conn),
        }
    }

    /// Makes sure that the server is the right one, and is let in there.
    async fn enter(
        &self,
        connector: &Connector,
        mut conn: NetConn,
        is_first_use: bool,
        ahead: bool,
    ) -> Result<NetConn, Failure> {
        let server = conn.peer_fingerprint().ok_or(TlsError::NoCertificate);
        let server = server.map_err(|e| self.handshake_failed(&e))?;
        let own = connector.fingerprint();
        // Our own key is in our own hands: the server is ours.
        let mut known = !is_first_use || own == Some(server);
        if !known && self.code.is_none() {
            self.confirm_first_contact(server).await?;
            known = true;
        }
        let remember =
            || connector.remember(&self.host, server).map_err(|e| self.handshake_failed(&e));
        if ahead && known && self.code.is_none() {
            if is_first_use {
                remember()?;
            }
            let word = admission::ask_ahead(&mut conn, &self.host).await?;
            return Ok(conn.awaiting(word));
        }
        let asking = admission::ask(&mut conn, own, server, self.code.as_ref());
        let welcome = timeout(WELCOME_LIMIT, asking).await;
        let welcome =
            welcome.map_err(|_| self.handshake_failed(&TlsError::TimedOut(WELCOME_LIMIT)))?;
        match welcome.map_err(|e| Failure::new(e.code, format!("{}: {}", self.host, e.message)))? {
            Welcome::ByCode => {}
            Welcome::ByKey if known => {}
            // It took no interest in the code, and so has proved nothing.
            Welcome::ByKey => self.confirm_first_contact(server).await?,
        }
        if is_first_use {
            remember()?;
        }
        Ok(conn)
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

    fn none_answered(&self, none: &NoneAnswered<Missed>) -> Failure {
        match none.attempts() {
            [(_, Missed::Met(ConnectError::Tls(e)))] => self.handshake_failed(e),
            [(_, Missed::NoSocket(failure))] => Failure::new(failure.code, &failure.message),
            attempts => {
                let (host, hint) = (&self.host, self.sockets.way().hint());
                let why = match attempts {
                    [(_, only)] => format!("cannot connect to {host}: {only}; {hint}"),
                    _ => format!("cannot connect to {host} ({none}); {hint}"),
                };
                let each = || attempts.iter().map(|(_, missed)| missed);
                let untrusted = each().any(Missed::is_verdict);
                let code = if untrusted { ExitCode::Untrusted } else { ExitCode::Failed };
                let is_refusal = each().any(Missed::is_refusal) && !each().any(Missed::is_silence);
                let is_impostor = each().any(Missed::is_impostor);
                Failure { is_refusal, is_impostor, ..Failure::new(code, why) }
            }
        }
    }

    fn handshake_failed(&self, error: &TlsError) -> Failure {
        // Only what would be said again is the last word.
        let code = if error.is_verdict() { ExitCode::Untrusted } else { ExitCode::Failed };
        let hint = match error {
            TlsError::Protocol(tack_net::tls::ProtocolError::InvalidMessage(_)) => {
                "; does the other side encrypt, without --insecure-plaintext or --no-tls?"
            }
            _ => "",
        };
        let why = format!("no secure connection to {}: {error}{hint}", self.host);
        Failure { is_impostor: is_impostor(error), ..Failure::new(code, why) }
    }

    /// The server's address: the one that answered, or until then the first.
    pub fn peer(&self) -> SocketAddr {
        *self.chosen.get().unwrap_or(&self.addresses[0])
    }

    /// Waits until what was written is acknowledged, for a while.
    pub async fn settle(&self, stop: &Stop) {
        if let Some(carrier) = self.sockets.opened(self.peer()) {
            settle(&carrier, stop).await;
        }
    }

    /// The same, unless the connection is `lost` and nothing of it will ever be.
    pub async fn settle_unless(&self, lost: bool, stop: &Stop) {
        if !lost || stop.is_asked() {
            self.settle(stop).await;
        }
    }
}

/// Meets the server at one address. What a damaged packet ended is begun again.
async fn meet(
    carrier: &Carrier,
    peer: SocketAddr,
    host: &str,
    connector: Option<&Connector>,
) -> Result<(NetConn, bool), ConnectError> {
    let mut met = carrier.meet(peer, host, connector).await;
    for _ in 1..HANDSHAKES {
        let Err(ConnectError::Tls(garbled)) = &met else { break };
        if garbled.is_verdict() || !matches!(garbled, TlsError::Protocol(_) | TlsError::Refused(_))
        {
            break;
        }
        tracing::info!(error = %garbled, "a handshake was damaged");
        met = carrier.meet(peer, host, connector).await;
    }
    met
}

/// Whether it is our judgement that the server is another one.
fn is_impostor(error: &TlsError) -> bool {
    use tack_net::tls::ProtocolError::InvalidCertificate;
    matches!(
        error,
        TlsError::KeyChanged { .. }
            | TlsError::PinMismatch { .. }
            | TlsError::Protocol(InvalidCertificate(_))
    )
}

/// What came of an address.
#[derive(Debug, thiserror::Error)]
enum Missed {
    #[error("{0}")]
    NoSocket(Failure),
    #[error(transparent)]
    Met(#[from] ConnectError),
}

impl From<Failure> for Missed {
    fn from(failure: Failure) -> Missed {
        Missed::NoSocket(failure)
    }
}

impl Missed {
    /// It is the last word on the server there.
    fn is_verdict(&self) -> bool {
        matches!(self, Missed::Met(ConnectError::Tls(e)) if e.is_verdict())
    }

    /// Another server than the one that was meant is there.
    fn is_impostor(&self) -> bool {
        matches!(self, Missed::Met(ConnectError::Tls(e)) if is_impostor(e))
    }

    /// The host said that nobody listens there.
    fn is_refusal(&self) -> bool {
        matches!(self, Missed::Met(ConnectError::Failed(ConnectionError::Refused)))
    }

    /// Nothing came back, which it may yet.
    fn is_silence(&self) -> bool {
        matches!(self, Missed::Met(e) if e.kind() == io::ErrorKind::TimedOut)
    }
}

impl Dial for NetDial {
    type Conn = NetConn;

    async fn dial(&self) -> Result<NetConn, Failure> {
        self.connect().await
    }
}

#[cfg(test)]
mod tests {
    use tack_net::tls::{Acceptor, ClientTrust, ServerIdentity};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UdpSocket;

    use super::*;
    use crate::admission::Door;
    use crate::conn::Accept as _;
    use crate::net::NetAccept;

    /// A dial of these addresses, and a server at `local`.
    fn pair(way: &Way, local: SocketAddr, encrypted: bool) -> (NetAccept, Option<Connector>) {
        let identity = ServerIdentity::generate(&["localhost"]).unwrap();
        let key = identity.fingerprint();
        let shown = encrypted.then(|| (Acceptor::new(&identity).unwrap(), key, Door::open()));
        let connector = Connector::new(ClientTrust::Pinned(key)).unwrap();
        let server = NetAccept::listen(way, local, ConnConfig::default(), shown).unwrap();
        (server, encrypted.then_some(connector))
    }

    fn dial(way: &Way, addresses: &[SocketAddr], connector: Option<Connector>) -> NetDial {
        let sockets = Sockets::new(way.clone(), Origin::default(), ConnConfig::default());
        NetDial::to(addresses.to_vec(), "there:7".to_owned(), sockets, connector, None)
    }

    /// A port of the loopback that nobody has.
    async fn deserted(ip: &str) -> SocketAddr {
        UdpSocket::bind((ip, 0)).await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn a_host_is_met_at_whichever_of_its_addresses_answers_and_from_then_on_there() {
        let silent = UdpSocket::bind("[::1]:0").await.unwrap();
        let deserted = deserted("127.0.0.1").await;
        for (way, encrypted) in [(Way::Udp, false), (Way::Udp, true), (Way::Quic, true)] {
            let local = "127.0.0.1:0".parse().unwrap();
            let (mut server, connector) = pair(&way, local, encrypted);
            let there = server.local_addr();
            let addresses = [silent.local_addr().unwrap(), deserted, there];
            let dial = dial(&way, &addresses, connector);
            let plain = dial.beside(ConnConfig::default());
            for dial in [&dial, &plain, &dial] {
                let (met, served) = tokio::join!(dial.connect(), server.accept());
                let (_met, _served) = (met.unwrap(), served.unwrap());
                assert_eq!(dial.peer(), there, "{way:?}");
            }
        }
    }

    #[tokio::test]
    async fn where_no_address_answers_each_is_named_with_what_came_of_it() {
        let addresses = [deserted("::1").await, deserted("127.0.0.1").await];
        let (_, connector) = pair(&Way::Udp, "127.0.0.1:0".parse().unwrap(), true);
        for way in [Way::Udp, Way::Quic] {
            let failure = dial(&way, &addresses, connector.clone()).connect().await.unwrap_err();
            assert!(failure.is_refusal, "{failure}");
            for address in addresses {
                let named = format!("{address}: connection refused");
                assert!(failure.message.contains(&named), "{failure}");
            }
            let alone = dial(&way, &addresses[..1], connector.clone()).connect().await;
            let alone = alone.unwrap_err().message;
            assert!(alone.starts_with("cannot connect to there:7: "), "{alone}");
        }
    }

    #[tokio::test]
    async fn one_port_of_ours_does_for_both_families() {
        let port = deserted("127.0.0.1").await.port();
        let origin = Origin { port, ..Origin::default() };
        let sockets = Sockets::new(Way::Udp, origin, ConnConfig::default());
        for peer in ["[::1]:9", "127.0.0.1:9"] {
            sockets.towards(peer.parse().unwrap()).unwrap();
        }
    }

    #[tokio::test]
    async fn who_said_more_than_who_it_is_hears_all_the_same_whether_it_may_come_in() {
        for way in [Way::Udp, Way::Quic] {
            for is_open in [true, false] {
                let identity = ServerIdentity::generate(&["localhost"]).unwrap();
                let key = identity.fingerprint();
                let door = if is_open { Door::open() } else { Door::for_keys([key].into()) };
                let shown = Some((Acceptor::new(&identity).unwrap(), key, door));
                let local = "127.0.0.1:0".parse().unwrap();
                let config = ConnConfig::default();
                let mut server = NetAccept::listen(&way, local, config, shown).unwrap();
                let connector = Connector::new(ClientTrust::Pinned(key)).unwrap();
                let dial = dial(&way, &[server.local_addr()], Some(connector));
                let serving = async {
                    let mut conn = server.accept().await.unwrap();
                    let mut heard = [0; 8];
                    conn.read_exact(&mut heard).await.unwrap();
                    conn.write_all(&heard).await.unwrap();
                    conn.flush().await.unwrap();
                    conn
                };
                let asking = async {
                    let mut conn = dial.connect_ahead().await.unwrap();
                    let said = [7; 50_000];
                    conn.write_all(&said).await.unwrap();
                    conn.flush().await.unwrap();
                    let mut heard = [0; 8];
                    conn.read_exact(&mut heard).await.map(|_| assert_eq!(heard, said[..8]))
                };
                tokio::select! {
                    biased;
                    heard = asking => match heard {
                        Ok(()) => assert!(is_open, "{way:?}"),
                        Err(error) => {
                            let failure = error.downcast::<Failure>().unwrap();
                            assert!(!is_open, "{way:?}: {failure}");
                            assert_eq!(failure.code, ExitCode::Untrusted, "{way:?}: {failure}");
                            let who = "there:7: the other side does not know your key";
                            assert!(failure.message.starts_with(who), "{way:?}: {failure}");
                        }
                    },
                    _conn = async { let conn = serving.await; std::future::pending::<()>().await; conn } => {}
                }
            }
        }
    }
}
