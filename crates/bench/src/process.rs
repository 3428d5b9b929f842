//! Processes that are measured from beside: what they hold and spend, by proc(5).

use std::fs;
use std::process::Child;

use anyhow::Result;

/// A process that does not outlive its use.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// MB of memory that a process and its children hold.
pub(crate) fn held_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "VmRSS:")
}

/// The most that they ever held.
pub(crate) fn most_held_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "VmHWM:")
}

fn memory_mb(pid: u32, field: &str) -> Result<f64> {
    let mut kilobytes = 0.0;
    for pid in family(pid) {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        kilobytes += kilobytes_of(&status, field)?;
    }
    Ok(kilobytes / 1e3)
}

/// MB that the kernel holds for its own objects, sockets and descriptors among them: the machine's.
pub(crate) fn kernel_mb() -> Result<f64> {
    Ok(kilobytes_of(&fs::read_to_string("/proc/meminfo")?, "Slab:")? / 1e3)
}

fn kilobytes_of(text: &str, field: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    Ok(line.and_then(|line| line.trim().split(' ').next()).unwrap_or("0").parse()?)
}

/// User and system time of a process and its children, those that have ended included.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut ticks = 0.0;
    for pid in family(pid) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        // utime, stime, cutime, cstime: fields 14 to 17 of proc(5).
        for field in fields.split_whitespace().skip(11).take(4) {
            ticks += field.parse::<f64>()?;
        }
    }
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn family(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    core::iter::once(pid).chain(children.flat_map(family)).collect()
}
