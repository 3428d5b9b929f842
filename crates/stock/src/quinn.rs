//! quinn-proto as a guest.

use bytes::BytesMut;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use tack_cc::Algorithm;

crate::guest::guest!(quinn_proto, "quinn");

fn congestion(
    algorithm: Algorithm,
) -> Result<Arc<dyn ControllerFactory + Send + Sync>, SetupError> {
    match algorithm {
        Algorithm::NewReno => Ok(Arc::new(NewRenoConfig::default())),
        Algorithm::Cubic => Ok(Arc::new(CubicConfig::default())),
        Algorithm::Bbr => Ok(Arc::new(BbrConfig::default())),
        other => Err(SetupError::Congestion(other)),
    }
}

fn endpoint(server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Endpoint {
    Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some(seed))
}

fn handle(
    endpoint: &mut Endpoint,
    now: std::time::Instant,
    ecn: Option<EcnCodepoint>,
    datagram: &[u8],
    reply: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, PEER, None, ecn, BytesMut::from(datagram), reply)
}

/// `None`: nothing to send; else the mark of what was appended.
fn poll_transmit(
    conn: &mut Connection,
    now: std::time::Instant,
    out: &mut Vec<u8>,
) -> Option<Option<EcnCodepoint>> {
    conn.poll_transmit(now, 1, out).map(|transmit| transmit.ecn)
}

fn deadline(conn: &mut Connection) -> Option<std::time::Instant> {
    conn.poll_timeout()
}

fn stream_frames(conn: &mut Connection) -> u64 {
    conn.stats().frame_tx.stream
}

fn info(conn: &mut Connection) -> GuestInfo {
    let path = conn.stats().path;
    GuestInfo {
        cwnd: path.cwnd,
        srtt: path.rtt,
        rtt_min: Some(path.min_rtt),
        resent: path.lost_packets,
        congestion_events: path.congestion_events,
        ..GuestInfo::default()
    }
}
