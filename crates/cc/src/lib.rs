//! Congestion controllers and a pacer behind one small interface.

mod controller;
mod sample;

pub use controller::Controller;
pub use sample::{AckSample, LossKind, LossSample, RateSample, RateSource};
