//! What a receiver has and will only acknowledge with its next TACK: beyond what the path holds.
//!
//! ```text
//! paced      max(cwnd * interval/srtt - MSS/2, MSS)     as bdp * (1 + 1/beta) [TON §VIII]
//! queued     less what stands in a queue, by a segment at most
//! unpaced    half of that
//! recovery   one segment at least, of a window of two or more
//! ```
//!
//! Counted beyond a flow whose every segment is acknowledged. At the receiver, data waits half an
//! interval in the mean. A pacer lets what a TACK allows leave over the next interval, which is
//! another half. And where losses are repaired, plain TCP acknowledges each segment; under TACK a window of two
//! would stand still until both have arrived, so three are in flight.
//!
//! Of what a TACK covers the last segment has not waited: one less, of the nearest whole number, as only whole ones leave.
//! A round trip is a little longer than `beta` intervals, and what is short of one by that does not count as none: a window
//! of 16 had 18 in flight, and 0.9 of its rate.
//!
//! Whose window grows until something is lost has a queue before that, which keeps the path busy while a pair waits: a segment
//! more would stand in it, too, and behind a few packets of buffer it is what overflows. Plain TCP's acknowledgments wait for
//! a pair as well, and nothing is allowed beyond its window.

use core::time::Duration;

use crate::sample::AckSample;

/// How acknowledgments come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Withheld {
    pub(crate) srtt: Option<Duration>,
    /// Time between two TACKs; zero for plain TCP.
    pub(crate) interval: Duration,
    /// Losses are being repaired.
    pub(crate) in_recovery: bool,
    /// How long data waits on its way, for those who fill queues until something is lost.
    pub(crate) queue: Duration,
}

impl Withheld {
    /// As `ack` tells, on a path of this smoothed round trip.
    pub(crate) fn told(ack: &AckSample, srtt: Option<Duration>) -> Withheld {
        let (interval, in_recovery) = (ack.ack_interval, ack.in_recovery);
        Withheld { srtt, interval, in_recovery, queue: Duration::ZERO }
    }

    /// Bytes of a paced window `cwnd`; none for plain TCP.
    pub(crate) fn of(&self, cwnd: u64, mss: u64) -> u64 {
        let Some(srtt) = self.srtt.filter(|srtt| !srtt.is_zero()) else { return 0 };
        if self.interval.is_zero() {
            return 0;
        }
        let part = self.interval.min(srtt).div_duration_f64(srtt);
        // No TACK covers less than two segments, however far apart they are. The interval is the
        // receiver's word: no more than with the least beta, which is 2.
        let covered = (cwnd as f64 * part) as u64;
        let covered = covered.saturating_add(mss / 2).max(2 * mss).min(cwnd / 2);
        let third = if self.in_recovery { cwnd.saturating_sub(mss).min(mss) } else { 0 };
        let queued = cwnd as f64 * self.queue.min(srtt).div_duration_f64(srtt);
        covered.saturating_sub(mss + mss.min(queued as u64)).max(third)
    }
}
