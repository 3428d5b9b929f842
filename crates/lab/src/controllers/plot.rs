//! Windows and rates over time as pictures.

use tack_sim::FlowSample;
use tack_units::Instant;

use super::course::{FlowOutcome, SEGMENT_BYTES};
use super::{Done, Experiment};
use crate::svg::{Axis, Line, Plot, Style};

/// Seconds over which a rate is taken.
const RATE_OVER: f64 = 0.25;

type Points = Vec<(f64, f64, Option<f64>)>;

/// The trials of one experiment: of each the windows in segments and the goodput in Mbit/s.
pub fn plots(done: &[Done], experiment: Experiment) -> Vec<Plot> {
    done.iter().filter(|d| d.trial.experiment == experiment).flat_map(pair).collect()
}

fn pair(done: &Done) -> [Plot; 2] {
    let flows = &done.outcome.flows;
    let names: Vec<&str> = flows.iter().map(|f| f.algorithm.name()).collect();
    let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
    [("window, segments", windows as fn(&FlowOutcome) -> Points), ("goodput, Mbit/s", rates)].map(
        |(what, points)| Plot {
            title: names.join(" and "),
            x: axis("time, s"),
            y: axis(what),
            lines: flows
                .iter()
                .map(|flow| Line {
                    name: flow.algorithm.name().to_owned(),
                    points: points(flow),
                    style: Style::Plain,
                })
                .collect(),
        },
    )
}

fn windows(flow: &FlowOutcome) -> Points {
    let point = |(at, s): &(Instant, FlowSample)| {
        (at.as_secs_f64(), s.cwnd as f64 / SEGMENT_BYTES as f64, None)
    };
    flow.series.samples().iter().map(point).collect()
}

fn rates(flow: &FlowOutcome) -> Points {
    let mut line = Vec::new();
    let mut since = (0.0, 0);
    for (at, sample) in flow.series.samples() {
        let over = at.as_secs_f64() - since.0;
        if over >= RATE_OVER {
            let bytes = sample.delivered.saturating_sub(since.1);
            line.push((at.as_secs_f64(), bytes as f64 * 8e-6 / over, None));
            since = (at.as_secs_f64(), sample.delivered);
        }
    }
    line
}
