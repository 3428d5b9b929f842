//! Both ends of `tack tunnel`, as processes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::Running;
use crate::siege::command;

/// A tunnel from a port here to one target.
pub(super) struct Tunnel {
    /// Where programs connect to.
    pub(super) local: SocketAddr,
    client: Running,
    server: Running,
    _home: TempDir,
}

impl Tunnel {
    pub(super) fn to(target: SocketAddr, tack: Option<&Path>, quic: bool) -> Result<Tunnel> {
        let tack = match tack {
            Some(tack) => std::path::absolute(tack)?,
            None => std::env::current_exe()?.with_file_name("tack"),
        };
        ensure!(tack.is_file(), "{} is not there: build it, or give --tack", tack.display());
        let home = tempfile::tempdir()?;
        let over = if quic { " --quic" } else { "" };
        // One home, so that the server's key is the client's own.
        let start = |line: &str| -> Result<Running> {
            Ok(Running(command(&tack, home.path(), &format!("{line}{over}")).spawn()?))
        };
        let serve = format!("tunnel serve -B 127.0.0.1 -p 0 --allow {target}");
        let mut server = start(&serve)?;
        let port = said(&mut server.0, "127.0.0.1:")?;
        let mut client = start(&format!("tunnel 127.0.0.1:{port} -L 127.0.0.1:0:{target}"))?;
        let local = said(&mut client.0, "Port 127.0.0.1:")?;
        let local = SocketAddr::from(([127, 0, 0, 1], local));
        Ok(Tunnel { local, client, server, _home: home })
    }

    /// Of its client and its server.
    pub(super) fn pids(&self) -> [u32; 2] {
        [self.client.0.id(), self.server.0.id()]
    }
}

/// The port that a process says behind these words. What it says from then on is not read, which is little.
fn said(of: &mut Child, before: &str) -> Result<u16> {
    let stream = of.stderr.as_mut().context("it is piped")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let found = line.split_once(before).map(|(_, rest)| rest);
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        if let Some(port) = found.and_then(|rest| digits(rest).parse().ok()) {
            return Ok(port);
        }
    }
    anyhow::bail!("it did not say where it listens")
}
