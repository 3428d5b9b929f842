//! noq-proto as a guest.

use core::num::NonZeroUsize;

use bytes::BytesMut;
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::{FourTuple, PathId};
use tack_cc::Algorithm;

crate::guest::guest!(noq_proto, "noq");

fn congestion(
    algorithm: Algorithm,
) -> Result<Arc<dyn ControllerFactory + Send + Sync>, SetupError> {
    match algorithm {
        Algorithm::NewReno => Ok(Arc::new(NewRenoConfig::default())),
        Algorithm::Cubic => Ok(Arc::new(CubicConfig::default())),
        Algorithm::Bbr3 => Ok(Arc::new(Bbr3Config::default())),
        other => Err(SetupError::Congestion(other)),
    }
}

fn endpoint(server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Endpoint {
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(seed));
    Endpoint::new(Arc::new(config), server, true)
}

fn handle(
    endpoint: &mut Endpoint,
    now: std::time::Instant,
    ecn: Option<EcnCodepoint>,
    datagram: &[u8],
    reply: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    let path = FourTuple::new(PEER, None);
    endpoint.handle(now, path, ecn, BytesMut::from(datagram), reply)
}

/// `None`: nothing to send; else the mark of what was appended.
fn poll_transmit(
    conn: &mut Connection,
    now: std::time::Instant,
    out: &mut Vec<u8>,
) -> Option<Option<EcnCodepoint>> {
    conn.poll_transmit(now, NonZeroUsize::MIN, out).map(|transmit| transmit.ecn)
}

fn deadline(conn: &mut Connection) -> Option<std::time::Instant> {
    conn.poll_timeout()
}

fn stream_frames(conn: &mut Connection) -> u64 {
    conn.path_stats(PathId::ZERO).map_or(0, |path| path.frame_tx.stream)
}

fn info(conn: &mut Connection) -> GuestInfo {
    let path = conn.path_stats(PathId::ZERO).unwrap_or_default();
    GuestInfo {
        cwnd: path.cwnd,
        srtt: path.rtt,
        rtt_min: None,
        resent: path.lost_packets,
        congestion_events: path.congestion_events,
        ..GuestInfo::default()
    }
}
