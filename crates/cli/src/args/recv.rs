//! `tack recv`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::args::transport::{ServerSecurity, Transport};
use crate::args::tun::TunArgs;
use crate::exit::Failure;
use crate::net::{OwnAddress, Way, unspecified};
use crate::observe::ObserveArgs;
use crate::transfer::DEFAULT_PORT;
use crate::transfer::store::Durability;
use tack_net::HostPort;

const AFTER: &str = "\
Waits for one transfer and ends when it is complete; an interrupted one may be resumed meanwhile.
Nothing is replaced unless --overwrite is given. Files under way lie in DIR/.tack-partial, where
they stay for resuming when either side is stopped. What is said to have arrived is on the disk.

Who sends must be told the code that is shown, or have a key that is authorized (--authorized-keys),
unless --open lets anybody in. Without encryption anybody may send.

Examples:
  tack recv                   into this directory
  tack recv inbox --keep      into inbox/, again and again
  tack recv - | tar x         a stream to standard output";

/// Receive files and folders into a directory, or a stream to standard output.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct RecvArgs {
    /// Where to put what comes; `-` is standard output
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Port to listen on
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDRESS", conflicts_with = "tun")]
    pub bind: Option<OwnAddress>,
    /// Go on after the first transfer, until stopped
    #[arg(short, long)]
    pub keep: bool,
    /// Replace files that are there with other contents
    #[arg(long)]
    pub overwrite: bool,
    /// Don't wait until files are on the disk itself before saying that they arrived: faster with
    /// many small ones, but a power cut may take what was just received
    #[arg(long)]
    pub no_sync: bool,
    /// No progress bar, no instructions, no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Who we are.
    #[command(flatten)]
    pub security: ServerSecurity,
    /// Receive without encryption: anybody on the way can read and change it
    #[arg(long, help_heading = "Security")]
    pub insecure_plaintext: bool,
    /// Which mechanism.
    #[command(flatten)]
    pub transport: Transport,
    /// Which way.
    #[command(flatten)]
    pub tun: TunArgs,
    /// What to see.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Where what comes goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A directory.
    Dir(PathBuf),
}

/// A `tack recv` that makes sense.
#[derive(Clone, Debug)]
pub struct RecvConfig {
    /// Where to put it.
    pub destination: Destination,
    /// Where to listen.
    pub local: SocketAddr,
    /// Whether to go on after the first transfer.
    pub keep: bool,
    /// Whether to replace.
    pub overwrite: bool,
    /// When what comes has to be on the disk.
    pub durability: Durability,
    /// Whether to say nothing.
    pub quiet: bool,
    /// What to tell the user before.
    pub note: Option<String>,
    /// Who we are; `None` is without encryption.
    pub security: Option<ServerSecurity>,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

impl RecvArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<RecvConfig, Failure> {
        let (destination, note) = if self.dir.as_os_str() == "-" {
            (Destination::Stdout, None)
        } else {
            is_no_host(&self.dir, self.port)?;
            let note = perhaps_a_port(&self.dir, self.port);
            (Destination::Dir(self.dir), note)
        };
        let of_directories =
            [(self.keep, "--keep"), (self.overwrite, "--overwrite"), (self.no_sync, "--no-sync")];
        let given = of_directories.into_iter().find(|(given, _)| *given);
        if let (Destination::Stdout, Some((_, flag))) = (&destination, given) {
            let why = format!("{flag} has no meaning when one stream goes to standard output");
            return Err(Failure::usage(why));
        }
        let way = self.transport.way(&self.tun)?;
        // The unspecified IPv6 address takes IPv4 as well.
        let address = self.bind.unwrap_or(unspecified(true).into());
        Ok(RecvConfig {
            destination,
            local: address.port(self.port),
            keep: self.keep,
            overwrite: self.overwrite,
            durability: if self.no_sync { Durability::Lazy } else { Durability::Synced },
            quiet: self.quiet,
            note,
            security: (!self.insecure_plaintext).then_some(self.security),
            transport: self.transport,
            way,
        })
    }
}

/// Others of the kind take a port here. A year is a good name for a folder, too, so this is said and not refused.
fn perhaps_a_port(dir: &Path, port: u16) -> Option<String> {
    let number: u16 = dir.to_str()?.parse().ok()?;
    let is_meant = number > 0 && port == DEFAULT_PORT && !dir.exists();
    is_meant.then(|| format!("`{number}` becomes a folder; a port is given as `-p {number}`"))
}

/// Whoever takes this side for the other one names a host, which would become a folder.
fn is_no_host(dir: &Path, port: u16) -> Result<(), Failure> {
    let Some(text) = dir.to_str().filter(|text| !text.contains('/') && !dir.exists()) else {
        return Ok(());
    };
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if !has_port && bare.parse::<IpAddr>().is_err() {
        return Ok(());
    }
    let port = HostPort::parse(text, port).map_or(port, |host| host.port);
    Err(Failure::usage(format!(
        "DIR: `{text}` looks like a host, and recv waits for others: `tack recv -p {port}` here, \
         and there `tack send PATH HOST:{port}` to this machine. A folder of that name is ./{text}"
    )))
}
