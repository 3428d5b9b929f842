//! What carries connections: an endpoint of TCP-TACK, or of QUIC.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tack_cc::Algorithm;
use tack_net::quic::{self, QuicStream};
use tack_net::tls::{Acceptor, Connector, TlsError};
use tack_net::{AckStrategy, ConnConfig, ConnectError, Endpoint, Keepalive, SocketConfig};

use super::NetConn;
use super::conn::Carried;
use crate::exit::{ExitCode, Failure};
use crate::observe;

/// What both ends say they speak over QUIC.
const PROTOCOL: &[u8] = b"tack";

/// Connections that are taken in at a time, of the transport; commands have narrower limits, by peer.
const MAX_CONNECTIONS: usize = 1 << 15;

/// QUIC's connections end by silence, and a user may have nothing to say for longer than a NAT remembers.
const SILENCE: Keepalive =
    Keepalive { idle: Duration::from_secs(15), interval: Duration::from_secs(15), probes: 3 };

/// An open endpoint.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    /// TCP-TACK over UDP or a TUN interface.
    Tack(Endpoint),
    /// QUIC, and how connections from here are to behave.
    Quic(quic::Endpoint, Box<quic::Config>),
}

impl Carrier {
    /// QUIC on a UDP socket at `local`; others may connect if there is something to show them.
    pub(super) fn quic(
        conn: &ConnConfig,
        local: SocketAddr,
        socket: SocketConfig,
        acceptor: Option<&Acceptor>,
    ) -> Result<Carrier, Failure> {
        let config = config(conn);
        let mut builder = observe::tapped_quic(quic::Endpoint::builder().socket(socket));
        if let Some(acceptor) = acceptor {
            let mut listen = quic::Listen::new(acceptor.for_quic(&[PROTOCOL]), config.clone());
            listen.max_connections = MAX_CONNECTIONS;
            builder = builder.listen(listen).reset_secret(acceptor.secret());
        }
        let endpoint = builder.bind(local).map_err(|e| no_socket(local, &e))?;
        observe::opened(|| endpoint.gauge());
        Ok(Carrier::Quic(endpoint, Box::new(config)))
    }

    /// Connects to the server called `host` at `peer`, encrypted if there is a connector. True: it was
    /// never met before.
    pub(super) async fn meet(
        &self,
        peer: SocketAddr,
        host: &str,
        connector: Option<&Connector>,
    ) -> Result<(NetConn, bool), ConnectError> {
        match (self, connector) {
            (Carrier::Tack(endpoint), None) => {
                let stream = endpoint.connect_plain(peer).await?;
                Ok((Carried::Plain(Box::new(stream)).into(), false))
            }
            (Carrier::Tack(endpoint), Some(connector)) => {
                let stream = endpoint.connect_plain(peer).await?;
                let stream = connector.connect(host, stream).await?;
                let is_first_use = stream.is_first_use();
                Ok((Carried::Tls(Box::new(stream)).into(), is_first_use))
            }
            (Carrier::Quic(..), None) => Err(TlsError::NoCertificate.into()),
            (Carrier::Quic(endpoint, config), Some(connector)) => {
                let meeting = endpoint.meet(peer, host, connector, &[PROTOCOL], (**config).clone());
                let (connection, is_first_use) = meeting.await?;
                let stream = QuicStream::open(connection).await?;
                Ok((Carried::Quic(Box::new(stream)).into(), is_first_use))
            }
        }
    }

    /// Marks what is sent; false: that cannot be done.
    pub(super) fn set_dscp(&self, dscp: u8) -> bool {
        match self {
            Carrier::Tack(endpoint) => endpoint.set_dscp(dscp),
            Carrier::Quic(endpoint, _) => endpoint.set_dscp(dscp),
        }
    }

    /// Waits until what was written has arrived and the peers know of the end.
    pub(super) async fn wait_idle(&self) {
        match self {
            Carrier::Tack(endpoint) => endpoint.wait_idle().await,
            Carrier::Quic(endpoint, _) => endpoint.wait_idle().await,
        }
    }

    /// What clients have to speak.
    pub(super) fn medium(&self) -> String {
        match self {
            #[cfg(target_os = "linux")]
            Carrier::Tack(endpoint) if endpoint.interface().is_some() => {
                format!("TCP, interface {}", endpoint.interface().unwrap_or_default())
            }
            Carrier::Tack(_) => "UDP".to_owned(),
            Carrier::Quic(..) => "QUIC".to_owned(),
        }
    }
}

pub(super) fn no_socket(local: SocketAddr, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::AddrNotAvailable => "; is it an address of this machine?",
        _ if local.port() == 0 => "",
        _ => "; choose another port with -p, as a client of perf with --cport",
    };
    let why = format!("cannot open a UDP socket on {local}: {error}{hint}");
    Failure::new(ExitCode::Failed, why)
}

/// What the user chose for connections, as QUIC has it.
fn config(conn: &ConnConfig) -> quic::Config {
    let bytes = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let silence = conn.keepalive.unwrap_or(SILENCE);
    quic::Config {
        congestion: conn.congestion.unwrap_or(Algorithm::Bbr),
        tack: match conn.ack {
            AckStrategy::Tack(params) => Some(params),
            _ => None,
        },
        send_buffer: conn.send_buffer,
        // There is one stream: the connection's limit is not to be the narrower one.
        initial_window: bytes(conn.initial_recv_buffer),
        max_window: bytes(conn.recv_buffer),
        initial_connection_window: bytes(conn.initial_recv_buffer),
        max_connection_window: bytes(conn.recv_buffer),
        max_streams_bidi: 1,
        max_streams_uni: 0,
        datagram_buffer: 0,
        keep_alive: Some(silence.idle),
        idle_timeout: Some(silence.idle + silence.interval * silence.probes),
        ..quic::Config::default()
    }
}
