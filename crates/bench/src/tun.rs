//! Our TCP over TUN devices, the kernel's TCP, and what the devices carry without any TCP.
//!
//! ```text
//!  namespace "client"                                        namespace "server"
//!  our end -- tun0 -- kernel, forwards -- cable (veth) -- kernel, forwards -- tun0 -- our end
//!                     kernel's TCP ---------------------- kernel's TCP
//!                     kernel's TCP -- relay -- process of its own -- relay -- kernel's TCP
//! ```
//!
//! One connection, bulk one way, nothing encrypted, MTU 1500, offloads on, CUBIC but for TACK's BBR;
//! the contestants alternate and the order reverses every round. Both ends' processes are counted, and the whole
//! machine, because what a packet costs in the kernel is not always charged to who sent it.

mod ends;
mod load;
mod raw;
mod relay;
mod stage;
mod table;

use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::contestant::{Role, display_as_argument};
use crate::rounds::Rounds;
use crate::{Ended, lines};
use load::{Load, Machine};
use stage::Stage;
use table::{Run, Table};

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    /// The kernel's TCP over the cable.
    Kernel,
    /// The kernel's TCP through a process that carries super-packets between two TUN devices.
    KernelRelay,
    /// Super-packets from device to device, 44 segments each, without TCP: what ours could reach.
    Raw,
    /// Our plain TCP to itself.
    Plain,
    /// The same without offload.
    PlainNoOffload,
    /// Our TCP with TACK to itself.
    Tack,
    /// Our plain TCP to the kernel's.
    PlainToKernel,
    /// The kernel's TCP to ours.
    KernelToPlain,
}

display_as_argument!(Contestant);

/// Measures TCP over TUN devices against the kernel's.
#[derive(Debug, Args)]
pub(crate) struct TunArgs {
    /// Who takes part. Default: all.
    #[arg(long, value_enum)]
    only: Vec<Contestant>,

    #[command(flatten)]
    rounds: Rounds,

    /// One process of a run; used by the program itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<TunRole>,
}

/// One process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TunRole {
    Server,
    Client,
}

display_as_argument!(TunRole);

impl From<TunRole> for Role {
    fn from(role: TunRole) -> Role {
        match role {
            TunRole::Server => Role::Server,
            TunRole::Client => Role::Client,
        }
    }
}

/// What one end saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Share {
    /// Bytes of text.
    bytes: u64,
    /// From the first to the last of them.
    seconds: f64,
    /// Processor time of the process up to then.
    load: Load,
    /// What else is worth telling.
    note: String,
}

pub(crate) fn run(args: &TunArgs) -> Result<()> {
    if let Some(role) = args.role {
        let contestant = *args.only.first().context("--role needs --only")?;
        return ends::run(contestant, role.into(), args.rounds.seconds);
    }
    let stage = Stage::build()?;
    let all = Contestant::value_variants();
    let chosen = if args.only.is_empty() { all } else { &args.only };
    let mut table = Table::default();
    args.rounds.in_turns(chosen, |contestant| {
        let run = measure(&stage, contestant, args.rounds.seconds)
            .with_context(|| contestant.to_string())?;
        eprintln!("{contestant}: {run}");
        table.add(contestant, run);
        Ok(())
    })?;
    args.rounds.show(&table, &table.rows())
}

/// One transfer between two processes.
fn measure(stage: &Stage, contestant: Contestant, seconds: f64) -> Result<Run> {
    let start = |role: TunRole| -> Result<Child> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["tun", "--only", &contestant.to_string(), "--role", &role.to_string()]);
        command.args(["--seconds", &seconds.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(stage.namespace(role.into()).spawn(&mut command)?)
    };
    let relay = (contestant == Contestant::KernelRelay).then(|| stage.relay()).transpose()?;
    let mut server = Ended(start(TunRole::Server)?);
    let mut from_server = lines(&mut server.0)?;
    let ready = from_server.next().context("the server ended early")??;
    if ready != ends::READY {
        bail!("the server said {ready:?}");
    }
    let before = Machine::now()?;
    let mut client = Ended(start(TunRole::Client)?);
    let mut from_client = lines(&mut client.0)?;
    let received: Share =
        serde_json::from_str(&from_server.next().context("the receiver ended early")??)?;
    let sent: Share =
        serde_json::from_str(&from_client.next().context("the sender ended early")??)?;
    let machine = Machine::now()?.since(&before);
    let relayed = relay.map(relay::Relay::stop).transpose()?;
    if received.bytes != sent.bytes {
        bail!("{} bytes were sent, {} received", sent.bytes, received.bytes);
    }
    Ok(Run::new(&received, &sent, relayed, machine))
}
