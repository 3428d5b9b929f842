//! A thin return path: by how much intervals are longer than Eq. 4's.
//!
//! Acknowledgments that fill the return path wait there, and the round trip grows by that, but not by
//! what the receiver says that data waited. With `r` of such a round trip over RTTmin, intervals are
//! stretched by a power of two `s`:
//!
//! ```text
//! at once                                    up to the greatest s <= r: beta TACKs per round trip as it is
//! a round trip and a half after any change   once more, while r >= 3/2 and more than a hundredth of them is lost
//! always                                     s <= max(2r, 4)
//! after 8 round trips, and 1 s, of r < 5/4   down by one
//! ```
//!
//! What stretches them by `r` alone ends where a queue stands that is just long enough to ask for it, and a queue of
//! four packets never is: acknowledgments filled it for ever, and a window went round at a third of its pace. So the
//! interval grows while that queue overflows, and what was found is held for a while: with an interval of RTTmin (`s` is
//! 4 at beta = 4), which an acknowledgment needs to pass at all, no flow fills a path alone. (What data waits for
//! stretches the interval at the receiver, `receiver/schedule.rs`.)
//!
//! Deviation: Eq. 4 knows no return path. At 10 Mbit/s there, 50 kbit/s back and 20 ms it asks for
//! three times what fits.

use core::time::Duration;

use tack_units::Instant;

/// Most that an interval is stretched, as a power of two: by then TACKs wait for as long as they may.
const MAX_STRETCH: u32 = 6;
/// From so many RTTmin on acknowledgments wait; below so many hardly any does.
const WAITS: f64 = 1.5;
const CALM: f64 = 1.25;
/// Part of them that is lost where they wait in a queue that is full.
const OVERFLOWS: f64 = 0.01;
/// Held while something waits or did lately: an interval of RTTmin at beta = 4.
const HELD: f64 = 4.0;
/// So long nothing must wait before TACKs come closer again.
const CALM_TIME: Duration = Duration::from_secs(1);
const CALM_RTTS: u32 = 8;

/// What acknowledgments meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct WayBack {
    pub(super) rtt_min: Duration,
    pub(super) srtt: Duration,
    /// Smoothed round trip without what data waits for.
    pub(super) without_queue: Duration,
    pub(super) rho_prime: f64,
}

/// The stretch in force, as its exponent.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    exponent: u32,
    changed: Option<Instant>,
    /// Since when nothing waits.
    calm: Option<Instant>,
}

impl Stretch {
    /// Stretches `interval` by what holds now.
    pub(super) fn update(
        &mut self,
        interval: Duration,
        way_back: &WayBack,
        now: Instant,
    ) -> Duration {
        let exponent = self.next(way_back, now);
        if exponent != self.exponent {
            (self.exponent, self.changed) = (exponent, Some(now));
        }
        interval.saturating_mul(1 << self.exponent)
    }

    fn next(&mut self, way_back: &WayBack, now: Instant) -> u32 {
        let WayBack { rtt_min, srtt, without_queue, rho_prime } = *way_back;
        let ratio = without_queue.as_secs_f64() / rtt_min.as_secs_f64().max(1e-9);
        let is_within = |most: f64, exponent: u32| f64::from(1u32 << exponent) <= most;
        let most = (2.0 * ratio).max(HELD);
        let mut exponent = self.exponent;
        while exponent < MAX_STRETCH && is_within(ratio, exponent + 1) {
            exponent += 1;
        }
        while !is_within(most, exponent) {
            exponent -= 1;
        }
        let settled = self.changed.is_none_or(|changed| now - changed >= srtt * 3 / 2);
        let overflows = rho_prime > OVERFLOWS && ratio >= WAITS;
        if settled && overflows && exponent < MAX_STRETCH && is_within(most, exponent + 1) {
            exponent += 1;
        }
        let calm = (ratio < CALM).then(|| self.calm.unwrap_or(now));
        let over = |since: &Instant| now - *since >= (srtt * CALM_RTTS).max(CALM_TIME);
        if calm.filter(over).is_some() {
            self.calm = None;
            return exponent.saturating_sub(1);
        }
        self.calm = calm;
        exponent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_MIN: Duration = Duration::from_millis(20);
    const INTERVAL: Duration = Duration::from_millis(5);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// The interval, in milliseconds, where round trips take so long without a queue of data, and the queue of
    /// acknowledgments overflows.
    fn polled(stretch: &mut Stretch, rtt_ms: u64, now_ms: u64) -> u128 {
        polled_with(stretch, 0.05, rtt_ms, now_ms)
    }

    fn polled_with(stretch: &mut Stretch, rho_prime: f64, rtt_ms: u64, now_ms: u64) -> u128 {
        let rtt = Duration::from_millis(rtt_ms);
        let way_back = WayBack { rtt_min: RTT_MIN, srtt: rtt, without_queue: rtt, rho_prime };
        stretch.update(INTERVAL, &way_back, at(now_ms)).as_millis()
    }

    #[test]
    fn a_free_return_path_stretches_nothing() {
        let mut stretch = Stretch::default();
        assert!((0..10_000).all(|t| polled(&mut stretch, 20 + t % 10, t) == 5));
    }

    #[test]
    fn what_is_left_of_a_queue_after_a_round_trip_doubles_the_interval_again() {
        let mut stretch = Stretch::default();
        assert_eq!(polled(&mut stretch, 45, 0), 20, "by the round trip, and once more");
        assert_eq!(polled(&mut stretch, 45, 60), 20, "too early to tell");
        assert_eq!(polled(&mut stretch, 79, 70), 20, "what the round trip asks for is in force");
        assert_eq!(polled(&mut stretch, 81, 140), 40);
    }

    #[test]
    fn what_waits_and_is_not_lost_has_beta_tacks_per_round_trip() {
        let mut stretch = Stretch::default();
        assert_eq!(polled_with(&mut stretch, 0.0, 45, 0), 10);
        assert!((0..1_000).all(|t| polled_with(&mut stretch, 0.0, 79, t) == 10));
        assert_eq!(polled_with(&mut stretch, 0.0, 81, 1_000), 20);
    }

    #[test]
    fn a_queue_that_is_gone_leaves_an_interval_of_rtt_min_for_a_while() {
        let mut stretch = Stretch::default();
        assert_eq!(polled(&mut stretch, 400, 0), 160);
        assert_eq!(polled(&mut stretch, 100, 100), 40, "no less than two per round trip");
        assert_eq!(polled(&mut stretch, 20, 200), 20);
        assert_eq!(polled(&mut stretch, 20, 1_199), 20);
        assert_eq!(polled(&mut stretch, 20, 1_200), 10);
        assert_eq!(polled(&mut stretch, 20, 2_300), 10, "calm is counted anew");
        assert_eq!(polled(&mut stretch, 20, 3_300), 5);
    }

    /// A way back that carries an acknowledgment each `service` and holds `places`: how long those that arrive wait in
    /// the mean, in RTTmin, from the tenth second on.
    fn mean_wait(service: Duration, places: u32) -> f64 {
        let mut stretch = Stretch::default();
        let (mut now, mut free_at, mut waited, mut all) = (at(0), at(0), Duration::ZERO, 0);
        let (mut rtt, mut rho_prime) = (RTT_MIN, 0.0);
        while now < at(60_000) {
            let waits = free_at.saturating_since(now);
            let fits = waits <= service * (places - 1);
            rho_prime += (f64::from(u8::from(!fits)) - rho_prime) / 128.0;
            if fits {
                free_at = free_at.max(now) + service;
                rtt = rtt / 2 + (RTT_MIN + waits) / 2;
                if now >= at(10_000) {
                    (waited, all) = (waited + waits, all + 1);
                }
            }
            let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
            let interval = polled_with(&mut stretch, rho_prime, ms(rtt), ms(now - at(0)));
            now += Duration::from_millis(u64::try_from(interval).unwrap());
        }
        waited.div_duration_f64(RTT_MIN) / f64::from(all)
    }

    #[test]
    fn acknowledgments_wait_for_less_than_three_halves_of_rtt_min_however_short_the_queue() {
        // Data takes the rest of RTTmin. By the round trip alone they wait for up to 2.7 of it.
        for service in (1_137..18_500).step_by(1_000).map(Duration::from_micros) {
            for places in [4, 8, 30] {
                let wait = mean_wait(service, places);
                assert!(wait < 1.5, "{wait} RTTmin at {service:?} each, {places} places");
            }
        }
    }
}
