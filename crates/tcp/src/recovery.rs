//! Plain TCP's loss recovery at the sender: SACK scoreboard, RACK-TLP, RTO, RTT, delivery rate.
//!
//! The same verbs as [`tack::Sender`], so that a connection holds one or the other and branches
//! only where the sources of knowledge differ.

use core::ops::Range;
use core::time::Duration;

use tack::{Acked, Outstanding, Timeout};
use tack_units::Instant;

/// What an acknowledgment said, in stream offsets.
#[derive(Clone, Debug)]
pub struct PlainAck<'a> {
    /// Cumulative acknowledgment.
    pub cum_ack: u64,
    /// SACK blocks, DSACK already split off.
    pub sack: &'a [Range<u64>],
    /// DSACK block if the first block was one [RFC 2883].
    pub dsack: Option<Range<u64>>,
    /// RTT from the timestamp echo, if one came and is usable [RFC 7323 §4].
    pub ts_rtt: Option<Duration>,
    /// TSecr shows that the original, not the retransmission, was received (Eifel [RFC 3522]).
    pub echoes_original: bool,
    /// The segment carried data, a window change or SYN/FIN: not a duplicate ACK.
    pub is_pure_ack: bool,
}

/// Sender-side recovery of plain TCP.
#[derive(Debug)]
pub struct PlainSender {
    _mss: u32,
}

impl PlainSender {
    /// `first_seq`: offset of the first byte; `sack`: the peer permits SACK; `mss` in bytes.
    pub fn new(mss: u32, first_seq: u64, sack: bool, now: Instant) -> Self {
        let _ = (first_seq, sack, now);
        PlainSender { _mss: mss }
    }

    /// Takes over what a TACK sender left outstanding, when TACK is given up mid-connection.
    pub fn adopt(&mut self, outstanding: &[Outstanding], srtt: Option<Duration>, now: Instant) {
        let _ = (outstanding, srtt, now);
    }

    /// A segment leaves now: new data continues the stream, a retransmission names part of it.
    pub fn on_sent(&mut self, seq: Range<u64>, now: Instant) {
        let _ = (seq, now);
    }

    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, ack: &PlainAck<'_>, now: Instant) -> Acked {
        let _ = (ack, now);
        Acked::default()
    }

    /// The sender ran out of data.
    pub fn on_app_limited(&mut self) {}

    /// The next lost segment to retransmit.
    pub fn next_lost(&self, now: Instant) -> Option<Range<u64>> {
        let _ = now;
        None
    }

    /// RACK reordering timer, TLP or RTO, whichever is next; `None` when nothing is outstanding.
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The deadline passed. `None`: the RACK timer only marked losses (see `next_lost`).
    pub fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        let _ = now;
        None
    }

    /// Bytes in flight ("pipe").
    pub fn in_flight(&self) -> u64 {
        0
    }

    /// In fast recovery or RTO recovery.
    pub fn in_recovery(&self) -> bool {
        false
    }

    /// Smoothed RTT.
    pub fn srtt(&self) -> Option<Duration> {
        None
    }

    /// RTT variation.
    pub fn rttvar(&self) -> Option<Duration> {
        None
    }

    /// Least RTT of the last 10 s.
    pub fn rtt_min(&self) -> Option<Duration> {
        None
    }

    /// Retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        Duration::from_secs(1)
    }
}
