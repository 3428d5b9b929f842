//! Opening connections: to the right server, which lets us in.

use std::net::SocketAddr;
use std::time::Duration;

use tack_net::tls::{Connector, Fingerprint, TlsError};
use tack_net::{ConnConfig, ConnectError, ConnectionError, HostPort};
use tokio::time::timeout;

use super::carrier::Carrier;
use super::{NetConn, Origin, Way, settle};
use crate::admission::{self, Code, Welcome};
use crate::conn::Dial;
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use crate::terminal;
use crate::transfer::disk::blocking;

/// Time for being let in once the handshake is done.
const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// Handshakes that may be damaged on their way, one after the other, before that is a failure.
const HANDSHAKES: usize = 3;

/// Opens connections to one host.
#[derive(Debug)]
pub struct NetDial {
    carrier: Carrier,
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
        way.protects(connector.is_some())?;
        let carrier = way.open(config, origin.local(peer), None)?;
        if !way.is_ip() && !carrier.set_dscp(origin.dscp) {
            return Err(Failure::usage("-S, --dscp: this system cannot mark datagrams"));
        }
        let (host, hint) = (host.to_string(), way.hint());
        Ok(Self { carrier, peer, host, connector, code, hint, connect_timeout: None })
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
        let mut met = self.meet().await;
        for _ in 1..HANDSHAKES {
            let Err(ConnectError::Tls(garbled)) = &met else { break };
            if garbled.is_verdict()
                || !matches!(garbled, TlsError::Protocol(_) | TlsError::Refused(_))
            {
                break;
            }
            tracing::info!(error = %garbled, "a handshake was damaged");
            met = self.meet().await;
        }
        let (conn, is_first_use) = met.map_err(|e| match e {
            ConnectError::Tls(e) => self.handshake_failed(&e),
            e => {
                let why = format!("cannot connect to {}: {e}; {}", self.host, self.hint);
                let is_refusal = matches!(e, ConnectError::Failed(ConnectionError::Refused));
                Failure { is_refusal, ..Failure::new(ExitCode::Failed, why) }
            }
        })?;
        match &self.connector {
            Some(connector) => self.enter(connector, conn, is_first_use).await,
            None => Ok(conn),
        }
    }

    async fn meet(&self) -> Result<(NetConn, bool), ConnectError> {
        self.carrier.meet(self.peer, &self.host, self.connector.as_ref()).await
    }

    /// Makes sure that the server is the right one, and is let in there.
    async fn enter(
        &self,
        connector: &Connector,
        mut conn: NetConn,
        is_first_use: bool,
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
            connector.remember(&self.host, server).map_err(|e| self.handshake_failed(&e))?;
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

    fn handshake_failed(&self, error: &TlsError) -> Failure {
        // Only what would be said again is the last word.
        let code = if error.is_verdict() { ExitCode::Untrusted } else { ExitCode::Failed };
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
        settle(&self.carrier, stop).await;
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
