//! Congestion controllers and a pacer behind one small interface.
//!
//! A transport owns one [`CongestionControl`], tells it of every transmission, acknowledgment and
//! congestion event through [`Controller`], and asks it for a window and a rate; a [`Pacer`] turns
//! the rate into departure times. Which controller runs is an [`Algorithm`]; nothing else in a
//! transport depends on the choice.

mod bbr;
mod burst;
mod config;
mod control;
mod controller;
mod cubic;
mod cubic_linux;
mod hystart;
mod pacer;
mod prr;
mod reno;
mod sample;
mod train;
mod window;

pub use burst::BurstFit;
pub use config::{AfterRto, Config, MIN_MAX_WINDOW_MSS, Pacing, WindowRules, initial_window};
pub use control::{Algorithm, CongestionControl, Snapshot, UnknownAlgorithm};
pub use controller::Controller;
pub use pacer::{Pacer, PacerConfig};
pub use sample::{AckSample, LossKind, LossSample, RateSample, RateSource};
