//! s2n-quic with rustls.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::io::tokio as io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

use super::{RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, WINDOW_BYTES, any};
use crate::keys::{CERTIFICATE, KEY, NAME};
use crate::stream::Stream;
use crate::{Controller, Settings};

fn limits(settings: &Settings) -> Result<Limits> {
    let window = u64::from(WINDOW_BYTES);
    let wrong = |e| anyhow!("s2n-quic's limits: {e}");
    let limits = Limits::new()
        .with_data_window(window)
        .map_err(wrong)?
        .with_bidirectional_local_data_window(window)
        .map_err(wrong)?
        .with_bidirectional_remote_data_window(window)
        .map_err(wrong)?
        .with_max_send_buffer_size(WINDOW_BYTES)
        .map_err(wrong)?;
    match settings.ack_every {
        None => Ok(limits),
        // Of its own acknowledgments; it cannot ask the peer's.
        Some(packets) => {
            let packets = u8::try_from(packets).unwrap_or(u8::MAX);
            limits.with_ack_elicitation_interval(packets).map_err(wrong)
        }
    }
}

fn socket(port: u16) -> Result<io::Provider> {
    Ok(io::Builder::default()
        .with_receive_address(any(port))?
        .with_recv_buffer_size(RECV_BUFFER_BYTES)?
        .with_send_buffer_size(SEND_BUFFER_BYTES)?
        .build()?)
}

pub(super) fn serve(settings: &Settings) -> Result<Server> {
    let server = Server::builder()
        .with_tls((Path::new(CERTIFICATE), Path::new(KEY)))?
        .with_io(socket(settings.port)?)?
        .with_limits(limits(settings)?)?;
    let started = match settings.cc {
        None | Some(Controller::Cubic) => {
            server.with_congestion_controller(Cubic::default())?.start()
        }
        Some(Controller::Bbr) => server.with_congestion_controller(Bbr::default())?.start(),
    };
    started.map_err(|e| anyhow!("s2n-quic's server: {e}"))
}

pub(super) fn client(settings: &Settings) -> Result<Client> {
    let client = Client::builder()
        .with_tls(Path::new(CERTIFICATE))?
        .with_io(socket(0)?)?
        .with_limits(limits(settings)?)?
        .start();
    client.map_err(|e| anyhow!("s2n-quic's client: {e}"))
}

pub(super) async fn connect(client: &Client, peer: SocketAddr) -> Result<Stream> {
    let mut connection = client.connect(Connect::new(peer).with_server_name(NAME)).await?;
    connection.keep_alive(true)?;
    let stream = connection.open_bidirectional_stream().await?;
    Ok(Stream::S2n(stream, connection.handle()))
}
