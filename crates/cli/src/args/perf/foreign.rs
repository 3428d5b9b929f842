//! Flags of iperf3 that have no work to do here. Each is understood and says why: some by a note, the
//! others, without which the test would be another one, by an error.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::exit::Failure;

/// One flag.
#[derive(Debug)]
struct Flag {
    long: &'static str,
    short: Option<char>,
    takes_value: bool,
    /// Whether the test goes on without it.
    is_harmless: bool,
    why: &'static str,
}

const fn note(long: &'static str, why: &'static str) -> Flag {
    Flag { long, short: None, takes_value: false, is_harmless: true, why }
}

const fn refusal(long: &'static str, why: &'static str) -> Flag {
    Flag { is_harmless: false, ..note(long, why) }
}

const DATAGRAMS: &str = "streams are all there is here; -b says their rate";
const PACER: &str =
    "the connection paces itself, to the microsecond; -b says how much there is to send";
const DOORS: &str = "who may come in is said by --authorized-keys, --code and --open";
const PATIENCE: &str = "a test in which nothing moves for a minute is given up";

/// All of them.
const FLAGS: [Flag; 27] = [
    Flag {
        short: Some('Z'),
        ..note("zerocopy", "bytes pass through encryption in this process, which copies them")
    },
    Flag { short: Some('N'), ..note("no-delay", "short segments leave at once anyway") },
    note("forceflush", "each line is flushed anyway"),
    note("repeating-payload", "the same random block is sent again and again anyway"),
    note("dont-fragment", "datagrams are never fragmented where the path takes them whole"),
    note("udp-counters-64bit", "counters are 64 bits wide anyway"),
    Flag { takes_value: true, ..note("fq-rate", PACER) },
    Flag { takes_value: true, ..note("pacing-timer", PACER) },
    Flag { takes_value: true, ..note("rcv-timeout", PATIENCE) },
    Flag { takes_value: true, ..note("snd-timeout", PATIENCE) },
    Flag { takes_value: true, ..note("idle-timeout", "a server that waits costs nothing") },
    Flag { short: Some('d'), ..note("debug", "the log is -v, -vv and -vvv") },
    Flag { short: Some('u'), ..refusal("udp", DATAGRAMS) },
    refusal("sctp", DATAGRAMS),
    Flag { short: Some('X'), takes_value: true, ..refusal("xbind", DATAGRAMS) },
    Flag { takes_value: true, ..refusal("nstreams", DATAGRAMS) },
    Flag {
        short: Some('F'),
        takes_value: true,
        ..refusal("file", "files go with `tack send`, which verifies them, too")
    },
    Flag {
        short: Some('L'),
        takes_value: true,
        ..refusal("flowlabel", "the kernel labels the flows of a UDP socket")
    },
    Flag { takes_value: true, ..refusal("bind-dev", "-B with an address of the interface binds") },
    Flag {
        takes_value: true,
        ..refusal("server-bitrate-limit", "a server has no limit; who may come in is its choice")
    },
    Flag { takes_value: true, ..refusal("username", DOORS) },
    Flag { takes_value: true, ..refusal("rsa-public-key-path", DOORS) },
    Flag { takes_value: true, ..refusal("rsa-private-key-path", DOORS) },
    Flag { takes_value: true, ..refusal("authorized-users-path", DOORS) },
    Flag { takes_value: true, ..refusal("time-skew-threshold", DOORS) },
    refusal("use-pkcs1-padding", DOORS),
    refusal("mptcp", "a test has one path; --parallel has several streams on it"),
];

/// Which of them were given.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    given: Vec<&'static Flag>,
}

impl Foreign {
    /// What to tell the user of those that change nothing.
    ///
    /// # Errors
    /// The first that cannot be left out.
    pub fn notes(&self) -> Result<Vec<String>, Failure> {
        let said = |flag: &Flag| format!("--{} means nothing here: {}", flag.long, flag.why);
        match self.given.iter().find(|flag| !flag.is_harmless) {
            Some(flag) => Err(Failure::usage(said(flag))),
            None => Ok(self.given.iter().map(|flag| said(flag)).collect()),
        }
    }
}

impl Args for Foreign {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(|flag| {
            let action = if flag.takes_value { ArgAction::Set } else { ArgAction::SetTrue };
            let arg = Arg::new(flag.long).long(flag.long).action(action).hide(true);
            match flag.short {
                Some(short) => arg.short(short),
                None => arg,
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Foreign {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = clap::parser::ValueSource::CommandLine;
        let is_given = |flag: &&Flag| matches.value_source(flag.long) == Some(typed);
        Ok(Self { given: FLAGS.iter().filter(is_given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
