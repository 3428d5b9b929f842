//! Instant, Rate, timers and windowed extremes: the units every tack crate speaks.
//!
//! Logic never asks what time it is: it is told. [`Instant`] therefore has a zero, can be written
//! to a file and is the same under a virtual and a real clock, which `std::time::Instant` is not.

pub mod math;
mod minmax;
mod rate;
mod time;
mod timers;

pub use minmax::{WindowedMax, WindowedMin};
pub use rate::Rate;
pub use time::{Instant, earliest};
pub use timers::Timers;
