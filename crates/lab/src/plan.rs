//! From an experiment to its runs: each has a key, a scenario and a seed.

use toml::{Table, Value};

use crate::draw::{Word, Words, draw};
use crate::experiment::{Experiment, Extent, Variant, each_of};
use crate::item::{Item, Plan, identity};
use crate::scenario::{MAX_RUNS, Problem, Scenario, ScenarioError, has, line_of, set};
use crate::view::Kind;

/// A point of the plan: its key, the scenario so far, and what was said of that after the base.
#[derive(Clone)]
struct Point {
    key: Words,
    table: Table,
    said: Vec<Said>,
}

/// A key of the scenario that something behind the base sets.
#[derive(Clone)]
struct Said {
    key: String,
    value: Value,
    /// Where the file says so, as a dotted key of it.
    place: String,
}

impl Point {
    fn set(&mut self, key: &str, value: Value, place: String) -> Result<(), String> {
        self.said.push(Said { key: key.to_owned(), value: value.clone(), place });
        set(&mut self.table, key, value)
    }
}

/// Every run of `experiment` at `extent`, checked. `text` is its file, for messages.
///
/// # Errors
/// What is wrong, with line, key and the remedy.
pub fn plan(experiment: &Experiment, extent: Extent, text: &str) -> Result<Plan, ScenarioError> {
    Planner { experiment, extent, text, axes: Vec::new() }.plan()
}

/// An experiment from its file, which has an `id`, or from a plain scenario file: all of that is
/// the base, and it is called `id` unless it has a name.
///
/// # Errors
/// What is wrong, with line, key and the remedy.
pub fn experiment_or_scenario(text: &str, id: &str) -> Result<Experiment, ScenarioError> {
    let mut base: Table = text.parse().map_err(|e| ScenarioError::from_toml(text, &e))?;
    if base.contains_key("id") {
        return Experiment::parse(text);
    }
    if base.contains_key("base") {
        let what = "is missing: an experiment, which has [base], has an id".to_owned();
        return Err(ScenarioError {
            key: "id".to_owned(),
            ..ScenarioError::at(text, "base", what)
        });
    }
    let sweep = match base.remove("sweep") {
        Some(Value::Table(sweep)) => sweep,
        Some(_) => {
            let what = "must be a table of keys and lists".to_owned();
            return Err(ScenarioError::at(text, "sweep", what));
        }
        None => {
            // The text has the positions of what is wrong, which its table has not.
            Scenario::parse(text)?;
            Table::new()
        }
    };
    let name = base.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let (id, base) = (name.unwrap_or(id).to_owned(), Some(base));
    let experiment = Experiment { id, base, sweep, is_scenario: true, ..Experiment::default() };
    experiment.check_set_once().map_err(|p| ScenarioError::of(text, p))?;
    Ok(experiment)
}

struct Planner<'a> {
    experiment: &'a Experiment,
    extent: Extent,
    text: &'a str,
    axes: Vec<(String, Vec<Word>)>,
}

impl Planner<'_> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> ScenarioError {
        ScenarioError::at(self.text, key, what.into())
    }

    fn plan(mut self) -> Result<Plan, ScenarioError> {
        let (experiment, changes) = (self.experiment, self.experiment.extent.of(self.extent));
        let Some(base) = &experiment.base else {
            return Err(self.wrong("base", "is missing: name a scenario, or run `lab envelope`"));
        };
        let mut base = Point { key: Words::new(), table: base.clone(), said: Vec::new() };
        let extent = self.extent.name();
        for (key, value) in &changes.set {
            let place = format!("extent.{extent}.set.{key}");
            base.set(key, value.clone(), place.clone()).map_err(|what| self.wrong(&place, what))?;
        }
        let mut points = vec![base];
        for key in changes.sweep.keys() {
            if !experiment.sweep.contains_key(key) {
                let what = "is no key of [sweep]: an extent only shortens lists";
                return Err(self.wrong(&format!("extent.{extent}.sweep.{key}"), what));
            }
        }
        for (key, usual) in &experiment.sweep {
            let (place, values) = match changes.sweep.get(key) {
                Some(values) => (format!("extent.{extent}.sweep.{key}"), values),
                None => (format!("sweep.{key}"), usual),
            };
            points = self.swept(points, key, values, &place)?;
        }
        for (axis, sets) in [("case", &experiment.case), ("variant", &experiment.variant)] {
            points = self.varied(points, axis, sets, &changes.only)?;
        }
        points = self.drawn(points, changes.draws.unwrap_or(1))?;
        self.items(&points, changes.seeds)
    }

    /// A point that makes no scenario: `key` of it may be unknown.
    fn refused(&self, key: &str, what: &str, point: &Point) -> ScenarioError {
        let words: Vec<String> = point.key.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let with =
            if words.is_empty() { String::new() } else { format!(" (with {})", words.join(", ")) };
        let with_words = format!("{what}{with}");
        if let Some(said) = self.culprit(key, what, point) {
            let line = line_of(self.text, &said.place);
            let key = if key.is_empty() { &said.key } else { key };
            return ScenarioError { line, key: key.to_owned(), what: with_words };
        }
        let key = match (self.experiment.is_scenario, key) {
            (true, key) => key.to_owned(),
            (false, "") => "base".to_owned(),
            (false, key) => format!("base.{key}"),
        };
        self.wrong(&key, with_words)
    }

    /// Who said what is wrong, if not the base: whoever set that key last, or, where the base does
    /// not have it either, what made the mistake one.
    fn culprit<'p>(&self, key: &str, what: &str, point: &'p Point) -> Option<&'p Said> {
        let says = |said: &&Said| {
            let rest = key.strip_prefix(said.key.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        point.said.iter().rev().find(says).or_else(|| {
            let mut table = self.experiment.base.clone()?;
            let is_part =
                |said: &Said| said.key.strip_prefix(key).is_some_and(|r| r.starts_with('.'));
            if !key.is_empty() && has(&table, key) && !point.said.iter().any(is_part) {
                return None;
            }
            let is_wrong = |table: &Table| {
                self.scenario(table.clone()).is_err_and(|p| p.key == key && p.what == what)
            };
            let (mut was, mut culprit) = (is_wrong(&table), None);
            for said in &point.said {
                set(&mut table, &said.key, said.value.clone()).ok()?;
                let is = is_wrong(&table);
                culprit = if is && !was { Some(said) } else { culprit.filter(|_| is) };
                was = is;
            }
            culprit
        })
    }

    fn scenario(&self, table: Table) -> Result<Scenario, Problem> {
        let scenario = Scenario::from_table(table)?;
        self.experiment.backend.check(&scenario)?;
        Ok(scenario)
    }

    fn bounded(&self, points: usize, by: usize, key: &str) -> Result<(), ScenarioError> {
        if by == 0 || points.saturating_mul(by) > MAX_RUNS {
            let what = format!("must have at least one value, and at most {MAX_RUNS} runs in all");
            return Err(self.wrong(key, what));
        }
        Ok(())
    }

    /// Each point with each value; `a,b` sets both keys, to one value or to one of a list each.
    fn swept(
        &mut self,
        points: Vec<Point>,
        keys: &str,
        values: &Value,
        place: &str,
    ) -> Result<Vec<Point>, ScenarioError> {
        let Value::Array(values) = values else {
            let what = format!("must be a list of values, as in \"{keys}\" = [1, 2]");
            return Err(self.wrong(place, what));
        };
        self.bounded(points.len(), values.len(), place)?;
        let names: Vec<&str> = keys.split(',').map(str::trim).collect();
        if names.contains(&"name") {
            let what = "has `name`, by which no runs are told apart: [[variant]]s have names";
            return Err(self.wrong(place, what));
        }
        let (name, mut labels) = (names[0].to_owned(), Vec::new());
        let mut out: Vec<Vec<Point>> = vec![Vec::new(); points.len()];
        for (i, value) in values.iter().enumerate() {
            let place = format!("{place}.{i}");
            let own = each_of(names.len(), value);
            let label = Word::from(own[0].clone());
            if labels.contains(&label) {
                let what = format!(
                    "has {label} again: runs are told apart by it; [[variant]]s have names"
                );
                return Err(self.wrong(&place, what));
            }
            for (point, out) in points.iter().zip(&mut out) {
                let mut point = point.clone();
                for (name, value) in names.iter().zip(&own) {
                    point
                        .set(name, value.clone(), place.clone())
                        .map_err(|what| self.wrong(&place, format!("of `{name}`: {what}")))?;
                }
                point.key.insert(name.clone(), label.clone());
                out.push(point);
            }
            labels.push(label);
        }
        self.axes.push((name, labels));
        Ok(out.into_iter().flatten().collect())
    }

    /// Each point with each set of keys.
    fn varied(
        &mut self,
        points: Vec<Point>,
        axis: &str,
        sets: &[Variant],
        only: &[String],
    ) -> Result<Vec<Point>, ScenarioError> {
        if sets.is_empty() {
            return Ok(points);
        }
        let some = sets.iter().any(|s| only.contains(&s.name));
        let chosen: Vec<&Variant> =
            sets.iter().filter(|s| !some || only.contains(&s.name)).collect();
        self.bounded(points.len(), chosen.len(), axis)?;
        let mut out = Vec::new();
        for point in points {
            for set_of_keys in &chosen {
                let mut point = point.clone();
                for (key, value) in &set_of_keys.set {
                    let number = sets.iter().position(|s| s.name == set_of_keys.name);
                    let place = format!("{axis}.{}.set.{key}", number.unwrap_or(0));
                    point.set(key, value.clone(), place.clone()).map_err(|what| {
                        let what = format!("of {axis} `{}` {what}", set_of_keys.name);
                        let line = line_of(self.text, &place);
                        ScenarioError { line, key: format!("set.{key}"), what }
                    })?;
                }
                point.key.insert(axis.to_owned(), Word::Text(set_of_keys.name.clone()));
                out.push(point);
            }
        }
        let names = chosen.iter().map(|s| Word::Text(s.name.clone())).collect();
        self.axes.push((axis.to_owned(), names));
        Ok(out)
    }

    /// Each point on each draw: all of a draw's runs have the same random values.
    fn drawn(&mut self, points: Vec<Point>, draws: u64) -> Result<Vec<Point>, ScenarioError> {
        let experiment = self.experiment;
        if experiment.draw.is_empty() {
            return Ok(points);
        }
        let place = format!("extent.{}.draws", self.extent.name());
        self.bounded(points.len(), usize::try_from(draws).unwrap_or(usize::MAX), &place)?;
        let mut out = Vec::new();
        for point in &points {
            for index in 0..draws {
                let mut point = point.clone();
                for (key, value) in draw(&experiment.draw, index, experiment.draw_seed) {
                    let place = format!("draw.{key}");
                    point
                        .set(&key, value.into(), place.clone())
                        .map_err(|what| self.wrong(&place, what))?;
                }
                point.key.insert("draw".to_owned(), Word::Number(index as f64));
                out.push(point);
            }
        }
        self.axes.push(("draw".to_owned(), (0..draws).map(|i| Word::Number(i as f64)).collect()));
        Ok(out)
    }

    fn items(self, points: &[Point], seeds: Option<u64>) -> Result<Plan, ScenarioError> {
        let experiment = self.experiment;
        let shown = experiment.view.iter().any(|v| v.kind == Kind::Series);
        let series = experiment.series || shown;
        let mut items = Vec::new();
        let mut most = 1;
        for point in points {
            let checked = self.scenario(point.table.clone());
            let mut scenario = checked.map_err(|p| self.refused(&p.key, &p.what, point))?;
            let place = match seeds {
                Some(_) => format!("extent.{}.seeds", self.extent.name()),
                None => "base.runs".to_owned(),
            };
            let seeds = seeds.unwrap_or(scenario.runs);
            if seeds > 1 && self.axes.iter().any(|(axis, _)| axis == "seed") {
                let what = format!("is {seeds}, but [sweep] has the seeds one by one: one of them");
                return Err(self.wrong(&place, what));
            }
            self.bounded(points.len(), usize::try_from(seeds).unwrap_or(usize::MAX), &place)?;
            most = most.max(seeds);
            scenario.name.clone_from(&experiment.id);
            let first = scenario.seed;
            for n in 0..seeds {
                let seed = first.wrapping_add(n);
                let scenario = Scenario { seed, runs: 1, ..scenario.clone() };
                let id = identity(&scenario, experiment.backend, series)
                    .map_err(|e| self.wrong("base", format!("cannot be written down: {e}")))?;
                let mut key = point.key.clone();
                key.insert("seed".to_owned(), seed_word(seed));
                items.push(Item { key, scenario, backend: experiment.backend, id, series });
            }
        }
        Ok(Plan { axes: self.axes, items })
    }
}

/// A seed as the key of a record has it.
fn seed_word(seed: u64) -> Word {
    i64::try_from(seed).map_or_else(|_| Word::Text(seed.to_string()), |n| Value::Integer(n).into())
}
