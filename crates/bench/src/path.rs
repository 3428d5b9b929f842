//! Where a transfer runs.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::contestant::{Role, display_as_argument};

/// A kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PathKind {
    /// The loopback interface, MTU 65536.
    Loopback,
    /// A pair of virtual Ethernet interfaces between two network namespaces, MTU 1500.
    Veth,
    /// The same behind a token bucket of 590 Mbit/s towards the receiver.
    Tbf,
}

display_as_argument!(PathKind);

const ALL: [PathKind; 3] = [PathKind::Loopback, PathKind::Veth, PathKind::Tbf];
const CLIENT_IP: &str = "10.213.77.1";
const SERVER_IP: &str = "10.213.77.2";

impl PathKind {
    /// Those asked for, or all.
    pub(crate) fn chosen(asked: &[PathKind]) -> &[PathKind] {
        if asked.is_empty() { &ALL } else { asked }
    }
}

/// A path that exists until this is dropped.
pub(crate) struct Network {
    kind: PathKind,
    /// Names of the client's and the server's namespace.
    namespaces: [String; 2],
}

impl Network {
    /// Makes the path.
    pub(crate) fn make(kind: PathKind) -> Result<Network> {
        let id = std::process::id();
        let network = Network { kind, namespaces: [format!("tack{id}c"), format!("tack{id}s")] };
        if kind != PathKind::Loopback {
            network.make_veth()?;
        }
        Ok(network)
    }

    fn make_veth(&self) -> Result<()> {
        let [client, server] = &self.namespaces;
        for namespace in [client, server] {
            ip(&["netns", "add", namespace])?;
        }
        ip(&[
            "link", "add", "tack0", "netns", client, "type", "veth", "peer", "name", "tack0",
            "netns", server,
        ])?;
        for (namespace, address) in [(client, CLIENT_IP), (server, SERVER_IP)] {
            let address = format!("{address}/24");
            ip(&["-n", namespace, "addr", "add", &address, "dev", "tack0"])?;
            ip(&["-n", namespace, "link", "set", "tack0", "up"])?;
        }
        // As on the loopback, ports in TIME-WAIT are used again.
        let reuse = "echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse";
        ip(&["netns", "exec", client, "sh", "-c", reuse])?;
        if self.kind == PathKind::Tbf {
            run(Command::new("tc").args([
                "-n", client, "qdisc", "add", "dev", "tack0", "root", "tbf", "rate", "590mbit",
                "burst", "128kb", "latency", "20ms",
            ]))?;
        }
        Ok(())
    }

    pub(crate) fn server_ip(&self) -> IpAddr {
        let ip = if self.kind == PathKind::Loopback { "127.0.0.1" } else { SERVER_IP };
        ip.parse().expect("a literal address")
    }

    /// This program at one end of the path.
    pub(crate) fn command(&self, role: Role) -> Result<Command> {
        let program = std::env::current_exe()?;
        if self.kind == PathKind::Loopback {
            return Ok(Command::new(program));
        }
        let [client, server] = &self.namespaces;
        let namespace = if role == Role::Client { client } else { server };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        Ok(command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if self.kind != PathKind::Loopback {
            for namespace in &self.namespaces {
                // Its interface goes with it, and the peer with that.
                let _ = ip(&["netns", "del", namespace]);
            }
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let output =
        command.stdin(Stdio::null()).output().context("ip and tc are needed (iproute2)")?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
