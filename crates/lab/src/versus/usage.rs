//! Processor time and memory of programs.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;

use tack_device::NetnsId;

use crate::program::processes;

/// What the processes of a program used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// User and system time of all, those that ended included. What the kernel does for them in
    /// another's context, such as on receiving a packet, is not part of it.
    pub(super) cpu: Duration,
    /// Sum of what each had resident at most, bytes.
    pub(super) peak_rss_bytes: u64,
}

/// A program's processes, looked at again and again: those of its group, and of its namespace. What each
/// used is known until it was last seen, and of one that ended between two looks from who waited for it.
#[derive(Debug)]
pub(super) struct Watched {
    group: u32,
    netns: Option<NetnsId>,
    processes: BTreeMap<u32, Usage>,
    /// Most that those there at a look had used, with what they have waited for.
    waited: Duration,
}

/// What /proc tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    group: u32,
    own: Duration,
    /// Of the children that it waited for, and theirs.
    waited: Duration,
}

/// Linux's `USER_HZ`, in which /proc counts on every architecture Rust knows.
const TICKS_PER_S: u64 = 100;

impl Watched {
    /// Those of the group `group`, and of the namespace.
    pub(super) fn new(group: u32, netns: Option<NetnsId>) -> Watched {
        Watched { group, netns, processes: BTreeMap::new(), waited: Duration::ZERO }
    }

    /// Looks at every process.
    pub(super) fn look(&mut self) {
        let mut waited = Duration::ZERO;
        for pid in processes() {
            // A process may end at any moment: what was seen of it stays.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            let Some(times) = times_of(&stat) else { continue };
            let is_inside = |netns| NetnsId::of_process(pid) == Some(netns);
            if times.group != self.group && !self.netns.is_some_and(is_inside) {
                continue;
            }
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let seen: &mut Usage = self.processes.entry(pid).or_default();
            seen.cpu = seen.cpu.max(times.own);
            seen.peak_rss_bytes = seen.peak_rss_bytes.max(peak_of(&status).unwrap_or(0));
            waited += times.own + times.waited;
        }
        self.waited = self.waited.max(waited);
    }

    /// What all used. Neither way of adding up counts anything twice, and either may miss something: who
    /// lived between two looks, or ended and nobody waited for it.
    pub(super) fn usage(&self) -> Usage {
        let seen = self.processes.values().fold(Usage::default(), |sum, one| Usage {
            cpu: sum.cpu + one.cpu,
            peak_rss_bytes: sum.peak_rss_bytes + one.peak_rss_bytes,
        });
        Usage { cpu: seen.cpu.max(self.waited), ..seen }
    }
}

/// Group and times in `/proc/PID/stat`. After the name in parentheses, which may hold anything, come
/// state, parent and group, and from the 12th on four times, user's and system's: its own, then those of
/// children it waited for.
fn times_of(stat: &str) -> Option<Times> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<u64>().ok();
    let time = |i: usize| {
        let ticks = ticks(i)?.checked_add(ticks(i + 1)?)?;
        Some(Duration::from_millis(ticks.checked_mul(1_000 / TICKS_PER_S)?))
    };
    Some(Times { group: fields.get(2)?.parse().ok()?, own: time(11)?, waited: time(13)? })
}

/// `VmHWM` in `/proc/PID/status`, bytes; one that ended has none.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn times_and_peaks_are_read_whatever_a_program_is_called() {
        let stat = "71 (a ) b) S 1 70 70 0 -1 4194560 1 0 0 0 12 30 500 600 20 0 1 0 9";
        let ms = Duration::from_millis;
        assert_eq!(times_of(stat), Some(Times { group: 70, own: ms(420), waited: ms(11_000) }));
        for cut in 0..stat.len() {
            let _ = times_of(&stat[..cut]);
        }
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t    12 kB\n"), Some(12 << 10));
        assert_eq!(peak_of("Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn who_ends_between_two_looks_is_counted_by_who_waited_for_it() {
        // Shells that count for a moment, one after the other, until it is enough.
        let counts = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
        let line = format!(
            "n=0; while [ $n -lt 30 ]; do sh -c '{counts}'; n=$((n+1)); done; echo; read x"
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watched = Watched::new(child.id(), None);
        watched.look();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        watched.look();
        drop(child.stdin.take());
        child.wait().unwrap();
        let usage = watched.usage();
        assert!(usage.cpu >= Duration::from_millis(50), "{usage:?}");
    }

    #[test]
    fn a_group_is_seen_with_what_it_used() {
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read x"])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watched = Watched::new(child.id(), None);
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
