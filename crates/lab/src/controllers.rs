//! The controllers side by side: alone, under loss, against their response functions, and against
//! each other.
//!
//! ```text
//! clean     each alone on a bottleneck with a buffer of one bdp, drop-tail
//! loss      the same with 1 % of the segments lost at random
//! marked    alone with ECN on a queue that marks by RED and has room for sixteen bdp
//! pair      each with each, itself included, on one bottleneck
//! response  those that go by losses, on a path without a bottleneck: their mean window at several
//!           loss rates and round trips, next to what theory says of it ([`response`])
//! ```
//!
//! Everything runs through the real stack, with delayed acknowledgments (every second segment) but
//! for the response functions, which assume one per segment. All runs follow from one seed.

pub mod course;
pub mod plot;
pub mod response;
mod table;

use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde::Serialize;
use tack_cc::{Algorithm, Pacing};
use tack_link::loss::LossConfig;
use tack_units::Rate;

use course::{Course, Outcome, SEGMENT_BYTES};
use response::{Pattern, Reaction, closed_form, mean_window};
pub use table::table;

/// Who runs unless told otherwise: two by two, all there are would be a table of a hundred rows.
pub const USUAL: [Algorithm; 5] = [
    Algorithm::Bbr,
    Algorithm::BbrInteractive,
    Algorithm::NewReno,
    Algorithm::Cubic,
    Algorithm::CubicLinux,
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the bottleneck, Mbit/s.
    pub mbps: f64,
    /// Of the empty path.
    pub rtt: Duration,
    /// Measured, after the warm-up.
    pub seconds: f64,
    /// Left out of every figure.
    pub warmup: f64,
    /// Who runs.
    pub algorithms: Vec<Algorithm>,
    /// Window-based controllers are paced, too.
    pub paced: bool,
    /// Response functions, too: most of the time it takes.
    pub response: bool,
    /// Of everything random.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mbps: 20.0,
            rtt: Duration::from_millis(40),
            seconds: 60.0,
            warmup: 10.0,
            algorithms: USUAL.to_vec(),
            paced: true,
            response: true,
            seed: 1,
        }
    }
}

/// What a trial is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Alone.
    Clean,
    /// Alone, with 1 % random loss.
    Loss,
    /// Alone, with ECN, on a queue that marks.
    Marked,
    /// Two on one bottleneck.
    Pair,
    /// A mean window next to theory.
    Response,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it shows.
    pub experiment: Experiment,
    /// What runs.
    pub course: Course,
    /// Loss rate and pattern, where there is loss but the queue's.
    pub losses: Option<(f64, Pattern)>,
}

/// A trial and what came of it.
#[derive(Clone, Debug)]
pub struct Done {
    /// What ran.
    pub trial: Trial,
    /// What came of it.
    pub outcome: Outcome,
}

/// One line of the table: a flow of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which experiment.
    pub experiment: Experiment,
    /// Whose figures these are.
    pub controller: &'static str,
    /// Who else was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<&'static str>,
    /// Of the empty path, ms.
    pub rtt_ms: f64,
    /// Text delivered in order.
    pub goodput_bps: f64,
    /// Of all that was delivered.
    pub share: f64,
    /// Of the packets of all flows, lost or dropped.
    pub loss: f64,
    /// 95th percentile, ms; where there is a bottleneck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_p95_ms: Option<f64>,
    /// Segments.
    pub retransmissions: u64,
    /// Timer expiries.
    pub timeouts: u64,
    /// Where theory has something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseRow>,
}

/// A mean window next to what theory says, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResponseRow {
    /// Loss rate.
    pub p: f64,
    /// When losses come.
    pub pattern: Pattern,
    /// What the goodput amounts to over one mean round trip, as the connection measures it: delays
    /// of acknowledgments are part of it.
    pub measured: f64,
    /// The published formula, which is for periodic losses.
    pub formula: f64,
    /// The renewal for these losses with an immediate reaction.
    pub ideal: f64,
    /// The renewal for these losses with TCP's reaction.
    pub expected: f64,
    /// `measured` over `expected`.
    pub ratio: f64,
}

const RANDOM_LOSS: f64 = 0.01;
/// Where a queue marks it has room for slow start's overshoot: nothing needs to be lost.
const MARKING_BUFFER_BDP: u64 = 16;
/// Loss rates and round trips for response functions: windows from about 12 segments on.
const LOSS_RATES: [f64; 3] = [1e-2, 3e-3, 1e-3];
const RTTS_MS: [u64; 2] = [20, 200];
/// Losses per response run: two to three percent of standard error.
const LOSSES: f64 = 1_000.0;
/// Between the starts of two flows of a pair.
const STAGGER: Duration = Duration::from_millis(500);

impl Settings {
    /// All runs, in the order of the table.
    pub fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for &a in &self.algorithms {
            trials.push(self.trial(Experiment::Clean, &[a], None));
        }
        for &a in &self.algorithms {
            let losses = Some((RANDOM_LOSS, Pattern::Random));
            trials.push(self.trial(Experiment::Loss, &[a], losses));
        }
        for &a in &self.algorithms {
            trials.push(self.trial(Experiment::Marked, &[a], None));
        }
        for (n, &a) in self.algorithms.iter().enumerate() {
            for &b in &self.algorithms[n..] {
                trials.push(self.trial(Experiment::Pair, &[a, b], None));
            }
        }
        if self.response {
            for &a in &self.algorithms {
                trials.extend(self.response_trials(a));
            }
        }
        trials
    }

    fn pacing(&self) -> Pacing {
        if self.paced { Pacing::Always } else { Pacing::OnlyIfRateBased }
    }

    fn trial(
        &self,
        experiment: Experiment,
        flows: &[Algorithm],
        losses: Option<(f64, Pattern)>,
    ) -> Trial {
        let rate = Rate::from_bps((self.mbps * 1e6) as u64);
        let marks = experiment == Experiment::Marked;
        let bdps = if marks { MARKING_BUFFER_BDP } else { 1 };
        let course = Course {
            rate: Some(rate),
            rtt: self.rtt,
            buffer_bytes: bdps * Course::bdp_bytes(rate, self.rtt),
            marks,
            loss: losses.map_or(LossConfig::None, |(p, _)| LossConfig::Bernoulli(p)),
            flows: flows.to_vec(),
            stagger: STAGGER,
            segments_per_ack: 2,
            pacing: self.pacing(),
            warmup: Duration::from_secs_f64(self.warmup),
            duration: Duration::from_secs_f64(self.warmup + self.seconds),
            seed: self.seed,
        };
        Trial { experiment, course, losses }
    }

    fn response_trials(&self, algorithm: Algorithm) -> Vec<Trial> {
        let mut trials = Vec::new();
        for rtt in RTTS_MS.map(Duration::from_millis) {
            for p in LOSS_RATES {
                for pattern in [Pattern::Periodic, Pattern::Random] {
                    trials.extend(self.response_trial(algorithm, rtt, (p, pattern)));
                }
            }
        }
        trials
    }

    /// `None` where theory is silent.
    fn response_trial(
        &self,
        algorithm: Algorithm,
        rtt: Duration,
        losses: (f64, Pattern),
    ) -> Option<Trial> {
        let (p, pattern) = losses;
        let window = closed_form(algorithm, p, rtt)?;
        let lasts = rtt.mul_f64(LOSSES / p / window);
        let loss = match pattern {
            Pattern::Random => LossConfig::Bernoulli(p),
            Pattern::Periodic => {
                let numbers = (1..10 * LOSSES as u64).map(|n| (n as f64 / p) as u64);
                LossConfig::Listed(numbers.collect())
            }
        };
        let course = Course {
            rate: None,
            rtt,
            buffer_bytes: u64::MAX,
            marks: false,
            loss,
            flows: vec![algorithm],
            stagger: Duration::ZERO,
            segments_per_ack: 1,
            pacing: self.pacing(),
            warmup: lasts / 20,
            duration: lasts,
            seed: self.seed,
        };
        Some(Trial { experiment: Experiment::Response, course, losses: Some(losses) })
    }
}

/// Runs `trials` on `jobs` threads (0: one per core); results in their order. `progress` is called
/// after each.
///
/// # Errors
/// The first failure, named.
pub fn run(trials: &[Trial], jobs: usize, progress: &(dyn Fn() + Sync)) -> Result<Vec<Done>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = if jobs == 0 { cores } else { jobs }.clamp(1, trials.len().max(1));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(trials.len()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(trial) = trials.get(index) else { return };
            let outcome = trial.course.run();
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, outcome));
            progress();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    let named = done.into_iter().map(|(index, outcome)| {
        let trial = trials[index].clone();
        let outcome = outcome.with_context(|| format!("{:?}", trial.course.flows))?;
        Ok(Done { trial, outcome })
    });
    named.collect()
}

impl Done {
    /// A line per flow.
    pub fn rows(&self) -> Vec<Row> {
        let flows = &self.outcome.flows;
        let total: f64 = flows.iter().map(|f| f.goodput.as_bps() as f64).sum();
        let row = |(n, flow): (usize, &course::FlowOutcome)| {
            let goodput_bps = flow.goodput.as_bps() as f64;
            let other = flows.get(1 - n.min(1)).filter(|_| flows.len() == 2);
            Row {
                experiment: self.trial.experiment,
                controller: flow.algorithm.name(),
                against: other.map(|o| o.algorithm.name()),
                rtt_ms: self.trial.course.rtt.as_secs_f64() * 1e3,
                goodput_bps,
                share: goodput_bps / total.max(1.0),
                loss: self.outcome.loss,
                queue_p95_ms: self.outcome.queue_p95.map(|d| d.as_secs_f64() * 1e3),
                retransmissions: flow.retransmissions,
                timeouts: flow.timeouts,
                response: self.response(flow),
            }
        };
        flows.iter().enumerate().map(row).collect()
    }

    fn response(&self, flow: &course::FlowOutcome) -> Option<ResponseRow> {
        let (p, pattern) = self.trial.losses?;
        let rtt = flow.srtt;
        let window = |reaction| mean_window(flow.algorithm, (p, pattern), rtt, reaction);
        let expected = window(Reaction::RoundTrips)?;
        let measured = flow.goodput.bytes_in(rtt) as f64 / SEGMENT_BYTES as f64;
        Some(ResponseRow {
            p,
            pattern,
            measured,
            formula: closed_form(flow.algorithm, p, rtt)?,
            ideal: window(Reaction::Immediate)?,
            expected,
            ratio: measured / expected,
        })
    }
}

/// All lines, in the order of the trials.
pub fn rows(done: &[Done]) -> Vec<Row> {
    done.iter().flat_map(Done::rows).collect()
}
