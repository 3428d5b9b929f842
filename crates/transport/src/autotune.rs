//! How large a receive window is.
//!
//! Whatever arrived in one round trip, the sender may send up to twice as much in the next (slow start)
//! and acknowledgments of it are another round trip away, so four times that is offered. What arrives
//! behind a hole counts, and what waits there comes on top: it keeps its room until the hole is filled,
//! a round trip or two in which a sender whose repair was lost, too, would else have to stop. Linux does
//! so since 6.17.
//!
//! It grows for who reads. Where an eighth of it waits to be read, more would only wait as well: a reader of 2 Mbit/s
//! on a path of 200 would hold four times what the path does, and let whoever sends decide how much.

use core::time::Duration;

use tack_units::Instant;

/// Round trips are taken to be no shorter: bursts of less are one.
const LEAST_ROUND: Duration = Duration::from_millis(2);
/// Before a round trip is known.
const USUAL_RTT: Duration = Duration::from_millis(100);

/// `bytes` of a window, and what waits for a TACK before its sender hears of it, an interval long: `1/beta` of that.
/// What the path is offered is what was configured; that much is held beyond it, or a window of W would carry
/// `W/(RTT + alpha)` instead of `W/RTT` [TON §VIII: W_min].
pub fn allowed_for_tacks(bytes: u64, beta: u32) -> u64 {
    bytes.saturating_add(bytes / u64::from(beta.max(2)))
}

/// What a receiver offers of a stream, or of all streams of a connection, and how that grows. All sizes are in bytes.
#[derive(Debug)]
pub struct RecvWindow {
    size: u64,
    most: u64,
    /// What is offered until somebody reads.
    confined: Option<u64>,
    /// Of the round trip.
    began: Instant,
    /// In it, in order or not.
    arrived: u64,
    /// In the round trip before it.
    before: u64,
    is_short: bool,
}

impl RecvWindow {
    /// A window of `initial`, no more than `most`, which is the most it ever becomes.
    pub fn new(initial: u64, most: u64, now: Instant) -> RecvWindow {
        let size = initial.min(most);
        let (confined, is_short) = (None, false);
        RecvWindow { size, most, confined, began: now, arrived: 0, before: 0, is_short }
    }

    /// Offered beyond what was read.
    pub fn size(&self) -> u64 {
        self.confined.unwrap_or(self.size)
    }

    /// The bound keeps it from being what it is to be: the sender may wait for each piece of it.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// So many bytes arrived that were not there before.
    pub fn on_arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// With so much left to read it may grow.
    pub(crate) fn is_read(&self, unread: u64) -> bool {
        unread <= self.size() / 8
    }

    /// Follows what arrived, within the bound, if `is_read`; `waits`: what waits behind a hole, which counts once a
    /// round trip has passed. What has arrived before that can only become more, and a flight that doubles needs its
    /// window a round trip sooner.
    pub fn tune(&mut self, rtt: Option<Duration>, waits: u64, is_read: bool, now: Instant) {
        let arrived = self.arrived.max(self.before).saturating_mul(4);
        let round = rtt.unwrap_or(USUAL_RTT).max(LEAST_ROUND);
        let is_over = now.saturating_since(self.began) >= round;
        if is_over {
            (self.began, self.before, self.arrived) = (now, self.arrived, 0);
        }
        let wanted = arrived.saturating_add(if is_over { waits } else { 0 });
        if self.confined.is_none() && is_read {
            self.size = self.size.max(wanted.min(self.most));
        }
        self.is_short = self.most < wanted;
    }

    /// TACK governs: see [`allowed_for_tacks`]. It is allowed beyond the bound, too.
    pub fn allow_for_tacks(&mut self, beta: u32) {
        self.size = allowed_for_tacks(self.size, beta);
        self.most = allowed_for_tacks(self.most, beta);
    }

    /// Until somebody reads, no more than `bytes` are offered, whatever arrives.
    pub fn confine(&mut self, bytes: u64) {
        self.confined = Some(self.size().min(bytes.max(1)));
    }

    /// Somebody reads.
    pub fn unconfine(&mut self) {
        self.confined = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const NO_TIME: Instant = Instant::ZERO;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn what_comes_in_a_round_trip_is_offered_four_times_at_once_and_what_waits_once_it_is_over() {
        for waits in [0, 100] {
            let mut window = RecvWindow::new(10_000, 1 << 20, at(0));
            window.on_arrived(8_000);
            window.tune(Some(RTT), waits, true, at(99));
            assert_eq!(window.size(), 32_000, "as soon as it has come");
            window.tune(Some(RTT), waits, true, at(100));
            assert_eq!(window.size(), 32_000 + waits);
        }
    }

    #[test]
    fn a_window_that_its_bound_keeps_small_is_short() {
        let mut window = RecvWindow::new(10_000, 30_000, NO_TIME);
        window.on_arrived(7_000);
        window.tune(Some(RTT), 0, true, NO_TIME);
        assert_eq!((window.size(), window.is_short()), (28_000, false));
        window.on_arrived(1_000);
        window.tune(Some(RTT), 0, true, NO_TIME);
        assert_eq!((window.size(), window.is_short()), (30_000, true));
    }

    #[test]
    fn what_waits_for_a_tack_is_allowed_beyond_window_and_bound() {
        let mut window = RecvWindow::new(1_000, 2_000, NO_TIME);
        window.allow_for_tacks(4);
        assert_eq!(window.size(), 1_250);
        window.on_arrived(9_000);
        window.tune(Some(RTT), 0, true, NO_TIME);
        assert_eq!(window.size(), 2_500);
        // No acknowledgment is later than half a round trip.
        assert_eq!([0, 1, 2].map(|beta| allowed_for_tacks(1_000, beta)), [1_500; 3]);
        assert_eq!(allowed_for_tacks(u64::MAX, 4), u64::MAX);
    }

    #[test]
    fn until_somebody_reads_it_neither_grows_nor_forgets_what_it_was() {
        let mut window = RecvWindow::new(10_000, 1 << 20, NO_TIME);
        window.confine(4_000);
        window.confine(5_000);
        window.allow_for_tacks(4);
        window.on_arrived(4_000);
        window.tune(Some(RTT), 0, true, NO_TIME);
        assert_eq!(window.size(), 4_000);
        window.unconfine();
        assert_eq!(window.size(), 12_500);
        window.tune(Some(RTT), 0, true, NO_TIME);
        assert_eq!(window.size(), 16_000);
    }
}
