//! What the two halves tell each other, as plain data. How it travels is the host's business.

use core::ops::Range;
use core::time::Duration;

use tack_units::{Instant, Rate};

/// Holes read from one TACK; no MSS holds more.
pub(crate) const MAX_HOLES: usize = 4_096;

/// Which rule governs the ACK frequency; the sender decides and tells the receiver [TON §VI-D].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Bandwidth is probed: acknowledgments as [`Params::startup`](crate::Params::startup) says.
    Startup,
    /// Eq. 4.
    Steady,
}

/// The periodic acknowledgment [TON §VI-B, Fig. 10].
///
/// Deviation: Fig. 10 has a congestion window, for control at the receiver. Ours is at the sender, by
/// whichever controller, from the receiver's measurements: the field would always be empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Tack {
    /// Counts TACKs sent on this connection, from 1; the sender reads the ACK path's loss from it.
    pub counter: u32,
    /// Everything below is received: the next byte expected.
    pub cum_ack: u64,
    /// Departure timestamp `t0*` of the packet with the least OWD since the last TACK,
    /// in the sender's own clock, and the TACK delay `dt*` since that packet arrived.
    /// `None` when no packet arrived since the last TACK.
    pub timing: Option<Timing>,
    /// Delivery rate over the last two TACK intervals; `None` before two have passed.
    pub delivery_rate: Option<Rate>,
    /// Share of packets lost on the data path in the last TACK interval, in [0, 1].
    pub rho: f64,
    /// Bytes received beyond `cum_ack`, queued behind a hole.
    pub received_in_flight: u64,
    /// Receive window in bytes, from `cum_ack` on.
    pub window: u64,
    /// Largest PKT.SEQ received.
    pub largest_pkt_seq: u64,
    /// End of the highest byte received; equals `cum_ack` when nothing is missing.
    pub rcv_high: u64,
    /// Holes ("receive-buffer bubbles") of SEQ space, lowest first; distinct ones, then the oldest
    /// repeated [TON §VI-B]. Empty when nothing is missing or nothing may be listed yet.
    pub holes: Vec<Range<u64>>,
    /// `holes` names every hole below `rcv_high`: what it does not name has arrived.
    pub holes_complete: bool,
    /// Packets with PKT.SEQ in these gaps are lost, as a loss IACK tells ([`IackReason::Loss`]): this TACK
    /// leaves in its place.
    pub lost: Vec<Range<u64>>,
    /// Holes that start below this are lost; any that is listed from here on may be reordering yet
    /// ([`RbbPolicy::Every`](crate::RbbPolicy::Every)).
    pub settled_below: u64,
    /// TACK interval in force at the receiver (`1/f` of the period rule), an echo of what the
    /// sender asked for: the sender repeats a frequency IACK that was lost.
    pub interval: Duration,
    /// Regime in force at the receiver.
    pub regime: Regime,
    /// Transmissions that brought nothing new, counted on this connection modulo 2^32: what the sender
    /// sent again needlessly (like DSACK [RFC 2883]).
    pub duplicates: u32,
}

impl Tack {
    /// The distinct holes: ascending, until one repeats, is inverted or out of order.
    pub(crate) fn plausible_holes(&self) -> Vec<Range<u64>> {
        let mut at = self.cum_ack;
        let mut holes = Vec::new();
        for hole in self.holes.iter().take(MAX_HOLES) {
            if hole.start < at || hole.end <= hole.start || hole.end > self.rcv_high {
                break;
            }
            at = hole.end;
            holes.push(hole.clone());
        }
        holes
    }
}

/// See [`Tack::timing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// `t0*`: microseconds of the sender's clock, modulo 2^32.
    pub departure_us: u32,
    /// `dt*`: from that packet's arrival to the TACK's departure.
    pub delay: Duration,
    /// How long that packet waited on the data path: its smoothed OWD over the least of `tau`.
    pub queued: Duration,
}

/// An instant acknowledgment [TON §IV-C].
#[derive(Clone, Debug, PartialEq)]
pub struct Iack {
    /// Next byte expected.
    pub cum_ack: u64,
    /// Receive window in bytes, from `cum_ack` on.
    pub window: u64,
    /// Why it was sent, and what only this kind carries.
    pub reason: IackReason,
}

/// Why an IACK was sent.
#[derive(Clone, Debug, PartialEq)]
pub enum IackReason {
    /// The packets with PKT.SEQ in these gaps are lost, ascending; each gap is what lies strictly
    /// between a second largest and a largest PKT.SEQ received [TON §VI-B, Fig. 9].
    Loss {
        /// One gap per loss event that settled since the last such IACK.
        gaps: Vec<Range<u64>>,
    },
    /// The receive window changed abruptly [TON §V-C].
    Window,
    /// From the data sender: acknowledge at this frequency from now on [TON §VI-C].
    Frequency(Frequency),
    /// The peer wants a fresh RTT sample: a receiver answers with a TACK at once.
    ///
    /// Deviation: [TON §IV-C] has it and says not when. Our sender never asks: each TACK that saw a
    /// packet brings a sample, and one with no packet to time has nothing to say. After a pause the
    /// first flight is timed by its first TACK, which is as soon as an answer could come.
    RttUpdate,
    /// Packets began to arrive CE-marked [RFC 3168]; `marked` counts marked packets so far.
    CongestionExperienced {
        /// CE-marked packets received on this connection.
        marked: u64,
    },
}

/// What the sender computed from its `bw` and RTTmin by Eq. 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// Regime to obey.
    pub regime: Regime,
    /// The least time between two TACKs: `alpha` = RTTmin/beta, less while bandwidth is probed.
    /// Zero in [`Regime::Startup`]: an acknowledgment per packet.
    pub interval: Duration,
    /// RTTmin, by which the receiver settles losses and measures rates.
    pub rtt_min: Duration,
    /// `L`: full-sized segments between two TACKs.
    pub segments_per_ack: u32,
    /// ACK-path loss rate rho' seen by the sender, in [0, 1]: the receiver's Eq. 5 needs it.
    pub rho_prime: f64,
    /// `bdp` in bytes, for Eq. 5; 0 while unknown.
    pub bdp: u64,
}

/// What feedback changed at the sender: all that congestion control and statistics need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acked {
    /// Bytes newly known to have arrived, cumulatively or behind a hole.
    pub acked_bytes: u64,
    /// Bytes newly declared lost.
    pub lost_bytes: u64,
    /// This feedback opened a loss episode (first loss since the last one was repaired).
    pub recovery_started: bool,
    /// Bytes in flight before and after.
    pub prior_in_flight: u64,
    /// See `prior_in_flight`.
    pub in_flight: u64,
    /// All bytes delivered on this connection.
    pub delivered: u64,
    /// `delivered` when the newest packet acknowledged here was sent; 0 when that is not known.
    pub prior_delivered: u64,
    /// Departure of that packet; `None` when it is not known.
    pub newest_sent_at: Option<Instant>,
    /// Departure of the newest packet declared lost here; `None` when there is none, or it is not
    /// known.
    pub lost_sent_at: Option<Instant>,
    /// An RTT sample, the receiver's delay taken off.
    pub rtt: Option<Duration>,
    /// How long its packet waited on the data path, as the receiver saw it; `None`: not known. The rest of
    /// the sample over RTTmin, the acknowledgment waited.
    pub queued: Option<Duration>,
    /// Delivery rate and the interval it was measured over.
    pub rate: Option<Rate>,
    /// See `rate`; zero when unknown.
    pub rate_interval: Duration,
    /// The rate was held down by the application.
    pub app_limited: bool,
    /// Retransmissions this feedback proved needless.
    pub needless: u64,
    /// The current loss episode or timeout proved needless as a whole.
    pub spurious: bool,
}
