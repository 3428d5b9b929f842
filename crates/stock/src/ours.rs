//! Our own QUIC as a guest, so that it meets the stock stacks under the same conditions.

use core::time::Duration;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tack_link::PacketKind;
use tack_quic::streams::{Dir, StreamEvent, StreamId};
use tack_quic::wire::{Header, LongKind, Protected};
use tack_quic::{Accept, Config, Connect, Connection, ConnectionError, Event};
use tack_sim::{Guest, GuestInfo, Stream};
use tack_tcp::ConnectionError as Ended;
use tack_units::Instant;

use crate::tls::{Identity, NAME, identity};
use crate::{PEER, Settings, SetupError, WINDOW_BYTES};

/// UDP payload of an IPv4 packet of 1 500 bytes, which every link of the lab takes, and all of TCP's fill.
const MAX_UDP_PAYLOAD: u16 = 1_472;
/// TCP here retransmits for many minutes. Half a minute of silence is soon had on a path of few packets a second
/// that loses ten in a row.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes read at once.
const MOST_READ: usize = 16_384;
/// Of its connection IDs; what a server needs to know to read a first packet.
const CID_LEN: usize = 8;

pub(crate) fn pair(settings: &Settings) -> Result<[Box<dyn Guest>; 2], SetupError> {
    let Identity { certificate, key, roots } = identity()?;
    let failed = |e: &dyn std::fmt::Display| SetupError::Tls(e.to_string());
    let server = ServerConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| failed(&e))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(|e| failed(&e))?;
    let listening = Stack::new(settings, Tls::Server(server.into()));
    Ok([client(settings, roots)?, Box::new(listening)])
}

/// The connecting end alone, to meet a stock stack with a certificate that `roots` trust.
pub(crate) fn client(
    settings: &Settings,
    roots: RootCertStore,
) -> Result<Box<dyn Guest>, SetupError> {
    let failed = |e: &dyn std::fmt::Display| SetupError::Tls(e.to_string());
    let client = ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| failed(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Box::new(Stack::new(settings, Tls::Client(client.into()))))
}

#[derive(Debug)]
enum Tls {
    Client(Arc<ClientConfig>),
    Server(Arc<ServerConfig>),
}

/// One end.
struct Stack {
    tls: Tls,
    config: Config,
    seed: [u8; 32],
    conn: Option<Connection>,
    stream: Option<StreamId>,
    at_end: bool,
    closed: Option<Result<(), Ended>>,
    failure: Option<String>,
    /// Where a datagram is opened, and where what is in it is read to.
    datagram: Vec<u8>,
    read: Box<[u8]>,
}

impl core::fmt::Debug for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Stack { conn, stream, at_end, closed, .. } = self;
        write!(f, "ours: {conn:?}, {stream:?}, end {at_end}, {closed:?}")
    }
}

impl Stack {
    fn new(settings: &Settings, tls: Tls) -> Stack {
        let usual = Config::default();
        let most = u64::from(settings.recv_window.unwrap_or(WINDOW_BYTES));
        let config = Config {
            initial_window: settings.recv_window.map_or(usual.initial_window, u64::from),
            max_window: most,
            initial_connection_window: settings
                .recv_window
                .map_or(usual.initial_connection_window, u64::from),
            max_connection_window: most,
            send_buffer: WINDOW_BYTES as usize,
            congestion: settings.congestion,
            tack: settings.tack,
            ask_frequency: settings.tack.is_some(),
            ecn: settings.ecn,
            max_udp_payload: MAX_UDP_PAYLOAD,
            idle_timeout: Some(IDLE_TIMEOUT),
            ..usual
        };
        let mut seed = settings.seed;
        // Both ends draw, and not the same.
        seed[0] ^= u8::from(matches!(tls, Tls::Client(_)));
        Stack {
            tls,
            config,
            seed,
            conn: None,
            stream: None,
            at_end: false,
            closed: None,
            failure: None,
            datagram: Vec::new(),
            read: vec![0; MOST_READ].into(),
        }
    }

    fn accept(&self, datagram: &[u8], now: Instant) -> Option<Connection> {
        let Tls::Server(tls) = &self.tls else { return None };
        let Protected { header, .. } = Protected::parse(datagram, CID_LEN).ok()?;
        let Header::Long { version, kind: LongKind::Initial, dcid, scid, .. } = header else {
            return None;
        };
        let accept = Accept {
            remote: PEER,
            is_validated: false,
            version,
            original_dcid: dcid,
            retry_scid: None,
            remote_cid: scid,
            tls: Arc::clone(tls),
            config: self.config.clone(),
            seed: self.seed,
        };
        Connection::accept(accept, now).ok()
    }

    fn settle(&mut self, now: Instant) {
        let Some(conn) = &mut self.conn else { return };
        while let Some(event) = conn.poll_event() {
            match event {
                Event::Connected if matches!(self.tls, Tls::Client(_)) => {
                    self.stream = conn.open(Dir::Bidi, now).ok();
                }
                Event::Stream(StreamEvent::Opened(id)) => {
                    self.stream.get_or_insert(id);
                }
                Event::Closed(reason) => {
                    let ended = match &reason {
                        ConnectionError::Closed | ConnectionError::ClosedByApplication { .. } => {
                            Ok(())
                        }
                        ConnectionError::TimedOut => Err(Ended::TimedOut),
                        _ => Err(Ended::Reset),
                    };
                    self.failure = ended.is_err().then(|| reason.to_string());
                    self.closed = Some(ended);
                }
                _ => {}
            }
        }
    }
}

impl Stream for Stack {
    fn read(&mut self, take: &mut dyn FnMut(&[u8]), _now: Instant) {
        let (Some(conn), Some(id)) = (&mut self.conn, self.stream) else { return };
        while !self.at_end {
            match conn.read(id, &mut self.read) {
                Ok(Some(0)) | Err(_) => break,
                Ok(Some(n)) => take(&self.read[..n]),
                Ok(None) => self.at_end = true,
            }
        }
    }

    fn at_end(&self) -> bool {
        self.at_end
    }

    fn unsent(&self) -> u64 {
        let (Some(conn), Some(id)) = (&self.conn, self.stream) else { return 0 };
        conn.unsent(id)
    }

    fn write(&mut self, bytes: &[u8], _now: Instant) -> Option<usize> {
        let (Some(conn), Some(id)) = (&mut self.conn, self.stream) else { return Some(0) };
        conn.write(id, bytes).ok()
    }

    fn finish(&mut self, _now: Instant) -> bool {
        let (Some(conn), Some(id)) = (&mut self.conn, self.stream) else { return false };
        conn.finish(id).is_ok()
    }
}

impl Guest for Stack {
    fn connect(&mut self, now: Instant) {
        let Tls::Client(tls) = &self.tls else { return };
        let connect = Connect {
            remote: PEER,
            name: NAME.try_into().expect("it is a name"),
            tls: Arc::clone(tls),
            config: self.config.clone(),
            seed: self.seed,
        };
        self.conn = Some(Connection::connect(connect, now).expect("its configuration is ours"));
    }

    fn handle(&mut self, datagram: &[u8], ecn: u8, now: Instant) {
        if self.conn.is_none() {
            self.conn = self.accept(datagram, now);
        }
        if let Some(conn) = &mut self.conn {
            self.datagram.clear();
            self.datagram.extend_from_slice(datagram);
            conn.handle(PEER, ecn, &mut self.datagram, now);
        }
        self.settle(now);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<(PacketKind, u8)> {
        let transmit = self.conn.as_mut()?.poll_transmit(out, now)?;
        let kind = if transmit.is_data { PacketKind::Data } else { PacketKind::Ack };
        Some((kind, transmit.ecn))
    }

    fn deadline(&self) -> Option<Instant> {
        self.conn.as_ref()?.deadline()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(conn) = &mut self.conn {
            conn.handle_timeout(now);
        }
        self.settle(now);
    }

    fn closed(&self) -> Option<Result<(), Ended>> {
        self.closed
    }

    fn info(&self) -> Option<GuestInfo> {
        let conn = self.conn.as_ref()?;
        let info = conn.info();
        // Plain QUIC has none, which is known when the handshake is done.
        let may_have_timeouts = info.is_tack || conn.is_handshaking();
        Some(GuestInfo {
            cwnd: info.congestion.cwnd,
            pacing_rate: info.congestion.pacing_rate,
            in_flight: Some(info.in_flight),
            srtt: info.srtt.unwrap_or_default(),
            rtt_min: info.rtt_min,
            resent: info.counters.data_packets_resent,
            congestion_events: info.counters.loss_episodes,
            timeouts: may_have_timeouts.then_some(info.counters.timeouts),
            iacks: match info.is_tack {
                true => info.counters.loss_acks_sent + info.counters.ce_acks_sent,
                false => 0,
            },
            failure: self.failure.clone(),
        })
    }
}
