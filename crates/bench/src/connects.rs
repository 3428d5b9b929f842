//! Many connections to one server, ours beside the kernel's TCP and quinn. Each end is a process of its own,
//! since no process may have as many files as both ends of ten thousand connections, and so that what it
//! holds and spends is its own.
//!
//! * **hold**: all open at once, and each says its number and hears it again. Then all are silent for a while,
//!   and are asked once more, so that one shows that was established and reset. A second time with keep-alives.
//! * **steady**: one after the other from many tasks: what a second allows, with TIME-WAIT at the client's end.
//! * **busy**: a thousand that all send as fast as they can.
//!
//! Programs behind `tack tunnel` are among them; there its two ends are what is measured.

mod client;
mod ends;
mod measure;
mod opener;
mod server;
mod stream;
mod table;
mod tunnel;
mod who;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::contestant::{Role, write_keys};
use crate::path::{Network, PathKind};
use crate::rounds::in_turns;
use table::Table;
use who::Who;

/// How long anything may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Descriptors beside those of connections: runtimes, listeners, standard streams.
const OTHER_FILES: u64 = 256;

/// Options of `connects`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectsArgs {
    /// Connections at once.
    #[arg(long, default_value_t = 10_000)]
    at_once: usize,

    /// Seconds of their silence.
    #[arg(long, default_value_t = 20.0)]
    silence: f64,

    /// Seconds between the keep-alives of the second time.
    #[arg(long, default_value_t = 5.0)]
    keepalive: f64,

    /// Seconds of one connection after the other, and of the busy ones.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,

    /// Tasks that open one connection after the other.
    #[arg(long, default_value_t = 64)]
    tasks: usize,

    /// Connections that all send.
    #[arg(long, default_value_t = 1_000)]
    busy: usize,

    /// Whose connections.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Who::BESIDE_EACH_OTHER)]
    who: Vec<Who>,

    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Phase::Hold, Phase::Kept, Phase::Steady, Phase::Busy])]
    phase: Vec<Phase>,

    /// Over which path; those through a tunnel over the loopback.
    #[arg(long, value_enum, default_value_t = PathKind::Loopback)]
    over: PathKind,

    /// How often all that is done; every other time in reverse order. Shown are medians.
    #[arg(long, default_value_t = 1)]
    rounds: u32,

    /// The command `tack`, for those through a tunnel. Default: beside this program.
    #[arg(long)]
    tack: Option<PathBuf>,

    /// Be one end; used by the program itself.
    #[arg(long, value_enum, hide = true, requires_all = ["at", "keys"])]
    end: Option<Role>,

    /// Where the server is, or is to be.
    #[arg(long, hide = true)]
    at: Option<SocketAddr>,

    /// Directory of key and certificate.
    #[arg(long, hide = true)]
    keys: Option<PathBuf>,
}

/// What is done with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Phase {
    /// Many at once, then silent.
    Hold,
    /// The same, with keep-alives.
    Kept,
    /// One after the other.
    Steady,
    /// They all send.
    Busy,
}

impl ConnectsArgs {
    /// The phase and whose connections of one end, which has one of either.
    fn part(&self) -> Result<(Phase, Who)> {
        self.phase.first().copied().zip(self.who.first().copied()).context("an end has a part")
    }
}

pub(crate) fn run(args: &ConnectsArgs) -> Result<()> {
    raise_descriptor_limit(args.at_once.max(args.busy))?;
    if let (Some(end), Some(at), Some(keys)) = (args.end, args.at, &args.keys) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(async {
            match end {
                Role::Server => server::run(args, at, keys).await,
                Role::Client => client::run(args, at, keys).await,
            }
        });
    }
    let keys = tempfile::tempdir()?;
    write_keys(keys.path())?;
    let (chosen, loopback) = (Network::make(args.over)?, Network::make(PathKind::Loopback)?);
    let mut table = Table::default();
    in_turns(args.rounds, &args.who, |who| {
        let network = if who.tunnel().is_some() { &loopback } else { &chosen };
        for &phase in &args.phase {
            let figures = measure::phase(phase, who, args, network, keys.path());
            let figures = figures.with_context(|| format!("{phase:?} of {who}"))?;
            eprintln!("{phase:?} {who}: {figures:?}");
            table.add(phase, who, figures);
        }
        Ok(())
    })?;
    print!("{}", table.show(args));
    Ok(())
}

/// Each of the kernel's connections is a file at either end; the ends are processes of their own.
fn raise_descriptor_limit(at_once: usize) -> Result<()> {
    let wanted = at_once as u64 + OTHER_FILES;
    let limits = getrlimit(Resource::Nofile);
    // None is no limit.
    let maximum = limits.maximum.map(|most| most.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).with_context(|| {
        format!("{at_once} at once need {wanted} descriptors, and only root may raise the limit")
    })
}
