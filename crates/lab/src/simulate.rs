//! One run: a scenario and its seed in, figures out.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use tack_units::Instant;

use crate::course::Course;
use crate::host::Controllers;
use crate::network::Capture;
use crate::reading::{Period, Reading};
use crate::result::RunResult;
use crate::scenario::Scenario;
use crate::setup::Setup;

/// How long a run goes on after its end, for a flow that stands still there to move or to be found
/// stalled: enough for the spread chances of a round trip of 600 ms.
const SETTLE: Duration = Duration::from_secs(40);

/// Virtual time between two questions whether a run is to go on: some ten milliseconds of work.
const SLICE: Duration = Duration::from_millis(100);

/// A run was told to end before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl core::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("interrupted")
    }
}

impl core::error::Error for Interrupted {}

/// Runs `scenario` with its seed.
///
/// # Errors
/// When it cannot be built, a byte arrived wrong, packets or airtime were not conserved, or a flow
/// stalled: a figure from such a run would be worthless.
pub fn simulate(scenario: &Scenario) -> Result<RunResult> {
    let (result, mut setup) = Running::new(scenario, None, &Controllers::new())?.finish()?;
    setup.sim.settle(SETTLE);
    setup.check_stall()?;
    Ok(result)
}

/// A run and what is known of its course.
pub(crate) struct Simulated {
    pub(crate) result: RunResult,
    /// Figures of its course.
    pub(crate) extra: BTreeMap<String, f64>,
    /// Quantiles over time.
    pub(crate) samples: BTreeMap<String, Vec<f64>>,
    /// Over time, if wanted.
    pub(crate) series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// As [`simulate`], with what `recordings` ask for written down, of a run that fails, too: they are what shows why. They
/// change nothing in the run, which is not followed beyond its end.
///
/// # Errors
/// As [`simulate`], and those of the writers.
pub fn simulate_recorded(scenario: &Scenario, recordings: Recordings) -> Result<RunResult> {
    let mut running = Running::new(scenario, recordings.packets, &Controllers::new())?;
    running.advance(running.end);
    if let Some(mut out) = recordings.series {
        running.setup.write_series(&mut *out).context("the time series is incomplete")?;
    }
    let (result, setup) = running.finish()?;
    for hop in setup.sim.into_links() {
        hop.finish().context("the capture is incomplete")?;
    }
    Ok(result)
}

/// What a run writes besides its figures.
#[derive(Default)]
pub struct Recordings {
    /// The packets at both ends of the 802.11 hop, or of the wired path where there is none, as
    /// pcapng.
    pub packets: Option<Box<dyn Write + Send>>,
    /// The senders' state, sampled every 10 ms (rarer in runs over 40 s), as CSV.
    pub series: Option<Box<dyn Write + Send>>,
}

/// How long a sender remembers its least round trip: `tau`, unless a scenario says otherwise.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);

/// A run under way. In how many slices it goes changes nothing in it.
pub(crate) struct Running {
    setup: Setup,
    warmup: Instant,
    end: Instant,
    /// Counters when the warm-up ended, once it has.
    before: Option<Reading>,
    /// From when on a sender remembers its least round trip at the end, and counters then.
    remembered: Instant,
    recent: Option<Reading>,
}

impl Running {
    pub(crate) fn new(
        scenario: &Scenario,
        capture: Capture,
        controllers: &Controllers,
    ) -> Result<Running> {
        let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s.max(0.0));
        let (warmup, end) = (at(scenario.warmup_s), at(scenario.duration_s));
        let setup = Setup::build(scenario, capture, controllers)?;
        let remembered = warmup.max(at(scenario.duration_s - RTT_MIN_WINDOW.as_secs_f64()));
        Ok(Running { setup, warmup, end, before: None, remembered, recent: None })
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Goes on up to and including `until`, never beyond the end.
    pub(crate) fn advance(&mut self, until: Instant) {
        let until = until.min(self.end);
        if self.before.is_none() && until >= self.warmup {
            self.setup.sim.run_until(self.warmup);
            self.before = Some(Reading::of(&self.setup, self.warmup));
        }
        if self.recent.is_none() && until >= self.remembered {
            self.setup.sim.run_until(self.remembered);
            self.recent = Some(Reading::of(&self.setup, self.remembered));
        }
        self.setup.sim.run_until(until);
    }

    /// Goes on to the end, unless `go_on` says no on the way.
    pub(crate) fn advance_while(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        let mut until = Instant::ZERO;
        while until < self.end {
            if !go_on() {
                return Err(Interrupted);
            }
            until += SLICE;
            self.advance(until);
        }
        Ok(())
    }

    /// Goes on to the end; what was measured, and the simulation.
    fn finish(mut self) -> Result<(RunResult, Setup)> {
        self.advance(self.end);
        let Running { setup, before, recent, end, .. } = self;
        let (before, recent) = before.zip(recent).context("the warm-up did not end")?;
        let after = Reading::of(&setup, end);
        setup.check()?;
        let result = Period { setup: &setup, before, recent, after }.result();
        Ok((result, setup))
    }

    /// The same with what is known of the run's course.
    pub(crate) fn finish_wanted(self, scenario: &Scenario, with_series: bool) -> Result<Simulated> {
        let (result, mut setup) = self.finish()?;
        let course = Course::of(scenario, &setup);
        let (extra, samples) = (course.figures(), course.samples());
        let series = if with_series { course.series() } else { BTreeMap::new() };
        setup.sim.settle(SETTLE);
        setup.check_stall()?;
        Ok(Simulated { result, extra, samples, series })
    }
}
