//! What a run cost.

use core::time::Duration;

/// User and system time this process has used so far, all threads. `None` where the platform has
/// no such clock.
pub fn process_cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    return Some(read(rustix::time::ClockId::ProcessCPUTime));
    #[cfg(not(unix))]
    None
}

/// User and system time of the calling thread. `None` where the platform has no such clock.
pub fn thread_cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    return Some(read(rustix::time::ClockId::ThreadCPUTime));
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn read(clock: rustix::time::ClockId) -> Duration {
    let t = rustix::time::clock_gettime(clock);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time() {
        let before = process_cpu_time().unwrap();
        let mut x = 1u64;
        while process_cpu_time().unwrap() == before {
            x = core::hint::black_box(x.wrapping_mul(3));
        }
        assert!(process_cpu_time().unwrap() > before);
    }
}
