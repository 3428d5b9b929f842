//! One run: a setting and a seed in, figures out.

use core::time::Duration;
use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde::Serialize;
use tack_emu::{Emulation, EmulationConfig};
use tack_units::Instant;

use super::traffic::Received;
use super::wire::{Counted, FlowCounts};
use super::{Class, LiveRun, REVERSE_FLOWS, kernel, ours};
use crate::kernel::Stack;

/// One half of the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LiveHalf {
    /// Flows that sent anything.
    pub flows: usize,
    /// What receiving applications read, all flows together, bit/s.
    pub goodput_bps: f64,
    /// Share of the data packets that the path lost, those under way at the end among them.
    pub loss: f64,
    /// Acknowledgments per data packet that arrived.
    pub acks_per_packet: f64,
    /// Pauses of 195 ms and more, for a timeout or a late probe, per flow and minute.
    pub pauses_per_min: f64,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveFigures {
    /// Those acknowledged per segment.
    pub every: LiveHalf,
    /// The others.
    pub others: LiveHalf,
    /// Those against the direction of both.
    pub reverse: LiveHalf,
    /// Most text bytes a reverse flow had in flight: its receive window.
    pub reverse_in_flight_max: u32,
    /// Greatest lateness of the emulator, µs.
    pub late_max_us: u64,
    /// Cores the emulator used.
    pub emulator_cores: f64,
    /// Why these figures are worth nothing, if so.
    pub void: Option<String>,
}

impl LiveFigures {
    /// Goodput of a flow of the others, relative to that of a flow of all.
    pub fn share(&self) -> f64 {
        let (every, others) = (self.every.goodput_bps, self.others.goodput_bps);
        2.0 * others / (every + others).max(1e-9)
    }
}

/// A run and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveResult {
    /// The run.
    pub run: LiveRun,
    /// What it found.
    pub figures: LiveFigures,
}

/// Runs it, which takes as long as it says. `capture` takes its packets at both ends of the path,
/// as pcapng.
///
/// # Errors
/// No namespaces are to be had, this kernel lacks the controller, or some flow never came to send.
pub fn run(run: &LiveRun, capture: Option<Box<dyn Write + Send>>) -> Result<LiveResult> {
    ensure!(
        run.warmup_s >= 0.0 && run.duration_s > run.warmup_s && run.duration_s <= 36_000.0,
        "a run takes up to ten hours, and longer than its warm-up"
    );
    let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s);
    let (from, until) = (at(run.warmup_s), at(run.duration_s));
    let config = EmulationConfig { capture, ..EmulationConfig::default() };
    let emulation = Emulation::new(Counted::new(run.path()?, from, until), config)?;
    let received = Arc::new(Received::default());
    let traffic = match run.cell.stack {
        Stack::Kernel => kernel::start(&emulation, run, &received)?,
        Stack::Ours => ours::start(&emulation, run, &received)?,
    };
    let clock = emulation.clock();
    let read_at = |at: Instant| {
        sleep(at - clock.now());
        (clock.now(), received.all())
    };
    let (warm_at, warm) = read_at(from);
    let (end_at, end) = read_at(until);
    traffic.finish()?;
    let report = emulation.finish()?;
    let measured = (end_at - warm_at).as_secs_f64();
    let half = |class: Class| {
        let bytes = end[class as usize] - warm[class as usize];
        half(report.link.flows(class), bytes, measured)
    };
    let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let figures = LiveFigures {
        every: half(Class::Every),
        others: half(Class::Others),
        reverse: half(Class::Reverse),
        reverse_in_flight_max: report
            .link
            .flows(Class::Reverse)
            .map(|f| f.in_flight_max)
            .max()
            .unwrap_or(0),
        late_max_us: us(report.lateness.greatest()),
        emulator_cores: report.cpu.as_secs_f64() / report.ran.as_secs_f64().max(1e-9),
        void: report.void().map(|void| void.to_string()),
    };
    let (each, reverse) = (run.cell.flows as usize / 2, REVERSE_FLOWS as usize);
    for (half, all) in [(figures.every, each), (figures.others, each), (figures.reverse, reverse)] {
        ensure!(half.flows == all, "{} of {all} flows came to send", half.flows);
    }
    Ok(LiveResult { run: *run, figures })
}

fn half(flows: impl Iterator<Item = FlowCounts>, bytes: u64, seconds: f64) -> LiveHalf {
    let flows: Vec<FlowCounts> = flows.filter(|f| f.data > 0).collect();
    let sum = |of: fn(&FlowCounts) -> u64| flows.iter().map(of).sum::<u64>() as f64;
    let (data, delivered) = (sum(|f| f.data), sum(|f| f.delivered));
    let seconds = seconds.max(1e-9);
    LiveHalf {
        flows: flows.len(),
        goodput_bps: bytes as f64 * 8.0 / seconds,
        // What was under way at the end of the warm-up arrived without having been sent.
        loss: ((data - delivered) / data.max(1.0)).max(0.0),
        acks_per_packet: sum(|f| f.acks) / delivered.max(1.0),
        pauses_per_min: sum(|f| f.pauses) * 60.0 / seconds / (flows.len() as f64).max(1.0),
    }
}

#[expect(clippy::disallowed_methods, reason = "the flows run in real time meanwhile")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
