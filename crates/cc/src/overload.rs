//! More is lost than a path loses by chance: no more in flight than what arrives.
//!
//! Deviation from each paper: Copa, Verus and Sprout aim at a delay, PCC at a rate. Behind a queue of a few packets the delay does not come, and ten
//! segments of an interval are more than the path holds: the window grows beyond any bound, and most of what leaves is
//! dropped. The papers' links had deep buffers. Plain TCP is spared by the time it takes to find a loss, for which
//! what is lost counts as in flight; with a receiver that tells at once Sprout sent 89 % of its packets again, over 2.6 Mbit/s with
//! seven packets of buffer, for the goodput of plain TCP, which sent a quarter.
//!
//! ```text
//! each round trip   arrived, lost
//! lost > 1/5        held = arrived
//! two later         half as much lost, or it was not for the flight: no bound for 16
//! else              held grows by an eighth; where more than 1/16 was lost, by a sixty-fourth
//! ```

use core::time::Duration;

use tack_units::Instant;

use crate::sample::AckSample;

/// Part of what was sent beyond which it is much that is lost.
const MUCH: u64 = 5;
/// In this round trip a smaller flight shows, of the first that lost much and those after it: in the second what left before
/// is lost.
const JUDGED: u32 = 3;
/// In this one, if all lost much, a smaller flight is tried again: others may have filled the queue.
const RETRIED: u32 = JUDGED + 16;
/// Part lost beyond which the bound grows slowly: it may be the path that loses it.
const SOME: u64 = 16;
/// Parts by which the bound grows where little is lost, and where more is.
const GROWTH: u64 = 8;
const SLOW_GROWTH: u64 = 64;
/// Segments that make a share of a round trip.
const LEAST_SEGMENTS: u64 = 8;

/// Bounds what is in flight to what arrives, while too much is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overload {
    /// The round trip under way, and bytes in it.
    began: Option<Instant>,
    arrived: u64,
    lost: u64,
    /// Round trips in a row that lost much, or were on trial.
    streak: u32,
    /// Part lost in the first of them.
    share: f64,
    held: Option<u64>,
}

impl Overload {
    pub(crate) fn on_ack(&mut self, ack: &AckSample, srtt: Option<Duration>, mss: u64) {
        let (Some(began), Some(srtt)) = (self.began, srtt) else {
            self.began = Some(ack.now);
            return;
        };
        self.arrived = self.arrived.saturating_add(ack.acked_bytes);
        self.lost = self.lost.saturating_add(ack.lost_bytes);
        let (sent, passed) = (self.arrived.saturating_add(self.lost), ack.now - began);
        if passed < srtt || sent < LEAST_SEGMENTS * mss {
            return;
        }
        let on_trial = (1..JUDGED).contains(&self.streak);
        let much = self.lost > sent / MUCH;
        self.streak = if much || on_trial { self.streak.saturating_add(1) } else { 0 };
        match self.streak {
            0 => {
                let growth = if self.lost > sent / SOME { SLOW_GROWTH } else { GROWTH };
                self.held = self.held.map(|held| held.saturating_add(held / growth));
            }
            1 => {
                self.share = self.lost as f64 / sent as f64;
                let part = srtt.div_duration_f64(passed);
                self.held = Some(((self.arrived as f64 * part) as u64).max(2 * mss));
            }
            JUDGED if self.lost as f64 > self.share / 2.0 * sent as f64 => self.held = None,
            JUDGED | RETRIED => self.streak = 0,
            _ => {}
        }
        (self.began, self.arrived, self.lost) = (Some(ack.now), 0, 0);
    }

    /// What of a flight of so many bytes the path holds.
    pub(crate) fn bound(&self, flight: u64) -> u64 {
        self.held.map_or(flight, |held| held.min(flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const MSS: u64 = 1_000;

    /// What 100 segments in flight are bounded to after each of so many round trips over a path that holds some of them,
    /// and of those loses one of `chance`; the flight is what the bound allows.
    fn bounds(holds: u64, chance: u64, round_trips: u64) -> Vec<u64> {
        let mut overload = Overload::default();
        let srtt = Some(Duration::from_millis(10));
        let mut flight = 100;
        (0..=round_trips)
            .map(|round| {
                let passes = flight.min(holds);
                let arrived = passes - passes / chance;
                let now = Instant::from_millis(10 * round);
                let (acked_bytes, lost_bytes) = (arrived * MSS, (flight - arrived) * MSS);
                overload.on_ack(&AckSample { now, acked_bytes, lost_bytes, ..ack() }, srtt, MSS);
                flight = overload.bound(100 * MSS) / MSS;
                flight
            })
            .collect()
    }

    #[test]
    fn where_a_path_drops_most_of_a_flight_it_is_what_arrives_and_grows_from_there() {
        let bounds = bounds(20, 1_000, 60);
        assert_eq!(bounds[..5], [100, 20, 20, 20, 22]);
        assert!(bounds[5..].iter().all(|&flight| flight <= 30), "{bounds:?}");
        assert!(bounds[5..].iter().any(|&flight| flight > 22), "{bounds:?}");
    }

    #[test]
    fn a_path_that_loses_a_quarter_by_chance_is_given_all_again() {
        let bounds = bounds(1_000, 4, 60);
        assert_eq!(bounds[..5], [100, 75, 75, 100, 100]);
        assert!(bounds.iter().filter(|&&flight| flight < 100).count() <= 8, "{bounds:?}");
    }

    #[test]
    fn one_that_loses_a_sixth_by_chance_is_given_all() {
        assert!(bounds(1_000, 6, 60).iter().all(|&flight| flight == 100));
    }
}
