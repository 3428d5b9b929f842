//! Processor time of this process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Processor use in per cent of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// All of it.
    pub total: f64,
    /// In our own code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// Measures from its making to [`CpuMeter::read`].
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter {
    since: Instant,
    total: Duration,
    ticks: (u64, u64),
}

impl CpuMeter {
    /// Starts.
    pub fn start() -> Self {
        Self { since: Instant::now(), total: process_time(), ticks: user_and_system_ticks() }
    }

    /// Use since the start.
    pub fn read(&self) -> CpuUse {
        let wall = self.since.elapsed().as_secs_f64();
        if wall <= 0.0 {
            return CpuUse::default();
        }
        let spent = process_time().saturating_sub(self.total);
        let total = 100.0 * spent.as_secs_f64() / wall;
        // Ticks are coarse: they only divide what the precise clock measured.
        let (user, system) = user_and_system_ticks();
        let user = user.saturating_sub(self.ticks.0);
        let system = system.saturating_sub(self.ticks.1);
        let share = match user + system {
            0 => 1.0,
            all => user as f64 / all as f64,
        };
        CpuUse { total, user: total * share, system: total * (1.0 - share) }
    }
}

fn process_time() -> Duration {
    tack_device::process_cpu_time().unwrap_or_default()
}

/// From Linux's `/proc`; zeros elsewhere.
fn user_and_system_ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_ticks(&stat).unwrap_or_default()
}

/// Fields 14 and 15 of proc(5)'s stat; the second field may contain spaces and brackets.
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_brackets_and_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 10 0 0 0 42 17 0 0 20 0 1 0 5 1 1";
        assert_eq!(parse_ticks(stat), Some((42, 17)));
        assert_eq!(parse_ticks(""), None);
    }

    #[test]
    fn user_and_system_add_up_to_the_total() {
        let meter = CpuMeter::start();
        std::hint::black_box((0..3_000_000_u64).map(std::hint::black_box).sum::<u64>());
        let used = meter.read();
        assert!(used.total >= 0.0);
        assert!((used.user + used.system - used.total).abs() < 1e-6);
    }
}
