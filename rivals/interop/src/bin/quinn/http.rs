//! HTTP/3 over quinn.

use anyhow::Result;
use quinn::Connection;
use tack_quic_interop::Settings;

pub(crate) async fn serve(connection: Connection, set: &Settings) -> Result<()> {
    tack_quic_interop::http::serve(h3_quinn::Connection::new(connection), set).await
}

pub(crate) async fn fetch(connection: Connection, set: &Settings) -> Result<()> {
    tack_quic_interop::http::fetch(h3_quinn::Connection::new(connection), set).await
}
