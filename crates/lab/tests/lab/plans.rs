//! Plans and results made up for tests of what handles them.

use tack_lab::result::{FlowResult, RunResult};
use tack_lab::scenario::{Plan, Run};

/// Two PHYs, two strategies, two seeds.
pub(crate) const SWEEP: &str = r#"
name = "a, \"quoted\" name"
duration_s = 0.4
warmup_s = 0.1
runs = 2

[wifi]
phy = "n"

[wan]
delay_ms = 5.1

[[flow]]
strategy = "tack"

[sweep]
"wifi.phy" = ["g", "n"]
"flow.0.strategy" = ["tcp-l2", "tack"]
"#;

pub(crate) fn runs(text: &str) -> Vec<Run> {
    Plan::parse(text).unwrap().runs()
}

/// A result that depends on the run alone and has numbers that are hard to print.
pub(crate) fn invented(run: &Run) -> RunResult {
    let x = (run.index as f64 + 0.1).sqrt() / 3.0;
    let total = FlowResult {
        goodput_bps: x * 1e8,
        ack_packets_per_s: 1e-7 / x,
        retransmissions: 1000 - run.index as u64,
        rtt_p50_us: (!run.index.is_multiple_of(3)).then_some(x),
        ..FlowResult::default()
    };
    RunResult { flows: vec![total.clone()], total, ..RunResult::default() }
}
