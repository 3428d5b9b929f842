//! quinn, with h3 for HTTP/3.

use quinn as quic;

mod http;
mod stock;

fn choose_ids(config: &mut quic::EndpointConfig) {
    config.cid_generator(|| Box::new(stock::AnyIds));
}

fn main() -> anyhow::Result<()> {
    stock::main("quinn")
}
