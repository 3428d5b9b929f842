//! What a paper says, and how ours is judged: few forms, no language.
//!
//! ```toml
//! [[claim]]
//! row = "T-6b"                     # the experiment's id if left out
//! what = "TACK-rich at 10 % ACK loss"
//! paper = "90.8 %"
//! metric = "utilisation"           # of the metric table; "GROUP.NAME" of one kind of flows
//! at = { variant = "rich" }        # which records
//! versus = { variant = "poor" }    # held against those, pair by pair: same seed, same rest
//!                                  # (`group = "AE"`, `metric = ".."`: of the same run)
//! how = "ratio"                    # ratio, change, difference
//! each = ["phy"]                   # one row for each value; {} in `what` stands for it
//! along = "wan.up.loss"            # judged over the values of this axis, in order
//! expect = { form = "at-least", value = 0.9 }
//! because = "why ours differs, measured"     # told only where it does not agree
//! ```
//!
//! `paper`, `because` and `values` may be tables by the value of `each` (or of `along`).
//! Numbers are in the unit that is shown: Mbit/s, ms, per cent; `scale` and `unit` change it.

mod judge;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::course::DISTRIBUTIONS;
use crate::draw::{Word, Words};
use crate::item::Backend;
use crate::metric;
use crate::pivot::{How, Quantity, Results, SAME_RUN, known_axis, label, number, with_interval};
use crate::scenario::Problem;
pub use verdict::Verdict;
use verdict::{Point, steady};

/// A text, or one for each value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Said {
    /// The same for all.
    All(String),
    /// By the value of `each`.
    Each(BTreeMap<String, String>),
}

impl Said {
    fn of(&self, label: &str) -> Option<String> {
        match self {
            Said::All(text) => Some(text.clone()),
            Said::Each(texts) => texts.get(label).cloned(),
        }
    }
}

/// What must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expect {
    /// Near a value.
    Within {
        /// That value.
        value: Option<f64>,
        /// Or one for each, by the value of `along` or `each`.
        #[serde(default)]
        values: BTreeMap<String, f64>,
        /// Share of the value by which it may differ.
        relative: Option<f64>,
        /// By how much it may differ.
        absolute: Option<f64>,
    },
    /// No less.
    AtLeast {
        /// Than this.
        value: Option<f64>,
        /// Or than one for each.
        #[serde(default)]
        values: BTreeMap<String, f64>,
    },
    /// No more.
    AtMost {
        /// Than this.
        value: Option<f64>,
        /// Or than one for each.
        #[serde(default)]
        values: BTreeMap<String, f64>,
    },
    /// Along the axis, each no less than the one before.
    Rising {
        /// But for so much, relative.
        #[serde(default)]
        slack: f64,
    },
    /// Along the axis, each no more than the one before.
    Falling {
        /// But for so much, relative.
        #[serde(default)]
        slack: f64,
    },
    /// Along the axis, the groups of values in order, least first; within a group any.
    Order {
        /// Values of the axis.
        groups: Vec<Vec<String>>,
        /// Greatest overlap of two groups, absolute.
        #[serde(default)]
        slack: f64,
    },
    /// From the greatest to the least along the axis no more than this.
    DropAtMost {
        /// How much.
        value: f64,
    },
    /// The distribution `metric` lies left of another's.
    LeftOf {
        /// Of these records.
        than: Words,
        /// By how many times at least: a quantile (`p50`) and a factor.
        times: BTreeMap<String, f64>,
    },
    /// A function of `judge.rs`.
    Rust {
        /// Its name.
        name: String,
        /// What the paper has, by the value of `along`.
        #[serde(default)]
        values: BTreeMap<String, f64>,
    },
}

impl Expect {
    /// What is given for each of some names.
    pub(crate) fn values(&self) -> Option<&BTreeMap<String, f64>> {
        match self {
            Expect::Within { values, .. }
            | Expect::AtLeast { values, .. }
            | Expect::AtMost { values, .. }
            | Expect::Rust { values, .. } => Some(values),
            _ => None,
        }
    }

    /// The other records of a distribution.
    pub(crate) fn than(&self) -> Option<&Words> {
        match self {
            Expect::LeftOf { than, .. } => Some(than),
            _ => None,
        }
    }

    /// Refuses numbers that no figure can be held against.
    fn check_numbers(&self) -> Result<(), Problem> {
        let (value, rooms) = match self {
            Expect::Within { value, relative, absolute, .. } => {
                (*value, vec![("relative", *relative), ("absolute", *absolute)])
            }
            Expect::AtLeast { value, .. } | Expect::AtMost { value, .. } => (*value, Vec::new()),
            Expect::Rising { slack } | Expect::Falling { slack } | Expect::Order { slack, .. } => {
                (None, vec![("slack", Some(*slack))])
            }
            Expect::DropAtMost { value } => (Some(*value), Vec::new()),
            Expect::LeftOf { .. } | Expect::Rust { .. } => (None, Vec::new()),
        };
        let named = self.values().into_iter().flatten();
        let goals = named.map(|(name, goal)| (format!("values.{name}"), *goal));
        let mut goals = goals.chain(value.map(|goal| ("value".to_owned(), goal)));
        if let Some((key, goal)) = goals.find(|(_, goal)| !goal.is_finite()) {
            let what = format!("is {goal}, but must be finite");
            return Err(Problem::new(format!("expect.{key}"), what));
        }
        let mut rooms = rooms.into_iter().filter_map(|(key, room)| Some((key, room?)));
        match rooms.find(|(_, room)| !(*room >= 0.0 && room.is_finite())) {
            None => Ok(()),
            Some((key, room)) => {
                let what = format!("is {room}, but must be 0 or more: by how much it may be off");
                Err(Problem::new(format!("expect.{key}"), what))
            }
        }
    }

    /// Names in order.
    pub(crate) fn groups(&self) -> Option<&[Vec<String>]> {
        match self {
            Expect::Order { groups, .. } => Some(groups),
            _ => None,
        }
    }
}

/// What a paper says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Row of the list of claims, such as `L6`.
    pub row: Option<String>,
    /// What is measured; `{}` stands for the value of `each`.
    pub what: String,
    /// What the paper says.
    pub paper: Said,
    /// Of the metric table.
    pub metric: String,
    /// Which records.
    #[serde(default)]
    pub at: Words,
    /// Axes that make a row for each of their values.
    #[serde(default)]
    pub each: Vec<String>,
    /// The axis along which the form looks.
    pub along: Option<String>,
    /// Keys of the other record of each pair.
    pub versus: Option<Words>,
    /// How the two are held against each other.
    #[serde(default)]
    pub how: How,
    /// What the figure is multiplied with.
    pub scale: Option<f64>,
    /// What it is called then.
    pub unit: Option<String>,
    /// What must hold.
    pub expect: Expect,
    /// Why ours differs, where it does.
    pub because: Option<Said>,
}

/// A claim and what our runs say to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Row of the list of claims, e.g. `L6`.
    pub row: String,
    /// What is measured.
    pub what: String,
    /// What the paper says.
    pub paper: String,
    /// What our runs say, with its 95 % interval.
    pub ours: String,
    /// Whether the two agree as the row demands.
    pub verdict: Verdict,
    /// Seeds and draws that it stands on: of one there is no interval, and its verdict is that of the
    /// mean.
    pub runs: usize,
    /// Why not, where it is known and not sure to agree.
    pub why: Option<String>,
}

/// Said behind what stands on one run.
pub(crate) const SINGLE: &str = ", 1 run";

impl Finding {
    /// Whether it stands on one run, so that nobody can tell what another seed would give.
    pub fn is_single(&self) -> bool {
        self.ours.ends_with(SINGLE)
    }
}

/// The judgment of every claim of experiment `id` that its results have anything to say of.
pub fn judge(id: &str, claims: &[Claim], results: &Results<'_>) -> Vec<Finding> {
    claims.iter().flat_map(|claim| claim.findings(id, results)).collect()
}

impl Claim {
    /// What is judged.
    pub(crate) fn quantity(&self) -> Quantity<'_> {
        Quantity {
            metric: &self.metric,
            versus: self.versus.as_ref(),
            how: self.how,
            scale: self.scale,
            unit: self.unit.as_deref(),
        }
    }

    /// Whether it can be judged at all; else what is wrong, and under which key.
    pub(crate) fn check(&self, axes: &[(String, Vec<Word>)]) -> Result<(), Problem> {
        if let Expect::LeftOf { times, .. } = &self.expect {
            if !DISTRIBUTIONS.contains(&metric::base(&self.metric)) {
                let there = DISTRIBUTIONS.join(", ");
                return Err(Problem::new(
                    "metric",
                    format!("is `{}`; distributions are {there}", self.metric),
                ));
            }
            if let Some(wrong) = times.keys().find(|name| quantile_of(name).is_none()) {
                return Err(Problem::new(
                    "expect.times",
                    format!("has `{wrong}`: write p0 to p100"),
                ));
            }
        } else {
            metric::check(&self.metric).map_err(|what| Problem::new("metric", what))?;
        }
        self.quantity().check(axes)?;
        let than = self.expect.than().into_iter().flat_map(|w| w.keys());
        let keys = than.map(|k| ("expect.than", k)).chain(self.at.keys().map(|k| ("at", k)));
        let each = self.each.iter().map(|k| ("each", k));
        for (key, name) in keys.chain(each).chain(self.along.iter().map(|k| ("along", k))) {
            known_axis(axes, key, name)?;
        }
        self.expect.check_numbers()?;
        match &self.expect {
            Expect::Rust { name, .. } => judge::check(name, self),
            Expect::Within { value: None, values, .. }
            | Expect::AtLeast { value: None, values }
            | Expect::AtMost { value: None, values }
                if values.is_empty() =>
            {
                Err(Problem::new("expect", "needs value, or values by name"))
            }
            Expect::LeftOf { times, .. } if times.is_empty() => {
                Err(Problem::new("expect.times", "needs a quantile, as in times = { p50 = 2.0 }"))
            }
            Expect::Within { relative: None, absolute: None, .. } => {
                Err(Problem::new("expect", "needs relative or absolute: how far it may differ"))
            }
            Expect::Rising { .. }
            | Expect::Falling { .. }
            | Expect::Order { .. }
            | Expect::DropAtMost { .. }
                if self.along.is_none() =>
            {
                Err(Problem::new("along", "is missing: this form looks along an axis"))
            }
            Expect::Order { groups, .. } => check_groups(groups),
            _ => Ok(()),
        }
    }

    fn findings(&self, id: &str, results: &Results<'_>) -> Vec<Finding> {
        let each = results.combinations(&self.each, &self.at);
        let finding = |own: Words| {
            let label = label(&own, &self.each);
            let mut at = self.at.clone();
            at.extend(own);
            let (mut ours, verdict) = self.verdict(results, &at, &label)?;
            let runs = results.repetitions(&at).len();
            let is_random = |i: usize| results.plan.items[i].backend != Backend::Formula;
            if results.courses(&at) == 1 && results.select(&at).iter().any(|(i, _)| is_random(*i)) {
                ours += SINGLE;
            }
            let is_sure = verdict == Verdict::Agrees;
            let why = self.because.as_ref().and_then(|b| b.of(&label)).filter(|_| !is_sure);
            Some(Finding {
                row: self.row.clone().unwrap_or_else(|| id.to_owned()),
                what: match self.what.contains("{}") || label.is_empty() {
                    true => self.what.replace("{}", &label),
                    // Rows of the same words could not be told apart.
                    false => format!("{}: {label}", self.what),
                },
                paper: self.paper.of(&label).unwrap_or_default(),
                ours,
                verdict,
                runs,
                why,
            })
        };
        each.into_iter().filter_map(finding).collect()
    }

    /// What our runs say at `at`, and whether it agrees; `None` where nothing ran, or nothing of what it is held
    /// against.
    fn verdict(&self, results: &Results<'_>, at: &Words, label: &str) -> Option<(String, Verdict)> {
        let selected = results.select(at);
        let mut other = at.clone();
        let versus = self.versus.iter().flatten().filter(|(k, _)| !SAME_RUN.contains(&k.as_str()));
        let than = self.expect.than().into_iter().flatten();
        other.extend(versus.chain(than).map(|(axis, word)| (axis.clone(), word.clone())));
        if selected.is_empty() || results.select(&other).is_empty() {
            return None;
        }
        // What the machine spoiled is left out as long as something is left; what stalled is not.
        let spoiled = |i: usize| results.plan.items[i].backend == Backend::Live;
        let mut voids = selected.iter().filter(|(_, r)| r.void.is_some());
        let all = voids.clone().count() == selected.len();
        if let Some((i, void)) = voids.find(|(i, _)| all || !spoiled(*i)) {
            let void = void.void.as_deref().unwrap_or_default();
            let verdict = if spoiled(*i) { Verdict::Open } else { Verdict::Differs };
            return Some((format!("void: {void}"), verdict));
        }
        let others = results.select(&other);
        let mut live = selected.iter().chain(&others).filter(|(i, _)| spoiled(*i));
        let void = live.find_map(|(_, record)| record.void.as_deref());
        let lacking = || match void {
            Some(void) => Some((format!("no pair of runs without: {void}"), Verdict::Open)),
            None => Some((format!("no run has {}", self.metric), Verdict::Differs)),
        };
        match &self.expect {
            Expect::Rust { name, .. } => {
                let judge = judge::function(name)?;
                return steady(results, at, |some| judge(self, some, at)).or_else(lacking);
            }
            Expect::LeftOf { than, times } => {
                let judge =
                    |some: &Results<'_>| Some(left_of(&self.metric, some, (at, than), times));
                return steady(results, at, judge);
            }
            _ => {}
        }
        let points = self.points(results, at, label)?;
        if points.iter().all(|(_, point)| point.is_none()) {
            return lacking();
        }
        let (_, unit) = self.quantity().shown();
        let is_named = matches!(self.expect, Expect::Order { .. })
            || (points.len() > 1 && self.along.as_deref() == Some("variant"));
        let text = |(name, point): &(String, Option<Point>)| {
            let text = match point {
                Some(point) => with_interval(&point.estimate) + &point.lacking,
                None => "none".to_owned(),
            };
            if is_named { format!("{name} {text}") } else { text }
        };
        let text = points.iter().map(text).collect::<Vec<_>>().join(", ");
        // Where one of the values has none, what the others have is not all of what is claimed.
        let all: Option<Vec<Point>> = points.into_iter().map(|(_, point)| point).collect();
        let verdict = all.map_or(Verdict::Differs, |points| self.expect.verdict(&points));
        Some((format!("{text} {unit}").trim_end().to_owned(), verdict))
    }

    /// The quantity at each value of the axis, or the one of it where there is none, by name: what is judged of it,
    /// none where no run has it. `None` where nothing is judged, or there is nothing to hold it against.
    fn points(
        &self,
        results: &Results<'_>,
        at: &Words,
        label: &str,
    ) -> Option<Vec<(String, Option<Point>)>> {
        let of = self.quantity();
        let point = |name: String, at: &Words| (name.clone(), Point::new(name, results, &of, at));
        let Some(along) = &self.along else {
            return self.expect.judges(label).then(|| vec![point(label.to_owned(), at)]);
        };
        let words = results.values(along, at).into_iter();
        let judged: Vec<Word> =
            words.filter(|word| self.expect.judges(&word.to_string())).collect();
        let names: Vec<String> = judged.iter().map(Word::to_string).collect();
        let is_one = judged.is_empty() || self.expect.is_alone(&names);
        let with = |word: Word| {
            let mut at = at.clone();
            at.insert(along.clone(), word);
            at
        };
        let all = names.into_iter().zip(judged);
        (!is_one).then(|| all.map(|(name, word)| point(name, &with(word))).collect())
    }
}

/// Refuses groups that are in no order, whatever the figures are.
fn check_groups(groups: &[Vec<String>]) -> Result<(), Problem> {
    let bad = |what: String| Err(Problem::new("expect.groups", what));
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        return bad("needs two groups or more, each of a value or more, least first".to_owned());
    }
    let mut seen = BTreeSet::new();
    match groups.iter().flatten().find(|name| !seen.insert(name.as_str())) {
        Some(name) => bad(format!("has `{name}` twice: nothing lies above itself")),
        None => Ok(()),
    }
}

/// Reads `p95`.
fn quantile_of(name: &str) -> Option<f64> {
    let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// How many times left of another distribution one lies, by quantiles.
fn left_of(
    name: &str,
    results: &Results<'_>,
    (at, than): (&Words, &Words),
    times: &BTreeMap<String, f64>,
) -> (String, bool) {
    let mut other = at.clone();
    other.extend(than.clone());
    let mut texts = Vec::new();
    let mut agrees = !times.is_empty();
    for (quantile, factor) in times {
        let q = quantile_of(quantile).unwrap_or(0.5);
        let of = |at: &Words| results.pooled(name, at, q);
        let Some((own, others)) = of(at).zip(of(&other)) else {
            return (format!("no run has {name}"), false);
        };
        // Nothing of it at all is any number of times less than something.
        agrees &= others > 0.0 && others >= factor * own;
        let ratio =
            if own > 0.0 { format!("{} times", number(others / own)) } else { "none".to_owned() };
        texts.push(format!("{quantile} {ratio} ({} to {})", number(own), number(others)));
    }
    (texts.join(", "), agrees)
}
