//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod acks;
pub mod airtime;
pub mod batch;
pub mod compare;
pub mod controllers;
pub mod custura;
pub mod draw;
pub mod dumbbell;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod envelope;
pub mod experiment;
pub mod fairness;
#[cfg(target_os = "linux")]
pub mod kernel;
pub mod landstrom;
pub mod lines;
mod link;
pub mod metric;
mod network;
pub mod output;
pub mod plot;
pub mod ranks;
mod reading;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod runner;
pub mod scenario;
mod series;
mod simulate;
pub mod stats;
pub mod store;
pub mod sweep;
mod traffic;
#[cfg(target_os = "linux")]
mod tun_host;

pub use simulate::{Recordings, simulate, simulate_recorded};
