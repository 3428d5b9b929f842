//! Runs the cases, one after the other, each bounded in time.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::cases::{self, Case, Role, Said};
use crate::peers::{self, Job, Peer};
use crate::relay::{Conditions, Relay, Seen};
use crate::table::{self, Outcome, Outcomes};

/// A program is up, or never will be.
const START: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(10);
/// Our server's report comes so long after the client has gone.
const REPORT: Duration = Duration::from_secs(1);

struct Place {
    bin: PathBuf,
    work: PathBuf,
}

/// Runs what the command line says.
pub(crate) async fn all(args: &[String]) -> Result<()> {
    let mut options = BTreeMap::new();
    for pair in args.chunks(2) {
        let [option, value] = pair else { bail!("{} lacks a value", pair[0]) };
        options.insert(option.as_str(), value.as_str());
    }
    let bin = PathBuf::from(*options.get("--bin").context("--bin is missing")?);
    let only: Vec<&str> = options.get("--only").map_or(Vec::new(), |all| all.split(',').collect());
    let place = Place { work: bin.join("../work"), bin };
    let _ = std::fs::remove_dir_all(&place.work);
    std::fs::create_dir_all(&place.work)?;
    make_keys(&place.work)?;
    let (cases, peers) = (cases::all(), peers::all());
    for one in &only {
        let known = peers.iter().any(|peer| peer.name == *one)
            || cases.iter().any(|case| case.name == *one);
        ensure!(known, "{one} is neither a peer nor a case");
    }
    let named = |name: &str| {
        let of_kind = |is: &dyn Fn(&str) -> bool| only.iter().any(|one| is(one));
        let kind: Vec<&str> = match peers.iter().any(|peer| peer.name == name) {
            true => peers.iter().map(|peer| peer.name).collect(),
            false => cases.iter().map(|case| case.name).collect(),
        };
        !of_kind(&|one| kind.contains(&one)) || of_kind(&|one| one == name)
    };
    let (mut outcomes, mut versions) = (Outcomes::new(), Vec::new());
    for peer in peers.iter().filter(|peer| named(peer.name)) {
        let there = peer.is_there(&place.bin);
        let version = if there { peer.version(&place.bin).await } else { "not installed".into() };
        println!("{}: {version}", peer.name);
        versions.push((peer.name, version));
        for case in cases.iter().filter(|case| named(case.name)) {
            for role in Role::BOTH {
                let outcome = match peer.lacks(role, case) {
                    _ if !there => Outcome::NotInstalled,
                    Some(why) => Outcome::NotOffered(why),
                    None => match one(&place, peer, role, case).await {
                        Ok(()) => Outcome::Pass,
                        Err(error) => Outcome::Fail(format!("{error:#}")),
                    },
                };
                if there {
                    println!("  {} as {role:?}: {outcome:?}", case.name);
                }
                outcomes.insert((case.name, peer.name, role), outcome);
            }
        }
    }
    if let Some(document) = options.get("--document") {
        std::fs::write(document, table::document(&cases, &versions, &outcomes))?;
    }
    let all_failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Fail(_)));
    let (known, failed): (Vec<_>, Vec<_>) =
        all_failed.partition(|((case, peer, role), _)| peers::cause(peer, *role, case).is_some());
    let (known, failed) = (known.len(), failed.len());
    let missing = outcomes.values().any(|o| *o == Outcome::NotInstalled);
    let passed = outcomes.values().filter(|o| **o == Outcome::Pass).count();
    let rest = if missing { ", peers are missing" } else { "" };
    println!("{passed} passed, {failed} failed, {known} by a known fault of the peer's{rest}");
    ensure!(failed == 0 && !missing, "not all is well");
    Ok(())
}

fn make_keys(work: &Path) -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(vec![tack_quic_interop::NAME.to_owned()])?;
    std::fs::write(work.join("key.pem"), key.serialize_pem())?;
    std::fs::write(work.join("cert.pem"), params.self_signed(&key)?.pem())?;
    Ok(())
}

/// What a program says, as it says it.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn said(&self) -> Said {
        Said { lines: self.0.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    /// Until so many lines begin like that.
    async fn wait_for(&self, line: &str, count: usize, most: Duration) -> Result<()> {
        let waiting = async {
            while self.said().lines.iter().filter(|said| said.starts_with(line)).count() < count {
                sleep(MOMENT).await;
            }
        };
        timeout(most, waiting).await.with_context(|| format!("it never said {line:?}"))
    }
}

/// Starts a program whose output goes to `lines`, and its errors to the file `log`. Dropped, it ends.
fn spawn(mut command: Command, lines: &Lines, log: &Path) -> Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(log)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    command.env("RUST_BACKTRACE", "0");
    let program = command.as_std().get_program().to_owned();
    let mut child = command.spawn().with_context(|| format!("{}", program.display()))?;
    let out = child.stdout.take().context("its output is piped")?;
    let lines = lines.clone();
    tokio::spawn(async move {
        let mut out = BufReader::new(out).split(b'\n');
        while let Ok(Some(line)) = out.next_segment().await {
            let line = String::from_utf8_lossy(&line).into_owned();
            lines.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
    Ok(child)
}

fn free_port(v6: bool) -> Result<SocketAddr> {
    let any: SocketAddr =
        if v6 { (Ipv6Addr::LOCALHOST, 0).into() } else { ([127, 0, 0, 1], 0).into() };
    Ok(UdpSocket::bind(any)?.local_addr()?)
}

/// Starts a server and waits until it has its port.
async fn serve(command: Command, at: SocketAddr, lines: &Lines, log: &Path) -> Result<Child> {
    let mut child = spawn(command, lines, log)?;
    let waiting = async {
        while UdpSocket::bind(at).is_ok() {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended: {status}");
            }
            sleep(MOMENT).await;
        }
        Ok(())
    };
    timeout(START, waiting).await.context("the server did not start")??;
    // It has the port, and is about to read from it.
    sleep(MOMENT).await;
    Ok(child)
}

fn contents(name: &str, len: usize) -> Vec<u8> {
    let seed = name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut x = seed | 1;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..len).map(|_| draw()).collect()
}

async fn one(place: &Place, peer: &Peer, role: Role, case: &Case) -> Result<()> {
    let side = if role == Role::Client { "client" } else { "server" };
    let dir = place.work.join(format!("{}-{side}-{}", peer.name, case.name));
    let (root, out) = (dir.join("root"), dir.join("out"));
    for dir in [&root, &out] {
        std::fs::create_dir_all(dir)?;
    }
    let listed = case.files.list();
    for (name, len) in &listed {
        std::fs::write(root.join(name), contents(name, *len))?;
    }
    let files: Vec<String> = listed.iter().map(|(name, _)| name.clone()).collect();
    let at = free_port(case.name == "ipv6")?;
    let h3 = case.h3 || peer.is_h3_only();
    let job = Job { case, h3, at, root: &root, keys: &place.work, out: &out, files: &files };
    let (at_server, at_client) = (Lines::default(), Lines::default());
    let of_server = |job: &Job<'_>| match role {
        Role::Client => peer.server(&place.bin, job),
        Role::Server => peers::ours(&place.bin, Role::Server, job),
    };
    let log = dir.join("server.log");
    let mut server = serve(of_server(&job), at, &at_server, &log).await?;
    // The second connection meets a server that knows nothing of the first one's ticket.
    let mut path = case.path.clone();
    let mut anew = None;
    if case.name == "zerorttrefused" {
        let own = Job { at: free_port(false)?, ..job.clone() };
        let log = dir.join("anew.log");
        anew = Some(serve(of_server(&own), own.at, &at_server, &log).await?);
        path = path.map(|path| Conditions { later: Some(own.at), ..path });
    }
    let relay = match path {
        Some(path) => Some(Relay::start(at, path).await?),
        None => None,
    };
    let asked = Job { at: relay.as_ref().map_or(at, |relay| relay.at), ..job.clone() };
    let runs = if role == Role::Server { peer.runs(case) } else { case.times };
    for _ in 0..runs {
        // What an earlier run got proves nothing of this one.
        for (name, _) in &listed {
            let _ = std::fs::remove_file(out.join(name));
        }
        let command = match role {
            Role::Client => peers::ours(&place.bin, Role::Client, &asked),
            Role::Server => peer.client(&place.bin, &asked),
        };
        let mut client = spawn(command, &at_client, &dir.join("client.log"))?;
        if case.name == "reset" {
            at_client.wait_for("ready", 1, case.patience).await?;
            server.kill().await?;
            server = serve(of_server(&job), at, &at_server, &log).await?;
            client.stdin.take().context("it is piped")?.write_all(b"go on\n").await?;
        }
        let ended = timeout(case.patience, client.wait()).await;
        let status = ended.with_context(|| format!("no end within {:?}", case.patience))??;
        ensure!(status.success(), "the client failed: {}", last_line(&dir.join("client.log")));
    }
    if role == Role::Server && !matches!(case.name, "negotiation" | "reset") {
        // Where the peer goes without a word there is none.
        let connections = if tack_quic_interop::has_second(case.name) { 2 } else { 1 };
        let _ = at_server.wait_for("report", connections, REPORT).await;
    }
    let seen = relay.map_or(Seen::default(), |relay| relay.seen());
    let _ = server.kill().await;
    drop(anew);
    let (ours, theirs) = match role {
        Role::Client => (at_client.said(), at_server.said()),
        Role::Server => (at_server.said(), at_client.said()),
    };
    cases::prove(case, role, &seen, &ours, &theirs).map_err(anyhow::Error::msg)?;
    for (is_ours, line) in cases::words(case, role) {
        let said = if is_ours { &ours } else { &theirs };
        ensure!(said.has(line), "{line:?} was not said");
    }
    if cases::fetches(case, role) {
        for (name, len) in &listed {
            let came =
                std::fs::read(out.join(name)).with_context(|| format!("{name} did not come"))?;
            ensure!(
                came == contents(name, *len),
                "{name} came with {} bytes, wrong ones",
                came.len()
            );
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// The last thing that a program said went wrong.
fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it did not say why")
        .to_owned()
}
