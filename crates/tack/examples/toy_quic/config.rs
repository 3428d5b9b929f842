//! What runs, over what path.

use std::time::Duration;

use tack::{Params, RbbPolicy};
use tack_units::Rate;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) params: Params,
    /// Bytes of each stream.
    pub(crate) totals: [u64; 2],
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    /// Shares of packets, there and back.
    pub(crate) loss: f64,
    pub(crate) ack_loss: f64,
    pub(crate) duplicate: f64,
    /// This share of packets is late by up to `late_by`.
    pub(crate) late: f64,
    pub(crate) late_by: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 0x9e37_79b9_7f4a_7c15,
            params: Params { rbb: RbbPolicy::Every, ..Params::default() },
            totals: [12_000_000, 8_000_000],
            rate: Rate::from_mbps(100),
            rtt: Duration::from_millis(80),
            loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            late: 0.0,
            late_by: Duration::ZERO,
        }
    }
}
