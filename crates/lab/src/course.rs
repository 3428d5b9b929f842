//! The course of a run: figures over time and their quantiles, from what the simulator sampled.

use core::time::Duration;
use std::collections::BTreeMap;

use tack_sim::{FlowId, FlowSample};
use tack_units::Instant;

use crate::metric::base;
use crate::scenario::{Flow, Scenario};
use crate::setup::Setup;
use crate::stats::{mean, quantile};
use crate::traffic::Placed;

/// What is known over time, of each kind of flows.
pub(crate) const SERIES: [&str; 6] =
    ["cwnd_bytes", "rtt_min_us", "srtt_us", "blocked_bytes", "pacing_bps", "goodput_bps"];
/// What is known as a distribution over time.
pub(crate) const DISTRIBUTIONS: [&str; 1] = ["blocked"];
/// The unit of a distribution, whichever group it is of; `None`: there is no such one.
pub(crate) fn unit(name: &str) -> Option<&'static str> {
    DISTRIBUTIONS.contains(&base(name)).then_some("bytes")
}

/// Points of a series that are kept.
const POINTS: usize = 200;
/// Steps of a distribution: every 5 %.
pub(crate) const STEPS: u32 = 20;
/// How near to its goal a rate that settles must come.
const SETTLED: f64 = 0.05;
/// Application bytes of a full packet.
const TEXT_SHARE: f64 = 1_448.0 / 1_500.0;

/// What is known of a scenario's flows over time.
pub(crate) struct Course<'a> {
    scenario: &'a Scenario,
    setup: &'a Setup,
    flows: Vec<Flow>,
}

type Samples<'a> = &'a [(Instant, FlowSample)];

fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}

fn blocked(sample: &FlowSample) -> Option<f64> {
    sample.blocked.map(|bytes| bytes as f64)
}

fn us(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

impl<'a> Course<'a> {
    pub(crate) fn of(scenario: &'a Scenario, setup: &'a Setup) -> Course<'a> {
        Course { scenario, setup, flows: scenario.flows().collect() }
    }

    fn id(&self, flow: usize) -> Option<FlowId> {
        match &self.setup.flows.get(flow)?.placed {
            Placed::Flow(id) => Some(*id),
            Placed::Udp { .. } => None,
        }
    }

    /// Samples of a flow, of the whole run.
    fn flow(&self, flow: usize) -> Samples<'a> {
        self.id(flow).map_or(&[], |id| self.setup.sim.flow_series(id).samples())
    }

    fn all(&self) -> Vec<usize> {
        (0..self.flows.len()).collect()
    }

    /// The samples of some flows after the warm-up, while each was there.
    fn measured(&self, flows: &[usize]) -> impl Iterator<Item = &'a FlowSample> + '_ {
        let there = |i: &usize| {
            let life = self.setup.life(*i);
            self.flow(*i).iter().filter(move |(at, _)| life.contains(at))
        };
        let all: Vec<_> = flows.iter().map(there).collect();
        let all = all.into_iter().flatten();
        all.filter(|(at, _)| seconds(*at) >= self.scenario.warmup_s).map(|(_, sample)| sample)
    }

    /// Quantiles over time: of all flows, and where there are several kinds of each. What was nothing all
    /// the time has none.
    pub(crate) fn samples(&self) -> BTreeMap<String, Vec<f64>> {
        let groups = self.scenario.groups();
        let kinds = groups.iter().filter(|_| groups.len() > 1);
        let kinds = kinds.map(|(name, flows)| (format!("{name}.blocked"), flows.clone()));
        let mut out = BTreeMap::new();
        for (name, flows) in kinds.chain([("blocked".to_owned(), self.all())]) {
            let mut blocked: Vec<f64> = self.measured(&flows).filter_map(blocked).collect();
            if blocked.iter().any(|b| *b != 0.0) {
                let at = |n: u32| quantile(&mut blocked, f64::from(n) / f64::from(STEPS));
                out.insert(name, (0..=STEPS).filter_map(at).collect());
            }
        }
        out
    }

    /// Figures of the course: of all flows, and where there are several kinds of each.
    pub(crate) fn figures(&self) -> BTreeMap<String, f64> {
        let mut out = self.figures_of(&self.all());
        let groups = self.scenario.groups();
        for (name, members) in groups.iter().filter(|_| groups.len() > 1) {
            let own = self.figures_of(members).into_iter();
            out.extend(own.map(|(metric, v)| (format!("{name}.{metric}"), v)));
        }
        out.extend(self.settling());
        out.extend(self.regaining().map(|s| ("regain_s".to_owned(), s)));
        out
    }

    fn figures_of(&self, flows: &[usize]) -> BTreeMap<String, f64> {
        let mut out = BTreeMap::new();
        let mut blocked: Vec<f64> = self.measured(flows).filter_map(blocked).collect();
        for (name, q) in
            [("blocked_p50_bytes", 0.5), ("blocked_p90_bytes", 0.9), ("blocked_max_bytes", 1.0)]
        {
            out.extend(quantile(&mut blocked, q).map(|v| (name.to_owned(), v)));
        }
        let least = mean(self.measured(flows).filter_map(|s| s.rtt_min.map(us)));
        out.extend(least.map(|us| ("rtt_min_mean_us".to_owned(), us)));
        out.extend(self.latencies(flows));
        out
    }

    /// From requests to their complete responses.
    fn latencies(&self, flows: &[usize]) -> Vec<(String, f64)> {
        let ids = flows.iter().filter_map(|i| self.id(*i));
        let mut all: Vec<f64> =
            ids.flat_map(|id| self.setup.sim.flow(id).0.latencies.iter().map(|d| us(*d))).collect();
        [("latency_p50_us", 0.5), ("latency_p95_us", 0.95), ("latency_p99_us", 0.99)]
            .into_iter()
            .filter_map(|(name, q)| Some((name.to_owned(), quantile(&mut all, q)?)))
            .collect()
    }

    /// How long the first flow's pacing rate takes after a rise and a fall of the path's.
    fn settling(&self) -> Vec<(String, f64)> {
        let steps =
            self.scenario.wan.as_ref().and_then(|w| w.down().rate_steps).unwrap_or_default();
        let mut out = Vec::new();
        for (n, pair) in steps.windows(2).enumerate() {
            let ((_, before), (at, after)) = (pair[0], pair[1]);
            let end = steps.get(n + 2).map_or(f64::MAX, |next| next.0);
            let text = after * 1e6 * TEXT_SHARE;
            let is_there = |s: &FlowSample| {
                let rate = s.pacing_rate.map_or(0.0, |r| r.as_bps() as f64);
                if after > before {
                    rate >= text * (1.0 - SETTLED)
                } else {
                    rate <= text * (1.0 + SETTLED)
                }
            };
            let name = if after > before { "settle_up_s" } else { "settle_down_s" };
            let since = self.flow(0).iter().filter(|(t, _)| (at..end).contains(&seconds(*t)));
            let first = since.clone().find(|(_, s)| is_there(s));
            out.extend(first.map(|(t, _)| (name.to_owned(), seconds(*t) - at)));
        }
        out
    }

    /// How long the first flow's window takes after the first outage from its least, for the last
    /// time, to a quarter of what it was before: below where slow start ends.
    fn regaining(&self) -> Option<f64> {
        let (from, to) = self.scenario.wan.as_ref()?.down().outages?.first().copied()?;
        let samples = self.flow(0);
        let before = samples.iter().rfind(|(t, _)| seconds(*t) < from)?.1.cwnd;
        let after = samples.iter().filter(|(t, _)| seconds(*t) >= to);
        let back = after.clone().find(|(_, s)| s.cwnd * 4 >= before)?.0;
        let mut until = after.filter(|(t, _)| *t < back);
        let least = until.clone().map(|(_, s)| s.cwnd).min()?;
        let last = until.rfind(|(_, s)| s.cwnd == least)?.0;
        Some(seconds(back) - seconds(last))
    }

    /// Of the first flow of each kind: window, goodput, RTTmin, smoothed round trip, pacing rate.
    pub(crate) fn series(&self) -> BTreeMap<String, Vec<(f64, f64)>> {
        let groups = self.scenario.groups();
        let mut out = BTreeMap::new();
        for (name, members) in &groups {
            let Some(first) = members.first() else { continue };
            let of = |metric: &str| {
                if groups.len() < 2 { metric.to_owned() } else { format!("{name}.{metric}") }
            };
            let samples = self.flow(*first);
            let step = samples.len().div_ceil(POINTS).max(1);
            let thin: Vec<&(Instant, FlowSample)> = samples.iter().step_by(step).collect();
            // Before and after it a flow delivers nothing, and has no window that is anything's.
            let life = self.setup.life(*first);
            let there: Vec<_> = thin.iter().filter(|(at, _)| life.contains(at)).collect();
            let line = |value: &dyn Fn(&FlowSample) -> Option<f64>| -> Vec<(f64, f64)> {
                there.iter().filter_map(|(at, s)| Some((seconds(*at), value(s)?))).collect()
            };
            out.insert(of("cwnd_bytes"), line(&|s| Some(s.cwnd as f64)));
            out.insert(of("rtt_min_us"), line(&|s| s.rtt_min.map(us)));
            out.insert(of("srtt_us"), line(&|s| s.srtt.map(us)));
            out.insert(of("blocked_bytes"), line(&blocked));
            let pacing = |s: &FlowSample| s.pacing_rate.map(|r| r.as_bps() as f64);
            out.insert(of("pacing_bps"), line(&pacing));
            let rate = |pair: &[&&(Instant, FlowSample)]| {
                let over = seconds(pair[1].0) - seconds(pair[0].0);
                let bytes = pair[1].1.delivered.saturating_sub(pair[0].1.delivered);
                (seconds(pair[1].0), bytes as f64 * 8.0 / over.max(1e-9))
            };
            out.insert(of("goodput_bps"), there.windows(2).map(rate).collect());
        }
        out.retain(|_, line| !line.is_empty());
        out
    }
}
