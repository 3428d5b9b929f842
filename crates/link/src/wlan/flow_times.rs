//! What the frames around data take between two nodes.

use super::phy::{DataRate, Ns};
use super::timing::Timing;
use crate::draw::nanos;

/// Durations of the frames between one originator and one recipient.
#[derive(Debug)]
pub(super) struct FlowTimes {
    pub(super) rate: DataRate,
    pub(super) ack: Ns,
    pub(super) block_ack: Ns,
    pub(super) bar: Ns,
    pub(super) timeout: Ns,
}

impl FlowTimes {
    pub(super) fn new(timing: &Timing, rate: DataRate, window: u16) -> FlowTimes {
        let response = timing.response_rate(rate);
        FlowTimes {
            rate,
            ack: nanos(timing.ack(response)),
            block_ack: nanos(timing.block_ack(response, window)),
            bar: nanos(timing.block_ack_req(response)),
            timeout: timing.response_timeout_ns(rate),
        }
    }
}
