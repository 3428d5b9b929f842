//! What a connection tells of itself, in words that every transport has.

use core::time::Duration;

use tack_units::Rate;

use crate::LimitedTime;

/// A connection at one moment, for metrics and logs; each transport tells more of itself in its own words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Both ends speak TACK.
    pub is_tack: bool,
    /// Smoothed round trip; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// Least round trip of the filter's window.
    pub rtt_min: Option<Duration>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while infinite or when the controller has none.
    pub ssthresh: Option<u64>,
    /// Name of the state that congestion control is in, e.g. `slow_start`.
    pub congestion_state: &'static str,
    /// Pacing rate; `None`: as the window allows.
    pub pacing_rate: Option<Rate>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The last delivery rate that was measured.
    pub delivery_rate: Option<Rate>,
    /// Segments sent again, or packets lost, whose content goes in others: QUIC sends none twice.
    pub retransmissions: u64,
    /// Bytes written and not acknowledged.
    pub send_buffered: u64,
    /// Bytes received in order and not read.
    pub recv_buffered: u64,
    /// Bytes of memory the buffers hold.
    pub buffer_memory: u64,
    /// What the sender waited for.
    pub limited: LimitedTime,
}
