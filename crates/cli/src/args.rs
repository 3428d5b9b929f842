//! The command line as typed. Each command is a unit of its own; what the user meant is decided by
//! each unit's `resolve`, which is where clear errors come from.

pub mod extras;
pub mod host;
pub mod key;
pub mod lab;
pub mod nc;
pub mod perf;
pub mod recv;
pub mod send;
pub mod transport;
pub mod tun;

use clap::{ArgAction, Parser, Subcommand};

use crate::exit::EXIT_STATUS_HELP;

const EXAMPLES: &str = "\
Examples:
  tack recv                        receive into this directory; prints what to type on the sender
  tack send photos/ notes.txt HOST send a folder and a file
  tar c dir | tack send - HOST     send a stream ...
  tack recv - > dir.tar            ... and receive one
  tack perf -s                     measure: one side serves ...
  tack perf -c HOST                ... the other asks, like iperf3
  tack nc --tun --tun-addr 10.7.0.2/24 10.7.0.1 80
                                   talk TCP over real IP packets with any TCP";

/// Fast, verified file transfer and measurement over TCP-TACK.
///
/// TACK is TCP with a few percent of its acknowledgments, which frees airtime on Wi-Fi and return
/// paths elsewhere. It runs over UDP, without privileges, encrypted unless told otherwise.
#[derive(Debug, Parser)]
#[command(name = "tack", version, after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS_HELP}"))]
#[command(propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// Log to standard error: -v what happens, -vv in detail, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send files, folders or standard input
    Send(send::SendArgs),
    /// Receive files and folders, or a stream to standard output
    Recv(recv::RecvArgs),
    /// Measure throughput, with iperf3's flags and output
    Perf(Box<perf::PerfArgs>),
    /// Connect standard input and output to a stream, like nc
    Nc(nc::NcArgs),
    /// Compare TACK with plain TCP over an emulated path, in this process
    Demo(crate::demo::DemoArgs),
    /// Simulate: every ACK strategy on the same Wi-Fi, scenario files, sweeps
    Lab(lab::LabArgs),
    /// Print this user's key, as a line for another machine's file of authorized keys
    Key(key::KeyArgs),
    /// Print a script that completes commands in your shell
    Completions(extras::CompletionsArgs),
    /// Print the manual page, or write one page per command into a directory
    Man(extras::ManArgs),
}
