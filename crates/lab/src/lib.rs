//! Experiments: scenarios, sweeps, comparisons and reports.

pub mod backend;
pub mod bundle;
pub mod claim;
mod course;
pub mod data;
pub mod draw;
#[cfg(target_os = "linux")]
pub mod emulate;
mod encoding;
pub mod envelope;
pub mod experiment;
mod formula;
pub mod host;
pub mod html;
pub mod item;
mod link;
#[cfg(target_os = "linux")]
pub mod live;
pub mod metric;
mod network;
mod offer;
pub mod output;
pub mod pivot;
pub mod plan;
mod playout;
#[cfg(feature = "png")]
pub mod png;
#[cfg(target_os = "linux")]
pub mod program;
mod ranks;
mod reading;
pub mod record;
pub mod recorder;
pub mod reproduce;
mod response;
pub mod result;
pub mod results;
pub mod runner;
pub mod scenario;
mod series;
mod setup;
mod simulate;
#[cfg(all(test, target_os = "linux"))]
mod skipped;
pub mod stats;
mod stock;
pub mod store;
pub mod svg;
pub mod table;
mod traffic;
#[cfg(target_os = "linux")]
mod tun_host;
#[cfg(target_os = "linux")]
pub mod versus;
pub mod view;
pub mod watch;

pub use simulate::{Interrupted, Recordings, simulate, simulate_recorded};
