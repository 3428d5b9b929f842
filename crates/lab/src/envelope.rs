//! `tack lab envelope`: where TACK does not do what it promises.
//!
//! Paths and traffic are drawn at random, each draw runs under TACK and under plain TCP with the
//! same seed, and a table of properties is held against the pair. What breaks one is shrunk to a
//! small scenario. The file of the experiment says what is drawn and how much must hold.
//!
//! ```text
//! draw -> words -> scenario -> two records -> properties -> view
//!           ^                                     |
//!           └──────── shrink, adversary ──────────┘
//! ```

mod adversary;
mod contest;
mod property;
mod shape;
mod shrink;
mod trial;
mod view;

pub use adversary::{Adversary, Found};
pub use contest::contest;
pub use property::{PROPERTIES, Pair, Property, property};
pub use shape::{Range, WORDS, check, range, scenario};
pub use shrink::{Case, file, shrink};
pub use trial::{Draw, Trial, judged, trial};
pub use view::{View, view};

/// The experiment that runs unless another is named.
pub const RANDOM: &str = include_str!("../experiments/envelope/random.toml");
