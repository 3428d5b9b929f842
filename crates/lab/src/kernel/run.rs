//! One run: a cell, a seed and a stack in, figures out.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::io::Write;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tack_emu::{Emulation, EmulationConfig};
use tack_link::End;

use super::cell::Cell;
use super::ours::Ours;
use super::theirs::Theirs;

/// Whose TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The running kernel's.
    Kernel,
    /// This repository's.
    Ours,
}

impl Stack {
    /// Both of them.
    pub const ALL: [Stack; 2] = [Stack::Kernel, Stack::Ours];

    const fn name(self) -> &'static str {
        match self {
            Stack::Kernel => "kernel",
            Stack::Ours => "ours",
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Stack::ALL.into_iter().find(|stack| stack.name() == s);
        found.ok_or_else(|| format!("`{s}` is not one of kernel and ours"))
    }
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct KernelRun {
    /// The setting.
    #[serde(flatten)]
    pub cell: Cell,
    /// Of the path's losses.
    pub seed: u64,
    /// Whose TCP.
    pub stack: Stack,
    /// How long, from the first SYN.
    pub seconds: f64,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    /// Bytes the receiving application had read at the end, over the time, bit/s.
    pub goodput_bps: f64,
    /// Packets with data that entered the path after the first third of the time,
    /// retransmissions included.
    pub data_packets: u64,
    /// Packets without that entered it at the receiver in the same time.
    pub ack_packets: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that found the buffer full.
    pub tail_dropped: u64,
    /// Lateness of the emulator: 99 of 100 packets, µs.
    pub late_p99_us: u64,
    /// 999 of 1000, µs.
    pub late_p999_us: u64,
    /// The greatest, µs.
    pub late_max_us: u64,
    /// Why these figures are worth nothing, if so.
    pub void: Option<String>,
}

/// A run and its figures, as they are written down.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct KernelRow {
    /// The run.
    #[serde(flatten)]
    pub run: KernelRun,
    /// What it found.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Share of a run after which acknowledgments are counted: receivers acknowledge more at the start,
/// each stack in its own way.
pub(super) const WARMUP: f64 = 1.0 / 3.0;

/// A transfer of either stack.
enum Transfer {
    Kernel(Theirs),
    Ours(Ours),
}

impl Transfer {
    fn received(&self) -> u64 {
        match self {
            Transfer::Kernel(theirs) => theirs.received(),
            Transfer::Ours(ours) => ours.received(),
        }
    }
}

/// Runs it, which takes as long as it says. `capture` takes its packets at both ends of the path,
/// as pcapng.
///
/// # Errors
/// No namespaces are to be had, this kernel lacks the controller, or nothing connects.
pub fn run(run: &KernelRun, capture: Option<Box<dyn Write + Send>>) -> Result<KernelRow> {
    ensure!(run.seconds > 0.0 && run.seconds <= 3_600.0, "a run takes up to an hour");
    let config = EmulationConfig { capture, ..EmulationConfig::default() };
    let emulation = Emulation::new(run.cell.path(run.seed), config)?;
    let begin = emulation.clock().now();
    let transfer = match run.stack {
        Stack::Kernel => Transfer::Kernel(Theirs::start(&emulation, &run.cell)?),
        Stack::Ours => Transfer::Ours(Ours::start(&emulation, run.cell.cc, run.seed)?),
    };
    let until = |share: f64| begin + Duration::from_secs_f64(run.seconds * share);
    sleep(until(WARMUP) - emulation.clock().now());
    let warm = emulation.passed();
    sleep(until(1.0) - emulation.clock().now());
    let (received, passed) = (transfer.received(), emulation.passed().since(&warm));
    let took = emulation.clock().now() - begin;
    drop(transfer);
    let report = emulation.finish()?;
    ensure!(received > 0, "no byte arrived in {:.0} s", took.as_secs_f64());
    let counters = report.link.counters(End::A);
    let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let figures = Figures {
        goodput_bps: received as f64 * 8.0 / took.as_secs_f64(),
        data_packets: passed.entered(End::A).data,
        ack_packets: passed.entered(End::B).acks,
        lost: counters.lost,
        tail_dropped: counters.tail_dropped,
        late_p99_us: us(report.lateness.quantile(0.99)),
        late_p999_us: us(report.lateness.quantile(0.999)),
        late_max_us: us(report.lateness.greatest()),
        void: report.void().map(|void| void.to_string()),
    };
    Ok(KernelRow { run: *run, figures })
}

#[expect(clippy::disallowed_methods, reason = "the transfer runs in real time meanwhile")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

impl KernelRun {
    /// In a few words.
    pub fn describe(&self) -> String {
        let Cell { cc, mbps, rtt_ms, loss_percent } = self.cell;
        let (stack, seed) = (self.stack, self.seed);
        format!("{stack} {cc}, {mbps} Mbit/s, {rtt_ms} ms, {loss_percent} % loss, seed {seed}")
    }

    /// The name of its capture.
    pub(super) fn file_name(&self) -> String {
        let Cell { cc, mbps, rtt_ms, loss_percent } = self.cell;
        format!("{}-{cc}-{mbps}-{rtt_ms}-{loss_percent}-{}.pcapng", self.stack, self.seed)
    }
}
