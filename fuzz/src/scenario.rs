//! Scenario files: what is accepted must survive being written down, and must run.

use tack_lab::experiment::Extent;
use tack_lab::plan::{experiment_or_scenario, plan};
use tack_lab::scenario::Scenario;

/// Larger ones are left to those who want to wait for them.
const MAX_PARTIES: usize = 16;

/// Reads a scenario file and runs a millisecond of its first scenario.
pub fn scenario(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let plan = experiment_or_scenario(text, "fuzz")
        .and_then(|experiment| plan(&experiment, Extent::Usual, text));
    let plan = match plan {
        Ok(plan) => plan,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            assert!(e.line.is_none_or(|line| line <= text.lines().count() + 1), "{e}");
            return false;
        }
    };
    let mut scenario = plan.items.into_iter().next().expect("a plan is never empty").scenario;
    let written = toml::to_string(&scenario).expect("what was read can be written");
    assert_eq!(Scenario::parse(&written).as_ref(), Ok(&scenario), "{written}");
    let others = scenario.wifi.as_ref().map_or(0, |w| {
        w.stations + w.neighbours.unwrap_or(0) + w.saturated_neighbours.unwrap_or(0)
    });
    if scenario.flow.len() + others as usize <= MAX_PARTIES {
        (scenario.duration_s, scenario.warmup_s) = (1e-3, 0.0);
        tack_lab::simulate(&scenario).expect("what was accepted can run");
    }
    true
}
