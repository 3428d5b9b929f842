//! One end of a transfer, whoever takes part.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::contestant::{Contestant, Role};
use crate::{quic, quic_tack, tack};

/// Runs one end and prints its share as a line of JSON. A server first prints its address.
pub(crate) fn run(
    contestant: Contestant,
    role: Role,
    address: SocketAddr,
    keys: &Path,
    duration: Duration,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let share = runtime.block_on(async {
        match (contestant, role) {
            (Contestant::Quinn, Role::Server) => quic::serve(address, keys).await,
            (Contestant::Quinn, Role::Client) => quic::send(address, keys, duration).await,
            (Contestant::QuicTack | Contestant::QuicPlain, Role::Server) => {
                quic_tack::serve(contestant, address, keys).await
            }
            (Contestant::QuicTack | Contestant::QuicPlain, Role::Client) => {
                quic_tack::send(contestant, address, keys, duration).await
            }
            (_, Role::Server) => tack::serve(contestant, address, keys).await,
            (_, Role::Client) => tack::send(contestant, address, keys, duration).await,
        }
    })?;
    println!("{}", serde_json::to_string(&share).context("shares are plain data")?);
    Ok(())
}
