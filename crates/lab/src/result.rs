//! What one run measured.

use serde::Serialize;

pub use crate::playout::VideoResult;

/// Figures of one flow, or of all flows of a run together. Rates count from the end of the
/// warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowResult {
    /// Application bytes delivered in order, bit/s.
    pub goodput_bps: f64,
    /// How much of the measured time the flow was there, from its start until its last byte was read,
    /// seconds.
    pub present_s: f64,
    /// IP packets with application data, per second, as they left the data sender.
    pub data_packets_per_s: f64,
    /// IP packets that only acknowledge, per second, as they left their sender.
    pub ack_packets_per_s: f64,
    /// IP-level bytes of packets without data, per second, as they left their sender.
    pub ack_bytes_per_s: f64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts; `None` of a stack that has none, or does not tell.
    pub timeouts: Option<u64>,
    /// Retransmission timeouts from the end of the warm-up.
    pub timeouts_per_s: Option<f64>,
    /// Loss episodes that began, timeouts apart, from the end of the warm-up.
    pub loss_episodes_per_s: f64,
    /// Data packets that did not arrive, those under way at the end among them.
    pub data_lost_per_s: f64,
    /// Mean congestion window of the data sender (of a dialogue, of who asks) while the flow was there, bytes; 0
    /// without samples.
    pub cwnd_mean_bytes: f64,
    /// Mean smoothed round trip of the same, microseconds; 0 without samples.
    pub srtt_mean_us: f64,
    /// 95th percentile of the data's one-way delay above the least of the run, microseconds;
    /// `None` without data, and for UDP.
    pub queue_delay_p95_us: Option<f64>,
    /// When the last byte of a stream that ended was read, seconds; `None` for one that goes on.
    pub completed_at_s: Option<f64>,
    /// Application bytes delivered in order, the whole run.
    pub delivered_bytes: u64,
    /// IP packets with application data, the whole run, as they left.
    pub data_packets: u64,
    /// IP packets without any, of all kinds and both ends, the whole run, as they left:
    /// acknowledgments of every kind, SYN, FIN.
    pub bare_packets: u64,
    /// When the flow began, seconds.
    pub started_at_s: f64,
    /// IACKs of both ends per second: loss, window, frequency, CE.
    pub iacks_per_s: f64,
    /// Least one-way delay of any packet there plus that of any back, the whole run, microseconds: the
    /// floor of any round trip. `None` before both ways were seen.
    pub owd_floor_us: Option<f64>,
    /// Least one-way delay of data plus the median of what comes back, of the last 10 s,
    /// microseconds: what a round trip is at least while the way back has its queue.
    pub owd_usual_us: Option<f64>,
    /// Median round-trip time the sender sampled, microseconds; `None` without samples.
    pub rtt_p50_us: Option<f64>,
    /// 95th percentile of the same.
    pub rtt_p95_us: Option<f64>,
    /// Least round-trip time in force at the end, microseconds.
    pub rtt_min_us: Option<f64>,
    /// What is seen of a video.
    pub video: Option<VideoResult>,
}

impl FlowResult {
    /// Times per second that the sender had to do with less, after losses and timeouts alike.
    pub(crate) fn reductions_per_s(&self) -> f64 {
        self.loss_episodes_per_s + self.timeouts_per_s.unwrap_or(0.0)
    }
}

/// How the wireless medium's time went, in shares of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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

/// One direction of the wired path, all flows together, after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionResult {
    /// IP-level bytes that came out, as bit/s.
    pub delivered_bps: f64,
    /// Share of the offered packets that the queue dropped.
    pub queue_drop_share: f64,
}

/// The wired path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WanResult {
    /// Server to client.
    pub down: DirectionResult,
    /// Client to server.
    pub up: DirectionResult,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Each flow, in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// Absent where the scenario has no Wi-Fi.
    pub airtime: Option<AirtimeShares>,
    /// Share of channel accesses that collided; absent without Wi-Fi.
    pub collision_share: Option<f64>,
    /// Absent where the scenario has no wired path.
    pub wan: Option<WanResult>,
    /// Packets dropped by queues, in both directions.
    pub queue_drops: u64,
    /// Packets lost on links, in both directions.
    pub link_losses: u64,
}
