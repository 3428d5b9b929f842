//! The other stacks: which program serves and asks over each, and what it does not offer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tack_quic_interop::{has_second, is_early};
use tokio::process::Command;

use crate::cases::{Case, Role};

/// How a stack's programs are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// As ours: `tack_quic_interop::Settings`.
    Ours(&'static str),
    /// The same, by Python.
    Python,
    Tquic,
    Ngtcp2,
}

/// A stack.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    calls: Calls,
}

/// What a program is started for.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) case: &'a Case,
    pub(crate) h3: bool,
    pub(crate) at: SocketAddr,
    pub(crate) root: &'a Path,
    pub(crate) keys: &'a Path,
    pub(crate) out: &'a Path,
    pub(crate) files: &'a [String],
}

pub(crate) fn all() -> Vec<Peer> {
    let peer = |name, calls| Peer { name, calls };
    vec![
        peer("quinn", Calls::Ours("quinn-peer")),
        peer("noq", Calls::Ours("noq-peer")),
        peer("s2n-quic", Calls::Ours("s2n-peer")),
        peer("quiche", Calls::Ours("quiche-peer")),
        peer("tquic", Calls::Tquic),
        peer("aioquic", Calls::Python),
        peer("quic-go", Calls::Ours("quic-go-peer")),
        peer("ngtcp2", Calls::Ngtcp2),
    ]
}

/// Ours as a peer of itself, in whichever role.
pub(crate) fn ours(bin: &Path, role: Role, job: &Job<'_>) -> Command {
    let mut command = Command::new(bin.join("quic-interop"));
    settings(&mut command, if role == Role::Client { "client" } else { "server" }, job);
    command
}

fn settings(command: &mut Command, role: &str, job: &Job<'_>) {
    command.args([role, &job.at.ip().to_string(), &job.at.port().to_string()]);
    command.args(["--case", job.case.name, "--protocol", if job.h3 { "h3" } else { "hq" }]);
    if role == "server" {
        command.arg("--root").arg(job.root);
        command.arg("--cert").arg(job.keys.join("cert.pem"));
        command.arg("--key").arg(job.keys.join("key.pem"));
    } else {
        command.arg("--out").arg(job.out).arg("--ca").arg(job.keys.join("cert.pem"));
        command.arg("--files").args(job.files);
    }
}

impl Peer {
    /// It can be asked in no other way than by HTTP/3.
    pub(crate) fn is_h3_only(&self) -> bool {
        self.calls == Calls::Ngtcp2
    }

    /// How often its client is run, to make as many connections.
    pub(crate) fn runs(&self, case: &Case) -> u32 {
        let alone = matches!(self.calls, Calls::Tquic | Calls::Ngtcp2);
        if alone && has_second(case.name) { 2 } else { case.times }
    }

    /// The programs, of which all must be there.
    fn programs(&self, bin: &Path) -> Vec<PathBuf> {
        match self.calls {
            Calls::Ours(name) => vec![bin.join(name)],
            Calls::Python => vec![bin.join("../venv/bin/python"), bin.join("aioquic_peer.py")],
            Calls::Tquic => vec![bin.join("tquic_client"), bin.join("tquic_server")],
            Calls::Ngtcp2 => vec!["/usr/bin/gtlsclient".into(), "/usr/sbin/gtlsserver".into()],
        }
    }

    pub(crate) fn is_there(&self, bin: &Path) -> bool {
        self.programs(bin).iter().all(|program| program.exists())
    }

    /// As its registry has it.
    pub(crate) async fn version(&self, bin: &Path) -> String {
        let mut command = match self.calls {
            Calls::Ngtcp2 => {
                let mut command = Command::new("dpkg-query");
                command.args(["-W", "-f", "ngtcp2 ${Version} (Debian)", "ngtcp2-client"]);
                command
            }
            Calls::Tquic => {
                let mut command = Command::new(bin.join("tquic_client"));
                command.arg("--version");
                command
            }
            Calls::Python => {
                let mut command = Command::new(bin.join("../venv/bin/python"));
                command.arg(bin.join("aioquic_peer.py")).arg("version");
                command
            }
            Calls::Ours(name) => {
                let mut command = Command::new(bin.join(name));
                command.arg("version");
                command
            }
        };
        let output = command.stdin(Stdio::null()).output().await;
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
        let text = text.unwrap_or_else(|error| error.to_string());
        if self.calls == Calls::Tquic { text.replace("client", "tquic_tools") } else { text }
    }

    pub(crate) fn server(&self, bin: &Path, job: &Job<'_>) -> Command {
        match self.calls {
            Calls::Ours(name) => {
                let mut command = Command::new(bin.join(name));
                settings(&mut command, "server", job);
                command
            }
            Calls::Python => {
                let mut command = Command::new(bin.join("../venv/bin/python"));
                command.arg(bin.join("aioquic_peer.py"));
                settings(&mut command, "server", job);
                command
            }
            Calls::Tquic => {
                let mut command = Command::new(bin.join("tquic_server"));
                command.args(["--listen", &job.at.to_string(), "--log-level", "OFF"]);
                command.arg("--root").arg(job.root);
                command.arg("--cert").arg(job.keys.join("cert.pem"));
                command.arg("--key").arg(job.keys.join("key.pem"));
                if job.case.name == "retry" {
                    command.arg("--enable-retry");
                }
                if is_early(job.case.name) {
                    // Its default is the same for all.
                    command.arg("--ticket-key").arg(job.at.port().to_string());
                }
                command
            }
            Calls::Ngtcp2 => {
                let mut command = Command::new("/usr/sbin/gtlsserver");
                command.arg("-q").arg("-d").arg(job.root);
                if job.case.name == "retry" {
                    command.arg("-V");
                }
                command.args([job.at.ip().to_string(), job.at.port().to_string()]);
                command.arg(job.keys.join("key.pem")).arg(job.keys.join("cert.pem"));
                command
            }
        }
    }

    pub(crate) fn client(&self, bin: &Path, job: &Job<'_>) -> Command {
        match self.calls {
            Calls::Ours(name) => {
                let mut command = Command::new(bin.join(name));
                settings(&mut command, "client", job);
                command
            }
            Calls::Python => {
                let mut command = Command::new(bin.join("../venv/bin/python"));
                command.arg(bin.join("aioquic_peer.py"));
                settings(&mut command, "client", job);
                command
            }
            Calls::Tquic => tquic_client(bin, job),
            Calls::Ngtcp2 => gtlsclient(job),
        }
    }

    /// Why a case cannot be run with it, or with the program around it.
    pub(crate) fn lacks(&self, role: Role, case: &Case) -> Option<&'static str> {
        let their_client = role == Role::Server;
        let versions = ["aioquic", "quic-go"];
        let alone = matches!(self.calls, Calls::Tquic | Calls::Ngtcp2);
        match (case.name, self.name) {
            ("v2" | "compatible", "ngtcp2") => {
                Some("knows version 2 by the number of a draft alone")
            }
            ("v2" | "compatible", name) if !versions.contains(&name) => {
                Some("speaks no version 2 (RFC 9369)")
            }
            ("ackfrequency", name) if !matches!(name, "quinn" | "noq") => {
                Some("does not know ACK_FREQUENCY")
            }
            ("http3", "noq" | "s2n-quic" | "quiche") => Some("not by the program around it"),
            ("datagrams", "s2n-quic" | "tquic" | "ngtcp2") => Some("no datagrams by its programs"),
            ("resumption", "s2n-quic") => Some("session tickets are an unstable feature of it"),
            ("negotiation", "s2n-quic" | "tquic") if !their_client => {
                Some("takes first packets of version 2 for 0-RTT of version 1, and says nothing")
            }
            ("peerkeyupdate", "s2n-quic" | "quiche" | "quic-go" | "tquic") => {
                Some("keys are updated by itself alone")
            }
            ("peerkeyupdate", "ngtcp2") if !their_client => Some("its server updates no keys"),
            ("peerkeyupdate", _) if !their_client => Some("only its client is told to"),
            ("zerortt" | "zerorttrefused", "s2n-quic") => Some("has no 0-RTT"),
            ("compatible", "quic-go") => Some("knows no compatible versions (RFC 9368)"),
            ("compatible", _) if !their_client => {
                Some("ours names no version but the one that it begins with")
            }
            ("negotiation", "quinn" | "noq" | "s2n-quic" | "quic-go" | "tquic") if their_client => {
                Some("its client begins with no unknown version")
            }
            ("migration", "s2n-quic" | "aioquic" | "tquic") if their_client => {
                Some("its client does not move")
            }
            ("ecn", "quiche" | "aioquic" | "tquic") => Some("does not report ECN"),
            ("echo" | "closed" | "reset", _) if alone => Some("not by its programs"),
            ("reset", "s2n-quic" | "aioquic" | "quiche") if !their_client => {
                Some("its server sends no stateless resets")
            }
            ("reset", "aioquic") => Some("its client knows no stateless resets"),
            _ => None,
        }
    }
}

/// Why a case fails, where that was found out by what the peer tells of itself.
pub(crate) fn cause(peer: &str, role: Role, case: &str) -> Option<&'static str> {
    match (peer, role, case) {
        ("quiche", Role::Client, "rebindport" | "rebindaddress") => Some(
            "it validates the new address and sends there; what was in flight to the old one it never declares \
             lost, by its own statistics",
        ),
        ("tquic", Role::Client, "rebindport" | "rebindaddress") => {
            Some("it validates the new address and goes on sending to the old one, by its own log")
        }
        ("tquic", Role::Client, "migration") => Some(
            "it closes with INTERNAL_ERROR at the second packet from the new address, by its own log: the first \
             has retired the ID of the old path",
        ),
        _ => None,
    }
}

fn urls<'a>(job: &'a Job<'_>) -> impl Iterator<Item = String> + 'a {
    job.files.iter().map(|name| format!("https://localhost/{name}"))
}

fn tquic_client(bin: &Path, job: &Job<'_>) -> Command {
    let mut command = Command::new(bin.join("tquic_client"));
    let count = job.files.len().to_string();
    command.args(["--connect-to", &job.at.to_string(), "--log-level", "OFF"]);
    command.args(["--alpn", if job.h3 { "h3" } else { "hq-interop" }]);
    command.args(["--max-concurrent-requests", &count, "--max-requests-per-conn", &count]);
    command.args(["--total-requests-per-thread", &count]);
    command.arg("--dump-dir").arg(job.out);
    if has_second(job.case.name) {
        command.arg("--session-file").arg(job.out.join(".session"));
    }
    if is_early(job.case.name) {
        command.arg("--enable-early-data");
    }
    command.args(urls(job));
    command
}

fn gtlsclient(job: &Job<'_>) -> Command {
    let mut command = Command::new("/usr/bin/gtlsclient");
    command.args(["-q", "--exit-on-all-streams-close", "--sni=localhost"]);
    command.arg(format!("--download={}", job.out.display()));
    match job.case.name {
        "resumption" | "zerortt" | "zerorttrefused" => {
            command.arg(format!("--session-file={}", job.out.join(".session").display()));
            command.arg(format!("--tp-file={}", job.out.join(".tp").display()));
        }
        "peerkeyupdate" => drop(command.arg("--key-update=30ms")),
        "migration" => drop(command.arg("--change-local-addr=60ms")),
        "negotiation" => {
            command.args(["--version=0x1a2a3a4a", "--preferred-versions=v1"]);
        }
        _ => {}
    }
    if !is_early(job.case.name) {
        command.arg("--disable-early-data");
    }
    command.args([job.at.ip().to_string(), job.at.port().to_string()]);
    command.args(urls(job));
    command
}
