//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod airtime;
pub mod batch;
pub mod compare;
pub mod controllers;
#[cfg(target_os = "linux")]
pub mod emulate;
#[cfg(target_os = "linux")]
pub mod kernel;
mod link;
mod network;
pub mod output;
pub mod plot;
mod reading;
pub mod report;
pub mod result;
pub mod scenario;
mod series;
mod simulate;
pub mod stats;
pub mod store;
pub mod sweep;
mod traffic;

pub use simulate::{Recordings, simulate, simulate_recorded};
