//! What the page offers: one table, of which its form is made and against which links are read.

use serde::ser::{Serialize, SerializeMap, Serializer};
use tack_cc::Algorithm;
use tack_lab::scenario::Strategy;
use tack_link::wlan::{Preset, Standard};

/// A question of the form.
pub struct Choice {
    /// In links.
    pub key: &'static str,
    /// Which part of the form it stands in.
    pub group: &'static str,
    /// Beside the field, with the unit.
    pub label: &'static str,
    /// What may be answered.
    pub kind: Kind,
    /// The answer of a page that was just opened.
    pub usual: &'static str,
}

/// What may be answered.
pub enum Kind {
    /// One of these words, each with what is shown for it.
    Words(fn() -> Vec<(String, String)>),
    /// A number from the least to the most.
    Number {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
        /// From one number to the next.
        step: f64,
    },
}

/// Every question, in the form's order.
pub const CHOICES: &[Choice] = &[
    words("phy", "Air", "802.11", "n", || plain(Standard::ALL.map(|s| s.name().to_owned()))),
    words("preset", "Air", "Preset", "textbook", || {
        plain(Preset::ALL.map(|p| p.name().to_owned()))
    }),
    number("stations", "Air", "Stations", "1", (1.0, 16.0, 1.0)),
    words("queue", "Air", "Queue at the access point", "fifo", || {
        plain(["fifo", "fq-codel"].map(str::to_owned))
    }),
    number("rtt", "Path", "Round trip of the wire, ms", "80", (0.0, 1_000.0, 1.0)),
    number("rate", "Path", "Its rate, Mbit/s (0: no limit)", "0", (0.0, 1_000.0, 1.0)),
    number("loss", "Path", "Loss to stations, %", "0", (0.0, 10.0, 0.01)),
    number("ack_loss", "Path", "Loss to the server, %", "0", (0.0, 10.0, 0.01)),
    words("traffic", "Traffic", "Each station", "download", || {
        let words = [
            ("download", "downloads"),
            ("upload", "uploads"),
            ("both", "does both at once"),
            ("file", "loads 10 MB"),
            ("stream", "gets 10 Mbit/s"),
            ("requests", "asks for 100 kB"),
            ("on-off", "loads 1 s, rests 1 s"),
        ];
        words.map(|(word, shown)| (word.to_owned(), shown.to_owned())).to_vec()
    }),
    number("seconds", "Traffic", "Length, s", "10", (1.0, 60.0, 1.0)),
    number("seed", "Traffic", "Seed", "1", (0.0, 1_000_000.0, 1.0)),
    words("a", "A", "Acknowledgments", "tack", strategies),
    words("a_cc", "A", "Congestion control", "bbr", controllers),
    words("b", "B", "Acknowledgments", "tcp-l2", strategies),
    words("b_cc", "B", "Congestion control", "bbr", controllers),
];

const fn words(
    key: &'static str,
    group: &'static str,
    label: &'static str,
    usual: &'static str,
    all: fn() -> Vec<(String, String)>,
) -> Choice {
    Choice { key, group, label, kind: Kind::Words(all), usual }
}

const fn number(
    key: &'static str,
    group: &'static str,
    label: &'static str,
    usual: &'static str,
    (least, most, step): (f64, f64, f64),
) -> Choice {
    Choice { key, group, label, kind: Kind::Number { least, most, step }, usual }
}

/// Words that are shown as they are.
fn plain(words: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    words.into_iter().map(|word| (word.clone(), word)).collect()
}

fn strategies() -> Vec<(String, String)> {
    plain(Strategy::all().chain([Strategy::Udp]).map(|s| s.to_string()))
}

fn controllers() -> Vec<(String, String)> {
    plain(Algorithm::ALL.iter().map(|cc| cc.name().to_owned()))
}

impl Choice {
    /// The question with this key.
    pub fn find(key: &str) -> Option<&'static Choice> {
        CHOICES.iter().find(|choice| choice.key == key)
    }

    /// `answer` as it is written in links.
    ///
    /// # Errors
    /// What would be right, if it is none of what may be answered.
    pub fn checked(&self, answer: &str) -> Result<String, String> {
        let Choice { group, label, .. } = self;
        match self.kind {
            Kind::Words(all) => {
                let all = all();
                if all.iter().any(|(word, _)| word == answer) {
                    return Ok(answer.to_owned());
                }
                let words: Vec<String> = all.into_iter().map(|(word, _)| word).collect();
                Err(format!("{group}, {label}: there is no `{answer}`, only {}", words.join(", ")))
            }
            Kind::Number { least, most, step } => {
                let wrong =
                    || format!("{group}, {label}: `{answer}` is no number from {least} to {most}");
                let value: f64 = answer.parse().map_err(|_| wrong())?;
                if !(least..=most).contains(&value) {
                    return Err(wrong());
                }
                // To the nearest step: 0.07 / 0.01 is not 7. What is added makes 0 of -0.
                let per_one = (1.0 / step).round();
                Ok(format!("{}", (value * per_one).round() / per_one + 0.0))
            }
        }
    }

    /// What is to be said of an answer that [`Choice::checked`] took, where another number was asked for: 0 may mean
    /// something else than a little.
    pub(crate) fn rounded(&self, asked: &str, answer: &str) -> Option<String> {
        let Kind::Number { step, .. } = self.kind else { return None };
        let is_same = asked.parse::<f64>().ok() == answer.parse::<f64>().ok();
        let Choice { group, label, .. } = self;
        (!is_same).then(|| {
            format!("{group}, {label}: `{asked}` is taken for {answer}, in steps of {step}")
        })
    }
}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", self.key)?;
        map.serialize_entry("group", self.group)?;
        map.serialize_entry("label", self.label)?;
        map.serialize_entry("usual", self.usual)?;
        match self.kind {
            Kind::Words(all) => map.serialize_entry("words", &all())?,
            Kind::Number { least, most, step } => {
                map.serialize_entry("range", &[least, most, step])?;
            }
        }
        map.end()
    }
}
