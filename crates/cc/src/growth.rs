//! How fast a flight grows of which a receiver tells the rate, and what follows from that.
//!
//! Told rates are means over a round trip that ended a round trip ago. For a flight that grows by `e^x` per round
//!
//! ```text
//! pacing gain = x / (e^-x - e^-2x)     over the rate that is told
//! arrives     = e^x / pacing gain      of the pacing rate, while the path is clear
//! flight      = (e^x - 1) / x          times what arrives in a round trip
//! beyond      = (e^x - 1) / x - 1      bdp, sent beyond the bottleneck before the news of it is back
//!
//!           per round   pacing gain   arrives   flight   beyond
//! Doubling  2           2.89          0.69      1.44     0.44
//! Clear     2.89        4.68          0.62      1.78     0.78
//! Early     4           7.39          0.54      2.16     1.16
//! ```
//!
//! Doubling has the 2/ln 2 of BBR's Startup. Early is for the first rounds of a flow only: what goes beyond the
//! bottleneck is then some [`EARLY_WINDOWS`] initial windows at most, and a file of 1 MB is over a round trip
//! sooner. It is what SUSS does of acknowledgments ("Improving TCP Performance by Speeding Up Slow-start",
//! SIGCOMM 2024), whose trains say less than the packets' own waits do.

use core::f64::consts::LN_2;
use core::time::Duration;

/// How fast Startup, or slow start, grows now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// What lets a flow follow a path of which it knows nothing but acknowledgments.
    Doubling,
    /// Nothing waits, and as much arrives as is sent.
    Clear,
    /// The same from the beginning on, and the flight is small.
    Early,
}

/// `2/ln 2`: the least gain with which the delivery rate doubles every round while the flight,
/// paced at it, grows smoothly.
pub(crate) const HIGH_GAIN: f64 = 2.0 / LN_2;
/// Initial windows that are a small flight.
const EARLY_WINDOWS: u64 = 8;
/// Round trips that are worth it. Over shorter ones a file of 1 MB takes no time anyway, and what hosts and 802.11
/// gather into one burst is a round trip.
const FAR: Duration = Duration::from_millis(16);

/// Whether packets pass a path without waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clearance {
    clear: bool,
    /// As yet it always was.
    always: bool,
}

impl Clearance {
    /// Before any packet told, with what is presumed of the first.
    pub(crate) fn presumed(clear: bool) -> Clearance {
        Clearance { clear, always: true }
    }

    /// What the latest packets tell.
    pub(crate) fn on_ack(&mut self, clear: bool) {
        self.clear = clear;
        self.always &= clear;
    }

    /// How fast a window of `cwnd` bytes that began as `initial` may grow.
    pub(crate) fn growth(&self, cwnd: u64, initial: u64, rtt_min: Option<Duration>) -> Growth {
        let small = cwnd < initial.saturating_mul(EARLY_WINDOWS);
        let far = rtt_min.is_some_and(|rtt_min| rtt_min >= FAR);
        match self.clear {
            false => Growth::Doubling,
            true if self.always && small && far => Growth::Early,
            true => Growth::Clear,
        }
    }
}

impl Growth {
    /// What a round multiplies the flight by.
    pub(crate) fn per_round(self) -> f64 {
        match self {
            Growth::Doubling => 2.0,
            Growth::Clear => HIGH_GAIN,
            Growth::Early => 4.0,
        }
    }

    /// Pacing rate over the rate that is told.
    pub(crate) fn pacing_gain(self) -> f64 {
        match self {
            Growth::Doubling => HIGH_GAIN,
            Growth::Clear => 4.68,
            Growth::Early => 7.39,
        }
    }

    /// Share of the pacing rate of which a clear path lets more through.
    pub(crate) fn short(self) -> f64 {
        match self {
            Growth::Doubling | Growth::Clear => 0.6,
            Growth::Early => 0.52,
        }
    }

    /// Flight that is allowed, over what arrives in a round trip: on a clear path it is not felt.
    pub(crate) fn flight(self) -> f64 {
        match self {
            Growth::Doubling | Growth::Clear => 2.0,
            Growth::Early => 2.45,
        }
    }
}

#[cfg(test)]
mod tests {
    use tack_units::math;

    use super::*;

    #[test]
    fn what_follows_from_a_growth_follows_from_it() {
        for growth in [Growth::Clear, Growth::Early] {
            let x = math::ln(growth.per_round());
            let gain = x / (math::exp(-x) - math::exp(-2.0 * x));
            assert!((growth.pacing_gain() - gain).abs() < 0.01, "{growth:?}: {gain}");
            let arrives = growth.per_round() / gain;
            assert!((0.9..1.0).contains(&(growth.short() / arrives)), "{growth:?}: {arrives}");
            let flight = (growth.per_round() - 1.0) / x;
            assert!((1.1..1.15).contains(&(growth.flight() / flight)), "{growth:?}: {flight}");
        }
    }

    #[test]
    fn a_small_flight_that_goes_far_grows_fastest_until_a_packet_waits() {
        let mut path = Clearance::presumed(true);
        let growth =
            |path: Clearance, cwnd, ms| path.growth(cwnd, 10_000, Some(Duration::from_millis(ms)));
        assert_eq!(growth(path, 79_999, 16), Growth::Early);
        assert_eq!([growth(path, 80_000, 16), growth(path, 10_000, 15)], [Growth::Clear; 2]);
        path.on_ack(false);
        assert_eq!(growth(path, 10_000, 16), Growth::Doubling);
        path.on_ack(true);
        assert_eq!(growth(path, 10_000, 16), Growth::Clear);
        assert_eq!(growth(Clearance::presumed(false), 10_000, 16), Growth::Doubling);
    }
}
