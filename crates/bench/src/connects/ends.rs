//! Both ends as processes, which are told what to do and say what came of it, a line each.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::de::DeserializeOwned;

use super::tunnel::Tunnel;
use super::who::Who;
use super::{ConnectsArgs, Phase};
use crate::contestant::Role;
use crate::path::Network;
use crate::process::{Running, cpu_seconds, held_mb};

pub(super) struct Ends {
    pub(super) client: End,
    pub(super) server: End,
    tunnel: Option<Tunnel>,
}

/// What both ends have spent and hold: of the tunnel between them, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu_seconds: [f64; 2],
    pub(super) memory_mb: [f64; 2],
}

impl Ends {
    /// Both are there, and nobody has connected yet.
    pub(super) fn start(
        (phase, who): (Phase, Who),
        args: &ConnectsArgs,
        network: &Network,
        keys: &Path,
    ) -> Result<Ends> {
        let start = |role: Role, at: SocketAddr| -> Result<End> {
            let mut command = network.command(role)?;
            command.args(["connects", "--end", &role.to_string(), "--at", &at.to_string()]);
            command.arg("--keys").arg(keys).args(["--who", &who.spoken().to_string()]);
            let phase = phase.to_possible_value().context("each has a name")?;
            command.args(["--phase", phase.get_name()]);
            command.args(["--at-once", &args.at_once.to_string()]);
            command.args(["--busy", &args.busy.to_string(), "--tasks", &args.tasks.to_string()]);
            command.args(["--seconds", &args.seconds.to_string()]);
            command.args(["--keepalive", &args.keepalive.to_string()]);
            End::start(command)
        };
        let mut server = start(Role::Server, SocketAddr::new(network.server_ip(), 0))?;
        let address: SocketAddr = server.hear()?;
        let to = |quic| Tunnel::to(address, args.tack.as_deref(), quic);
        let tunnel = who.tunnel().map(to).transpose()?;
        let at = tunnel.as_ref().map_or(address, |tunnel| tunnel.local);
        let mut client = start(Role::Client, at)?;
        client.hear::<String>()?;
        Ok(Ends { client, server, tunnel })
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let pids = match &self.tunnel {
            Some(tunnel) => tunnel.pids(),
            None => [self.client.process.0.id(), self.server.process.0.id()],
        };
        let [client, server] = pids;
        Ok(Usage {
            cpu_seconds: [cpu_seconds(client)?, cpu_seconds(server)?],
            memory_mb: [held_mb(client)?, held_mb(server)?],
        })
    }
}

impl Usage {
    /// Processor time since then.
    pub(super) fn spent_since(&self, then: &Usage) -> [f64; 2] {
        [0, 1].map(|end| self.cpu_seconds[end] - then.cpu_seconds[end])
    }

    /// Memory that was not held then, MB.
    pub(super) fn more_than(&self, then: &Usage) -> [f64; 2] {
        [0, 1].map(|end| self.memory_mb[end] - then.memory_mb[end])
    }
}

pub(super) struct End {
    process: Running,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl End {
    fn start(mut command: Command) -> Result<End> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Running(command.spawn()?);
        let orders = process.0.stdin.take().context("it is piped")?;
        let said = BufReader::new(process.0.stdout.take().context("it is piped")?).lines();
        Ok(End { process, orders, said })
    }

    /// It is to do what comes next.
    pub(super) fn go_on(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"\n")?)
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        Ok(serde_json::from_str(&self.said.next().context("an end ended early")??)?)
    }
}
