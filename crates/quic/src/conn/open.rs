//! How a connection begins.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig, Side};
use tack_cc::{Config as CcConfig, CongestionControl, initial_window};
use tack_transport::Congestion;
use tack_units::Instant;

use super::acks::Acks;
use super::cids::{ACTIVE_LIMIT, LocalCids, RemoteCids};
use super::datagrams::Datagrams;
use super::early::EarlyData;
use super::ecn::Ecn;
use super::mtu::{BASE, Mtu};
use super::path::Path;
use super::recovery::Recovery;
use super::tls::Tls;
use super::{Connection, Counters, Space, State};
use crate::config::Config;
use crate::protection::initial_keys;
use crate::secret::Secret;
use crate::seen::Log as SeenLog;
use crate::streams::Streams;
use crate::wire::{ConnectionId, Parameters, TACK_VERSION, Version, VersionInformation};

/// What a client needs.
#[derive(Debug)]
pub struct Connect {
    /// Where the server is.
    pub remote: SocketAddr,
    /// Who it must be.
    pub name: ServerName<'static>,
    /// TLS 1.3, with application protocols if the server wants some. Where `enable_early_data` is set, one
    /// protocol at most is named and the server took early data before, the connection begins in
    /// [`Early::Open`](super::Early::Open): streams may be opened and written at once. Such data can be
    /// replayed by whoever sees it, see [`Config::max_early_data`]. If the server rejects it, it is sent again
    /// when the handshake is done; that protocol is the same then, so it means the same.
    pub tls: Arc<ClientConfig>,
    /// How the connection is to behave.
    pub config: Config,
    /// 32 random bytes: connection IDs come from it.
    pub seed: [u8; 32],
}

/// What a server needs for a client's first packet.
#[derive(Debug)]
pub struct Accept {
    /// Where the client is.
    pub remote: SocketAddr,
    /// It has shown that it is there.
    pub is_validated: bool,
    /// The version of its first packet.
    pub version: Version,
    /// What that was sent to; before a Retry, if there was one.
    pub original_dcid: ConnectionId,
    /// What the Retry gave, if there was one.
    pub retry_scid: Option<ConnectionId>,
    /// The client's connection ID in it.
    pub remote_cid: ConnectionId,
    /// TLS 1.3.
    pub tls: Arc<ServerConfig>,
    /// How the connection is to behave.
    pub config: Config,
    /// 32 random bytes: connection IDs and reset tokens come from it.
    pub seed: [u8; 32],
}

/// Of the ID that a client makes up for a server [RFC 9000 §7.2], bytes.
const MADE_UP: u64 = u64::MAX;

impl Connection {
    /// A client's connection: the first packet waits to be sent.
    ///
    /// # Errors
    /// TLS cannot do QUIC as it is configured.
    pub fn connect(connect: Connect, now: Instant) -> Result<Connection, rustls::Error> {
        let secret = Secret::new(connect.seed);
        Self::connect_as(connect, Vec::new(), secret, 0, now)
    }

    /// As [`Self::connect`], with what the server gave us before, and what the endpoint derives IDs from.
    pub(crate) fn connect_as(
        connect: Connect,
        token: Vec<u8>,
        secret: Secret,
        number: u64,
        now: Instant,
    ) -> Result<Connection, rustls::Error> {
        let Connect { remote, name, tls, config, .. } = connect;
        let config = config.bounded();
        let local = LocalCids::new(secret.clone(), number);
        let ours = Parameters {
            initial_scid: Some(local.first()),
            version_information: Some(VersionInformation::of_client(config.version)),
            ..parameters(&config)
        };
        let dcid = secret.cid(number, MADE_UP);
        let tls = Tls::client(tls, config.version, name, &ours)?;
        let version = config.version;
        let begin = Begin { side: Side::Client, version, dcid, remote_cid: dcid, ours, tls };
        let mut conn = Self::begin(begin, config, local, (secret, number), remote, now);
        conn.token = token;
        conn.path.validate();
        conn.drive_tls(now);
        conn.begin_early_as_client();
        Ok(conn)
    }

    /// A server's connection: the client's first packet is to be given to [`Self::handle`] next.
    ///
    /// # Errors
    /// TLS cannot do QUIC as it is configured.
    pub fn accept(accept: Accept, now: Instant) -> Result<Connection, rustls::Error> {
        let secret = Secret::new(accept.seed);
        Self::accept_as(accept, secret, 0, now)
    }

    /// As [`Self::accept`], with what the endpoint derives IDs from.
    pub(crate) fn accept_as(
        accept: Accept,
        secret: Secret,
        number: u64,
        now: Instant,
    ) -> Result<Connection, rustls::Error> {
        let accept = Accept { config: accept.config.bounded(), ..accept };
        let local = LocalCids::new(secret.clone(), number);
        let ours = Parameters {
            original_dcid: Some(accept.original_dcid),
            retry_scid: accept.retry_scid,
            reset_token: Some(local.reset_token()),
            initial_scid: Some(local.first()),
            version_information: Some(VersionInformation::of_server(accept.version)),
            ..parameters(&accept.config)
        };
        let takes_early = accept.config.max_early_data > 0;
        let tls = Tls::server(accept.tls, accept.version, &ours, takes_early)?;
        let begin = Begin {
            side: Side::Server,
            version: accept.version,
            dcid: accept.retry_scid.unwrap_or(accept.original_dcid),
            remote_cid: accept.remote_cid,
            ours,
            tls,
        };
        let remote = accept.remote;
        let mut conn = Self::begin(begin, accept.config, local, (secret, number), remote, now);
        if accept.is_validated {
            conn.path.validate();
        }
        Ok(conn)
    }

    fn begin(
        begin: Begin,
        config: Config,
        local_cids: LocalCids,
        (secret, number): (Secret, u64),
        remote: SocketAddr,
        now: Instant,
    ) -> Connection {
        let Begin { side, version, dcid, remote_cid, ours, tls } = begin;
        let mss = u32::from(BASE);
        let control = control(&config, mss, secret.word(number, 0), now);
        Connection {
            side,
            version,
            state: State::Handshaking,
            ended: None,
            tls,
            initial_keys: Some(initial_keys(version, &dcid, side)),
            first_keys: None,
            hello: (side == Side::Server).then(Vec::new),
            handshake_keys: None,
            early: EarlyData::default(),
            one_rtt: None,
            spaces: [(); 3].map(|()| Space::new(Acks::at_once(now), now)),
            recovery: Recovery::new(side == Side::Client, now),
            congestion: Congestion::new(control, mss, now),
            ecn: Ecn::new(config.ecn),
            mtu: Mtu::new(config.max_udp_payload),
            path: Path::new(remote, false),
            local_cids,
            remote_cids: RemoteCids::new(remote_cid),
            streams: Streams::new(side, &config, now),
            original_dcid: dcid,
            retry_scid: None,
            token: Vec::new(),
            peer: None,
            ours,
            ack_frequency: None,
            handshake_done_owed: false,
            confirmed: false,
            has_finished_again: false,
            flights_again: 0,
            held: Vec::new(),
            idle_since: now,
            heard_since_asking: true,
            allowance: (now, 0),
            paced_until: None,
            has_sent_data: false,
            next_skip: 16 + secret.word(number, 1) % 64,
            timeouts_in_a_row: 0,
            leaving: None,
            new_token_owed: false,
            new_token: None,
            secret,
            number,
            datagrams_in: Datagrams::default(),
            datagrams_out: Datagrams::default(),
            streams_waited: false,
            events: VecDeque::new(),
            counters: Counters::default(),
            seen: SeenLog::default(),
            frequency_at: None,
            spare: Vec::new(),
            spare_tail: Vec::new(),
            config,
        }
    }
}

/// A fresh controller, for packets of `mss` bytes.
///
/// Its window is what TCP has at first [RFC 6928 §2], in bytes. Deviation: ten packets [RFC 9002 §7.2] of the
/// 1200 bytes that every path carries are a fifth less, until a longer one has been acknowledged, and
/// cost a file of 20 to 40 kB a round trip. What leaves is paced either way.
pub(super) fn control(config: &Config, mss: u32, seed: u64, now: Instant) -> CongestionControl {
    let initial_window = initial_window(mss.max(USUAL_SEGMENT));
    let of_it = CcConfig { seed, initial_window, ..CcConfig::new(mss) };
    CongestionControl::new(config.congestion, of_it, now)
}

/// Bytes in a TCP segment on Ethernet.
const USUAL_SEGMENT: u32 = 1_460;

struct Begin {
    side: Side,
    version: Version,
    dcid: ConnectionId,
    remote_cid: ConnectionId,
    ours: Parameters,
    tls: Tls,
}

/// What the peer is told, but for connection IDs.
fn parameters(config: &Config) -> Parameters {
    let ms = |d: core::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX >> 2);
    Parameters {
        // 0 would say that silence ends nothing.
        max_idle_timeout_ms: config.idle_timeout.map_or(0, |timeout| ms(timeout).max(1)),
        max_data: config.initial_connection_window,
        max_stream_data_bidi_local: config.initial_window,
        max_stream_data_bidi_remote: config.initial_window,
        max_stream_data_uni: config.initial_window,
        max_streams_bidi: config.max_streams_bidi,
        max_streams_uni: config.max_streams_uni,
        active_cid_limit: ACTIVE_LIMIT,
        max_datagram: if config.datagram_buffer > 0 { u64::from(u16::MAX) } else { 0 },
        min_ack_delay: Some(core::time::Duration::from_millis(1)),
        tack: config.tack.map(|_| TACK_VERSION),
        ..Parameters::default()
    }
}
