//! `tack-net` beside quinn: one connection, TLS on, bulk data one way, on the same path.
//!
//! Two processes per run (this program starts itself again), runs of the contestants alternate and
//! the order reverses every round. Goodput is measured at the receiver from the first to the last
//! byte; CPU is user and system time of both processes. Compare ratios: absolute numbers belong to
//! the machine and to what else it does.
//!
//! ```text
//! cargo run --release -p tack-bench                  # loopback, and veth and tbf if root
//! cargo run --release -p tack-bench -- --path veth --seconds 3 --rounds 3
//! cargo run --release -p tack-bench -- tun           # over TUN devices against the kernel's TCP
//! cargo run --release -p tack-bench -- connects      # many connections, against the kernel's TCP
//! cargo run --release -p tack-bench -- siege         # a server under attack, beside sftp and quinn
//! cargo run --release -p tack-bench -- soak --minutes 60
//! cargo run --release -p tack-bench -- speed --help  # of the model and the simulator
//! ```

#[cfg(target_os = "linux")]
mod connects;
mod contestant;
mod end;
mod path;
#[cfg(target_os = "linux")]
mod process;
mod quic;
mod quic_tack;
mod report;
mod rounds;
#[cfg(target_os = "linux")]
mod siege;
#[cfg(target_os = "linux")]
mod soak;
mod speed;
mod tack;
#[cfg(target_os = "linux")]
mod tun;

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use crate::contestant::{Contestant, Role, Share};
use crate::path::{Network, PathKind};
use crate::report::{Report, Run};
use crate::rounds::Rounds;

/// Compares tack-net with quinn: goodput and CPU seconds per gigabyte of both ends.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Paths to measure on. Default: loopback, and the others if they can be made (needs root).
    #[arg(long, value_enum)]
    path: Vec<PathKind>,

    /// Who takes part.
    #[arg(long, value_enum, default_values_t = [Contestant::Quinn, Contestant::QuicTack, Contestant::Tack])]
    only: Vec<Contestant>,

    #[command(flatten)]
    rounds: Rounds,

    /// One end of a run; used by the program itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,

    /// Where the other end is, or what to bind to.
    #[arg(long, hide = true)]
    address: Option<SocketAddr>,

    /// Directory of key and certificate.
    #[arg(long, hide = true)]
    keys: Option<PathBuf>,
}

/// Other comparisons.
#[derive(Debug, Subcommand)]
enum Command {
    /// TCP over TUN devices, ours and the kernel's, and the devices' own limit (Linux, root).
    #[cfg(target_os = "linux")]
    Tun(tun::TunArgs),
    /// Thousands of connections to one server, beside the kernel's TCP (Linux).
    #[cfg(target_os = "linux")]
    Connects(connects::ConnectsArgs),
    /// A server under each attack, beside sftp and quinn (Linux).
    #[cfg(target_os = "linux")]
    Siege(siege::SiegeArgs),
    /// Transfers over a bad path for as long as you like; memory must not grow (Linux).
    #[cfg(target_os = "linux")]
    Soak(soak::SoakArgs),
    /// The speed of the 802.11 model and of the simulator.
    #[command(subcommand)]
    Speed(speed::Speed),
}

fn main() -> Result<()> {
    let args = Args::parse();
    match &args.command {
        #[cfg(target_os = "linux")]
        Some(Command::Tun(args)) => return tun::run(args),
        #[cfg(target_os = "linux")]
        Some(Command::Connects(args)) => return connects::run(args),
        #[cfg(target_os = "linux")]
        Some(Command::Siege(args)) => return siege::run(args),
        #[cfg(target_os = "linux")]
        Some(Command::Soak(args)) => return soak::run(args),
        Some(Command::Speed(what)) => return speed::run(what),
        None => {}
    }
    match (args.role, args.address, &args.keys) {
        (Some(role), Some(address), Some(keys)) => {
            let duration = Duration::from_secs_f64(args.rounds.seconds);
            let contestant = *args.only.first().context("--role needs --only")?;
            end::run(contestant, role, address, keys, duration)
        }
        (None, ..) => compare(&args),
        _ => bail!("--role needs --address and --keys"),
    }
}

fn compare(args: &Args) -> Result<()> {
    let keys = tempfile::tempdir()?;
    contestant::write_keys(keys.path())?;
    let mut report = Report::default();
    for &kind in PathKind::chosen(&args.path) {
        let network = match Network::make(kind) {
            Ok(network) => network,
            Err(e) if args.path.is_empty() => {
                eprintln!("skipping {kind}: {e:#}");
                continue;
            }
            Err(e) => return Err(e.context(format!("cannot make the path {kind}"))),
        };
        args.rounds.in_turns(&args.only, |contestant| {
            let run = measure(&network, contestant, args.rounds.seconds, keys.path())
                .with_context(|| format!("{contestant} on {kind}"))?;
            eprintln!("{kind} {contestant}: {run}");
            report.add(kind, contestant, run);
            Ok(())
        })?;
    }
    args.rounds.show(&report, &report.summary())
}

/// One transfer between two processes.
fn measure(
    network: &Network,
    contestant: Contestant,
    seconds: f64,
    keys: &std::path::Path,
) -> Result<Run> {
    let start = |role: Role, address: SocketAddr| -> Result<Child> {
        let mut command = network.command(role)?;
        command.arg("--only").arg(contestant.to_string());
        command.arg("--role").arg(role.to_string());
        command.arg("--address").arg(address.to_string());
        command.arg("--seconds").arg(seconds.to_string());
        command.arg("--keys").arg(keys);
        Ok(command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?)
    };
    let mut server = Ended(start(Role::Server, SocketAddr::new(network.server_ip(), 0))?);
    let mut from_server = lines(&mut server.0)?;
    let address = from_server.next().context("the server ended early")??.parse()?;
    let mut client = Ended(start(Role::Client, with_ip(address, network.server_ip()))?);
    let mut from_client = lines(&mut client.0)?;
    let received: Share =
        serde_json::from_str(&from_server.next().context("the receiver ended early")??)?;
    let sent: Share =
        serde_json::from_str(&from_client.next().context("the sender ended early")??)?;
    if received.bytes != sent.bytes {
        bail!("{} bytes were sent, {} received", sent.bytes, received.bytes);
    }
    Ok(Run::new(&received, &sent))
}

fn with_ip(address: SocketAddr, ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, address.port())
}

fn lines(child: &mut Child) -> Result<impl Iterator<Item = std::io::Result<String>> + use<>> {
    let out = child.stdout.take().context("the child's output is piped")?;
    Ok(BufReader::new(out).lines())
}

/// A process that does not outlive its run.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
