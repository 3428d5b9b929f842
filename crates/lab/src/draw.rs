//! `[draw]`: values at random, by name, from a seed.
//!
//! ```toml
//! [draw]
//! rate_mbps = { log_uniform = [0.1, 10000.0] }
//! flows     = { log_uniform = [1, 30], whole = true, share = 0.4 }  # in 40 % of the draws
//! app       = { choice = ["bulk", "file"], weights = [4, 3] }       # weights of 1 if left out
//! outages   = { uniform = [0.0, 1.0], list = [1, 3], share = 0.1 }  # a list of 1 to 3 values
//! ```
//!
//! Each word has a stream of its own, so adding one leaves all others as they were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tack_sim::Seed;
use tack_units::math;
use toml::Value;

use crate::scenario::plain;

/// A value of an axis, or one that was drawn.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, from = "Value")]
pub enum Word {
    /// A number.
    Number(f64),
    /// One of a choice of texts.
    Text(String),
    /// Several numbers.
    List(Vec<f64>),
    /// What else a file may say: true or false, a table, a list of lists.
    Other(Value),
}

/// Up to here each whole number is a number of its own as an `f64`.
const WHOLE: u64 = 1 << 53;

impl From<Value> for Word {
    fn from(value: Value) -> Word {
        let number = |value: &Value| match value {
            // Beyond, two neighbours would be one.
            Value::Integer(n) if n.unsigned_abs() <= WHOLE => Some(*n as f64),
            Value::Float(v) => Some(*v),
            _ => None,
        };
        match value {
            Value::String(text) => Word::Text(text),
            Value::Array(values) => match values.iter().map(number).collect() {
                Some(numbers) => Word::List(numbers),
                None => Word::Other(Value::Array(values)),
            },
            other => number(&other).map_or(Word::Other(other), Word::Number),
        }
    }
}

impl From<Word> for Value {
    fn from(word: Word) -> Value {
        match word {
            // Counts are whole numbers to serde.
            Word::Number(v) if v.fract() == 0.0 && v.abs() < 1e15 => Value::Integer(v as i64),
            Word::Number(v) => Value::Float(v),
            Word::Text(text) => Value::String(text),
            Word::List(numbers) => {
                Value::Array(numbers.into_iter().map(|v| Word::Number(v).into()).collect())
            }
            Word::Other(value) => value,
        }
    }
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Number(v) => f.pad(&plain(*v)),
            Word::Text(text) => f.pad(text),
            Word::List(values) => {
                let values: Vec<String> = values.iter().map(|v| plain(*v)).collect();
                f.pad(&format!("[{}]", values.join(", ")))
            }
            Word::Other(value) => f.pad(&value.to_string()),
        }
    }
}

/// Values by name.
pub type Words = BTreeMap<String, Word>;

/// What `[draw]` says of one word.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Between two numbers.
    uniform: Option<(f64, f64)>,
    /// Between two positive numbers, as often in each octave.
    log_uniform: Option<(f64, f64)>,
    /// One of these.
    choice: Option<Vec<Word>>,
    /// How often each of them, relative to each other.
    weights: Option<Vec<f64>>,
    /// In which share of the draws there is a value at all.
    #[serde(default = "one")]
    share: f64,
    /// Rounded to a whole number.
    #[serde(default)]
    whole: bool,
    /// Least and most values of a list.
    list: Option<(u32, u32)>,
}

fn one() -> f64 {
    1.0
}

/// Most values in a list.
const MAX_LIST: u32 = 64;

impl Distribution {
    /// All that can come of it, where that was said one by one.
    pub(crate) fn choices(&self) -> Option<Vec<Value>> {
        Some(self.choice.as_ref()?.iter().cloned().map(Value::from).collect())
    }

    /// Whether it can be drawn from; else what is wrong with it and what would be right.
    ///
    /// # Errors
    /// A sentence that goes on from the key.
    pub fn check(&self) -> Result<(), String> {
        let said = [self.uniform.is_some(), self.log_uniform.is_some(), self.choice.is_some()];
        if said.iter().filter(|s| **s).count() != 1 {
            return Err("needs one of uniform, log_uniform and choice".to_owned());
        }
        if let Some((least, most)) = self.uniform.or(self.log_uniform) {
            let low = if self.log_uniform.is_some() { f64::MIN_POSITIVE } else { f64::MIN };
            if !(low <= least && least <= most && most.is_finite()) {
                let what = "must go from a number to no smaller one; with log_uniform above 0";
                return Err(what.to_owned());
            }
        }
        if !(0.0..=1.0).contains(&self.share) {
            return Err(format!("has share {}, but it must lie between 0 and 1", self.share));
        }
        if self.list.is_some_and(|(least, most)| least == 0 || least > most || most > MAX_LIST) {
            return Err(format!("has a list of other than 1 to {MAX_LIST} values"));
        }
        if self.list.is_some() && self.choice.is_some() {
            let what = "has list and choice: a list is of numbers, by uniform or log_uniform";
            return Err(what.to_owned());
        }
        let Some(choice) = &self.choice else {
            let what = "has weights, but no choice".to_owned();
            return if self.weights.is_some() { Err(what) } else { Ok(()) };
        };
        let weights = self.weights.as_deref().unwrap_or_default();
        if choice.is_empty() || (self.weights.is_some() && weights.len() != choice.len()) {
            return Err("needs something to choose from, and as many weights".to_owned());
        }
        let fine = weights.iter().all(|w| *w >= 0.0 && w.is_finite());
        if !fine || (self.weights.is_some() && weights.iter().sum::<f64>() <= 0.0) {
            return Err("has weights below 0, or none above".to_owned());
        }
        Ok(())
    }

    /// A value from `rng`, whether or not this draw has one.
    pub fn value(&self, rng: &mut impl rand::Rng) -> Word {
        if let Some((least, most)) = self.list {
            let n = least + (unit(rng) * f64::from(most - least + 1)) as u32;
            return Word::List((0..n.min(most)).map(|_| self.number(rng)).collect());
        }
        match &self.choice {
            Some(choice) => self.chosen(choice, rng),
            None => Word::Number(self.number(rng)),
        }
    }

    /// All that it may be, or what lies around that.
    pub(crate) fn extremes(&self) -> Vec<Word> {
        let ends = self.uniform.or(self.log_uniform).map(|(least, most)| vec![least, most]);
        match ends {
            Some(ends) if self.list.is_some() => vec![Word::List(ends)],
            Some(ends) => ends.into_iter().map(Word::Number).collect(),
            None => self.choice.clone().unwrap_or_default(),
        }
    }

    /// Leaves those out of its choice that do not fit, but not all of them.
    pub(crate) fn restrict(&mut self, fits: impl Fn(&Word) -> bool) {
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.iter().any(&fits)) else {
            return;
        };
        let keep: Vec<bool> = choice.iter().map(fits).collect();
        let mut kept = keep.iter();
        choice.retain(|_| *kept.next().unwrap_or(&true));
        if let Some(weights) = &mut self.weights {
            let mut kept = keep.iter();
            weights.retain(|_| *kept.next().unwrap_or(&true));
        }
    }

    /// Whether there are draws without it.
    pub fn is_optional(&self) -> bool {
        self.share < 1.0
    }

    fn chosen(&self, choice: &[Word], rng: &mut impl rand::Rng) -> Word {
        let weight = |i: usize| self.weights.as_ref().map_or(1.0, |w| w[i]);
        let total: f64 = (0..choice.len()).map(weight).sum();
        let mut left = unit(rng) * total;
        let hit = (0..choice.len()).find(|i| {
            left -= weight(*i);
            left < 0.0
        });
        choice[hit.unwrap_or(choice.len() - 1)].clone()
    }

    fn number(&self, rng: &mut impl rand::Rng) -> f64 {
        let u = unit(rng);
        let value = match (self.uniform, self.log_uniform) {
            (Some((least, most)), _) => least + u * (most - least),
            (None, Some((least, most))) => least * math::pow(most / least, u),
            (None, None) => 0.0,
        };
        if self.whole { value.round() } else { three_digits(value) }
    }
}

/// Whether draw number `index` of `seed` has the word, and its value.
fn drawn(name: &str, from: &Distribution, index: u64, seed: Seed) -> Option<Word> {
    let mut rng = seed.stream(&format!("draw {index} {name}"));
    let is_there = unit(&mut rng) < from.share;
    is_there.then(|| from.value(&mut rng))
}

/// Draw number `index` of `seed`.
pub fn draw(from: &BTreeMap<String, Distribution>, index: u64, seed: u64) -> Words {
    let word = |(name, from): (&String, &Distribution)| {
        drawn(name, from, index, Seed(seed)).map(|word| (name.clone(), word))
    };
    from.iter().filter_map(word).collect()
}

/// Evenly from 0 up to 1.
pub fn unit(rng: &mut impl rand::Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Numbers a person can copy: three significant digits.
pub fn three_digits(value: f64) -> f64 {
    significant(value, 3)
}

/// `value` with so many significant digits.
pub fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // By way of text: what is printed is what is meant, to the last bit.
    let text = format!("{:.*e}", usize::try_from(digits - 1).unwrap_or(0), value);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distributions(text: &str) -> BTreeMap<String, Distribution> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_number_is_shown_in_as_many_digits_as_people_write() {
        for (value, text) in [
            (0.001, "0.001"),
            (40.0, "40"),
            (0.0, "0"),
            (1e15, "1000000000000000"),
            (1e300, "1e300"),
            (-1e-300, "-1e-300"),
        ] {
            assert_eq!(Word::Number(value).to_string(), text);
        }
    }

    #[test]
    fn a_word_depends_on_seed_number_and_name_alone() {
        let both = "a = { uniform = [0, 1] }\nb = { uniform = [0, 1] }";
        let (one, two) = (distributions("a = { uniform = [0, 1] }"), distributions(both));
        for index in 0..20 {
            assert_eq!(draw(&one, index, 1)["a"], draw(&two, index, 1)["a"]);
            assert_ne!(draw(&two, index, 1)["a"], draw(&two, index, 2)["a"]);
            assert_ne!(draw(&two, index, 1)["a"], draw(&two, index, 1)["b"]);
        }
    }

    #[test]
    fn draws_follow_their_distributions() {
        let from = distributions(
            "even = { uniform = [10, 20] }\noctaves = { log_uniform = [1, 10000] }\n\
             some = { uniform = [0, 1], share = 0.25 }\nlist = { uniform = [0, 1], list = [2, 4] }\n\
             which = { choice = [\"a\", \"b\"], weights = [1, 3] }",
        );
        let draws: Vec<Words> = (0..4_000).map(|i| draw(&from, i, 1)).collect();
        let share = |of: &dyn Fn(&Words) -> bool| {
            draws.iter().filter(|d| of(d)).count() as f64 / draws.len() as f64
        };
        let below = |name: &str, x: f64| share(&|d| matches!(&d[name], Word::Number(v) if *v < x));
        for (what, share, expected) in [
            ("even", below("even", 15.0), 0.5),
            ("octaves", below("octaves", 100.0), 0.5),
            ("some", share(&|d| d.contains_key("some")), 0.25),
            ("which", share(&|d| d["which"] == Word::Text("b".to_owned())), 0.75),
            ("list", share(&|d| matches!(&d["list"], Word::List(l) if l.len() == 3)), 1.0 / 3.0),
        ] {
            assert!((share - expected).abs() < 0.03, "{what}: {share}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        for text in [
            "{}",
            "{ uniform = [2, 1] }",
            "{ log_uniform = [0, 1] }",
            "{ uniform = [0, 1], share = 2 }",
            "{ choice = [] }",
            "{ choice = [1, 2], weights = [1] }",
            "{ choice = [1, 2], weights = [0, 0] }",
            "{ uniform = [0, 1], weights = [1] }",
            "{ uniform = [0, 1], choice = [1] }",
            "{ uniform = [0, inf] }",
            "{ uniform = [0, 1], list = [0, 2] }",
            "{ choice = [1, 2], list = [1, 2] }",
        ] {
            let from = &distributions(&format!("x = {text}"))["x"];
            assert!(from.check().is_err(), "{text}");
        }
    }

    #[test]
    fn digits_are_rounded_as_printed() {
        assert_eq!(significant(123_456.0, 3), 123_000.0);
        assert_eq!(significant(0.001_239, 2), 0.0012);
        assert_eq!(significant(0.0, 2), 0.0);
    }
}
