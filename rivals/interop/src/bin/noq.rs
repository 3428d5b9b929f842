//! noq, whose interface is quinn's.

use noq as quic;

/// There is none over it.
mod http {
    use anyhow::{Result, bail};
    use noq::Connection;
    use tack_quic_interop::Settings;

    pub(crate) async fn serve(_connection: Connection, _set: &Settings) -> Result<()> {
        bail!("no HTTP/3")
    }

    pub(crate) async fn fetch(_connection: Connection, _set: &Settings) -> Result<()> {
        bail!("no HTTP/3")
    }
}

#[path = "quinn/stock.rs"]
mod stock;

fn choose_ids(config: &mut quic::EndpointConfig) {
    config.cid_generator(std::sync::Arc::new(|| Box::new(stock::AnyIds)));
}

fn main() -> anyhow::Result<()> {
    stock::main("noq")
}
