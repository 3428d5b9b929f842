//! From an experiment to its runs: each has a key, a scenario and a seed.

use toml::{Table, Value};

use crate::draw::{Word, Words, draw};
use crate::experiment::{Experiment, Extent, Variant};
use crate::item::{Item, Plan, identity};
use crate::scenario::{MAX_RUNS, Scenario, ScenarioError, line_of, line_of_quoted, set};
use crate::view::Kind;

/// A point of the plan: its key, and the scenario so far.
#[derive(Clone)]
struct Point {
    key: Words,
    table: Table,
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
        return Err(ScenarioError::at(text, "id", what));
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
    let id = base.get("name").and_then(Value::as_str).unwrap_or(id).to_owned();
    Ok(Experiment { id, base: Some(base), sweep, is_scenario: true, ..Experiment::default() })
}

struct Planner<'a> {
    experiment: &'a Experiment,
    extent: Extent,
    text: &'a str,
    axes: Vec<(String, Vec<Word>)>,
}

impl Planner<'_> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> ScenarioError {
        let own = ScenarioError::at(self.text, key, what.into());
        // Keys of sweeps and sets are written in quotes.
        let last = key.split_once('.').map_or(key, |parts| parts.1);
        let is_swept = self.experiment.is_scenario && self.experiment.sweep.contains_key(key);
        let quoted = line_of_quoted(self.text, if is_swept { key } else { last });
        ScenarioError { line: quoted.or(own.line), ..own }
    }

    fn plan(mut self) -> Result<Plan, ScenarioError> {
        let (experiment, changes) = (self.experiment, self.experiment.extent.of(self.extent));
        let Some(base) = &experiment.base else {
            return Err(self.wrong("base", "is missing: name a scenario, or run `lab envelope`"));
        };
        let mut table = base.clone();
        let extent = self.extent.name();
        for (key, value) in &changes.set {
            set(&mut table, key, value.clone())
                .map_err(|what| self.wrong(&format!("extent.{extent}.set.{key}"), what))?;
        }
        let mut points = vec![Point { key: Words::new(), table }];
        for key in changes.sweep.keys() {
            if !experiment.sweep.contains_key(key) {
                let what = "is no key of [sweep]: an extent only shortens lists";
                return Err(self.wrong(&format!("extent.{extent}.sweep.{key}"), what));
            }
        }
        for (key, usual) in &experiment.sweep {
            points = self.swept(points, key, changes.sweep.get(key).unwrap_or(usual))?;
        }
        for (axis, sets) in [("case", &experiment.case), ("variant", &experiment.variant)] {
            points = self.varied(points, axis, sets, &changes.only)?;
        }
        points = self.drawn(points, changes.draws.unwrap_or(1))?;
        self.items(&points, changes.seeds)
    }

    /// A point that makes no scenario: `key` of it may be unknown.
    fn refused(&self, key: &str, what: &str, point: &Words) -> ScenarioError {
        let words: Vec<String> = point.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let with =
            if words.is_empty() { String::new() } else { format!(" (with {})", words.join(", ")) };
        let swept = self.experiment.sweep.keys().next();
        let what = format!("{what}{with}");
        if let Some(line) = self.line_of_set(key, point) {
            return ScenarioError { line: Some(line), key: key.to_owned(), what };
        }
        let key = match (self.experiment.is_scenario, key) {
            (true, "") => swept.map_or("", String::as_str).to_owned(),
            (true, key) => key.to_owned(),
            (false, "") => "base".to_owned(),
            (false, key) => format!("base.{key}"),
        };
        self.wrong(&key, what)
    }

    /// The line of the set of keys that says what `key` of a point is, if one does: a variant's comes
    /// after a case's, and what is drawn after both.
    fn line_of_set(&self, key: &str, point: &Words) -> Option<usize> {
        let says = |own: &str| {
            let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|r| r.starts_with('.'));
            !key.is_empty() && (own == key || within(key, own) || within(own, key))
        };
        if let Some(drawn) = self.experiment.draw.keys().find(|own| says(own)) {
            return line_of_quoted(self.text, drawn);
        }
        let sets = [("variant", &self.experiment.variant), ("case", &self.experiment.case)];
        sets.into_iter().find_map(|(axis, sets)| {
            let name = point.get(axis)?.to_string();
            let number = sets.iter().position(|s| s.name == name)?;
            sets[number].set.keys().find(|own| says(own))?;
            line_of(self.text, &format!("{axis}.{number}.set"))
        })
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
    ) -> Result<Vec<Point>, ScenarioError> {
        let key = format!("sweep.{keys}");
        let Value::Array(values) = values else {
            let what = format!("must be a list of values, as in \"{keys}\" = [1, 2]");
            return Err(self.wrong(&key, what));
        };
        self.bounded(points.len(), values.len(), &key)?;
        let names: Vec<&str> = keys.split(',').map(str::trim).collect();
        let (name, mut labels) = (names[0].to_owned(), Vec::new());
        let mut out: Vec<Vec<Point>> = vec![Vec::new(); points.len()];
        for value in values {
            let own: Vec<Value> = match value {
                Value::Array(list) if names.len() > 1 && list.len() == names.len() => list.clone(),
                plain => vec![plain.clone(); names.len()],
            };
            let label = word(&own[0]);
            for (point, out) in points.iter().zip(&mut out) {
                let mut point = point.clone();
                for (name, value) in names.iter().zip(&own) {
                    set(&mut point.table, name, value.clone())
                        .map_err(|what| self.wrong(&key, what))?;
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
                    set(&mut point.table, key, value.clone()).map_err(|what| {
                        let number = sets.iter().position(|s| s.name == set_of_keys.name);
                        let place = format!("{axis}.{}.set", number.unwrap_or(0));
                        let what = format!("of {axis} `{}` {what}", set_of_keys.name);
                        ScenarioError {
                            line: line_of(self.text, &place),
                            key: format!("set.{key}"),
                            what,
                        }
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
        self.bounded(points.len(), usize::try_from(draws).unwrap_or(usize::MAX), "draw")?;
        let mut out = Vec::new();
        for point in &points {
            for index in 0..draws {
                let mut point = point.clone();
                for (key, value) in draw(&experiment.draw, index, experiment.draw_seed) {
                    set(&mut point.table, &key, to_toml(&value))
                        .map_err(|what| self.wrong(&format!("draw.{key}"), what))?;
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
            let checked = Scenario::from_table(point.table.clone()).and_then(|scenario| {
                experiment.backend.check(&scenario)?;
                Ok(scenario)
            });
            let mut scenario =
                checked.map_err(|(key, what)| self.refused(&key, &what, &point.key))?;
            let seeds = seeds.unwrap_or(scenario.runs);
            self.bounded(points.len(), usize::try_from(seeds).unwrap_or(usize::MAX), "seeds")?;
            most = most.max(seeds);
            scenario.name.clone_from(&experiment.id);
            let first = scenario.seed;
            for n in 0..seeds {
                let seed = first.wrapping_add(n);
                let scenario = Scenario { seed, runs: 1, ..scenario.clone() };
                let id = identity(&scenario, experiment.backend, series)
                    .map_err(|e| self.wrong("base", format!("cannot be written down: {e}")))?;
                let mut key = point.key.clone();
                key.insert("seed".to_owned(), Word::Number(seed as f64));
                items.push(Item { key, scenario, backend: experiment.backend, id, series });
            }
        }
        Ok(Plan { axes: self.axes, items })
    }
}

/// A value of the plan as the key of a record has it.
pub fn word(value: &Value) -> Word {
    match value {
        Value::Integer(n) => Word::Number(*n as f64),
        Value::Float(v) => Word::Number(*v),
        Value::String(text) => Word::Text(text.clone()),
        other => Word::Text(other.to_string()),
    }
}

fn to_toml(word: &Word) -> Value {
    match word {
        // Counts are whole numbers to serde.
        Word::Number(v) if v.fract() == 0.0 && v.abs() < 1e15 => Value::Integer(*v as i64),
        Word::Number(v) => Value::Float(*v),
        Word::Text(text) => Value::String(text.clone()),
        Word::List(values) => Value::Array(values.iter().map(|v| Value::Float(*v)).collect()),
    }
}
