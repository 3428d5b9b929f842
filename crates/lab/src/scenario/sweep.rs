//! From one file to every run it asks for.

use toml::{Table, Value};

use super::{MAX_RUNS, Scenario, ScenarioError};

/// One simulation: a scenario, a seed, and which values of the sweep it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Position in the plan; results keep this order however many cores run it.
    pub index: usize,
    /// The swept keys and this run's values, in the file's order.
    pub swept: Vec<(String, Value)>,
    /// What to run; `seed` and `runs` are those of this run alone.
    pub scenario: Scenario,
}

/// Every scenario of a file, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The combinations in order, the last swept key varying fastest.
    pub scenarios: Vec<(Vec<(String, Value)>, Scenario)>,
}

impl Plan {
    /// Reads a file and expands its sweep.
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy; also when one combination alone is wrong.
    pub fn parse(text: &str) -> Result<Plan, ScenarioError> {
        let mut document: Table =
            text.parse().map_err(|e: toml::de::Error| ScenarioError::from_toml(text, &e))?;
        let sweep = match document.remove("sweep") {
            None => Table::new(),
            Some(Value::Table(t)) => t,
            Some(_) => {
                let what = "must be a table of keys and lists".to_owned();
                return Err(ScenarioError::at(text, "sweep", what));
            }
        };
        let mut combinations: Vec<Vec<(String, Value)>> = vec![Vec::new()];
        for (key, values) in sweep {
            let Value::Array(values) = values else {
                let what = format!("must be a list of values, as in \"{key}\" = [1, 2]");
                return Err(of_sweep(text, &key, what));
            };
            if values.is_empty() || combinations.len() * values.len() > MAX_RUNS {
                let what =
                    format!("must list at least one value, and at most {MAX_RUNS} runs in all");
                return Err(of_sweep(text, &key, what));
            }
            combinations = combinations
                .iter()
                .flat_map(|c| {
                    values.iter().map(|v| {
                        let mut c = c.clone();
                        c.push((key.clone(), v.clone()));
                        c
                    })
                })
                .collect();
        }
        let mut scenarios = Vec::with_capacity(combinations.len());
        for swept in combinations {
            let scenario = read(text, &document, &swept)?;
            scenarios.push((swept, scenario));
        }
        let runs: u64 = scenarios.iter().map(|(_, s)| s.runs).sum();
        if runs > MAX_RUNS as u64 {
            let what = format!("asks for {runs} runs in all, {MAX_RUNS} are the most");
            return Err(ScenarioError::at(text, "runs", what));
        }
        Ok(Plan { scenarios })
    }

    /// Every single run, in order.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for (swept, scenario) in &self.scenarios {
            for n in 0..scenario.runs {
                let mut one = scenario.clone();
                one.seed = scenario.seed.wrapping_add(n);
                one.runs = 1;
                runs.push(Run { index: runs.len(), swept: swept.clone(), scenario: one });
            }
        }
        runs
    }
}

fn read(
    text: &str,
    document: &Table,
    swept: &[(String, Value)],
) -> Result<Scenario, ScenarioError> {
    // The text itself has the positions: without a sweep it is read directly.
    let scenario: Scenario = if swept.is_empty() {
        toml::from_str(text).map_err(|e| ScenarioError::from_toml(text, &e))?
    } else {
        let mut document = document.clone();
        for (key, value) in swept {
            set(&mut document, key, value.clone()).map_err(|what| ScenarioError {
                line: line_of_quoted(text, key),
                key: key.clone(),
                what,
            })?;
        }
        document.try_into().map_err(|e: toml::de::Error| {
            let keys: Vec<&str> = swept.iter().map(|(k, _)| k.as_str()).collect();
            let what = format!("with {} swept: {}", keys.join(", "), e.message());
            ScenarioError {
                line: keys.first().and_then(|k| line_of_quoted(text, k)),
                key: "sweep".to_owned(),
                what,
            }
        })?
    };
    scenario.check().map_err(|p| match line_of_quoted(text, &p.key) {
        Some(line) if swept.iter().any(|(k, _)| *k == p.key) => {
            ScenarioError { line: Some(line), key: p.key, what: p.what }
        }
        _ => ScenarioError::at(text, &p.key, p.what),
    })?;
    Ok(scenario)
}

/// An entry of `[sweep]` itself is wrong.
fn of_sweep(text: &str, key: &str, what: String) -> ScenarioError {
    ScenarioError { line: line_of_quoted(text, key), key: format!("sweep.{key}"), what }
}

/// The line of a key written in quotes, as `[sweep]` has them.
pub(crate) fn line_of_quoted(text: &str, key: &str) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let plain = format!("{key} ");
    text.lines()
        .position(|l| l.trim_start().starts_with(&quoted) || l.trim_start().starts_with(&plain))
        .map(|i| i + 1)
}

/// Puts `value` at a dotted key, making tables on the way; list entries go by number.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let (head, rest) = match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            return Ok(());
        }
        Some(parts) => parts,
    };
    match table.entry(head.to_owned()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(items) => {
            let (number, rest) =
                rest.split_once('.').ok_or("names a list, not one of its entries' keys")?;
            let count = items.len();
            let item = number.parse::<usize>().ok().and_then(|i| items.get_mut(i));
            match item {
                Some(Value::Table(inner)) => set(inner, rest, value),
                _ => Err(format!("asks for entry {number} of {count}, counted from 0")),
            }
        }
        _ => Err(format!("goes through `{head}`, which is a plain value")),
    }
}
