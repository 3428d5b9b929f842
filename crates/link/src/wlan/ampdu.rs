//! How many MPDUs go into one PPDU.

use core::time::Duration;

use super::phy::Ns;
use super::timing::{MAX_PPDU, subframe_bytes};
use crate::draw::nanos;

/// Limits of an A-MPDU. Whichever is reached first ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmpduLimits {
    /// Bytes, delimiters and padding included; 0 sends every MPDU alone.
    pub max_bytes: u32,
    /// MPDUs; 0 and 1 send every MPDU alone.
    pub max_mpdus: u16,
    /// Duration of the PPDU.
    pub max_duration: Duration,
}

impl AmpduLimits {
    /// No aggregation.
    pub const NONE: AmpduLimits =
        AmpduLimits { max_bytes: 0, max_mpdus: 1, max_duration: MAX_PPDU };

    /// At most `max_bytes` and `max_mpdus`, and the longest PPDU allowed.
    pub const fn new(max_bytes: u32, max_mpdus: u16) -> AmpduLimits {
        AmpduLimits { max_bytes, max_mpdus, max_duration: MAX_PPDU }
    }

    /// Whether more than one MPDU can ever share a PPDU.
    pub const fn aggregates(&self) -> bool {
        self.max_bytes > 0 && self.max_mpdus > 1
    }

    pub(crate) fn max_duration_ns(&self) -> Ns {
        nanos(self.max_duration)
    }
}

/// What fits into one PPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aggregate {
    /// MPDUs taken from the front of the queue.
    pub(crate) mpdus: usize,
    /// PSDU size: an MPDU alone goes without delimiter.
    pub(crate) psdu_bytes: u32,
}

/// Takes MPDUs (sizes in bytes, front first) while `max_bytes` and `max_mpdus` allow; the first
/// one always goes, as nothing smaller could be sent instead.
pub(crate) fn aggregate(
    mpdus: impl Iterator<Item = u32>,
    max_bytes: u32,
    max_mpdus: usize,
) -> Aggregate {
    let mut taken = Aggregate { mpdus: 0, psdu_bytes: 0 };
    let mut first = 0;
    for bytes in mpdus {
        let psdu_bytes = taken.psdu_bytes + subframe_bytes(bytes);
        if taken.mpdus > 0 && (psdu_bytes > max_bytes || taken.mpdus >= max_mpdus) {
            break;
        }
        if taken.mpdus == 0 {
            first = bytes;
        }
        taken = Aggregate { mpdus: taken.mpdus + 1, psdu_bytes };
    }
    if taken.mpdus == 1 {
        taken.psdu_bytes = first;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_limit_gives_the_mpdu_counts_that_ns3_shows() {
        // 1538-byte MPDUs in subframes of 1544 bytes; counts from ns-3's traces.
        for (limit, mpdus) in [
            (9_000, 5),
            (18_600, 12),
            (20_100, 13),
            (32_768, 21),
            (49_500, 32),
            (52_500, 34),
            (65_535, 42),
        ] {
            let a = aggregate(std::iter::repeat(1_538), limit, 64);
            assert_eq!((a.mpdus, a.psdu_bytes), (mpdus, 1_544 * mpdus as u32), "{limit}");
        }
        assert_eq!(aggregate(std::iter::repeat(1_538), 1 << 20, 64).mpdus, 64);
    }

    #[test]
    fn a_lone_mpdu_goes_whatever_the_limits_and_has_no_delimiter() {
        let alone = Aggregate { mpdus: 1, psdu_bytes: 1_538 };
        assert_eq!(aggregate(std::iter::repeat(1_538), 0, 64), alone);
        assert_eq!(aggregate(std::iter::repeat(1_538), 1 << 20, 1), alone);
        assert_eq!(aggregate(std::iter::once(1_538), 1 << 20, 64), alone);
        assert_eq!(aggregate(std::iter::empty(), 1 << 20, 64).mpdus, 0);
    }

    #[test]
    fn mixed_sizes_stop_at_the_first_that_does_not_fit() {
        let a = aggregate([84, 1_538, 84, 84].into_iter(), 1_700, 64);
        assert_eq!((a.mpdus, a.psdu_bytes), (2, 88 + 1_544));
    }
}
