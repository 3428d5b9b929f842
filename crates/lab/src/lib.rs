//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod airtime;
pub mod backend;
pub mod batch;
pub mod bundle;
pub mod claim;
pub mod controllers;
mod course;
pub mod draw;
pub mod dumbbell;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod envelope;
pub mod experiment;
pub mod fairness;
mod formula;
pub mod html;
mod judge;
#[cfg(target_os = "linux")]
pub mod kernel;
pub mod lines;
mod link;
pub mod metric;
mod network;
pub mod output;
pub mod pivot;
pub mod plan;
pub mod ranks;
mod reading;
pub mod record;
pub mod reproduce;
pub mod result;
pub mod results;
pub mod runner;
pub mod scenario;
mod series;
mod simulate;
pub mod stats;
pub mod store;
pub mod svg;
pub mod table;
mod traffic;
#[cfg(target_os = "linux")]
mod tun_host;
pub mod view;

pub use simulate::{Recordings, simulate, simulate_recorded};
