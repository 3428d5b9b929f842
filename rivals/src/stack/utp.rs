//! librqbit-utp: BitTorrent's transport, unencrypted.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::Result;
use librqbit_utp::{SocketOpts, UtpSocket, UtpSocketUdp, UtpSocketUdpOpts};

use super::WINDOW_BYTES;

pub(super) async fn socket(local: SocketAddr) -> Result<Arc<UtpSocketUdp>> {
    let window = NonZeroUsize::new(WINDOW_BYTES as usize);
    let options = SocketOpts {
        vsock_rx_bufsize_bytes: window,
        vsock_tx_bufsize_bytes_max: window,
        ..SocketOpts::default()
    };
    Ok(UtpSocket::new_udp_with_opts(local, options, UtpSocketUdpOpts::default()).await?)
}
