//! Which packet of a TACK interval times the round trip [TON §V-B].
//!
//! ```text
//! owd      = arrival - departure            relative: the clocks need not agree
//! t0*, dt* = departure of the packet with the least `owd`, time since its arrival
//! smoothed = 7/8 smoothed + 1/8 owd
//! ```
//!
//! Deviation: [TON §V-B] takes the least *smoothed* delay. Of a paced burst the first packet waits for nothing,
//! but the average has the end of the last burst in it, and meets the delays where they have grown already: it
//! picked the fourth or fifth packet. Controllers that keep two packets in the queue (Copa) took that
//! for a queue, and had 600 Mbit/s where plain TCP had 962. What does not wait needs no smoothing: nothing makes
//! a packet earlier than the path is short.
//!
//! The least smoothed delay of `tau` is a path without a queue; what a packet's is above it, the packet
//! waited. That stretches the interval of TACKs (`receiver/schedule.rs`), and tells the sender which
//! way a round trip is long.
//!
//! Both clocks are 32-bit microsecond counters that wrap. Only differences between successive
//! relative delays are used, so offset, drift and wrap do not matter while two successive
//! relative delays differ by less than 2^31 us (36 min).

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

use crate::feedback::Timing;

/// After this long without a packet, the smoothed delay describes a queue that is gone: smoothing
/// starts anew, and the least delay of `tau` stays. Deviation: [TON §V-B] says nothing of pauses.
const STALE: Duration = Duration::from_millis(500);

/// After a longer pause the sender's clock may have come round: what passed here has passed there.
const WRAP: Duration = Duration::from_secs(30 * 60);

#[derive(Clone, Copy, Debug)]
struct Candidate {
    owd: i64,
    departure_us: u32,
    arrived: Instant,
}

/// What left so long before another is not under way any more: one of the clocks stood, as a machine's does that sleeps,
/// or was set.
const LIFETIME: Duration = Duration::from_secs(60);

/// Longest wait that is believed: a clock that was set looks like one.
const MOST_QUEUED: Duration = Duration::from_secs(60);

/// Picks the packet whose round trip is reported.
#[derive(Debug)]
pub(super) struct OneWayDelay {
    /// Off: the newest packet is always picked.
    picks_least: bool,
    last_relative_us: u32,
    last_departure_us: u32,
    /// Latest departure, since the first.
    departed: Duration,
    /// Unwrapped relative delay, microseconds; its zero is arbitrary.
    owd_us: i64,
    /// Smoothed relative delay, in 1/256 us so that the gain of 1/8 loses nothing.
    smoothed: i64,
    last_arrival: Option<Instant>,
    candidate: Option<Candidate>,
    /// Of the delay, over `tau`.
    least: WindowedMin<i64>,
    /// Of the smoothed delay, over `tau`.
    least_smoothed: WindowedMin<i64>,
}

impl OneWayDelay {
    pub(super) fn new(picks_least: bool, tau: Duration) -> Self {
        let tau = u64::try_from(tau.as_nanos()).unwrap_or(u64::MAX);
        OneWayDelay {
            picks_least,
            last_relative_us: 0,
            last_departure_us: 0,
            departed: Duration::ZERO,
            owd_us: 0,
            smoothed: 0,
            last_arrival: None,
            candidate: None,
            least: WindowedMin::new(tau),
            least_smoothed: WindowedMin::new(tau),
        }
    }

    /// A packet that left at `departure_us` by the sender's clock arrived at `arrival_us` by ours.
    /// Returns the latest departure, since the first, by the sender's clock.
    pub(super) fn on_arrival(
        &mut self,
        departure_us: u32,
        arrival_us: u32,
        now: Instant,
    ) -> Duration {
        let relative = arrival_us.wrapping_sub(departure_us);
        let step = i64::from(relative.wrapping_sub(self.last_relative_us) as i32);
        self.last_relative_us = relative;
        let first = self.last_arrival.is_none();
        let pause = self.last_arrival.map_or(Duration::ZERO, |last| now - last);
        self.owd_us = if first { 0 } else { self.owd_us.saturating_add(step) };
        let owd = self.owd_us.saturating_mul(256);
        match self.last_arrival {
            Some(last) if now - last <= STALE => {
                self.smoothed = self.smoothed.saturating_add(owd.saturating_sub(self.smoothed) / 8);
            }
            _ => {
                self.smoothed = owd;
                self.candidate = None;
            }
        }
        self.last_arrival = Some(now);
        self.least.update(now.as_nanos(), owd);
        self.least_smoothed.update(now.as_nanos(), self.smoothed);
        // On a tie the newer packet wins: its dt* is shorter, and clocks drift.
        if !self.picks_least || self.candidate.is_none_or(|c| owd <= c.owd) {
            self.candidate = Some(Candidate { owd, departure_us, arrived: now });
        }
        let after = departure_us.wrapping_sub(self.last_departure_us) as i32;
        let before = Duration::from_micros(u64::from(after.min(0).unsigned_abs()));
        if pause > WRAP || before > LIFETIME {
            self.last_departure_us = departure_us;
            self.departed += pause;
        } else if first || after > 0 {
            self.last_departure_us = departure_us;
            let after = if first { 0 } else { u64::from(after.unsigned_abs()) };
            self.departed += Duration::from_micros(after);
        }
        self.departed
    }

    /// What the TACK leaving now reports; the next interval starts.
    pub(super) fn take(&mut self, now: Instant) -> Option<Timing> {
        self.candidate.take().map(|c| Timing {
            departure_us: c.departure_us,
            delay: now - c.arrived,
            queued: self.queued(),
        })
    }

    /// How long packets wait on the data path now.
    pub(super) fn queued(&self) -> Duration {
        above(&self.least_smoothed, self.smoothed)
    }
}

/// How much more than the least a delay is.
fn above(least: &WindowedMin<i64>, owd: i64) -> Duration {
    let least = least.get().unwrap_or(owd);
    let us = u64::try_from(owd.saturating_sub(least) / 256).unwrap_or(0);
    Duration::from_micros(us).min(MOST_QUEUED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAU: Duration = Duration::from_secs(10);

    /// Feeds packets every millisecond with these one-way delays, between clocks of any offset
    /// and drift; returns the index of the packet that is picked.
    fn picked(owds_us: &[u32], offset_us: u32, drift_ppm: i64, least: bool) -> usize {
        let mut owd = OneWayDelay::new(least, TAU);
        let departure = |i: usize| (i as u32 * 1_000).wrapping_add(offset_us);
        for (i, delay) in owds_us.iter().enumerate() {
            let arrival = i as i64 * 1_000 + i64::from(*delay);
            let drifted = arrival + arrival * drift_ppm / 1_000_000;
            owd.on_arrival(departure(i), drifted as u32, Instant::from_millis(i as u64 + 100));
        }
        let timing = owd.take(Instant::from_millis(200)).unwrap();
        let i = (0..owds_us.len()).find(|i| departure(*i) == timing.departure_us).unwrap();
        assert_eq!(timing.delay, Duration::from_millis(100 - i as u64));
        i
    }

    #[test]
    fn the_choice_does_not_depend_on_clock_offset_drift_or_wrap() {
        // [TON §V-B]: no clock synchronisation.
        let owds = [9_000, 8_000, 6_000, 2_000, 9_000, 9_500, 9_900];
        for offset in [0, 1, 1 << 31, u32::MAX - 3_500, u32::MAX] {
            for drift in [-200, 0, 200] {
                assert_eq!(picked(&owds, offset, drift, true), 3, "{offset} {drift}");
            }
        }
    }

    #[test]
    fn departures_go_on_after_any_pause() {
        for minutes in [1, 29, 31, 36, 50, 71, 72, 100, 1_000] {
            let mut owd = OneWayDelay::new(true, TAU);
            owd.on_arrival(5, 1_000, Instant::from_millis(1));
            let later = minutes * 60_000_000u64;
            let stamp = |us: u64| (later + us) as u32;
            let at = |us: u64| Instant::from_micros(later + us);
            let before = owd.on_arrival(stamp(0), stamp(2_000), at(2_000));
            let near = Duration::from_secs(minutes * 60).abs_diff(before);
            assert!(near < Duration::from_millis(5), "{minutes} min: {before:?}");
            let after = owd.on_arrival(stamp(700), stamp(2_700), at(2_700));
            assert_eq!(after - before, Duration::from_micros(700), "{minutes} min");
        }
    }

    #[test]
    fn departures_go_on_after_any_sleep_of_ours() {
        for minutes in [1, 20, 37, 55, 70, 72, 100, 1_000] {
            let mut owd = OneWayDelay::new(true, TAU);
            owd.on_arrival(5, 1_000, Instant::from_millis(1));
            // Our clock stood, the sender's went on.
            let stamp = |us: u32| (minutes * 60_000_000u64) as u32 + us;
            let before = owd.on_arrival(stamp(0), 2_000, Instant::from_millis(2));
            let after = owd.on_arrival(stamp(700), 2_700, Instant::from_micros(2_700));
            assert_eq!(after - before, Duration::from_micros(700), "{minutes} min");
        }
    }

    #[test]
    fn without_the_filter_the_newest_packet_is_picked() {
        assert_eq!(picked(&[1, 500, 900], 7, 0, false), 2);
    }

    #[test]
    fn of_equal_delays_the_newest_is_picked() {
        assert_eq!(picked(&[5_000; 9], 0, 0, true), 8);
    }

    #[test]
    fn nothing_is_reported_twice() {
        let mut owd = OneWayDelay::new(true, TAU);
        assert_eq!(owd.take(Instant::ZERO), None);
        owd.on_arrival(1, 2, Instant::ZERO);
        assert!(owd.take(Instant::ZERO).is_some());
        assert_eq!(owd.take(Instant::ZERO), None);
    }

    #[test]
    fn of_paced_bursts_the_first_packet_is_picked_though_the_last_burst_still_weighs() {
        // Eight packets that leave at once, twelve microseconds apart at the bottleneck.
        let bursts: Vec<u32> = (0..32).map(|i| 3_000 + 12 * (i % 8)).collect();
        assert_eq!(picked(&bursts, 0, 0, true), 24);
    }

    #[test]
    fn what_waits_is_told_across_a_pause_and_forgotten_after_tau() {
        let mut owd = OneWayDelay::new(true, TAU);
        let mut arrive = |t_ms: u64, delay_us: u32| {
            let departure = (t_ms * 1_000) as u32;
            owd.on_arrival(departure, departure + delay_us, Instant::from_millis(t_ms));
            owd.queued()
        };
        assert_eq!(arrive(0, 5_000), Duration::ZERO);
        for t in 1..100 {
            arrive(t, 25_000);
        }
        assert!(arrive(100, 25_000) > Duration::from_micros(19_900));
        assert_eq!(arrive(1_100, 25_000), Duration::from_millis(20), "a pause of a second");
        for s in 2..13 {
            arrive(s * 1_000, 25_000);
        }
        assert_eq!(arrive(13_000, 25_000), Duration::ZERO, "the path has become longer");
    }

    #[test]
    fn hostile_timestamps_do_not_overflow() {
        let mut owd = OneWayDelay::new(true, TAU);
        for i in 0..100_000u64 {
            owd.on_arrival(0, (i as u32).wrapping_mul(0x7fff_ffff), Instant::from_micros(i));
        }
        assert!(owd.take(Instant::from_secs(1)).is_some());
    }
}
