//! One rival on one path.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;
use tack_device::{Clock, Netns};
use tack_link::End;
use tack_link::open_loop::{AckRule, Mode, OpenLoop};

use super::ends::{Ends, Passage};
use super::load::{Asked, Load};
use super::rival::{Client, Rival};
use super::usage::{Usage, Watched};
use crate::host::GoOn;
use crate::program::Program;
use crate::scenario::Scenario;
use crate::simulate::Interrupted;

/// How long a server may take to be ready, and a program to say its version.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to prepare a run.
const PREPARE_LIMIT: Duration = Duration::from_secs(120);
/// How often both ends are looked at, at first and later: some are gone after some milliseconds.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(50);
/// How much longer than it was there a client may say that it took: some count whole seconds.
const WHOLE_S: f64 = 1.0;
/// What of a program's complaints is repeated.
const SAID_BYTES: usize = 300;
/// Most that is read of a client's output: iperf3 tells of every interval.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// Most that a program may say before it is ended: disks are full soon.
const MAX_SAID_BYTES: u64 = 64 << 20;
/// Most of a version that is read, and shown.
const MAX_VERSION_BYTES: u64 = 4_096;
const MAX_VERSION_CHARS: usize = 100;

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faced {
    /// By the names of the metric table.
    pub figures: BTreeMap<String, f64>,
    /// Who it was: title, version, encryption.
    pub about: BTreeMap<String, String>,
    /// Why there are no figures.
    pub void: Option<String>,
    /// Whether another try may give some: the machine was busy.
    pub again: bool,
}

impl Faced {
    fn void(why: String) -> Faced {
        Faced { void: Some(why), ..Faced::default() }
    }
}

/// Where programs are looked for: what `script/rivals` installed (in `$TACK_RIVALS`, or
/// `~/.cache/tack-rivals`), PATH, and where administrators have theirs.
pub fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("TACK_RIVALS").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache/tack-rivals"))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin".into(), "/sbin".into()];
    let own = own.into_iter().map(|dir| dir.join("bin"));
    own.chain(std::env::split_paths(&path)).chain(usual).collect()
}

/// Runs the rival called `name` as `scenario` says, for `duration_s` at most.
///
/// Its commands are run by a shell in a directory of the run's own, and have in their environment:
/// `TACK` (this program), `TACK_SERVER` and `TACK_CLIENT` (addresses), `TACK_BYTES` (of each file),
/// `TACK_CONNECTIONS`, `TACK_MBPS` (of a paced application), `TACK_SECONDS` (how long it paces),
/// `TACK_MESSAGE_BYTES`, `TACK_EVERY_MS`, `TACK_PATH_MBPS` (what the path carries, 0: no limit).
///
/// # Errors
/// The rival's file is wrong, the machine or its privileges do not suffice, or the run was not to go on.
/// What goes wrong with the rival itself is a void run.
pub fn run(scenario: &Scenario, name: &str, go_on: GoOn<'_>) -> Result<Faced> {
    let rival = Rival::find(name).map_err(anyhow::Error::msg)?;
    let asked = Asked::of(scenario).map_err(|p| anyhow::anyhow!("`{}` {}", p.key, p.what))?;
    let missing = rival.missing(&places());
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Ok(Faced::void(format!("{missing} not installed: `{}`", rival.install)));
    }
    let Some(client) = rival.client.get(&asked.load) else {
        return Ok(Faced::void(format!("{name} has no client for the workload {}", asked.load)));
    };
    let dir = tempfile::tempdir().context("a directory for the run")?;
    let ends = Ends::of(scenario)?;
    let environment = environment(scenario, &asked)?;
    let stage = Stage { rival: &rival, dir: dir.path(), environment, ends: &ends, go_on };
    let limit = Duration::from_secs_f64(scenario.duration_s);
    let void = |e: anyhow::Error| {
        if e.is::<Interrupted>() { Err(e) } else { Ok(Faced::void(format!("{e:#}"))) }
    };
    let version = match stage.version() {
        Ok(version) => version,
        Err(e) => return void(e),
    };
    let mut faced = match stage.play(client, limit).map_err(void) {
        Ok(played) => faced(&asked, &played, &ends.finish()?),
        Err(void) => {
            let void = void?;
            ends.finish()?;
            void
        }
    };
    faced.about = rival.about(version);
    Ok(faced)
}

/// A rival between its two ends.
struct Stage<'a> {
    rival: &'a Rival,
    dir: &'a Path,
    environment: Vec<(&'static str, String)>,
    ends: &'a Ends,
    go_on: GoOn<'a>,
}

/// What was seen of it.
struct Played {
    received_bytes: u64,
    seconds: f64,
    /// From the client's start to its end.
    wall_s: f64,
    latency_ms: Option<(f64, f64)>,
    sender: Usage,
    receiver: Usage,
}

impl Stage<'_> {
    fn shell(&self, line: &str, log: &str) -> Result<Command> {
        let mut command = Program::shell(line);
        let path = std::env::join_paths(places())?;
        command.current_dir(self.dir).env("PATH", path).env("LC_ALL", "C");
        // What went wrong is in the message: a backtrace would hide it.
        command.env("RUST_BACKTRACE", "0");
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        let open = |kind: &str| File::create(self.dir.join(format!("{log}.{kind}")));
        command.stdout(open("out")?).stderr(open("err")?);
        Ok(command)
    }

    /// What it wrote last, for a message.
    fn said(&self, log: &str) -> String {
        let read = |kind: &str| {
            let bytes = tail(&self.dir.join(format!("{log}.{kind}"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().replace('\n', " ")
        };
        let (err, out) = (read("err"), read("out"));
        if err.is_empty() { out } else { err }
    }

    /// Whether the run may go on, and this program has not said too much.
    fn check(&self, log: &str) -> Result<()> {
        if !(self.go_on)() {
            return Err(Interrupted.into());
        }
        let bytes =
            |kind| fs::metadata(self.dir.join(format!("{log}.{kind}"))).map_or(0, |m| m.len());
        if bytes("out").max(bytes("err")) > MAX_SAID_BYTES {
            bail!("the {log} said more than {MAX_SAID_BYTES} bytes");
        }
        Ok(())
    }

    /// Runs a command outside of the path to its end.
    fn finish(&self, line: &str, log: &str, limit: Duration) -> Result<ExitStatus> {
        let clock = Clock::start();
        let mut program = Program::here(self.shell(line, log)?)?;
        loop {
            if let Some(status) = program.ended()? {
                return Ok(status);
            }
            self.check(log)?;
            if clock.now().saturating_since(tack_units::Instant::ZERO) > limit {
                bail!("{log} did not end within {} s: {}", limit.as_secs(), self.said(log));
            }
            pause();
        }
    }

    fn prepare(&self) -> Result<()> {
        let Some(line) = &self.rival.prepare else { return Ok(()) };
        let status = self.finish(line, "prepare", PREPARE_LIMIT)?;
        if !status.success() {
            bail!("prepare ended with {status}: {}", self.said("prepare"));
        }
        Ok(())
    }

    fn play(&self, client: &Client, limit: Duration) -> Result<Played> {
        self.prepare()?;
        let clock = Clock::start();
        let command = self.shell(&self.rival.server.command, "server")?;
        let mut server = Program::of(self.ends.netns(End::B), command)?;
        let ready = &self.rival.server.listens;
        while !self.ends.is(ready)? {
            if server.ended()?.is_some() {
                bail!("the server ended early: {}", self.said("server"));
            }
            self.check("server")?;
            if clock.now().saturating_since(tack_units::Instant::ZERO) > START_LIMIT {
                let limit = START_LIMIT.as_secs();
                bail!(
                    "the server was not ready ({ready:?}) within {limit} s: {}",
                    self.said("server")
                );
            }
            pause();
        }
        let mut sender = Watched::new(server.id(), server.netns());
        let command = self.shell(&client.command, "client")?;
        let (wall, receiver) =
            self.receive(self.ends.netns(End::A), command, limit, &mut sender)?;
        sender.look();
        drop(server);
        let path = self.dir.join("client.out");
        if fs::metadata(&path)?.len() > MAX_OUTPUT_BYTES {
            bail!("the client said more than {MAX_OUTPUT_BYTES} bytes");
        }
        let said = fs::read(&path).context("the client's output")?;
        let said = String::from_utf8_lossy(&said);
        let read = read(client, &said, self.dir)?;
        let wall_s = wall.as_secs_f64();
        let seconds = read.seconds.unwrap_or(wall_s);
        let Read { received_bytes, latency_ms, .. } = read;
        let sender = sender.usage();
        Ok(Played { received_bytes, seconds, wall_s, latency_ms, sender, receiver })
    }

    /// Runs the client to its end: how long it took, and what it used.
    fn receive(
        &self,
        netns: &Netns,
        command: Command,
        limit: Duration,
        sender: &mut Watched,
    ) -> Result<(Duration, Usage)> {
        let clock = Clock::start();
        let mut client = Program::of(netns, command)?;
        let mut receiver = Watched::new(client.id(), client.netns());
        let pid = i32::try_from(client.id()).ok().and_then(Pid::from_raw).context("its number")?;
        let (ended, end) = channel();
        let waits = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
            // It stays a zombie, whose times can still be read.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(pid), options);
            // Nobody listens any more where the limit was reached.
            let _ = ended.send(clock.now());
        })?;
        let mut look = FIRST_LOOK;
        let took = loop {
            match end.recv_timeout(look) {
                Ok(at) => break at.saturating_since(tack_units::Instant::ZERO),
                Err(RecvTimeoutError::Disconnected) => bail!("nobody saw the client's end"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            look = (look * 2).min(LOOK);
            receiver.look();
            sender.look();
            let is_over = clock.now().saturating_since(tack_units::Instant::ZERO) > limit;
            let wrong = self.check("client").and_then(|()| self.check("server"));
            if is_over || wrong.is_err() {
                drop(client);
                let _ = waits.join();
                wrong?;
                let limit = limit.as_secs_f64();
                let server = self.said("server");
                bail!(
                    "the client did not end within {limit} s: {}; the server: {server}",
                    self.said("client")
                );
            }
        };
        receiver.look();
        let status = client.wait()?;
        if !status.success() {
            let server = self.said("server");
            bail!("the client ended with {status}: {}; the server: {server}", self.said("client"));
        }
        Ok((took, receiver.usage()))
    }

    /// Which it is, in a line. What cannot say that is not there, or not whole.
    fn version(&self) -> Result<String> {
        let Rival { version, install, .. } = self.rival;
        let status = self.finish(version, "version", START_LIMIT)?;
        if !status.success() {
            let said = self.said("version");
            bail!("not installed: `{version}` ended with {status}: {said}: `{install}`");
        }
        let out = head(&self.dir.join("version.out")).unwrap_or_default();
        let line = first_line(&out).or_else(|| first_line(&self.said("version")));
        Ok(line.unwrap_or_else(|| "unknown".to_owned()))
    }
}

/// The last of a file.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(SAID_BYTES as u64)))?;
    let mut out = Vec::new();
    file.take(SAID_BYTES as u64).read_to_end(&mut out)?;
    Ok(out)
}

/// The first of a file, whatever is in it.
fn head(path: &Path) -> io::Result<String> {
    let mut out = Vec::new();
    File::open(path)?.take(MAX_VERSION_BYTES).read_to_end(&mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The first line that says something, as far as a table has room, without what a terminal would obey.
fn first_line(text: &str) -> Option<String> {
    let clean = |line: &str| -> String {
        line.trim().chars().filter(|c| !c.is_control()).take(MAX_VERSION_CHARS).collect()
    };
    text.lines().map(clean).find(|line| !line.is_empty())
}

/// What commands may ask for.
fn environment(scenario: &Scenario, asked: &Asked) -> Result<Vec<(&'static str, String)>> {
    let own = tack_device::started().context("where this program is")?.program;
    Ok(vec![
        ("TACK", own.display().to_string()),
        ("TACK_BYTES", asked.bytes.to_string()),
        ("TACK_CONNECTIONS", asked.connections.to_string()),
        ("TACK_MBPS", asked.mbps.to_string()),
        ("TACK_SECONDS", (scenario.duration_s - scenario.warmup_s).to_string()),
        ("TACK_MESSAGE_BYTES", asked.message_bytes.to_string()),
        ("TACK_EVERY_MS", asked.every_ms.to_string()),
        ("TACK_PATH_MBPS", format!("{:.1}", path_mbps(scenario)?)),
    ])
}

/// What the path carries down, Mbit/s on the IP level; 0: nothing bounds it. Over Wi-Fi, what
/// open-loop traffic without acknowledgments reaches in the model.
fn path_mbps(scenario: &Scenario) -> Result<f64> {
    let air = match &scenario.wifi {
        None => None,
        Some(wifi) => {
            let mut open = OpenLoop::new(wifi.checked_config(scenario.seed)?, Mode::Udp);
            open.ack = AckRule::Never;
            open.duration = Duration::from_secs(1);
            Some(open.run()?.l3_mbps)
        }
    };
    let wire = scenario.wan.as_ref().and_then(|wan| wan.down().rate_mbps);
    Ok([air, wire].into_iter().flatten().reduce(f64::min).unwrap_or(0.0))
}

struct Read {
    received_bytes: u64,
    seconds: Option<f64>,
    latency_ms: Option<(f64, f64)>,
}

/// What a client says, by its file's pointers.
fn read(client: &Client, said: &str, dir: &Path) -> Result<Read> {
    // Programs without figures of their own may say what they like.
    let json: Value = serde_json::from_str(said).unwrap_or(Value::Null);
    let number = |pointer: &String| -> Result<f64> {
        let value = json.pointer(pointer).and_then(Value::as_f64);
        value.filter(|v| v.is_finite() && *v >= 0.0).with_context(|| {
            let tail: String = said.chars().take(SAID_BYTES).collect();
            format!("there is no number at {pointer} in what the client said: {}", tail.trim())
        })
    };
    let received_bytes = match (&client.bytes, &client.received) {
        (Some(pointer), _) => number(pointer)? as u64,
        (None, Some(file)) => fs::metadata(dir.join(file)).with_context(|| file.clone())?.len(),
        (None, None) => bail!("nothing tells what arrived"),
    };
    let seconds = client.seconds.as_ref().map(number).transpose()?;
    let p50 = client.p50_ms.as_ref().map(number).transpose()?;
    let p99 = client.p99_ms.as_ref().map(number).transpose()?;
    Ok(Read { received_bytes, seconds, latency_ms: p50.zip(p99) })
}

/// The figures, if the run is worth something.
fn faced(asked: &Asked, played: &Played, passage: &Passage) -> Faced {
    if let Some(void) = &passage.void {
        return Faced { again: true, ..Faced::void(void.clone()) };
    }
    let bytes = played.received_bytes;
    let wanted = asked.bytes.saturating_mul(u64::from(asked.connections));
    // What is measured for a time ends between two blocks.
    if bytes == 0 || asked.load != Load::Paced && bytes < wanted {
        return Faced::void(format!("{bytes} of {wanted} bytes arrived"));
    }
    if let Some(why) = disbelieved(played, passage) {
        return Faced::void(why);
    }
    // Some count whole seconds, and nothing takes none.
    if played.seconds <= 0.0 {
        return Faced::void(format!("{bytes} bytes arrived in no time, by what the client said"));
    }
    let seconds = played.seconds;
    let gigabytes = bytes as f64 / 1e9;
    let (sender, receiver) = (&played.sender, &played.receiver);
    let cpu = |usage: &Usage| usage.cpu.as_secs_f64() / gigabytes;
    let megabytes = |usage: &Usage| usage.peak_rss_bytes as f64 / 1e6;
    let mut figures = BTreeMap::from([
        ("goodput".to_owned(), bytes as f64 * 8.0 / seconds),
        ("completion".to_owned(), seconds),
        ("acks".to_owned(), passage.acks as f64),
        ("acks_per_mb".to_owned(), passage.acks as f64 / (gigabytes * 1e3)),
        ("cpu_s_per_gb".to_owned(), cpu(sender) + cpu(receiver)),
        ("sender_cpu_s_per_gb".to_owned(), cpu(sender)),
        ("receiver_cpu_s_per_gb".to_owned(), cpu(receiver)),
        ("sender_rss_mb".to_owned(), megabytes(sender)),
        ("receiver_rss_mb".to_owned(), megabytes(receiver)),
    ]);
    if let Some(data) = passage.data {
        figures.insert("data".to_owned(), data as f64);
    }
    if let Some((air, ran_s)) = passage.airtime {
        figures.insert("ack_airtime".to_owned(), air.acks * ran_s / seconds);
    }
    if let Some((p999, max)) = passage.late_us {
        figures.insert("late_p999_us".to_owned(), p999);
        figures.insert("late_max_us".to_owned(), max);
    }
    if let Some((p50, p99)) = played.latency_ms {
        figures.insert("latency_p50_us".to_owned(), p50 * 1e3);
        figures.insert("latency_p99_us".to_owned(), p99 * 1e3);
    }
    Faced { figures, ..Faced::default() }
}

/// What a client cannot have seen, of all it said.
fn disbelieved(played: &Played, passage: &Passage) -> Option<String> {
    let Played { received_bytes: bytes, seconds, wall_s, .. } = played;
    let carried = passage.bytes;
    // What was compressed, or written in advance, the path has not carried; and some count in other units.
    if *bytes > carried {
        return Some(format!("{bytes} bytes arrived, by what the client said, of {carried} sent"));
    }
    let is_longer = *seconds > wall_s + WHOLE_S;
    is_longer.then(|| format!("the client said {seconds} s, and was there for {wall_s:.3} s"))
}

#[expect(clippy::disallowed_methods, reason = "another program is given time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

#[cfg(test)]
mod tests;
