//! What a connection tells about itself: the analogue of `TCP_INFO`, and TACK's own numbers.

use core::time::Duration;

use tack_transport::Figures;
use tack_units::Rate;

use crate::state::State;
use crate::wire::icmp::PathError;
use tack_strategies::AckStrategy;

/// Why a connection that negotiated TACK speaks plain TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FallbackReason {
    /// Data came without PKT.SEQ: the path strips it, or the peer has fallen back.
    PktSeqMissing,
    /// An acknowledgment came without ACK-Type: the path strips it, or the peer has fallen back.
    AckTypeMissing,
    /// Data stayed unacknowledged over three timeouts in a row before the peer showed any sign of TACK, or over eight
    /// later and more than the loss of both ways explains: the path may drop what has our options. Never within UDP.
    Unanswered,
}

/// What governs acknowledgments and loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Plain TCP from the start, or not yet negotiated.
    Plain,
    /// TACK.
    Tack,
    /// TACK was given up on the way.
    FellBack(FallbackReason),
}

/// Acknowledgments by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckCounts {
    /// Bare acknowledgments of plain TCP.
    pub plain: u64,
    /// TACKs.
    pub tack: u64,
    /// Loss IACKs, and TACKs in place of one.
    pub loss: u64,
    /// Window IACKs.
    pub window: u64,
    /// Frequency IACKs.
    pub frequency: u64,
    /// CE IACKs.
    pub ce: u64,
}

impl AckCounts {
    pub(crate) fn count_tack(&mut self, tack: &tack::Tack) {
        let of_its_kind = if tack.lost.is_empty() { &mut self.tack } else { &mut self.loss };
        *of_its_kind += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.plain + self.tack + self.loss + self.window + self.frequency + self.ce
    }
}

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stream bytes sent, retransmissions not counted.
    pub bytes_sent: u64,
    /// Stream bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Stream bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments with stream data sent, retransmissions included.
    pub data_segments_sent: u64,
    /// Of them with a short header.
    pub compact_segments_sent: u64,
    /// Segments with stream data received.
    pub data_segments_received: u64,
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// Retransmissions that proved needless.
    pub needless: u64,
    /// Segments that brought nothing new.
    pub duplicates_received: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Loss episodes.
    pub loss_episodes: u64,
    /// Segments that tried whether larger packets pass.
    pub mtu_probes: u64,
    /// Times the packet size was lowered because timeouts told of nothing else.
    pub black_holes: u64,
    /// Acknowledgments sent, by kind.
    pub acks_sent: AckCounts,
    /// Acknowledgments received, by kind.
    pub acks_received: AckCounts,
    /// Challenge ACKs sent.
    pub challenge_acks: u64,
    /// Segments dropped as unacceptable: out of window, old timestamps, bad acknowledgments.
    pub unacceptable: u64,
    /// TACK and IACK bodies that could not be read.
    pub bad_bodies: u64,
}

pub use tack_transport::LimitedTime;

/// Everything a connection tells about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// State [RFC 9293 §3.3.2].
    pub state: State,
    /// What governs acknowledgments and recovery.
    pub mode: Mode,
    /// How we acknowledge, given what the peer agreed to.
    pub ack: AckStrategy,
    /// Effective payload of a full segment, options taken off, in bytes.
    pub mss: u32,
    /// Largest packet sent on this path, in bytes: path MTU as far as known, or what the peer
    /// takes.
    pub path_mtu: u16,
    /// What the network last said of this path, unless something was acknowledged since.
    pub path_error: Option<PathError>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// RTT variation.
    pub rttvar: Option<Duration>,
    /// Least RTT of the filter's window.
    pub rtt_min: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` while infinite or when the controller has none.
    pub ssthresh: Option<u64>,
    /// Name of the state that congestion control is in, e.g. `slow_start`.
    pub congestion_state: &'static str,
    /// Pacing rate; `None`: as the window allows.
    pub pacing_rate: Option<Rate>,
    /// Latest delivery rate sample.
    pub delivery_rate: Option<Rate>,
    /// Congestion control's estimate of the bottleneck's bandwidth, if it makes one.
    pub bandwidth: Option<Rate>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Peer's window in bytes.
    pub snd_wnd: u64,
    /// Bytes written and not acknowledged.
    pub send_buffered: usize,
    /// Bytes received in order and not read.
    pub recv_buffered: usize,
    /// Bytes received beyond a hole: blocked until what is missing comes.
    pub recv_blocked: u64,
    /// Bytes of memory both buffers hold.
    pub buffer_memory: usize,
    /// Counters.
    pub counters: Counters,
    /// What the sender waited for.
    pub limited: LimitedTime,
    /// Frequency Eq. 4 gives for the present bandwidth and RTTmin, acknowledgments per second;
    /// as data sender. `None` while either is unknown.
    pub eq4_frequency: Option<f64>,
    /// Data-path loss rate rho in the peer's latest TACK.
    pub rho: f64,
    /// ACK-path loss rate rho' seen as data sender.
    pub rho_prime: f64,
    /// One-way delays of received data relative to the least seen, see [`OwdHistogram`].
    pub owd: OwdHistogram,
}

/// What of [`Info`] changes with every packet: for whoever looks often, and at little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// [`Info::cwnd`].
    pub cwnd: u64,
    /// [`Info::pacing_rate`].
    pub pacing_rate: Option<Rate>,
    /// [`Info::in_flight`].
    pub in_flight: u64,
    /// [`Info::srtt`].
    pub srtt: Option<Duration>,
    /// [`Info::rtt_min`].
    pub rtt_min: Option<Duration>,
    /// [`Info::recv_blocked`].
    pub recv_blocked: u64,
}

impl Info {
    /// What it tells in words that every transport has.
    pub fn figures(&self) -> Figures {
        Figures {
            is_tack: self.mode == Mode::Tack,
            srtt: self.srtt,
            rttvar: self.rttvar,
            rtt_min: self.rtt_min,
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            congestion_state: self.congestion_state,
            pacing_rate: self.pacing_rate,
            in_flight: self.in_flight,
            delivery_rate: self.delivery_rate,
            retransmissions: self.counters.retransmissions,
            send_buffered: self.send_buffered as u64,
            recv_buffered: self.recv_buffered as u64,
            buffer_memory: self.buffer_memory as u64,
            limited: self.limited,
        }
    }
}

/// One-way delays relative to the least seen, by steps of an eighth of an octave.
///
/// Clocks of the two ends need no synchronisation; what is left of the true delay is its variable
/// part, and, over long runs, the drift between the clocks.
#[derive(Clone, PartialEq)]
pub struct OwdHistogram {
    counts: Box<[u32]>,
    least_us: Option<u32>,
    total: u64,
}

/// Steps per octave.
const STEPS: u32 = 8;
/// Up to 2^26 us, more than a minute.
const BUCKETS: usize = 26 * STEPS as usize;

impl core::fmt::Debug for OwdHistogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OwdHistogram({} packets, p95 {:?})", self.total, self.quantile(0.95))
    }
}

impl Default for OwdHistogram {
    fn default() -> Self {
        OwdHistogram { counts: Box::new([]), least_us: None, total: 0 }
    }
}

impl OwdHistogram {
    /// Adds `arrival - departure`, microseconds modulo 2^32 of two different clocks.
    pub(crate) fn record(&mut self, owd_us: u32) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS].into_boxed_slice();
        }
        let least = match self.least_us {
            Some(least) if (owd_us.wrapping_sub(least) as i32) >= 0 => least,
            // What was recorded before a new least keeps its bucket: the least settles within
            // the first packets, and a histogram need not be exact.
            _ => owd_us,
        };
        self.least_us = Some(least);
        let bucket = Self::bucket(owd_us.wrapping_sub(least));
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.total += 1;
    }

    fn bucket(us: u32) -> usize {
        if us < STEPS {
            return us as usize;
        }
        let octave = us.ilog2();
        let step = (us >> (octave - 3)) & (STEPS - 1);
        (((octave - 2) * STEPS + step) as usize).min(BUCKETS - 1)
    }

    /// Upper edge of a bucket in microseconds.
    fn upper_us(bucket: usize) -> u64 {
        let (octave, step) = (bucket as u64 / 8, bucket as u64 % 8);
        if octave == 0 { step + 1 } else { (8 + step + 1) << (octave - 1) }
    }

    /// The delay that the share `q` in [0, 1] of packets did not exceed, relative to the least;
    /// within an eighth. `None` before any packet.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (self.total as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|&n| {
            seen += u64::from(n);
            seen >= rank
        })?;
        Some(Duration::from_micros(Self::upper_us(at)))
    }

    /// Packets recorded.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_their_edges_promise() {
        for us in (0..5_000).chain([65_535, 65_536, 1_000_000, 60_000_000]) {
            let b = OwdHistogram::bucket(us);
            assert!(u64::from(us) < OwdHistogram::upper_us(b), "{us} in {b}");
            assert!(b == 0 || u64::from(us) >= OwdHistogram::upper_us(b - 1), "{us} in {b}");
        }
    }

    #[test]
    fn quantiles_are_relative_to_the_least_delay_whatever_the_clock_offset() {
        let mut h = OwdHistogram::default();
        let offset = 0xffff_ff00u32;
        h.record(offset);
        for i in 0..1_000u32 {
            h.record(offset.wrapping_add(i * 100));
        }
        let p95 = h.quantile(0.95).expect("recorded").as_micros() as f64;
        assert!((p95 / 95_000.0 - 1.0).abs() < 0.13, "{p95}");
        assert_eq!(h.len(), 1_001);
    }
}
