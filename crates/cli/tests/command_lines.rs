//! Command lines drawn at random: each is understood, or refused in words that name what is wrong.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_cli::args::lab::LabCommand;
use tack_cli::args::{Cli, Command};
use tack_cli::exit::{ExitCode, Failure};

/// Values that some option takes, and some that none should.
const VALUES: &[&str] = &[
    "",
    " ",
    "-",
    "--",
    "0",
    "1",
    "2",
    "10",
    "-1",
    "-0",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999",
    "0.1",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "K",
    "1K",
    "1.5T",
    "20M/10",
    "1G/0",
    "9e99G",
    "5G",
    "0x",
    "0x1ff",
    "08",
    "46",
    "ef",
    "cs9",
    "af41",
    "[",
    "]",
    "[]",
    "[]:1",
    "[::1",
    "[::1]:0",
    "[::1]:80",
    "::1",
    "::1%",
    "fe80::1%lo",
    "fe80::1%nowhere",
    "127.0.0.1",
    "127.0.0.1:9",
    "host",
    "host:",
    ":80",
    "host:80",
    "80:host:80",
    "*:1:[::1]:22",
    "a:b:c:d:e",
    "*",
    "*:1",
    "any",
    "public",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "10.0.0.0/8:22-",
    "::/0",
    "/",
    "./x",
    "SHA256:",
    "SHA256:AAAA",
    "tack",
    "bbr",
    "cubic",
    "tcp-l2",
    "tcp-l0",
    "tcp-l99999999999",
    "n",
    "ax",
    "802.11",
    "b",
    "paper-a",
    "1ms",
    "80ms",
    "1e9s",
    "-5us",
    "1%",
    "101%",
    "1/0",
    "1/2",
    "0/0",
    "9/2",
    "a=1",
    "=",
    "a=",
    ",",
    "0,0",
    "9,,9",
    ",1",
    "%Y",
    "%",
    "%%%",
    "%Q",
    "é",
    "\u{1f980}\u{202e}",
    "\x1b[31m",
    "a\nb",
];

/// What one is made of.
struct Line {
    words: Vec<OsString>,
    /// What may be named of it.
    names: Vec<String>,
}

fn draw(rng: &mut Pcg64, tack: &clap::Command) -> Line {
    let mut line = Line { words: vec!["tack".into()], names: Vec::new() };
    let mut command = tack;
    loop {
        let subcommands: Vec<_> = command.get_subcommands().collect();
        let Some(next) = subcommands.choose(rng).copied().filter(|_| rng.random_range(0..10) > 0)
        else {
            break;
        };
        command = next;
        line.words.push(command.get_name().into());
    }
    let args: Vec<&Arg> = command.get_arguments().collect();
    line.names.extend(args.iter().flat_map(|arg| names(arg)));
    // Mostly with what it needs, or nothing else would ever be looked at.
    let needed = args.iter().copied().filter(|arg| arg.is_required_set());
    let mut given: Vec<&Arg> = needed.filter(|_| rng.random_range(0..10) > 0).collect();
    for _ in 0..rng.random_range(0..4) {
        given.extend(args.choose(rng).copied());
    }
    for arg in given {
        let value = value(rng, arg);
        line.names.extend(as_named(&value));
        let flag = match (arg.get_long(), arg.get_short()) {
            (Some(long), Some(_)) if rng.random() => format!("--{long}"),
            (_, Some(short)) => format!("-{short}"),
            (Some(long), None) => format!("--{long}"),
            (None, None) => {
                line.words.push(value);
                continue;
            }
        };
        if !arg.get_action().takes_values() || rng.random_range(0..20) == 0 {
            line.words.push(flag.into());
        } else if rng.random() && flag.starts_with("--") {
            let mut word = OsString::from(flag + "=");
            word.push(value);
            line.words.push(word);
        } else {
            line.words.extend([flag.into(), value]);
        }
    }
    line
}

/// How an argument is named in an error.
fn names(arg: &Arg) -> Vec<String> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    // Of `HOST[:PORT]` the first word is enough.
    let values = arg.get_value_names().unwrap_or_default().iter();
    let values = values.filter_map(|name| name.split(['[', ':']).next().map(str::to_owned));
    long.into_iter().chain(short).chain(values.filter(|name| !name.is_empty())).collect()
}

/// How a word is named in an error. What begins with a dash may be read as flags of one letter, of which the first
/// is unknown; of what is nothing, or colours a terminal, only the quotes are left, or what cannot colour.
fn as_named(word: &OsStr) -> Vec<String> {
    let text = word.to_string_lossy();
    if text.is_empty() || text.starts_with('\x1b') {
        return vec!["''".to_owned(), "``".to_owned(), "[31m".to_owned()];
    }
    let is_flags = text.starts_with('-') && !text.starts_with("--");
    vec![if is_flags { text.chars().take(2).collect() } else { text.into_owned() }]
}

fn value(rng: &mut Pcg64, arg: &Arg) -> OsString {
    let known = arg.get_possible_values();
    match rng.random_range(0..12) {
        0 => OsString::from_vec(vec![b'a', 0xff, b'/', 0xc3]),
        1 => "9".repeat(5_000).into(),
        2..4 if !known.is_empty() => known.choose(rng).unwrap().get_name().into(),
        4..6 if !arg.get_default_values().is_empty() => arg.get_default_values()[0].clone().into(),
        _ => VALUES.choose(rng).unwrap().into(),
    }
}

/// What a line means, as far as nothing has to be opened for that.
fn meant(command: Command) -> Result<(), Failure> {
    match command {
        Command::Send(args) => args.resolve().map(drop),
        Command::Recv(args) => args.resolve().map(drop),
        Command::Perf(args) => args.resolve().map(drop),
        Command::Nc(args) => args.resolve().map(drop),
        Command::Doctor(args) => args.resolve().map(drop),
        Command::Top(args) => args.resolve().map(drop),
        Command::Tunnel(args) => args.resolve().map(drop),
        Command::Demo(args) => args.path().map(drop),
        Command::Lab(args) => match args.command {
            #[cfg(target_os = "linux")]
            LabCommand::Emulate(args) => args.path().map(drop),
            // The lab's own errors say where in an experiment they are.
            LabCommand::Airtime(args) => {
                let _ = args.experiment();
                Ok(())
            }
            _ => Ok(()),
        },
        Command::Key(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}

/// What is wrong with how a line is taken.
fn fault(line: &Line) -> Option<String> {
    let said = match Cli::read(line.words.iter().cloned()) {
        // The help that was asked for.
        Err(error) if error.exit_code() == 0 => return None,
        Err(error) if error.exit_code() != ExitCode::Usage as i32 => {
            return Some(format!("status {}", error.exit_code()));
        }
        // Which word that is, clap does not say.
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => return None,
        // What lacks a command has the list of them.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            ) =>
        {
            return None;
        }
        // Behind the error every option is named.
        Err(error) => error.to_string().split("\nUsage:").next().unwrap_or_default().to_owned(),
        Ok(cli) => match meant(cli.command) {
            Ok(()) => return None,
            Err(failure) if failure.code != ExitCode::Usage => {
                return Some(format!("status {:?}: {failure}", failure.code));
            }
            Err(failure) => failure.message,
        },
    };
    let named = line.names.iter().any(|name| said.contains(name.as_str()));
    (!named).then(|| format!("it names nothing: {said}"))
}

#[test]
fn any_command_line_is_understood_or_refused_by_name_and_never_a_panic() {
    let mut tack = Cli::command();
    tack.build();
    // More of them on demand.
    let lines = std::env::var("TACK_LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    for seed in 0..lines {
        let line = draw(&mut Pcg64::seed_from_u64(seed), &tack);
        let taken = catch_unwind(AssertUnwindSafe(|| fault(&line)));
        match taken {
            Ok(None) => {}
            Ok(Some(fault)) => panic!("line {seed}, {:?}: {fault}", line.words),
            Err(_) => panic!("line {seed} panics: {:?}", line.words),
        }
    }
}
