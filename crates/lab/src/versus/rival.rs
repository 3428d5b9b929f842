//! A rival: one small file that says how to install a program, start it, stop it and read it.
//!
//! ```toml
//! title = "Linux TCP, CUBIC (iperf3)"
//! encryption = "none"
//! programs = ["iperf3"]                   # looked for in PATH and where `script/rivals` puts them
//! install = "apt-get install iperf3"      # what is said where one is missing
//! version = "iperf3 --version"            # its first line is shown; where it fails, the rival is not there
//! prepare = "truncate -s $TACK_BYTES file"   # a shell command in the run's own directory
//! [server]                                # in the server's namespace; ended with SIGTERM
//! command = "iperf3 -s -1"
//! listens = "tcp:5201"                    # the client starts once this port is open
//! [client.file]                           # of file, paced, many and latency: what it can do
//! command = "iperf3 -c $TACK_SERVER -R -n $TACK_BYTES -J"
//! bytes = "/end/sum_received/bytes"       # JSON pointers into what the client prints
//! seconds = "/end/sum_received/seconds"   # left out: from the client's start to its end
//! ```
//!
//! The data goes from server to client, and no more can arrive than the path carried. Commands are the
//! shell's, and what server and client start is ended with them, daemons as well. They find in their
//! environment what [`crate::versus::run`] documents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::load::Load;
use crate::bundle::RIVALS;
use crate::scenario::{Problem, ScenarioError};

/// Most bytes of a rival's file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// As in its file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    /// What it is, in a few words.
    pub title: String,
    /// What protects the bytes: `none`, or protocol and cipher.
    pub encryption: String,
    /// Every program its commands name.
    pub programs: Vec<String>,
    /// A command that installs them.
    pub install: String,
    /// A command whose first line of output names the version.
    pub version: String,
    /// Made before the server starts.
    #[serde(default)]
    pub prepare: Option<String>,
    /// Who sends.
    pub server: Server,
    /// Who receives, by workload.
    pub client: BTreeMap<Load, Client>,
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Runs until it is ended.
    pub command: String,
    /// What shows that it is ready: `tcp:PORT`, `udp:PORT` or `device:NAME`.
    pub listens: Ready,
}

/// What shows that a server is ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Ready {
    /// A TCP port is listened on.
    Tcp(u16),
    /// A UDP port is bound.
    Udp(u16),
    /// A network device is there: what listens behind it is no socket.
    Device(String),
}

/// Who receives, and how to read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Ends by itself, with status 0 when all went well.
    pub command: String,
    /// Where its output has the bytes that it received.
    #[serde(default)]
    pub bytes: Option<String>,
    /// A file of the run's directory that holds them instead.
    #[serde(default)]
    pub received: Option<String>,
    /// Where its output has how long that took.
    #[serde(default)]
    pub seconds: Option<String>,
    /// Where it has the median and the 99th percentile of latency, milliseconds.
    #[serde(default)]
    pub p50_ms: Option<String>,
    /// See `p50_ms`.
    #[serde(default)]
    pub p99_ms: Option<String>,
}

impl TryFrom<String> for Ready {
    type Error = String;

    fn try_from(text: String) -> Result<Ready, String> {
        let wrong = || {
            format!("is `{text}`, but must be tcp:PORT or udp:PORT (1 to 65535), or device:NAME")
        };
        let (kind, what) = text.split_once(':').ok_or_else(wrong)?;
        let port = what.parse().ok().filter(|port| *port > 0);
        match (kind, port) {
            ("tcp", Some(port)) => Ok(Ready::Tcp(port)),
            ("udp", Some(port)) => Ok(Ready::Udp(port)),
            ("device", _) if !what.is_empty() => Ok(Ready::Device(what.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl Rival {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy.
    pub fn parse(text: &str) -> Result<Rival, ScenarioError> {
        let rival: Rival = toml::from_str(text).map_err(|e| ScenarioError::from_toml(text, &e))?;
        rival.check().map_err(|p| ScenarioError::of(text, p))?;
        Ok(rival)
    }

    fn check(&self) -> Result<(), Problem> {
        let filled = [
            ("title", &self.title),
            ("encryption", &self.encryption),
            ("install", &self.install),
            ("version", &self.version),
            ("server.command", &self.server.command),
        ];
        for (key, value) in filled {
            if value.trim().is_empty() {
                return Err(Problem::new(key, "is empty"));
            }
        }
        if self.programs.is_empty() {
            return Err(Problem::new("programs", "names none"));
        }
        if self.client.is_empty() {
            let all = Load::NAMES.join(", ");
            return Err(Problem::new("client", format!("has no workload: name one of {all}")));
        }
        self.client.iter().try_for_each(|(load, client)| {
            client.check(*load).map_err(|p| p.of(&format!("client.{load}")))
        })
    }

    /// The rival called `name`: one of the repository, or the path of a file that ends in `.toml`.
    ///
    /// # Errors
    /// There is none, or what is wrong with its file.
    pub fn find(name: &str) -> Result<Rival, String> {
        let text = Rival::text(name)?;
        Rival::parse(&text).map_err(|e| format!("{name}, {e}"))
    }

    /// What its file says; a run is known by that, too.
    ///
    /// # Errors
    /// As [`Rival::find`].
    pub fn text(name: &str) -> Result<String, String> {
        if let Some((_, text)) = RIVALS.iter().find(|(own, _)| *own == name) {
            return Ok((*text).to_owned());
        }
        if !name.ends_with(".toml") {
            let all: Vec<&str> = RIVALS.iter().map(|(name, _)| *name).collect();
            let all = all.join(", ");
            return Err(format!("there is no rival `{name}`: name FILE.toml, or one of {all}"));
        }
        let size = std::fs::metadata(name).map_err(|e| format!("{name}: {e}"))?.len();
        if size > MAX_FILE_BYTES {
            return Err(format!("{name}: {size} bytes are too many, {MAX_FILE_BYTES} can be read"));
        }
        std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"))
    }

    /// Those of its programs that are in none of `places`.
    pub fn missing(&self, places: &[PathBuf]) -> Vec<&str> {
        let is_there = |name: &&String| places.iter().any(|dir| dir.join(name).is_file());
        self.programs.iter().filter(|name| !is_there(name)).map(String::as_str).collect()
    }

    /// Who it is, for the report.
    pub fn about(&self, version: String) -> BTreeMap<String, String> {
        let named = [("who", self.title.clone()), ("encryption", self.encryption.clone())];
        let named = named.into_iter().chain([("version", version)]);
        named.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl Client {
    fn check(&self, load: Load) -> Result<(), Problem> {
        if self.command.trim().is_empty() {
            return Err(Problem::new("command", "is empty"));
        }
        if self.bytes.is_none() && self.received.is_none() {
            let what = "is missing, and so is `received`: nothing would tell what arrived";
            return Err(Problem::new("bytes", what));
        }
        if load == Load::Latency && (self.p50_ms.is_none() || self.p99_ms.is_none()) {
            let what = "is missing, or p50_ms is: it is what latency asks";
            return Err(Problem::new("p99_ms", what));
        }
        let pointers = [
            ("bytes", &self.bytes),
            ("seconds", &self.seconds),
            ("p50_ms", &self.p50_ms),
            ("p99_ms", &self.p99_ms),
        ];
        for (key, pointer) in pointers {
            if let Some(pointer) = pointer.as_ref().filter(|p| !p.starts_with('/')) {
                let what = format!("is `{pointer}`, but a JSON pointer begins with /");
                return Err(Problem::new(key, what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
title = "a program"
encryption = "none"
programs = ["sh"]
install = "apt-get install dash"
version = "echo 1"
[server]
command = "sleep 9"
listens = "tcp:5201"
[client.file]
command = "echo {}"
bytes = "/bytes"
"#;

    #[test]
    fn every_rival_of_the_repository_can_be_read() {
        for (name, text) in RIVALS.iter() {
            Rival::parse(text).unwrap_or_else(|e| panic!("{name}, {e}"));
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_key() {
        assert!(Rival::parse(WHOLE).is_ok());
        for (from, to, told) in [
            ("title = \"a program\"", "titel = \"x\"", "line 2: `titel`"),
            ("\"none\"", "\" \"", "line 3: `encryption` is empty"),
            ("[\"sh\"]", "[]", "line 4: `programs` names none"),
            ("tcp:5201", "sctp:5201", "must be tcp:PORT or udp:PORT"),
            ("tcp:5201", "tcp:0", "must be tcp:PORT or udp:PORT"),
            ("tcp:5201", "udp:70000", "must be tcp:PORT or udp:PORT"),
            ("client.file", "client.fille", "fille"),
            ("bytes = \"/bytes\"", "", "`client.file.bytes` is missing"),
            ("\"/bytes\"", "\"bytes\"", "line 12: `client.file.bytes` is `bytes`, but a JSON"),
            ("client.file", "client.latency", "`client.latency.p99_ms` is missing"),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let e = Rival::parse(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(e.contains(told), "{told} is not in: {e}");
        }
    }

    #[test]
    fn no_text_makes_a_panic() {
        for cut in 0..WHOLE.len() {
            let _ = Rival::parse(&WHOLE[..cut]);
            let _ = Rival::parse(&WHOLE[cut..]);
        }
    }

    #[test]
    fn who_is_not_there_is_named_with_who_is() {
        let e = Rival::find("quin").unwrap_err();
        assert!(e.contains("`quin`") && e.contains("quinn"), "{e}");
        let e = Rival::find("nowhere/x.toml").unwrap_err();
        assert!(e.starts_with("nowhere/x.toml: "), "{e}");
    }

    #[test]
    fn a_program_that_is_not_installed_is_missing() {
        let rival = Rival::parse(&WHOLE.replace("[\"sh\"]", "[\"sh\", \"tack-nothing\"]")).unwrap();
        assert_eq!(rival.missing(&["/bin".into()]), ["tack-nothing"]);
    }
}
