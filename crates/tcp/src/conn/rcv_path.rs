//! What a receiver of data sees of the path, without help on the wire: round trips from the echo of
//! its own timestamps, and the bytes that come in one.
//!
//! A round trip is measured as Linux's receiver does it: an acknowledgment leaves with some TSval,
//! and the first text that echoes it closes the round. Only one is under way at a time, so rare
//! acknowledgments make rare samples, none of them longer for that. Text that echoes a later TSval
//! ends the round without a sample: the sender was not waiting for this acknowledgment.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

use tack_strategies::PathSeen;

/// RTTmin forgets what is older, as the sender's does.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
/// A round under way for longer was lost, or the sender fell silent.
const MOST_ROUND: Duration = Duration::from_secs(10);

/// Estimates of one connection.
#[derive(Debug)]
pub(crate) struct RcvPath {
    /// TSval under way, and when it first left.
    probe: Option<(u32, Instant)>,
    /// The last one measured: later segments may still echo it.
    measured: Option<u32>,
    rtt_min: WindowedMin<Duration>,
    srtt: Option<Duration>,
    /// A round trip's arrivals under way: since when, and RCV.NXT then.
    round: Option<(Instant, u64)>,
    window: Option<u64>,
}

impl RcvPath {
    pub(crate) fn new() -> RcvPath {
        RcvPath {
            probe: None,
            measured: None,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW.as_nanos() as u64),
            srtt: None,
            round: None,
            window: None,
        }
    }

    /// A segment with this TSval left.
    pub(crate) fn on_sent(&mut self, ts_val: u32, now: Instant) {
        let stale = |at: Instant| now.saturating_since(at) > MOST_ROUND;
        if self.measured == Some(ts_val) || self.probe.is_some_and(|(_, at)| !stale(at)) {
            return;
        }
        self.probe = Some((ts_val, now));
    }

    /// Text came that echoes `ts_ecr`; RCV.NXT is `nxt` with it.
    pub(crate) fn on_text(&mut self, ts_ecr: Option<u32>, nxt: u64, now: Instant) {
        if let (Some(ecr), Some((val, sent_at))) = (ts_ecr, self.probe)
            && ecr.wrapping_sub(val) as i32 >= 0
        {
            self.probe = None;
            self.measured = Some(val);
            if ecr == val {
                self.sample(now.saturating_since(sent_at), now);
            }
        }
        self.count(nxt, now);
    }

    fn sample(&mut self, rtt: Duration, now: Instant) {
        self.rtt_min.update(now.as_nanos(), rtt);
        self.srtt = Some(self.srtt.map_or(rtt, |mean| (mean * 7 + rtt) / 8));
    }

    fn count(&mut self, nxt: u64, now: Instant) {
        let Some(srtt) = self.srtt.filter(|srtt| !srtt.is_zero()) else { return };
        let Some((since, from)) = self.round else {
            self.round = Some((now, nxt));
            return;
        };
        let took = now.saturating_since(since);
        if took < srtt {
            return;
        }
        let came = nxt.saturating_sub(from) as f64;
        self.window = Some((came * srtt.as_secs_f64() / took.as_secs_f64()) as u64);
        self.round = Some((now, nxt));
    }

    /// `handshake`: RTTmin by other means, for as long as there is no sample; `rto`: our own.
    pub(crate) fn seen(&self, handshake: Option<Duration>, rto: Duration) -> PathSeen {
        PathSeen { rtt_min: self.rtt_min.get().or(handshake), window: self.window, rto: Some(rto) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_text_that_echoes_an_acknowledgment_closes_a_round_and_later_text_none() {
        let mut path = RcvPath::new();
        assert_eq!(path.seen(Some(MS * 7), MS).rtt_min, Some(MS * 7), "the handshake's till then");
        path.on_sent(100, Instant::from_millis(0));
        path.on_sent(101, Instant::from_millis(5));
        for at in [40, 50, 60] {
            path.on_text(Some(100), 1_000, Instant::from_millis(at));
            assert_eq!(path.seen(None, MS).rtt_min, Some(MS * 40));
        }
        // Its stamp came by another route: this acknowledgment is not what the sender waited for.
        path.on_sent(102, Instant::from_millis(70));
        path.on_text(Some(103), 2_000, Instant::from_millis(75));
        assert_eq!(path.seen(None, MS).rtt_min, Some(MS * 40));
        path.on_text(Some(99), 3_000, Instant::from_millis(76));
        path.on_sent(104, Instant::from_millis(80));
        path.on_text(Some(104), 3_000, Instant::from_millis(110));
        assert_eq!(path.seen(None, MS).rtt_min, Some(MS * 30));
    }

    #[test]
    fn an_acknowledgment_that_nothing_answers_does_not_stop_the_measuring() {
        let mut path = RcvPath::new();
        path.on_sent(1, Instant::from_secs(0));
        path.on_sent(9_000, Instant::from_secs(9));
        path.on_sent(11_000, Instant::from_secs(11));
        path.on_text(Some(11_000), 1, Instant::from_millis(11_020));
        assert_eq!(path.seen(None, MS).rtt_min, Some(MS * 20));
    }

    /// Against the truth of a simple sender: a constant window, every acknowledgment echoed.
    #[test]
    fn the_window_is_what_comes_in_a_round_trip() {
        for (per_ms, rtt) in [(1_000, 20), (10_000, 50), (100_000, 7)] {
            let mut path = RcvPath::new();
            let mut nxt = 0;
            for now in 0..2_000u32 {
                nxt += per_ms;
                // What arrives now left half a round trip ago and echoes half a one before.
                let echo = now.checked_sub(rtt);
                path.on_text(echo, nxt, Instant::from_millis(u64::from(now)));
                path.on_sent(now, Instant::from_millis(u64::from(now)));
            }
            let seen = path.seen(None, MS);
            assert_eq!(seen.rtt_min, Some(MS * rtt));
            assert_eq!(seen.window, Some(per_ms * u64::from(rtt)));
        }
    }
}
