//! quiche, which leaves socket and timers to its user: what drives it here is ours.
//!
//! Of its acknowledgments nothing can be set: it acknowledges whenever it is asked for datagrams after something
//! came, which here is once a look at the socket. It has no ACK frequency, and its `max_ack_delay` is only told.
//! Its CUBIC has no pacing.

mod connection;
mod endpoint;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use quiche::{Config, CongestionControlAlgorithm};
use tokio::sync::{Mutex, mpsc};

use super::quic_tack::PROTOCOL;
use super::{MAX_CONNECTIONS, WINDOW_BYTES};
use crate::keys::{CERTIFICATE, KEY};
use crate::{Controller, Settings};
use endpoint::{Endpoint, MAX_DATAGRAM_BYTES};

pub(crate) use connection::Connection;
pub(crate) use stream::Stream;

/// As in quinn and s2n-quic; quiche has none of its own, and a peer that is gone would never end.
const MAX_IDLE_MS: u64 = 30_000;

pub(crate) struct Server {
    accepted: Mutex<mpsc::Receiver<Arc<Connection>>>,
}

pub(crate) struct Client {
    endpoint: Arc<Endpoint>,
}

fn config(settings: &Settings) -> Result<Config> {
    let window = u64::from(WINDOW_BYTES);
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[PROTOCOL])?;
    config.set_max_idle_timeout(MAX_IDLE_MS);
    config.set_max_connection_window(window);
    config.set_max_stream_window(window);
    config.set_initial_max_data(window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_initial_max_streams_bidi(1);
    // As long as the path carries, which the others look for by themselves.
    config.set_max_send_udp_payload_size(MAX_DATAGRAM_BYTES);
    config.discover_pmtu(true);
    config.set_cc_algorithm(match settings.cc {
        None | Some(Controller::Cubic) => CongestionControlAlgorithm::CUBIC,
        Some(Controller::Bbr) => CongestionControlAlgorithm::Bbr2Gcongestion,
    });
    Ok(config)
}

impl Server {
    pub(crate) fn bind(settings: &Settings) -> Result<Server> {
        let mut config = config(settings)?;
        config.load_cert_chain_from_pem_file(CERTIFICATE)?;
        config.load_priv_key_from_pem_file(KEY)?;
        let (accepts, accepted) = mpsc::channel(MAX_CONNECTIONS);
        Endpoint::bind(settings.port, config, Some(accepts))?;
        Ok(Server { accepted: Mutex::new(accepted) })
    }

    pub(crate) async fn accept(&self) -> Result<Arc<Connection>> {
        self.accepted.lock().await.recv().await.context("the endpoint ended")
    }
}

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Client> {
        let mut config = config(settings)?;
        config.load_verify_locations_from_file(CERTIFICATE)?;
        config.verify_peer(true);
        Ok(Client { endpoint: Endpoint::bind(0, config, None)? })
    }

    pub(crate) async fn connect(&self, peer: SocketAddr) -> Result<Stream> {
        Stream::open(self.endpoint.connect(peer)?).await
    }
}
