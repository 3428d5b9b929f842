//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod compare;
pub mod output;
pub mod plot;
pub mod result;
pub mod scenario;
pub mod stats;
pub mod sweep;
