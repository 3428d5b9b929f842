//! A server with quinn's defaults, for comparison: whoever connects may send a stream, which is read to
//! its end and answered with a byte. It knows no clients, and nothing of ours limits it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use quinn::{Connection, Endpoint};
use tack_device::Clock;
use tempfile::TempDir;

use crate::contestant::{WRITE_BYTES, write_keys};
use crate::process::Running;
use crate::quic::{client_config, server_config};

/// Lives as long as this.
pub(super) struct Server {
    keys: TempDir,
    address: SocketAddr,
    running: Running,
}

impl Server {
    /// This program again, told to serve.
    pub(super) fn start() -> Result<Server> {
        let keys = tempfile::tempdir()?;
        write_keys(keys.path())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["siege", "--quinn"]).arg(keys.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut running = Running(command.spawn()?);
        let said = crate::lines(&mut running.0)?.next().context("quinn's server ended early")??;
        Ok(Server { keys, address: said.parse()?, running })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// How long so many MiB take, in seconds, from before there is a connection.
    pub(super) fn transfer(&self, mib: usize) -> Result<f64> {
        let clock = Clock::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
            endpoint.set_default_client_config(client_config(self.keys.path())?);
            let connection = endpoint.connect(self.address, "localhost")?.await?;
            let (mut send, mut recv) = connection.open_bi().await?;
            let piece = vec![0x5a; WRITE_BYTES];
            for _ in 0..(mib << 20) / WRITE_BYTES {
                send.write_all(&piece).await?;
            }
            send.finish()?;
            let answer = recv.read_to_end(1).await?;
            ensure!(answer.len() == 1, "no answer");
            anyhow::Ok(())
        })?;
        Ok(clock.now().as_nanos() as f64 / 1e9)
    }
}

/// The server itself, which prints where it is and goes on until it is ended.
pub(super) fn serve(keys: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = Endpoint::server(server_config(keys)?, local)?;
        println!("{}", endpoint.local_addr()?);
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move { hear(incoming.await?).await });
        }
        Ok(())
    })
}

async fn hear(connection: Connection) -> Result<()> {
    let (mut send, mut recv) = connection.accept_bi().await?;
    while recv.read_chunk(usize::MAX, true).await?.is_some() {}
    send.write_all(&[1]).await?;
    send.finish()?;
    connection.closed().await;
    Ok(())
}
