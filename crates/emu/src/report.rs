//! What an emulation tells at its end.

use core::fmt;
use core::time::Duration;

use crate::lateness::{Lateness, LatenessBound};
use crate::passed::Passed;

/// Everything that was counted, and the link itself with its own accounts.
#[derive(Debug)]
pub struct Report<L> {
    /// The link, as it was at the end.
    pub link: L,
    /// What passed its ends.
    pub passed: Passed,
    /// How late packets left.
    pub lateness: Lateness,
    /// The bound it was held to.
    pub bound: LatenessBound,
    /// Packets that the link delivered and a device refused.
    pub refused: u64,
    /// Packets that a device dropped because the relay did not take them in time.
    pub overflowed: u64,
    /// Packets that no router forwards: multicast, and what is not IP.
    pub not_forwarded: u64,
    /// Processor time of the relay.
    pub cpu: Duration,
    /// How long it ran.
    pub ran: Duration,
}

impl<L> Report<L> {
    /// Why figures from this run are worth nothing; `None`: they are fine.
    pub fn void(&self) -> Option<Void> {
        let (p999, max) = (self.lateness.quantile(0.999), self.lateness.greatest());
        if self.overflowed + self.refused > 0 {
            return Some(Void::Lost(self.overflowed + self.refused));
        }
        (!self.bound.holds(&self.lateness)).then_some(Void::Late { p999, max })
    }
}

/// Why a run is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// The machine was too busy: packets left long after they were due.
    Late {
        /// What 999 of 1000 did not exceed.
        p999: Duration,
        /// The greatest of all.
        max: Duration,
    },
    /// So many packets were lost where the model has no loss: between kernel and relay.
    Lost(u64),
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Void::Late { p999, max } => write!(
                f,
                "packets left up to {:.1} ms late, one in a thousand more than {:.1} ms",
                max.as_secs_f64() * 1e3,
                p999.as_secs_f64() * 1e3
            ),
            Void::Lost(n) => write!(f, "{n} packets were lost between kernel and relay"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(overflowed: u64, late: Duration) -> Report<()> {
        let mut lateness = Lateness::default();
        lateness.record(late);
        Report {
            link: (),
            passed: Passed::default(),
            lateness,
            bound: LatenessBound::default(),
            refused: 0,
            overflowed,
            not_forwarded: 0,
            cpu: Duration::ZERO,
            ran: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_run_is_void_for_lateness_and_for_losses_nobody_modelled() {
        let ms = Duration::from_millis;
        assert_eq!(report(0, ms(1)).void(), None);
        let late = report(0, ms(12)).void().expect("too late");
        assert_eq!(late, Void::Late { p999: ms(12), max: ms(12) });
        assert!(late.to_string().contains("12.0 ms"), "{late}");
        assert_eq!(report(3, ms(1)).void(), Some(Void::Lost(3)));
    }
}
