//! A forwarder on our stack: it serves the near kernel and is the far kernel's client.

use std::net::SocketAddr;

use tack_interop::World;
use tack_net::ConnConfig;
use tokio::task::{AbortHandle, JoinSet};

/// Forwards from a port of ours to the same one of the far kernel, until dropped.
pub(crate) struct Forwarder(AbortHandle);

impl Forwarder {
    pub(crate) fn start(world: &World, port: u16, to: SocketAddr) -> Forwarder {
        let listener = world.listen(port, ConnConfig::default());
        let endpoint = world.endpoint.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                let endpoint = endpoint.clone();
                connections.spawn(async move {
                    let mut onward = endpoint.connect_plain(to).await?;
                    // Passes each half's end on, as everything here relies on.
                    tokio::io::copy_bidirectional(&mut from, &mut onward).await?;
                    Ok::<(), std::io::Error>(())
                });
            }
        });
        Forwarder(task.abort_handle())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.0.abort();
    }
}
