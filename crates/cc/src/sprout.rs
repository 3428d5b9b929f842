//! Sprout: as much in flight as will have arrived in 100 ms, with 95 % certainty [Winstein et al.,
//! NSDI 2013].
//!
//! The link is a Poisson process whose rate `lambda` wanders as Brownian motion. What arrives tells
//! how likely each rate is; the window is what even a pessimist expects to arrive in time:
//!
//! ```text
//! every 20 ms   p(lambda) <- diffused by 200 segments/s per sqrt(s); an outage (lambda = 0)
//!                            ends once a second
//!               p(lambda) <- p(lambda) * P(what arrived | lambda), normalised
//! window        = 5th percentile of what arrives in five of these ticks and half a round trip,
//!                 eight ticks at most
//! ```
//!
//! ([`forecast`] is that model.) Rates end at 1000 segments per second, 12 Mbit/s: the paper's
//! model is of a cellular link. So no more than 160 segments are ever in flight, and a path that is
//! both long and fast is not filled. Loss means nothing, unless most is lost ([`crate::overload`]).
//!
//! Deviation: the paper's forecaster is at the receiver, sees when packets arrive, and sends its
//! forecast along. Behind this interface it is at the sender and sees what acknowledgments tell
//! ([`AckSample::delivered`]): half a round trip later, and in the grain of the acknowledgments. The
//! forecast is made for that much longer.
//!
//! Deviation: the paper's sender says in every packet when to expect the next one, so that an idle
//! link is not taken for a slow one. Here, while the round trip shows no queue, what arrived is a
//! lower bound on what could have, which is how likely it is counted.

mod forecast;

use core::time::Duration;

use tack_units::{Instant, Rate};

use self::forecast::{Belief, MAX_TICKS, TICK};
use crate::config::Config;
use crate::controller::Controller;
use crate::flight::Limits;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample};

/// Sprout.
#[derive(Clone, Debug)]
pub struct Sprout {
    limits: Limits,
    belief: Belief,
    /// Start of the time that the next observation is about, and bytes delivered by then.
    since: Option<(Instant, u64)>,
    /// A round trip in that time showed a queue.
    queued: bool,
    rtt_min: Option<Duration>,
    cwnd: u64,
    /// Observations so far.
    observed: u32,
}

/// Ticks in which what is sent now is to arrive.
const LOOK_AHEAD: u32 = 5;
/// A round trip this much longer than the least shows a queue, if the receiver does not tell that its packet waited for
/// less: acknowledgments that wait, or are longer than those of the handshake, are no queue of data.
const QUEUE: Duration = Duration::from_millis(5);
/// Longer silence is one observation of this length.
const LONGEST: Duration = Duration::from_millis(400);
const PACING_GAIN: f64 = 2.0;
/// Observations after which the belief is of the link and no longer of nothing.
const SETTLED: u32 = 16;
/// Never silent: or nothing would ever arrive that could change the forecast.
const MIN_CWND_MSS: u64 = 2;

impl Sprout {
    /// Of a link about which nothing is known.
    pub(crate) fn new(config: &Config) -> Self {
        Sprout {
            limits: Limits::new(config),
            belief: Belief::default(),
            since: None,
            queued: false,
            rtt_min: None,
            cwnd: config.initial_window,
            observed: 0,
        }
    }

    /// Time for an observation has passed: `delivered` says what arrived in it.
    fn observe(&mut self, since: Instant, arrived: u64, ack: &AckSample) {
        let elapsed = (ack.now - since).min(LONGEST);
        let segments = self.limits.segments(arrived);
        self.belief.evolve(elapsed);
        // A window nobody used is no more a limit of the link than an empty queue is.
        let exact = self.queued && ack.cwnd_limited;
        self.belief.observe(segments, elapsed, exact);
        let way_back = self.rtt_min.unwrap_or_default() / 2;
        let ticks_back = (way_back.as_secs_f64() / TICK.as_secs_f64()).ceil() as u32;
        let forecast = self.belief.cautious(LOOK_AHEAD.saturating_add(ticks_back).min(MAX_TICKS));
        self.cwnd = self.limits.bytes(f64::from(forecast));
        self.observed = self.observed.saturating_add(1);
        (self.since, self.queued) = (Some((ack.now, ack.delivered)), false);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd.max(MIN_CWND_MSS.saturating_mul(self.limits.mss))
    }
}

impl Controller for Sprout {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, _app_limited: bool, now: Instant) {
        if in_flight <= bytes
            && let Some((since, _)) = &mut self.since
        {
            // Nothing was on its way: that nothing arrived is no news.
            *since = now.max(*since);
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.limits.on_ack(ack);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            let least = self.rtt_min.map_or(rtt, |least| least.min(rtt));
            self.rtt_min = Some(least);
            let longer = rtt.saturating_sub(least);
            self.queued |= ack.queued.map_or(longer, |told| longer.min(told)) > QUEUE;
        }
        match self.since {
            None => self.since = Some((ack.now, ack.delivered)),
            Some((since, before)) if ack.now >= since + TICK => {
                self.observe(since, ack.delivered.saturating_sub(before), ack);
            }
            Some(_) => {}
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if loss.kind == LossKind::Timeout {
            self.limits.on_timeout();
            // An outage, or another path.
            self.belief = Belief::default();
            (self.cwnd, self.since) = (0, None);
        }
    }

    fn window(&self) -> u64 {
        self.limits.window(self.cwnd())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.limits.pace(self.cwnd(), PACING_GAIN, None)
    }
}

impl Inspect for Sprout {
    fn set_mss(&mut self, mss: u32) {
        self.limits.set_mss(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let mean = self.limits.bytes(self.belief.mean());
        let rate = Rate::from_bytes_over(mean, Duration::from_secs(1));
        Snapshot {
            startup: self.observed < SETTLED,
            pacing_gain: PACING_GAIN,
            bandwidth: rate.filter(|_| self.since.is_some()).map(|rate| self.limits.floor(rate)),
            rtt_min: self.rtt_min,
            ..Snapshot::new(name, "forecasting", self.window(), self.pacing_rate())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const MSS: u64 = 1_000;

    /// The window in segments after three seconds over 300 ms, all of it acknowledged four times per round trip, each of
    /// which took so much longer; the receiver tells for how long the data waited.
    fn after(longer_ms: u64, queued_ms: Option<u64>) -> u64 {
        let mut sprout = Sprout::new(&Config { initial_window: 10 * MSS, ..Config::new(1_000) });
        let rtt = |ms| Some(Duration::from_millis(ms));
        sprout.on_ack(&AckSample { rtt: rtt(300), ..ack() });
        let queued = queued_ms.map(Duration::from_millis);
        let mut delivered = 0;
        for quarter in 1..=40 {
            let now = Instant::from_millis(quarter * 75);
            let acked_bytes = sprout.window() / 4;
            delivered += acked_bytes;
            let rtt = rtt(300 + longer_ms);
            sprout.on_ack(&AckSample { now, acked_bytes, delivered, rtt, queued, ..ack() });
        }
        sprout.window() / MSS
    }

    #[test]
    fn a_slow_way_back_is_no_queue_where_the_receiver_tells_that_the_data_did_not_wait() {
        let full = after(12, None);
        assert_eq!(after(50, Some(50)), full);
        let clear = after(12, Some(0));
        assert!(clear > 5 * full, "{clear} segments, {full} behind a queue");
        assert_eq!(after(0, Some(12)), clear, "others waited, and not the one that is timed");
    }
}
