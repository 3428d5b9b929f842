//! The sending half: what is in flight, what is lost, how long a round trip takes.

use core::ops::Range;
use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::Params;
use crate::feedback::{Acked, Frequency, Iack, Tack};

/// Why a timer of the sender fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Send a probe: new data if any, else the last segment again [RFC 8985 §7].
    Probe,
    /// Retransmission timeout: everything unacknowledged is lost [RFC 6298 §5].
    Rto,
}

/// A segment not yet acknowledged, for handing over to plain TCP on fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Its part of SEQ space.
    pub seq: Range<u64>,
    /// When it was last sent.
    pub sent_at: Instant,
    /// It was sent more than once.
    pub retransmitted: bool,
    /// It is declared lost and waits for retransmission.
    pub lost: bool,
}

/// The sending half of the mechanism.
#[derive(Debug)]
pub struct Sender {
    _params: Params,
}

impl Sender {
    /// `first_pkt_seq` numbers the first transmission, `first_seq` the first byte.
    pub fn new(params: Params, first_pkt_seq: u64, first_seq: u64, now: Instant) -> Self {
        let _ = (first_pkt_seq, first_seq, now);
        Sender { _params: params }
    }

    /// A segment leaves now; returns its PKT.SEQ. New data must continue the SEQ space; a
    /// retransmission names (part of) what is outstanding.
    pub fn on_sent(&mut self, seq: Range<u64>, now: Instant) -> u64 {
        let _ = (seq, now);
        0
    }

    /// A TACK arrived. `clock_us` is the clock that stamps departures, now.
    pub fn on_tack(&mut self, tack: &Tack, clock_us: u32, now: Instant) -> Acked {
        let _ = (tack, clock_us, now);
        Acked::default()
    }

    /// An IACK arrived from the peer's receiver.
    pub fn on_iack(&mut self, iack: &Iack, now: Instant) -> Acked {
        let _ = (iack, now);
        Acked::default()
    }

    /// A cumulative acknowledgment arrived otherwise (on a data segment); `rtt` is the host's own
    /// sample if it has one (handshake, timestamps).
    pub fn on_cum_ack(&mut self, cum_ack: u64, rtt: Option<Duration>, now: Instant) -> Acked {
        let _ = (cum_ack, rtt, now);
        Acked::default()
    }

    /// The sender ran out of data: rate samples up to what is now in flight are a lower bound.
    pub fn on_app_limited(&mut self) {}

    /// The next lost segment that may be retransmitted now: each at most once per RTT however
    /// often it is told. The caller then reports [`Self::on_sent`].
    pub fn next_lost(&self, now: Instant) -> Option<Range<u64>> {
        let _ = now;
        None
    }

    /// When a timer of the sender fires; `None` when nothing is outstanding.
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// To be called when [`Self::deadline`] has passed.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        let _ = now;
        None
    }

    /// The frequency to tell the peer now, if it doubled, halved, changed regime, drifted or was
    /// lost on the way. `bw` is congestion control's estimate.
    pub fn poll_frequency(&mut self, bw: Rate, startup: bool, now: Instant) -> Option<Frequency> {
        let _ = (bw, startup, now);
        None
    }

    /// Bytes in flight: sent, neither known to have arrived nor declared lost.
    pub fn in_flight(&self) -> u64 {
        0
    }

    /// Least RTT of the last `tau`.
    pub fn rtt_min(&self) -> Option<Duration> {
        None
    }

    /// Smoothed RTT [RFC 6298 §2].
    pub fn srtt(&self) -> Option<Duration> {
        None
    }

    /// RTT variation [RFC 6298 §2].
    pub fn rttvar(&self) -> Option<Duration> {
        None
    }

    /// Retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// ACK-path loss rate rho', in [0, 1].
    pub fn rho_prime(&self) -> f64 {
        0.0
    }

    /// What is not acknowledged, in SEQ order: the way back to plain TCP.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        Vec::new()
    }
}
