//! All that a controller may know.
//!
//! One sample type serves sender-side TCP (Linux-style rate samples) and receiver-driven TACK
//! (the rate comes measured): [`RateSource`] says which, and only BBR looks at it.
//!
//! What each controller is made of:
//!
//! ```text
//! NewReno, CUBIC   acked_bytes, cwnd_limited, on_loss
//! BBR              rate, rtt, prior_delivered
//! BBRv3            the same; inflight_longterm: what was in flight when a packet left that came
//!                  back or was lost (on_sent, found by newest_sent_at, lost_sent_at), and what was
//!                  lost since
//! Vegas            rtt: the least ever, and of a round
//! Copa             rtt: the least of 10 s, and of the last srtt/2
//! Allegro, Vivace  bytes sent, delivered, lost, and round trips, by the interval that packets left
//!                  in (on_sent, newest_sent_at, lost_sent_at)
//! Verus            rtt, and what was in flight when that packet left
//! Sprout           delivered over time, rtt
//! ```
//!
//! Not here: a count of marked bytes, which takes AccECN [RFC 9768]; nothing here negotiates it.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// Who measured a delivery rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The sender, from acknowledgment arrivals [draft-cheng-iccrg-delivery-rate-estimation].
    Sender,
    /// The receiver, over two TACK intervals [TON §VI-D].
    Receiver,
}

/// One delivery-rate sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over time elapsed, in bit/s. `None` when the times allow no rate: the sample
    /// still says how far the round trip has come.
    pub delivery_rate: Option<Rate>,
    /// The sender had nothing to send while this was measured: a lower bound, not an estimate.
    pub app_limited: bool,
    /// Who measured it.
    pub source: RateSource,
    /// Connection-wide `delivered` (bytes) when the newest acknowledged packet was sent: a round
    /// trip has passed once this reaches the `delivered` at which the round began.
    pub prior_delivered: u64,
    /// Sending and acknowledging interval the rate was measured over; zero if unknown.
    pub interval: Duration,
}

/// What an acknowledgment told the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// Arrival of the acknowledgment.
    pub now: Instant,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// Bytes newly declared lost by this acknowledgment.
    pub lost_bytes: u64,
    /// All bytes delivered so far, this acknowledgment included.
    pub delivered: u64,
    /// Bytes in flight before this acknowledgment was applied.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// A valid round-trip sample, free of the receiver's delay; `None` when ambiguous.
    pub rtt: Option<Duration>,
    /// How long the packet of `rtt` waited on the data path; `None` when its receiver does not tell.
    pub queued: Option<Duration>,
    /// Smoothed RTT [RFC 6298 §2], `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Least RTT over the filter's window, `None` before the first sample.
    pub rtt_min: Option<Duration>,
    /// Delivery rate, `None` when this acknowledgment allows none.
    pub rate: Option<RateSample>,
    /// When the newest packet acknowledged here left; `None` when that is not known, or nothing was
    /// acknowledged.
    pub newest_sent_at: Option<Instant>,
    /// When the newest packet declared lost here left; `None` when that is not known, or nothing
    /// was lost.
    pub lost_sent_at: Option<Instant>,
    /// Time between two TACKs in force (`1/f`), zero for plain TCP.
    pub ack_interval: Duration,
    /// The sender was held back by the window, not by the application, since the last sample.
    pub cwnd_limited: bool,
    /// Loss recovery is under way: some byte outstanding when it began is not yet acknowledged.
    pub in_recovery: bool,
    /// The acknowledgment carried ECN-Echo.
    pub ece: bool,
}

impl AckSample {
    /// Next to nothing of a full window is in flight any more: a pipe that runs dry is not full, whatever its
    /// packets waited for. Where neighbours keep a channel busy RTTmin is one lucky access, and a window arrives as a
    /// whole at the next.
    pub(crate) fn ran_dry(&self) -> bool {
        self.cwnd_limited && self.in_flight <= self.prior_in_flight / 4
    }

    /// How long the packet of `rtt` waited on the data path, as far as anybody can tell: where the receiver
    /// does not, a queue of acknowledgments passes for one of data.
    pub(crate) fn queue(&self) -> Option<Duration> {
        self.queued.or(Some(self.rtt?.saturating_sub(self.rtt_min?)))
    }

    /// How many round trips `rtt` is the least of, in acknowledgments of two segments: a TACK's is
    /// the least of all that arrived in its interval [TON §V-C], so that one may be worth dozens.
    pub(crate) fn rtt_samples(&self, mss: u64) -> u32 {
        match self.rtt {
            None => 0,
            Some(_) if self.ack_interval.is_zero() => 1,
            Some(_) => {
                u32::try_from(self.acked_bytes / (2 * mss.max(1))).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

/// Why a controller is told of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// First loss of a recovery episode (fast retransmit, loss IACK, RACK).
    Recovery,
    /// The retransmission timer expired [RFC 6298 §5].
    Timeout,
    /// ECN-Echo: a mark, not a loss; at most once per round trip.
    CongestionExperienced,
    /// The timeout or episode proved needless: undo [RFC 5682, RFC 3522 semantics].
    Spurious,
}

/// A congestion event. One per episode, not per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSample {
    /// When it was declared.
    pub now: Instant,
    /// What happened.
    pub kind: LossKind,
    /// Bytes declared lost in this event.
    pub lost_bytes: u64,
    /// Bytes in flight when it was declared, the lost ones excluded.
    pub in_flight: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An acknowledgment of nothing, to build others from.
    pub(crate) fn ack() -> AckSample {
        AckSample {
            now: Instant::ZERO,
            acked_bytes: 0,
            lost_bytes: 0,
            delivered: 0,
            prior_in_flight: 0,
            in_flight: 0,
            rtt: None,
            queued: None,
            srtt: None,
            rtt_min: None,
            rate: None,
            newest_sent_at: None,
            lost_sent_at: None,
            ack_interval: Duration::ZERO,
            cwnd_limited: true,
            in_recovery: false,
            ece: false,
        }
    }
}
