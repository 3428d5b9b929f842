//! What means and their intervals say to a claim: that it holds, that it does not, or that another
//! seed could turn either.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Expect;
use crate::draw::Words;
use crate::pivot::{Quantity, Results, said};
use crate::stats::Estimate;

/// The judgment of a claim. The least of several is that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All of the 95 % interval lies where it must not.
    Differs,
    /// The interval holds the bar: another seed could turn the verdict.
    Open,
    /// All of the interval lies where it must.
    Agrees,
}

impl Verdict {
    /// Every one, the best first.
    pub const ALL: [Verdict; 3] = [Verdict::Agrees, Verdict::Open, Verdict::Differs];

    /// As tables have it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Open => "open",
            Verdict::Differs => "DIFFERS",
        }
    }

    /// Where `least` to `most` is allowed. One run has no interval: its mean decides.
    fn of(estimate: &Estimate, (least, most): (f64, f64)) -> Verdict {
        let half = estimate.interval().unwrap_or(0.0);
        let (low, high) = (estimate.mean - half, estimate.mean + half);
        if least <= low && high <= most {
            Verdict::Agrees
        } else if high < least || most < low {
            Verdict::Differs
        } else {
            Verdict::Open
        }
    }
}

/// A figure at one value of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// That value.
    pub(crate) name: String,
    /// The figure, by repetition.
    pub(crate) by_repetition: BTreeMap<String, f64>,
    /// Its mean.
    pub(crate) estimate: Estimate,
    /// In how many of the runs it is, if not in all.
    pub(crate) lacking: String,
}

impl Point {
    /// The quantity of the records at `at`; `None` where no run has it.
    pub(crate) fn new(
        name: String,
        results: &Results<'_>,
        of: &Quantity<'_>,
        at: &Words,
    ) -> Option<Point> {
        let by_repetition = results.by_repetition(of, at);
        let values: Vec<f64> = by_repetition.values().copied().collect();
        let (estimate, lacking) = (Estimate::of(&values)?, said(results.lacking(of, at)));
        Some(Point { name, by_repetition, estimate, lacking })
    }

    /// By how much it is more than `other`, run by run: the same seed has the same luck.
    fn above(&self, other: &Point) -> Option<Estimate> {
        let pairs = self.by_repetition.iter();
        let pairs = pairs.filter_map(|(run, v)| Some(v - other.by_repetition.get(run)?));
        Estimate::of(&pairs.collect::<Vec<f64>>())
    }
}

/// The verdict of all, which some must be.
fn all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.min().unwrap_or(Verdict::Differs)
}

impl Expect {
    /// Whether a point is judged. Where goals are given one by one, only those that have one are.
    pub(crate) fn judges(&self, name: &str) -> bool {
        match self {
            Expect::Within { value: None, values, .. }
            | Expect::AtLeast { value: None, values }
            | Expect::AtMost { value: None, values } => values.contains_key(name),
            Expect::Order { groups, .. } => groups.iter().flatten().any(|n| n == name),
            _ => true,
        }
    }

    /// Whether `points`, all of which are judged, are as they must be. What only some of the runs have is not
    /// sure of any.
    pub(crate) fn verdict(&self, points: &[Point]) -> Verdict {
        let is_whole = points.iter().all(|point| point.lacking.is_empty());
        self.of_means(points).min(if is_whole { Verdict::Agrees } else { Verdict::Open })
    }

    /// Whether there is nothing that the values `names` of an axis could be held against: a form that looks along
    /// it takes two.
    pub(crate) fn is_alone(&self, names: &[String]) -> bool {
        match self {
            Expect::Rising { .. } | Expect::Falling { .. } | Expect::DropAtMost { .. } => {
                names.len() < 2
            }
            Expect::Order { groups, .. } => {
                let there = |group: &&Vec<String>| group.iter().any(|name| names.contains(name));
                groups.iter().filter(there).count() < 2
            }
            _ => false,
        }
    }

    fn of_means(&self, points: &[Point]) -> Verdict {
        let each =
            |range: &dyn Fn(f64) -> (f64, f64), value: Option<f64>, values: &BTreeMap<_, _>| {
                all(points.iter().map(|p| match values.get(&p.name).copied().or(value) {
                    Some(goal) => Verdict::of(&p.estimate, range(goal)),
                    None => Verdict::Differs,
                }))
            };
        let pair = |a: &Point, b: &Point, range: (f64, f64)| {
            b.above(a).map_or(Verdict::Differs, |e| Verdict::of(&e, range))
        };
        let neighbours = |range: &dyn Fn(f64) -> (f64, f64)| {
            let pairs = points.windows(2);
            all(pairs.map(|w| pair(&w[0], &w[1], range(w[0].estimate.mean.abs()))))
        };
        match self {
            Expect::Within { value, values, relative, absolute } => {
                let room = |goal: f64| {
                    let relative = relative.map_or(0.0, |r| r * goal.abs());
                    relative.max(absolute.unwrap_or(0.0))
                };
                each(&|goal| (goal - room(goal), goal + room(goal)), *value, values)
            }
            Expect::AtLeast { value, values } => {
                each(&|least| (least, f64::INFINITY), *value, values)
            }
            Expect::AtMost { value, values } => {
                each(&|most| (f64::NEG_INFINITY, most), *value, values)
            }
            Expect::Rising { slack } => neighbours(&|of| (-slack * of, f64::INFINITY)),
            Expect::Falling { slack } => neighbours(&|of| (f64::NEG_INFINITY, slack * of)),
            Expect::Order { groups, slack } => ordered(groups, *slack, points, pair),
            Expect::DropAtMost { value } => {
                let pairs = points.iter().flat_map(|a| points.iter().map(move |b| (a, b)));
                all(pairs.map(|(a, b)| pair(a, b, (f64::NEG_INFINITY, *value))))
            }
            Expect::LeftOf { .. } | Expect::Rust { .. } => Verdict::Differs,
        }
    }
}

/// Whether each of a group lies above each of the one before: not level with it, unless `slack` lets
/// them overlap.
fn ordered(
    groups: &[Vec<String>],
    slack: f64,
    points: &[Point],
    pair: impl Fn(&Point, &Point, (f64, f64)) -> Verdict,
) -> Verdict {
    let of = |group: &Vec<String>| -> Vec<&Point> {
        points.iter().filter(|p| group.contains(&p.name)).collect()
    };
    let groups: Vec<Vec<&Point>> = groups.iter().map(of).filter(|g| !g.is_empty()).collect();
    let above = |low: &Point, high: &Point| {
        let level = 1e-9 * low.estimate.mean.abs().max(high.estimate.mean.abs());
        pair(low, high, (if slack > 0.0 { -slack } else { level }, f64::INFINITY))
    };
    let verdict = |w: &[Vec<&Point>]| {
        all(w[0].iter().flat_map(|low| w[1].iter().map(|high| above(low, high))))
    };
    all(groups.windows(2).map(verdict))
}

/// A judgment that has no interval: open where it turns if one of the seeds or draws is left out.
pub(super) fn steady(
    results: &Results<'_>,
    at: &Words,
    judge: impl Fn(&Results<'_>) -> Option<(String, bool)>,
) -> Option<(String, Verdict)> {
    let (text, agrees) = judge(results)?;
    let runs = results.repetitions(at);
    let turns = |run: &String| judge(&results.without(run)).is_some_and(|v| v.1 != agrees);
    let verdict = match agrees {
        _ if runs.len() > 1 && runs.iter().any(turns) => Verdict::Open,
        true => Verdict::Agrees,
        false => Verdict::Differs,
    };
    Some((text, verdict))
}
