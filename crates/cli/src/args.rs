//! The command line as typed. Each command is a unit of its own; what the user meant is decided by
//! each unit's `resolve`, which is where clear errors come from.

pub mod doctor;
pub mod extras;
pub mod key;
pub mod lab;
pub mod nc;
pub mod perf;
pub mod recv;
pub mod send;
pub mod top;
pub mod transport;
pub mod tun;
pub mod tunnel;

use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command as Definition, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::EXIT_STATUS_HELP;
use crate::observe::ObserveArgs;

const EXAMPLES: &str = "\
Examples:
  tack recv                        receive into this directory; prints what to type on the sender
  tack send photos/ notes.txt HOST send a folder and a file
  tar c dir | tack send - HOST     send a stream ...
  tack recv - > dir.tar            ... and receive one
  tack perf -s                     measure: one side serves ...
  tack perf -c HOST                ... the other asks, like iperf3
  tack tunnel serve                any program over TACK: one side serves ...
  tack tunnel HOST -D 1080         ... the other is a proxy: curl -x socks5h://localhost:1080
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

impl Cli {
    /// Reads a command line. Numbers below zero are values, of which each option says what it thinks.
    ///
    /// # Errors
    /// What clap has to say, help included.
    pub fn read<T: Into<std::ffi::OsString> + Clone>(
        line: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let read = with_negative_values(Self::command()).try_get_matches_from(line);
        let named = |e| in_our_words(naming_what_is_left_out(e));
        Self::from_arg_matches(&read.map_err(named)?)
    }
}

/// Of `send film` clap takes the only word for the host, which comes last, and misses what to send.
fn naming_what_is_left_out(mut error: clap::Error) -> clap::Error {
    let of = |name: &str| ContextValue::Strings(vec![name.to_owned()]);
    if error.get(ContextKind::InvalidArg) == Some(&of("<PATH>...")) {
        error.insert(ContextKind::InvalidArg, of("<HOST[:PORT]>, behind what is sent"));
    }
    if let Some(hint) = host_alone(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// What Rust says of text that is no number is about digits and literals.
fn in_our_words(error: clap::Error) -> clap::Error {
    let Some(source) = error.source() else { return error };
    let wanted = if let Some(int) = source.downcast_ref::<ParseIntError>() {
        let too_much = matches!(int.kind(), IntErrorKind::PosOverflow);
        if too_much { "too much" } else { "a whole number from 0 on is wanted" }
    } else if source.is::<ParseFloatError>() {
        "a number is wanted"
    } else if source.is::<AddrParseError>() {
        "ADDRESS:PORT is wanted"
    } else {
        return error;
    };
    let (Some(ContextValue::String(arg)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let why = format!("invalid value '{value}' for '{arg}': {wanted}\n");
    clap::Error::raw(error.kind(), why)
}

/// `perf HOST`, as one is tempted to write who has just written `perf -s` over there.
fn host_alone(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let usage = error.get(ContextKind::Usage)?.to_string();
    let is_host = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    (is_host && usage.contains("perf")).then(|| format!("`tack perf -c {word}` measures to there"))
}

/// Without this, `-t -1` is an option `-1` after one that lacks its value.
fn with_negative_values(command: Definition) -> Definition {
    command
        .mut_args(|arg| {
            let valued = arg.get_action().takes_values() && !arg.is_positional();
            // An optional value is left out more often than it is below zero.
            let needed = arg.get_num_args().is_none_or(|n| n.min_values() > 0);
            if valued && needed { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(with_negative_values)
}

impl Command {
    /// What to see of the connections that it makes; `None`: it makes none.
    pub fn observe(&self) -> Option<&ObserveArgs> {
        match self {
            Command::Send(args) => Some(&args.observe),
            Command::Recv(args) => Some(&args.observe),
            Command::Perf(args) => Some(&args.observe),
            Command::Nc(args) => Some(&args.observe),
            Command::Doctor(args) => Some(&args.observe),
            Command::Tunnel(args) => Some(&args.observe),
            Command::Top(_)
            | Command::Demo(_)
            | Command::Lab(_)
            | Command::Key(_)
            | Command::Completions(_)
            | Command::Man(_) => None,
        }
    }
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
    /// Measure what TACK saves on the path to a host, and say when it is not worth it
    Doctor(doctor::DoctorArgs),
    /// Look at running commands: rates, acknowledgments by kind, round trips, queues, limits
    Top(top::TopArgs),
    /// Let other programs use TACK: port forwards, a SOCKS and HTTP proxy, a transparent gateway
    Tunnel(Box<tunnel::TunnelArgs>),
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
