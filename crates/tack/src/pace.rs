//! How far apart the packets of a flow are: by it the receiver knows how long the next one is worth
//! waiting for, and the sender how long the receiver waits.
//!
//! ```text
//! steady    one segment takes as long as the one before: (L - 1) of them and half as long again,
//!           200 ms at most, as other TCPs' delayed ACKs; packets further apart have no pace
//! slow      half as long again as one usually takes, over the last few dozen: 120 ms at most
//! ```
//!
//! Both are the least that the flush timer is. The second is for slow paths, where a share of some hundred
//! kbit/s comes in clusters: with the timer alone most of what ends one was acknowledged by itself.

use core::time::Duration;

/// What waits for a steady pace waits no longer.
const MOST_STEADY: Duration = Duration::from_millis(200);
/// What waits for a slow flow waits no longer: a loss at its end is found as much later.
const MOST_SLOW: Duration = Duration::from_millis(120);
/// A longer gap is a pause, and counts as this much.
const PAUSE: Duration = Duration::from_millis(400);
/// The usual gap is over about so many packets; a flow that begins is a fast one.
const MEMORY: u32 = 16;

/// The gaps between a flow's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    last: Duration,
    before: Duration,
    usual: Duration,
}

impl Pace {
    /// A packet came so long after the one before it; zero for the first.
    pub(crate) fn on_gap(&mut self, gap: Duration) {
        (self.last, self.before) = (gap, self.last);
        self.usual = self.usual * (MEMORY - 1) / MEMORY + gap.min(PAUSE) / MEMORY;
    }

    /// Between the last two packets.
    pub(crate) fn last(&self) -> Duration {
        self.last
    }

    /// How long the next `L - 1` segments are worth waiting for if the last gaps were alike.
    pub(crate) fn steady(&self, segments_per_ack: u32, flush: Duration) -> Option<Duration> {
        let pace = self.last.max(self.before);
        let is_steady = self.last.min(self.before) * 2 >= pace;
        is_steady.then(|| steady(pace, segments_per_ack, flush))
    }

    /// The same of a receiver who may see the last gap up to a quarter shorter or longer, and the one before it
    /// as long.
    pub(crate) fn steady_at_most(&self, segments_per_ack: u32, flush: Duration) -> Duration {
        let [shorter, longer] = [self.last * 3 / 4, self.last * 5 / 4];
        // Of the gaps in between, the longest that is a pace.
        let longest = MOST_STEADY / segments_per_ack.saturating_sub(1).max(1);
        steady(longer.min(longest).max(shorter), segments_per_ack, flush)
    }

    /// How long a packet of a slow flow waits for the next one.
    pub(crate) fn slow(&self, flush: Duration) -> Duration {
        (self.usual * 3 / 2).min(MOST_SLOW).max(flush)
    }

    /// The same of a receiver who may see gaps a quarter longer.
    pub(crate) fn slow_at_most(&self, flush: Duration) -> Duration {
        (self.usual * 15 / 8).min(MOST_SLOW).max(flush)
    }
}

fn steady(pace: Duration, segments_per_ack: u32, flush: Duration) -> Duration {
    let next = pace.saturating_mul(segments_per_ack.saturating_sub(1));
    if next > MOST_STEADY { flush } else { (next * 3 / 2).min(MOST_STEADY).max(flush) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(40);

    fn of(gaps_ms: impl IntoIterator<Item = u64>) -> Pace {
        let mut pace = Pace::default();
        for gap in gaps_ms {
            pace.on_gap(Duration::from_millis(gap));
        }
        pace
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_steady_pace_is_waited_for_and_one_of_more_than_200_ms_is_none() {
        assert_eq!(of([50, 60]).steady(2, FLUSH), Some(ms(90)));
        assert_eq!(of([60, 50]).steady(3, FLUSH), Some(ms(180)));
        assert_eq!(of([10, 10]).steady(2, FLUSH), Some(FLUSH));
        assert_eq!(of([190, 190]).steady(2, FLUSH), Some(ms(200)));
        assert_eq!(of([210, 210]).steady(2, FLUSH), Some(FLUSH));
        assert_eq!(of([10, 50]).steady(2, FLUSH), None);
    }

    #[test]
    fn a_slow_flow_that_comes_in_clusters_is_waited_for() {
        // Three packets every 200 ms: 67 ms apart on average.
        let clusters = of((0..60).map(|i| if i % 3 == 0 { 200 } else { 0 }));
        assert!((ms(80)..=ms(110)).contains(&clusters.slow(FLUSH)), "{clusters:?}");
        assert_eq!(clusters.steady(2, FLUSH), Some(FLUSH), "two of one instant are no pace");
    }

    #[test]
    fn a_fast_flow_is_not_slow_for_a_pause() {
        let mut pace = of((0..100).map(|_| 1));
        pace.on_gap(ms(5_000));
        assert_eq!(pace.slow(FLUSH), FLUSH);
    }

    #[test]
    fn the_sender_expects_no_shorter_wait_than_a_receiver_with_gaps_a_quarter_longer() {
        for (usual, eighths) in (0..300).flat_map(|usual| (6..=10).map(move |n| (usual, n))) {
            let (mut theirs, ours) = (Pace::default(), of([usual; 200]));
            (0..200).for_each(|_| theirs.on_gap(ms(usual) * eighths / 8));
            let case = format!("{usual} ms here, {eighths} eighths there");
            assert!(ours.slow_at_most(FLUSH) + ms(2) >= theirs.slow(FLUSH), "{case}");
            for l in [1, 2, 3, 8] {
                let steady = theirs.steady(l, FLUSH).unwrap();
                assert!(ours.steady_at_most(l, FLUSH) + ms(2) >= steady, "{case}, L = {l}");
            }
        }
    }
}
