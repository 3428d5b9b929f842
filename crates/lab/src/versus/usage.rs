//! Processor time and memory of process groups.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;

/// What the processes of a group used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// User and system time of all, those that ended included. What the kernel does for them in
    /// another's context, such as on receiving a packet, is not part of it.
    pub(super) cpu: Duration,
    /// Sum of what each had resident at most, bytes.
    pub(super) peak_rss_bytes: u64,
}

/// A process group that is looked at again and again: what its processes used is known until they
/// end, and their peak until they were last seen.
#[derive(Debug)]
pub(super) struct Watched {
    group: u32,
    processes: BTreeMap<u32, Usage>,
}

/// Linux's `USER_HZ`, in which /proc counts on every architecture Rust knows.
const TICKS_PER_S: u64 = 100;

impl Watched {
    pub(super) fn new(group: u32) -> Watched {
        Watched { group, processes: BTreeMap::new() }
    }

    /// Looks at every process of the group.
    pub(super) fn look(&mut self) {
        let Ok(all) = fs::read_dir("/proc") else { return };
        let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in numbers {
            // A process may end at any moment: what was seen of it stays.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            let Some(cpu) = cpu_of(&stat, self.group) else { continue };
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let seen: &mut Usage = self.processes.entry(pid).or_default();
            seen.cpu = seen.cpu.max(cpu);
            seen.peak_rss_bytes = seen.peak_rss_bytes.max(peak_of(&status).unwrap_or(0));
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.processes.values().fold(Usage::default(), |sum, one| Usage {
            cpu: sum.cpu + one.cpu,
            peak_rss_bytes: sum.peak_rss_bytes + one.peak_rss_bytes,
        })
    }
}

/// User and system time in `/proc/PID/stat`, if the process is of `group`. After the name in
/// parentheses, which may hold anything, come state, parent and group, and from the 12th on four
/// times: its own, then those of children it waited for. The latter are left out: they were seen
/// themselves.
fn cpu_of(stat: &str, group: u32) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.get(2)?.parse::<u32>().ok()? != group {
        return None;
    }
    let ticks = |i: usize| fields.get(i)?.parse::<u64>().ok();
    let ticks = ticks(11)?.checked_add(ticks(12)?)?;
    Some(Duration::from_millis(ticks.checked_mul(1_000 / TICKS_PER_S)?))
}

/// `VmHWM` in `/proc/PID/status`, bytes; one that ended has none.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_peaks_are_read_whatever_a_program_is_called() {
        let stat = "71 (a ) b) S 1 70 70 0 -1 4194560 1 0 0 0 12 30 500 600 20 0 1 0 9";
        assert_eq!(cpu_of(stat, 70), Some(Duration::from_millis(420)));
        assert_eq!(cpu_of(stat, 71), None);
        for cut in 0..stat.len() {
            let _ = cpu_of(&stat[..cut], 70);
        }
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t    12 kB\n"), Some(12 << 10));
        assert_eq!(peak_of("Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn a_group_is_seen_with_what_it_used() {
        use std::os::unix::process::CommandExt;
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read x"])
            .stdin(std::process::Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watched = Watched::new(child.id());
        for _ in 0..3_000 {
            watched.look();
            if watched.usage().cpu > Duration::ZERO {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        let usage = watched.usage();
        assert!(usage.cpu > Duration::ZERO && usage.peak_rss_bytes > 100_000, "{usage:?}");
    }
}
