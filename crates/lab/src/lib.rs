//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod airtime;
pub mod compare;
mod link;
pub mod output;
pub mod plot;
pub mod report;
pub mod result;
pub mod scenario;
mod series;
mod simulate;
pub mod stats;
pub mod store;
pub mod sweep;

pub use simulate::{Recordings, simulate, simulate_recorded};
