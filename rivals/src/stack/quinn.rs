//! quinn.

use std::sync::Arc;

use anyhow::Result;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
    TransportConfig,
};

use super::{WINDOW_BYTES, udp_socket};
use crate::keys::{certificate, key, roots};
use crate::{Controller, Settings};

fn transport(settings: &Settings) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .send_window(WINDOW_BYTES.into());
    match settings.cc {
        None => {}
        Some(Controller::Cubic) => {
            transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
        }
        Some(Controller::Bbr) => {
            transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
        }
    }
    if let Some(packets) = settings.ack_every {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(packets.saturating_sub(1).into());
        transport.ack_frequency_config(Some(acks));
    }
    Arc::new(transport)
}

fn endpoint(port: u16, server: Option<ServerConfig>) -> Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    Ok(Endpoint::new(EndpointConfig::default(), server, udp_socket(port)?, runtime)?)
}

pub(super) fn serve(settings: &Settings) -> Result<Endpoint> {
    let mut config = ServerConfig::with_single_cert(vec![certificate()?], key()?)?;
    config.transport_config(transport(settings));
    endpoint(settings.port, Some(config))
}

pub(super) fn client(settings: &Settings) -> Result<Endpoint> {
    let mut endpoint = endpoint(0, None)?;
    let mut config = ClientConfig::with_root_certificates(roots()?)?;
    config.transport_config(transport(settings));
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}
