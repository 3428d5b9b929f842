//! Runs into medians, ratios, and what bounded them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::load::Load;
use super::{Contestant, Share};

/// A process that is busy for more than this share of the time has no more to give.
const SATURATED: f64 = 0.9;

/// One transfer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    goodput_bps: f64,
    /// Both ends and the relay, if any.
    ends_cpu_s_per_gb: f64,
    machine_cpu_s_per_gb: f64,
    /// Share of a processor that the sender, the receiver and the relay used, and how much of it in
    /// the kernel, as far as known.
    sender: Busy,
    receiver: Busy,
    relay: Option<f64>,
    notes: [String; 2],
}

/// How busy a process was.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Busy {
    share: f64,
    in_kernel: f64,
}

impl Busy {
    fn new(load: &Load, seconds: f64) -> Busy {
        let total = load.total_s();
        Busy { share: total / seconds, in_kernel: load.system_s / total.max(f64::MIN_POSITIVE) }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} of a core, {:.0} % of it in the kernel", self.share, self.in_kernel * 1e2)
    }
}

impl Run {
    pub(super) fn new(received: &Share, sent: &Share, relay_s: Option<f64>, machine_s: f64) -> Run {
        let gigabytes = received.bytes as f64 / 1e9;
        let ends_s = received.load.total_s() + sent.load.total_s() + relay_s.unwrap_or(0.0);
        Run {
            goodput_bps: received.bytes as f64 * 8.0 / received.seconds,
            ends_cpu_s_per_gb: ends_s / gigabytes,
            machine_cpu_s_per_gb: machine_s / gigabytes,
            sender: Busy::new(&sent.load, sent.seconds),
            receiver: Busy::new(&received.load, received.seconds),
            relay: relay_s.map(|s| s / received.seconds),
            notes: [sent.note.clone(), received.note.clone()],
        }
    }

    /// What had no more to give.
    fn bound(&self) -> String {
        let relay = self.relay.unwrap_or(0.0);
        let (sender, receiver) = (self.sender, self.receiver);
        if relay >= SATURATED && relay >= sender.share.max(receiver.share) {
            return format!("the relay's thread: {relay:.2} of a core");
        }
        match (sender.share >= SATURATED, receiver.share >= SATURATED) {
            (true, true) => format!("both ends: sender {sender}; receiver {receiver}"),
            (true, false) => format!("the sender: {sender} (receiver {receiver})"),
            (false, true) => format!("the receiver: {receiver} (sender {sender})"),
            (false, false) => {
                format!("no process alone: sender {sender}; receiver {receiver}; the rest waits")
            }
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} Gbit/s, CPU s/GB {:.3} of the ends, {:.3} of the machine; bound by {}",
            self.goodput_bps / 1e9,
            self.ends_cpu_s_per_gb,
            self.machine_cpu_s_per_gb,
            self.bound()
        )?;
        for (end, note) in ["sender", "receiver"].iter().zip(&self.notes) {
            if !note.is_empty() {
                write!(f, "\n  {end}: {note}")?;
            }
        }
        Ok(())
    }
}

/// All runs.
#[derive(Debug, Default)]
pub(super) struct Table {
    runs: BTreeMap<Contestant, Vec<Run>>,
}

/// One contestant's medians.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    contestant: Contestant,
    runs: usize,
    goodput_bps: f64,
    goodput_bps_min: f64,
    goodput_bps_max: f64,
    ends_cpu_s_per_gb: f64,
    machine_cpu_s_per_gb: f64,
    /// Goodput relative to the kernel's TCP over the cable.
    to_kernel: Option<f64>,
    /// Goodput relative to super-packets without TCP.
    to_raw: Option<f64>,
    /// Of the run with the median goodput.
    bound_by: String,
}

impl Table {
    pub(super) fn add(&mut self, contestant: Contestant, run: Run) {
        self.runs.entry(contestant).or_default().push(run);
    }

    fn goodput(&self, contestant: Contestant) -> Option<f64> {
        self.runs.get(&contestant).map(|runs| middle(runs, |r| r.goodput_bps).goodput_bps)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let (kernel, raw) = (self.goodput(Contestant::Kernel), self.goodput(Contestant::Raw));
        let row = |(&contestant, runs): (&Contestant, &Vec<Run>)| {
            let median = middle(runs, |r| r.goodput_bps);
            let goodputs = runs.iter().map(|r| r.goodput_bps);
            Row {
                contestant,
                runs: runs.len(),
                goodput_bps: median.goodput_bps,
                goodput_bps_min: goodputs.clone().fold(f64::INFINITY, f64::min),
                goodput_bps_max: goodputs.fold(0.0, f64::max),
                ends_cpu_s_per_gb: middle(runs, |r| r.ends_cpu_s_per_gb).ends_cpu_s_per_gb,
                machine_cpu_s_per_gb: middle(runs, |r| r.machine_cpu_s_per_gb).machine_cpu_s_per_gb,
                to_kernel: kernel.map(|k| median.goodput_bps / k),
                to_raw: raw.map(|r| median.goodput_bps / r),
                bound_by: median.bound(),
            }
        };
        self.runs.iter().map(row).collect()
    }
}

/// The run in the middle by `value`, the lower of two.
fn middle(runs: &[Run], value: impl Fn(&Run) -> f64) -> &Run {
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by(|a, b| value(a).total_cmp(&value(b)));
    sorted[(sorted.len() - 1) / 2]
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>4} {:>7} {:>13} {:>9} {:>12} {:>10} {:>7}  bound by",
            "who", "runs", "Gbit/s", "min-max", "CPU s/GB", "of machine", "to kernel", "to raw"
        )?;
        for row in self.rows() {
            let ratio = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.2}"));
            let range =
                format!("{:.2}-{:.2}", row.goodput_bps_min / 1e9, row.goodput_bps_max / 1e9);
            writeln!(
                f,
                "{:<16} {:>4} {:>7.2} {:>13} {:>9.3} {:>12.3} {:>10} {:>7}  {}",
                row.contestant,
                row.runs,
                row.goodput_bps / 1e9,
                range,
                row.ends_cpu_s_per_gb,
                row.machine_cpu_s_per_gb,
                ratio(row.to_kernel),
                ratio(row.to_raw),
                row.bound_by,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(gbps: f64, sender_s: f64, receiver_s: f64) -> Run {
        let share = |user_s: f64| Share {
            bytes: (gbps * 1e9 / 8.0) as u64,
            seconds: 1.0,
            load: Load { user_s, system_s: 0.0 },
            note: String::new(),
        };
        Run::new(&share(receiver_s), &share(sender_s), None, 2.0)
    }

    #[test]
    fn rows_are_medians_with_ratios_to_the_kernel_and_to_the_limit() {
        let mut table = Table::default();
        for gbps in [3.0, 1.0, 2.0] {
            table.add(Contestant::Plain, run(gbps, 1.0, 0.5));
        }
        table.add(Contestant::Kernel, run(4.0, 1.0, 1.0));
        table.add(Contestant::Raw, run(8.0, 1.0, 1.0));
        let rows = table.rows();
        let plain = rows.iter().find(|r| r.contestant == Contestant::Plain).unwrap();
        assert_eq!((plain.to_kernel, plain.to_raw), (Some(0.5), Some(0.25)));
        assert!((plain.ends_cpu_s_per_gb - 6.0).abs() < 1e-6, "{}", plain.ends_cpu_s_per_gb);
    }

    #[test]
    fn who_has_no_more_to_give_is_named() {
        assert!(run(1.0, 0.95, 0.3).bound().starts_with("the sender"));
        assert!(run(1.0, 0.3, 0.95).bound().starts_with("the receiver"));
        assert!(run(1.0, 1.0, 0.95).bound().starts_with("both"));
        assert!(run(1.0, 0.5, 0.5).bound().starts_with("no process"));
    }
}
