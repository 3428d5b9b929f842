//! A scenario in real time: the same file, real packets.
//!
//! ```text
//! kernel:  socket ── TUN ── path in real time ── TUN ── socket
//! ours:    host ── TUN ── kernel forwards ── TUN ── path ── TUN ── kernel forwards ── TUN ── host
//! command: whatever two programs do over it
//! ```
//!
//! All stacks meet the same path with the same draws: the n-th packet that crosses the bottleneck
//! is lost in each or in none. What is counted is counted on the path, by flow, so that no endpoint
//! is asked about itself. All flows share the two ends: `[access]` gives the path its delay and
//! nothing else, so bursts are not spaced by links of their own. The kernel is not paced.
//!
//! A run in which packets left the path late is void, and made again a few times.

mod kernel;
mod ours;
mod threads;
mod wire;

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use tack_device::{Clock, Netns};
use tack_emu::{Emulation, EmulationConfig, Passed};
use tack_link::path::Path;
use tack_link::{End, Link};
use tack_units::Instant;

use crate::emulate::{Emulated, EmulatedPath};
use crate::host::GoOn;
use crate::link::Hop;
use crate::program::Program;
use crate::result::{DirectionResult, FlowResult, RunResult, WanResult};
use crate::scenario::{Direction, Flow, Scenario, Stack};
use crate::simulate::Interrupted;
use crate::traffic::start_after;
use threads::Threads;
use wire::{Counted, FlowCounts, Watched};

/// From the path's first moment to that of the flows: namespaces and sockets are made in it.
const LEAD: Duration = Duration::from_secs(1);
const FIRST_PORT: u16 = 5_001;
/// How often it is asked whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a run found.
#[derive(Clone, Debug)]
pub struct Live {
    /// Figures as the simulator has them; those of [`crate::metric::LIVE`] mean something.
    pub result: RunResult,
    /// How late packets left the path.
    pub extra: BTreeMap<String, f64>,
    /// Why these figures are worth nothing, if so.
    pub void: Option<String>,
}

/// A flow to be.
#[derive(Clone, Debug)]
struct Start {
    entry: usize,
    flow: Flow,
    sender: End,
    at: Instant,
    stop: Instant,
}

/// Where an entry's listener is.
fn port(entry: usize) -> u16 {
    FIRST_PORT + u16::try_from(entry).unwrap_or(u16::MAX - FIRST_PORT)
}

/// Where a flow's data comes from.
fn sender(flow: &Flow) -> End {
    if flow.direction == Direction::Up { End::A } else { End::B }
}

/// All flows: the n-th starts when the simulator's n-th does.
fn starts(scenario: &Scenario, begin: Instant) -> Vec<Start> {
    let start = |(number, (entry, flow)): (usize, (usize, Flow))| Start {
        entry,
        sender: sender(&flow),
        at: begin + start_after(scenario, number, &flow),
        stop: begin + Duration::from_secs_f64(flow.stop_s.unwrap_or(scenario.duration_s).min(1e6)),
        flow,
    };
    let entries = scenario.flow.iter().enumerate();
    let entries = entries.flat_map(|(entry, f)| core::iter::repeat_n(entry, f.count as usize));
    entries.zip(scenario.flows()).enumerate().map(start).collect()
}

/// Starts a command of a file's. What it says is not among the results that this process prints.
fn program(netns: &Netns, line: &str) -> Result<Program> {
    let mut shell = Program::shell(line);
    shell.stdout(std::io::stderr());
    Program::of(netns, shell).with_context(|| line.to_owned())
}

/// What sends.
enum Traffic {
    Threads(Threads),
    Programs(Program, Program),
}

impl Traffic {
    fn start<L>(emulation: &Emulation<L>, scenario: &Scenario, go_on: GoOn<'_>) -> Result<Traffic>
    where
        L: Link + Send + 'static,
    {
        let begin = Instant::ZERO + LEAD;
        match scenario.stack.as_ref().unwrap_or(&Stack::Ours) {
            Stack::Kernel => kernel::start(emulation, scenario, begin).map(Traffic::Threads),
            Stack::Command { server, client } => {
                let server = program(emulation.server(), server)?;
                wait_until(begin, &emulation.clock(), go_on)?;
                Ok(Traffic::Programs(server, program(emulation.client(), client)?))
            }
            Stack::Rival(name) => bail!("{name} is run by `versus`, which reads what it says"),
            Stack::Ours | Stack::Simulated => {
                ours::start(emulation, scenario, begin).map(Traffic::Threads)
            }
        }
    }

    /// Ends it. Returns which command had failed by itself before, and how.
    fn finish(self) -> Result<Option<String>> {
        let (mut server, mut client) = match self {
            Traffic::Threads(threads) => return Ok(threads.finish().map(|()| None)?),
            Traffic::Programs(server, client) => (server, client),
        };
        for (name, program) in [("client", &mut client), ("server", &mut server)] {
            if let Some(status) = program.ended()?.filter(|status| !status.success()) {
                return Ok(Some(format!("the {name}'s command ended with {status}")));
            }
        }
        Ok(None)
    }
}

/// Runs it, which takes as long as it says. `capture` takes its packets at both ends of the path,
/// as pcapng.
///
/// # Errors
/// No namespaces are to be had, this kernel lacks a controller, some flow never came to send, or it was
/// not to go on.
pub fn run(
    scenario: &Scenario,
    capture: Option<Box<dyn Write + Send>>,
    go_on: GoOn<'_>,
) -> Result<Live> {
    let is_command = matches!(scenario.stack, Some(Stack::Command { .. }));
    let watched = |(entry, flow): (usize, &Flow)| Watched {
        sender: sender(flow),
        port: (!is_command).then(|| port(entry)),
    };
    let entries = scenario.flow.iter().enumerate().map(watched).collect();
    let s = Duration::from_secs_f64;
    let begin = Instant::ZERO + LEAD;
    let path = EmulatedPath::of(scenario).link()?;
    let times = (s(scenario.warmup_s), s(scenario.duration_s));
    let config = EmulationConfig { capture, ..Emulated::config() };
    let emulation = Emulation::new(Counted::new(path, entries, begin, times), config)?;
    let traffic = Traffic::start(&emulation, scenario, go_on)?;
    let clock = emulation.clock();
    let late = clock.now().saturating_since(begin);
    wait_until(begin + times.0, &clock, go_on)?;
    let warm = emulation.passed();
    wait_until(begin + times.1, &clock, go_on)?;
    let passed = emulation.passed().since(&warm);
    let failed = traffic.finish()?;
    let report = emulation.finish()?;
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let extra = BTreeMap::from([
        ("late_p999_us".to_owned(), us(report.lateness.quantile(0.999))),
        ("late_max_us".to_owned(), us(report.lateness.greatest())),
    ]);
    let mut void = report.void().map(|void| void.to_string());
    if late > LEAD / 10 && !is_command {
        void.get_or_insert(format!("the flows were made {:.1} s late", late.as_secs_f64()));
    }
    let result = result(scenario, &report.link, &passed);
    let result = match failed {
        Some(why) => result.context(why)?,
        None => result?,
    };
    Ok(Live { result, extra, void })
}

fn result(scenario: &Scenario, link: &Counted<Path<Hop>>, passed: &Passed) -> Result<RunResult> {
    let seconds = scenario.duration_s - scenario.warmup_s;
    let mut flows = Vec::new();
    for (entry, flow) in scenario.flow.iter().enumerate() {
        let counts = link.flows(entry);
        if let Some(Stack::Command { .. }) = scenario.stack {
            flows.push(together(&counts, seconds));
            continue;
        }
        let (sent, all) = (counts.len(), flow.count as usize);
        ensure!(sent == all, "{sent} of {all} flows of flow.{entry} came to send");
        flows.extend(counts.iter().map(|counts| together(&[*counts], seconds)));
    }
    ensure!(
        flows.iter().any(|f| f.delivered_bytes > 0),
        "nothing was acknowledged in the whole run"
    );
    let way = |from: End| DirectionResult {
        delivered_bps: passed.left(from.other()).ip_bytes as f64 * 8.0 / seconds,
        queue_drop_share: 0.0,
    };
    let hops = || link.link().links();
    Ok(RunResult {
        flows,
        wan: Some(WanResult { down: way(End::B), up: way(End::A) }),
        queue_drops: hops().map(Hop::queue_drops).sum(),
        link_losses: hops().map(Hop::losses).sum(),
        ..RunResult::default()
    })
}

fn together(flows: &[FlowCounts], seconds: f64) -> FlowResult {
    let whole = |of: fn(&wire::Counts) -> u64| flows.iter().map(|f| of(&f.whole)).sum::<u64>();
    let sum = |of: fn(&wire::Counts) -> u64| flows.iter().map(|f| of(&f.measured)).sum::<u64>();
    let (data, delivered) = (sum(|c| c.data), sum(|c| c.delivered));
    // What was under way at the end of the warm-up arrived without having been sent.
    let lost = data.saturating_sub(delivered) as f64;
    FlowResult {
        goodput_bps: sum(|c| c.acked) as f64 * 8.0 / seconds,
        data_packets_per_s: data as f64 / seconds,
        ack_packets_per_s: sum(|c| c.acks) as f64 / seconds,
        ack_bytes_per_s: sum(|c| c.ack_bytes) as f64 / seconds,
        data_lost_per_s: lost / seconds,
        delivered_bytes: whole(|c| c.acked),
        data_packets: whole(|c| c.data),
        bare_packets: whole(|c| c.acks),
        ..FlowResult::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "the flows run in real time meanwhile")]
fn wait_until(at: Instant, clock: &Clock, go_on: GoOn<'_>) -> Result<(), Interrupted> {
    loop {
        let left = at.saturating_since(clock.now());
        if !go_on() {
            return Err(Interrupted);
        }
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

#[cfg(test)]
mod tests;
