//! The two shapes of BBR, each on two axes: round trips for rates measured at the sender, TACK
//! intervals for rates measured at the receiver. Four TACK intervals are about one round trip, so
//! the columns say the same thing twice.
//!
//! ```text
//!                      sender              receiver [TON §VI-D, §VII-D]
//!                 Bulk  Interactive      Bulk  Interactive
//! filter           10        5            40       20
//! cycle             8        4             8        4     phases
//! ProbeRTT     every 10 s  every 2.5 s   every 10 s  every 2.5 s
//!              4 MSS       0.75 * rate   MSS * f     0.75 * rate
//! ```
//!
//! and bulk under TACK only where RTTmin is not seen by itself ([`MinRtt::is_unseen`](super::min_rtt::MinRtt)).

use core::time::Duration;

use crate::sample::RateSource;

/// What the connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Throughput: long memory, rare and thorough probing for RTTmin.
    Bulk,
    /// Real-time video: half the memory, and no moment of silence.
    Interactive,
}

/// The constants of a profile on one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constants {
    /// Window of the bandwidth filter, in rounds or TACK intervals.
    pub(crate) filter: u64,
    /// Length of a ProbeBW cycle, in phases of one RTTmin or of four TACK intervals.
    pub(crate) cycle: u64,
    /// Age of RTTmin at which it is measured anew.
    pub(crate) probe_rtt_every: Duration,
    /// ProbeRTT lowers the rate by this factor, and nothing else; `None` empties the pipe.
    pub(crate) probe_rtt_gain: Option<f64>,
}

impl Profile {
    pub(crate) fn constants(self, source: RateSource) -> Constants {
        let (rounds, phases, probe_rtt_every, probe_rtt_gain) = match self {
            Profile::Bulk => (10, 8, Duration::from_secs(10), None),
            Profile::Interactive => (5, 4, Duration::from_millis(2_500), Some(0.75)),
        };
        let per_round = match source {
            RateSource::Sender => 1,
            RateSource::Receiver => 4,
        };
        Constants { filter: rounds * per_round, cycle: phases, probe_rtt_every, probe_rtt_gain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiver_constants_are_those_of_the_paper() {
        // [TON §VI-D, §VII-D].
        let bulk = Profile::Bulk.constants(RateSource::Receiver);
        assert_eq!((bulk.filter, bulk.cycle), (40, 8), "32 intervals are 8 phases");
        let video = Profile::Interactive.constants(RateSource::Receiver);
        assert_eq!((video.filter, video.cycle), (20, 4));
        assert_eq!(video.probe_rtt_every, Duration::from_millis(2_500));
    }

    #[test]
    fn sender_constants_are_those_of_linux() {
        let bulk = Profile::Bulk.constants(RateSource::Sender);
        assert_eq!((bulk.filter, bulk.cycle), (10, 8));
    }
}
