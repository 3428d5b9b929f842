//! What a sender tells of itself and of its path.

use core::time::Duration;

use tack_units::Rate;

use super::Sender;
use super::log::Records;
use crate::equations;

impl<L: Records> Sender<L> {
    /// Bytes in flight: sent, neither known to have arrived nor declared lost.
    pub fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    /// Bytes declared lost that wait for retransmission.
    pub fn lost_bytes(&self) -> u64 {
        self.sent.lost_bytes()
    }

    /// All bytes delivered on this connection.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A loss episode is open: not all that was outstanding at its first loss is acknowledged.
    pub fn in_recovery(&self) -> bool {
        self.recovery.is_active()
    }

    /// The PKT.SEQ of the next transmission.
    pub fn next_pkt_seq(&self) -> u64 {
        self.sent.next_pkt_seq()
    }

    /// Counter of the newest TACK taken in: those to come are near it.
    pub fn newest_tack(&self) -> u32 {
        self.ack_loss.newest()
    }

    /// Transmissions that carried something again.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Retransmissions that proved needless.
    pub fn needless(&self) -> u64 {
        self.needless.total()
    }

    /// TACK interval in force at the peer as far as known, stretched by the queue on the data path;
    /// zero before it is told.
    pub fn interval(&self) -> Duration {
        let link = equations::Link {
            bdp: self.frequency.told_bdp(),
            beta: self.params.beta,
            segments_per_ack: self.params.segments_per_ack,
            mss: self.params.mss,
        };
        let queued = equations::stretching(self.return_path.queued(), &link);
        let rtt_min = self.rtt_min.get().unwrap_or_default();
        equations::stretched(self.frequency.alpha_in_force(), queued, rtt_min)
    }

    /// Least RTT of the last `tau`.
    pub fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.get()
    }

    /// Smoothed RTT [RFC 6298 §2].
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// RTT variation [RFC 6298 §2].
    pub fn rttvar(&self) -> Option<Duration> {
        self.rtt.rttvar()
    }

    /// Retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        self.timer.rto(self.path())
    }

    /// Data-path loss rate rho in the newest TACK, in [0, 1]; 0 before the first.
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// ACK-path loss rate rho', in [0, 1].
    pub fn rho_prime(&self) -> f64 {
        self.ack_loss.rho_prime()
    }

    /// The bottleneck's pipe as this side sees it, `bw * RTTmin`, bytes; `None` before RTTmin.
    pub fn bdp(&self, bw: Rate) -> Option<u64> {
        Some(equations::bdp(bw, self.rtt_min.get()?))
    }
}
