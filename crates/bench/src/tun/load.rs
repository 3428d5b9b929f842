//! Processor time, of a process by kind and of the machine.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// `/proc` counts in hundredths of a second everywhere (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

impl Load {
    /// Of this process so far.
    pub(super) fn of_this_process() -> Result<Load> {
        parse_process(&fs::read_to_string("/proc/self/stat")?)
            .context("/proc/self/stat is not as expected")
    }

    pub(super) fn total_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// `pid (name) state …`, with utime and stime as the 14th and 15th field [proc(5)].
fn parse_process(stat: &str) -> Option<Load> {
    // A name may hold blanks and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / TICKS_PER_S);
    Some(Load { user_s: seconds()?, system_s: seconds()? })
}

/// Time the machine's processors were not idle, in seconds of one processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    busy_s: f64,
}

impl Machine {
    /// Since it started.
    pub(super) fn now() -> Result<Machine> {
        let stat = fs::read_to_string("/proc/stat")?;
        let busy_s = parse_machine(&stat).context("/proc/stat is not as expected")?;
        Ok(Machine { busy_s })
    }

    /// Seconds between two moments.
    pub(super) fn since(&self, earlier: &Machine) -> f64 {
        self.busy_s - earlier.busy_s
    }
}

/// `cpu user nice system idle iowait irq softirq steal …` [proc(5)].
fn parse_machine(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq) as f64 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_whatever_the_process_is_called() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 175 0 0 20 0";
        assert_eq!(parse_process(stat), Some(Load { user_s: 2.5, system_s: 1.75 }));
        assert_eq!(parse_process("7 (a) S 1 2"), None);
        assert!(Load::of_this_process().unwrap().total_s() >= 0.0);
    }

    #[test]
    fn idle_time_and_waiting_for_disks_are_not_busy() {
        let stat = "cpu  100 10 50 9000 800 5 35 0 0 0\ncpu0 1 2 3\n";
        assert_eq!(parse_machine(stat), Some(2.0));
        assert_eq!(parse_machine("intr 1"), None);
    }
}
