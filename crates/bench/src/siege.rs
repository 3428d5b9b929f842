//! What a server holds and spends under each attack, and what a legitimate transfer gets meanwhile.
//!
//! Each server of `tack` runs as a process of its own; attackers come from one other address of the
//! loopback, as fast as they can, and a legitimate transfer of some size from ours is timed. Beside
//! them, where the same can be done to it, stand OpenSSH's server with sftp, and a server that is quinn
//! with its defaults.

mod attack;
mod fortress;
mod quinn;
mod sftp;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tack_device::Clock;

use crate::process::{Running, cpu_seconds, most_held_mb};
use attack::Attack;
use fortress::Fortress;

/// Where attackers come from.
pub(crate) const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 66));

/// Options of `siege`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SiegeArgs {
    /// The command `tack`. Default: beside this program.
    #[arg(long)]
    tack: Option<PathBuf>,

    /// MiB of the legitimate transfer.
    #[arg(long, default_value_t = 64)]
    mib: usize,

    /// Seconds of attack before it begins.
    #[arg(long, default_value_t = 3.0)]
    head_start: f64,

    /// Be quinn's server with this key; used by the program itself.
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    quinn: Option<PathBuf>,
}

/// A row of the table.
struct Row {
    held_mb: f64,
    cpu_share: f64,
    /// What the attackers did.
    did: String,
    transfer: Result<f64>,
}

pub(crate) fn run(args: &SiegeArgs) -> Result<()> {
    if let Some(keys) = &args.quinn {
        return quinn::serve(keys);
    }
    let tack = match &args.tack {
        // Each command runs in a directory of its own.
        Some(tack) => std::path::absolute(tack)?,
        None => std::env::current_exe()?.with_file_name("tack"),
    };
    ensure!(tack.is_file(), "{} is not there: build it, or give --tack", tack.display());
    println!(
        "{:<36} {:>9} {:>12} {:>10} {:>9}  attackers",
        "attack", "MB held", "CPU of a core", "transfer s", "MiB/s"
    );
    for fortress in Fortress::ALL {
        for &attack in fortress.attacks() {
            let name = format!("{}: {}", fortress.name(), attack.name());
            show(&name, args.mib, &besieged(&tack, args, fortress, attack)?);
        }
    }
    for attack in [Attack::Nothing, Attack::Garbage, Attack::Silent, Attack::Handshakes] {
        let server = quinn::Server::start()?;
        let transfer = || server.transfer(args.mib);
        let row = under((attack, true), server.address(), server.pid(), args, transfer)?;
        show(&format!("quinn: {}", attack.name()), args.mib, &row);
    }
    match sftp::Server::start() {
        Ok(server) => {
            for attack in [Attack::Nothing, Attack::Silent] {
                let row = sftp_besieged(&server, args, attack)?;
                show(&format!("sftp: {}", attack.name()), args.mib, &row);
            }
        }
        Err(e) => eprintln!("without sftp: {e:#}"),
    }
    Ok(())
}

fn show(name: &str, mib: usize, row: &Row) {
    let (seconds, rate) = match &row.transfer {
        Ok(seconds) => (format!("{seconds:.2}"), format!("{:.1}", mib as f64 / seconds)),
        Err(_) => ("failed".to_owned(), "-".to_owned()),
    };
    println!(
        "{name:<36} {:>9.1} {:>12.0}% {seconds:>10} {rate:>9}  {}",
        row.held_mb,
        100.0 * row.cpu_share,
        row.did
    );
    if let Err(why) = &row.transfer {
        println!("    {why:#}");
    }
}

pub(crate) fn command(tack: &Path, home: &Path, line: &str) -> Command {
    let mut command = Command::new(tack);
    command.args(line.split(' ')).current_dir(home).env("XDG_CONFIG_HOME", home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn besieged(tack: &Path, args: &SiegeArgs, fortress: Fortress, attack: Attack) -> Result<Row> {
    let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut server = Running(command(tack, here.path(), fortress.serves()).spawn()?);
    let (port, key) = told(&mut server.0)?;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let transfer = || {
        let command = |line: &str| command(tack, there.path(), line);
        fortress.transfer((address, &key), args.mib, there.path(), command)
    };
    let attack = (attack, fortress.is_quic());
    under(attack, address, server.0.id(), args, transfer)
}

fn sftp_besieged(server: &sftp::Server, args: &SiegeArgs, attack: Attack) -> Result<Row> {
    let film = server.home().join("film");
    fs::write(&film, vec![0x5a; args.mib << 20])?;
    under((attack, false), server.address(), server.pid(), args, || timed(&mut server.put(&film)?))
}

/// Port and key that the server says, on either stream.
fn told(server: &mut Child) -> Result<(u16, String)> {
    let (tell, lines) = mpsc::channel();
    let streams: [Box<dyn Read + Send>; 2] = [
        Box::new(server.stderr.take().context("it is piped")?),
        Box::new(server.stdout.take().context("it is piped")?),
    ];
    for stream in streams {
        let tell = tell.clone();
        thread::Builder::new().spawn(move || {
            // To the end, or the server would not get rid of what it says.
            BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| {
                let _nobody_listens_any_more = tell.send(line);
            });
        })?;
    }
    drop(tell);
    let (mut port, mut key) = (None, None);
    while port.is_none() || key.is_none() {
        let line = lines.recv_timeout(Duration::from_secs(20)).context("the server is silent")?;
        if let Some((_, rest)) = line.split_once("istening on ") {
            let address = rest.split(' ').next().unwrap_or_default();
            port = Some(address.rsplit(':').next().unwrap_or_default().parse()?);
        }
        key = key.or(line.strip_prefix("Key: ").map(str::to_owned));
    }
    port.zip(key).context("both are there")
}

/// How long it takes, in seconds.
fn timed(command: &mut Command) -> Result<f64> {
    let clock = Clock::start();
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    Ok(clock.now().as_nanos() as f64 / 1e9)
}

fn under(
    (attack, quic): (Attack, bool),
    server: SocketAddr,
    pid: u32,
    args: &SiegeArgs,
    transfer: impl FnOnce() -> Result<f64>,
) -> Result<Row> {
    let over = Arc::new(AtomicBool::new(false));
    let attacking = {
        let over = over.clone();
        thread::Builder::new().spawn(move || attack.run(server, quic, &over))?
    };
    let (clock, before) = (Clock::start(), cpu_seconds(pid)?);
    pause(Duration::from_secs_f64(args.head_start));
    let transfer = transfer();
    let spent = cpu_seconds(pid)? - before;
    let seconds = clock.now().as_nanos() as f64 / 1e9;
    let held_mb = most_held_mb(pid)?;
    over.store(true, Relaxed);
    let did = attacking.join().map_err(|_| anyhow::anyhow!("an attacker panicked"))??;
    Ok(Row { held_mb, cpu_share: spent / seconds, did, transfer })
}

#[expect(clippy::disallowed_methods, reason = "an attack takes real time")]
pub(crate) fn pause(long: Duration) {
    thread::sleep(long);
}
