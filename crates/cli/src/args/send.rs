//! `tack send`.

use std::path::PathBuf;

use clap::Args;

use crate::args::transport::{ClientSecurity, Transport};
use crate::args::tun::TunArgs;
use crate::exit::Failure;
use crate::net::Way;
use crate::observe::ObserveArgs;
use crate::transfer::DEFAULT_PORT;
use tack_net::HostPort;

const AFTER: &str = "\
Start `tack recv` on the other machine first; it prints the command to type here.
An interrupted transfer goes on where it stopped when the same command is run again.

Examples:
  tack send film.mkv 192.168.1.5
  tack send photos/ notes.txt nas.local:9000
  tar c dir | tack send - 192.168.1.5";

/// Send files and folders, with their modes and times, or standard input. Says success only once
/// the receiver has verified every byte.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct SendArgs {
    /// What to send; `-` alone is standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Where to: the host that runs `tack recv`
    #[arg(required = true, value_name = "HOST[:PORT]")]
    pub host: String,
    /// Port, if not in HOST
    #[arg(short, long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Send what symbolic links point to instead of the links
    #[arg(short = 'L', long)]
    pub follow: bool,
    /// No progress bar and no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Whom to trust.
    #[command(flatten)]
    pub security: ClientSecurity,
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

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Standard input.
    Stdin,
    /// These, and all beneath them.
    Paths(Vec<PathBuf>),
}

/// A `tack send` that makes sense.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// What.
    pub what: What,
    /// Where to.
    pub host: HostPort,
    /// Whether links are followed.
    pub follow: bool,
    /// Whether to say nothing.
    pub quiet: bool,
    /// Whom to trust.
    pub security: ClientSecurity,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

impl SendArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<SendConfig, Failure> {
        let host = HostPort::parse(&self.host, self.port)
            .map_err(|e| Failure::usage(format!("HOST, the last argument: {e}")))?;
        let way = self.transport.way(&self.tun)?;
        let has_stdin = self.paths.iter().any(|p| p.as_os_str() == "-");
        let what = match (has_stdin, self.paths.len()) {
            (true, 1) => What::Stdin,
            (true, _) => {
                return Err(Failure::usage(
                    "`-` is standard input and goes alone; a file of that name is `./-`",
                ));
            }
            (false, _) => What::Paths(self.paths),
        };
        Ok(SendConfig {
            what,
            host,
            follow: self.follow,
            quiet: self.quiet,
            security: self.security,
            transport: self.transport,
            way,
        })
    }
}
