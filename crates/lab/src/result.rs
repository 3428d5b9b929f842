//! What one run measured.

use serde::{Deserialize, Serialize};

/// Figures of one flow, or of all flows of a run together. Rates count from the end of the
/// warm-up.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct FlowResult {
    /// Application bytes delivered in order, bit/s.
    pub goodput_bps: f64,
    /// IP packets with application data, per second, as they left the data sender.
    pub data_packets_per_s: f64,
    /// IP packets that only acknowledge, per second, as they left their sender.
    pub ack_packets_per_s: f64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Of those, shown by the receiver to have been needless.
    pub needless_retransmissions: u64,
    /// Median round-trip time the sender sampled, microseconds; `None` without samples.
    pub rtt_p50_us: Option<f64>,
    /// 95th percentile of the same.
    pub rtt_p95_us: Option<f64>,
    /// Least round-trip time in force at the end, microseconds.
    pub rtt_min_us: Option<f64>,
}

/// How the wireless medium's time went, in shares of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AirtimeShares {
    /// Frames that carry data, with their preambles.
    pub data: f64,
    /// Frames that carry acknowledgments of the transport.
    pub acks: f64,
    /// Time lost to collisions.
    pub collisions: f64,
    /// Link-layer responses, protection and beacons.
    pub control: f64,
    /// Interframe spaces, backoff and idleness.
    pub idle: f64,
    /// Other networks.
    pub neighbours: f64,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RunResult {
    /// All flows together; RTTs are those of the first.
    pub total: FlowResult,
    /// Each flow, in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// Absent where the scenario has no Wi-Fi.
    pub airtime: Option<AirtimeShares>,
    /// Share of channel accesses that collided; absent without Wi-Fi.
    pub collision_share: Option<f64>,
    /// Packets dropped by queues, in both directions.
    pub queue_drops: u64,
    /// Packets lost on links, in both directions.
    pub link_losses: u64,
}
