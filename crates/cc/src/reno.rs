//! NewReno: half the window on loss, one segment more per round trip.
//!
//! ```text
//! slow start            cwnd += min(acked, L * MSS)              [RFC 3465 §2.2]
//! congestion avoidance  cwnd += MSS per cwnd bytes acknowledged  [RFC 3465 §2.1]
//! congestion            ssthresh = flight / 2                    [RFC 5681 §3.1 Eq. 4]
//! ```
//!
//! Bytes are counted, not acknowledgments, so the growth does not depend on how often the receiver
//! acknowledges. Partial acknowledgments and the recovery point [RFC 6582] are the transport's:
//! it says when recovery begins and ends.

use tack_units::{Instant, Rate};

use crate::config::Config;
use crate::controller::Controller;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossSample};
use crate::window::{Answer, CongestionWindow};

/// NewReno with byte counting.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: CongestionWindow,
    /// Acknowledged in congestion avoidance since the window last grew, in bytes.
    acked: u64,
}

impl NewReno {
    /// In slow start, without a threshold.
    pub(crate) fn new(config: &Config) -> Self {
        Self { window: CongestionWindow::new(config), acked: 0 }
    }
}

impl Controller for NewReno {
    fn on_sent(&mut self, bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {
        self.window.on_sent(bytes);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut acked = self.window.on_ack(ack);
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked == 0 || self.window.in_slow_start() {
            return;
        }
        // No acknowledgment covers more than a window, so one step at a time is enough.
        let cwnd = self.window.cwnd();
        self.acked = self.acked.saturating_add(acked);
        if self.acked >= cwnd {
            self.acked = (self.acked - cwnd).min(cwnd);
            self.window.set_cwnd(cwnd.saturating_add(self.window.mss()));
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if self.window.on_loss(loss) == Answer::Reduce {
            self.acked = 0;
            self.window.halve(loss);
        }
    }

    fn window(&self) -> u64 {
        self.window.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }
}

impl Inspect for NewReno {
    fn set_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        self.window.snapshot(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AfterRto, WindowRules};
    use crate::sample::LossKind;
    use crate::sample::tests::ack;
    use crate::window::tests::{loss, round};

    const MSS: u64 = 1_000;

    fn reno() -> NewReno {
        NewReno::new(&Config { initial_window: 10 * MSS, ..Config::new(1_000) })
    }

    /// One in congestion avoidance with a window of `segments`.
    fn avoiding(segments: u64) -> NewReno {
        let mut reno = reno();
        reno.window.set_cwnd(segments * MSS);
        reno.window.leave_slow_start();
        reno
    }

    #[test]
    fn slow_start_doubles_per_round_whatever_the_feedback() {
        for per_ack in [1, 2, 5, 10] {
            let mut reno = reno();
            for expected in [20, 40, 80] {
                round(&mut reno, per_ack * MSS);
                assert_eq!(reno.window(), expected * MSS, "{per_ack} segments per ACK");
            }
        }
    }

    #[test]
    fn the_limit_of_byte_counting_slows_stretched_acknowledgments() {
        // [RFC 3465 §2.2]: 10 segments by two ACKs of 5 count as 2 * L.
        let rules = WindowRules { abc_limit: 2, ..WindowRules::default() };
        let config = Config { initial_window: 10 * MSS, rules, ..Config::new(1_000) };
        let mut reno = NewReno::new(&config);
        round(&mut reno, 5 * MSS);
        assert_eq!(reno.window(), 14 * MSS);
    }

    /// Windows in segments, round by round with one acknowledgment each, after a timeout that left
    /// ssthresh at 20.
    fn after_timeout(rules: WindowRules) -> Vec<u64> {
        let mut reno = avoiding(40);
        reno.window.set_rules(rules);
        reno.on_loss(&loss(LossKind::Timeout, 40 * MSS, 0));
        let rounds = (0..6).map(|_| {
            round(&mut reno, u64::MAX);
            reno.window() / MSS
        });
        rounds.collect()
    }

    #[test]
    fn slow_start_after_a_timeout_doubles_with_one_acknowledgment_per_window() {
        // [Landström & Larzon §4.2]: min(L, window) segments count.
        assert_eq!(after_timeout(WindowRules::default()), [2, 4, 8, 16, 20, 21]);
        let four = WindowRules { abc_limit: 4, ..WindowRules::default() };
        assert_eq!(after_timeout(four), [2, 4, 8, 12, 16, 20]);
    }

    #[test]
    fn by_the_rfc_each_acknowledgment_after_a_timeout_counts_one_segment() {
        // [RFC 3465 §2.3]: linear where acknowledgments are rare.
        let one = WindowRules { abc_limit_after_rto: AfterRto::One, ..WindowRules::default() };
        assert_eq!(after_timeout(one), [2, 3, 4, 5, 6, 7]);
        // It is exponential with an acknowledgment per segment, and L counts again where no timeout
        // came before.
        let mut reno = avoiding(40);
        reno.window.set_rules(one);
        reno.on_loss(&loss(LossKind::Timeout, 40 * MSS, 0));
        for expected in [2, 4, 8, 16] {
            round(&mut reno, MSS);
            assert_eq!(reno.window(), expected * MSS);
        }
        let config = Config { initial_window: 10 * MSS, rules: one, ..Config::new(1_000) };
        let mut fresh = NewReno::new(&config);
        round(&mut fresh, u64::MAX);
        assert_eq!(fresh.window(), 20 * MSS);
    }

    #[test]
    fn two_sevenths_are_lost_once_the_initial_slow_start_is_over() {
        // [Landström & Larzon §4.4].
        let rules = WindowRules { beta: Some(2.0 / 7.0), ..WindowRules::default() };
        let config = Config { initial_window: 70 * MSS, rules, ..Config::new(1_000) };
        let mut reno = NewReno::new(&config);
        reno.on_loss(&loss(LossKind::CongestionExperienced, 0, 70 * MSS));
        assert_eq!(reno.window(), 35 * MSS, "the first slow start overshoots by half");
        reno.on_loss(&loss(LossKind::CongestionExperienced, 0, 35 * MSS));
        assert_eq!(reno.window(), 25 * MSS);
        reno.on_loss(&loss(LossKind::Timeout, 25 * MSS, 0));
        assert_eq!(reno.window.ssthresh(), Some(12 * MSS), "a timeout halves");
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_round_whatever_the_feedback() {
        for per_ack in [1, 2, 5, 10] {
            let mut reno = avoiding(20);
            for n in 1..=10 {
                // As many bytes as the window holds are a round.
                round(&mut reno, per_ack * MSS);
                assert!(reno.window().abs_diff((20 + n) * MSS) <= MSS, "{per_ack} per ACK");
            }
        }
    }

    #[test]
    fn what_is_left_of_an_odd_window_grows_by_a_segment_per_round_of_whole_segments() {
        // 21/2 lets ten segments leave; if it were kept, ten acknowledged ones would not suffice.
        let mut reno = avoiding(21);
        reno.on_loss(&loss(LossKind::CongestionExperienced, 0, 21 * MSS));
        assert_eq!(reno.window(), 10 * MSS);
        for expected in [11, 12, 13] {
            round(&mut reno, MSS);
            assert_eq!(reno.window(), expected * MSS);
        }
    }

    #[test]
    fn loss_halves_over_a_round_and_a_timeout_leaves_one_segment() {
        let mut reno = avoiding(100);
        reno.on_loss(&loss(LossKind::Recovery, MSS, 99 * MSS));
        assert_eq!(reno.window.ssthresh(), Some(50 * MSS));
        assert!(reno.window() > 50 * MSS, "not all at once");
        reno.on_ack(&AckSample { acked_bytes: 50 * MSS, in_flight: 50 * MSS, ..ack() });
        assert_eq!(reno.window(), 50 * MSS);

        reno.on_loss(&loss(LossKind::Timeout, 50 * MSS, 0));
        assert_eq!((reno.window(), reno.window.ssthresh()), (MSS, Some(25 * MSS)));
        // The same data again: no news [RFC 5681 §3.1].
        reno.on_loss(&loss(LossKind::Timeout, MSS, 0));
        assert_eq!((reno.window(), reno.window.ssthresh()), (MSS, Some(25 * MSS)));
    }

    #[test]
    fn a_needless_episode_leaves_no_trace() {
        for kind in [LossKind::Recovery, LossKind::Timeout, LossKind::CongestionExperienced] {
            let mut reno = avoiding(100);
            let before = (reno.window(), reno.window.ssthresh());
            reno.on_loss(&loss(kind, MSS, 99 * MSS));
            assert_ne!((reno.window(), reno.window.ssthresh()), before);
            reno.on_loss(&loss(LossKind::Spurious, 0, 99 * MSS));
            assert_eq!((reno.window(), reno.window.ssthresh()), before, "{kind:?}");
        }
        let mut reno = avoiding(100);
        reno.on_loss(&loss(LossKind::Spurious, 0, 0));
        assert_eq!(reno.window(), 100 * MSS, "nothing to undo");
    }

    #[test]
    fn a_second_episode_halves_again_and_is_undone_alone() {
        let mut reno = avoiding(100);
        reno.on_loss(&loss(LossKind::Recovery, MSS, 99 * MSS));
        reno.on_ack(&AckSample {
            acked_bytes: MSS,
            in_flight: 98 * MSS,
            in_recovery: true,
            ..ack()
        });
        // The acknowledgment that ends the first episode also begins the second.
        reno.on_loss(&loss(LossKind::Recovery, MSS, 49 * MSS));
        assert_eq!(reno.window.ssthresh(), Some(25 * MSS));
        reno.on_loss(&loss(LossKind::Spurious, 0, 49 * MSS));
        assert_eq!((reno.window(), reno.window.ssthresh()), (50 * MSS, Some(50 * MSS)));
    }

    #[test]
    fn a_timeout_during_recovery_halves_again_and_is_undone_with_it() {
        let mut reno = avoiding(100);
        reno.on_loss(&loss(LossKind::Recovery, MSS, 99 * MSS));
        reno.on_loss(&loss(LossKind::Timeout, 99 * MSS, 0));
        assert_eq!((reno.window(), reno.window.ssthresh()), (MSS, Some(25 * MSS)));
        reno.on_loss(&loss(LossKind::Spurious, 0, 0));
        assert_eq!((reno.window(), reno.window.ssthresh()), (100 * MSS, Some(100 * MSS)));
    }

    #[test]
    fn a_mark_halves_at_once_and_not_again_during_recovery() {
        let mut reno = avoiding(100);
        reno.on_loss(&loss(LossKind::CongestionExperienced, 0, 100 * MSS));
        assert_eq!(reno.window(), 50 * MSS);
        reno.on_loss(&loss(LossKind::Recovery, MSS, 49 * MSS));
        reno.on_loss(&loss(LossKind::CongestionExperienced, 0, 49 * MSS));
        assert_eq!(reno.window.ssthresh(), Some(25 * MSS));
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut reno = reno();
        let idle = AckSample { acked_bytes: 5 * MSS, cwnd_limited: false, ..ack() };
        (0..10).for_each(|_| reno.on_ack(&idle));
        assert_eq!(reno.window(), 10 * MSS);
    }

    #[test]
    fn the_pace_is_twice_the_window_in_slow_start_and_a_fifth_above_it_later() {
        let srtt = Some(core::time::Duration::from_millis(80));
        let mut starting = reno();
        starting.on_ack(&AckSample { srtt, ..ack() });
        assert_eq!(starting.pacing_rate(), Some(Rate::from_mbps(2)));
        let mut later = avoiding(10);
        later.on_ack(&AckSample { srtt, ..ack() });
        assert_eq!(later.pacing_rate(), Some(Rate::from_kbps(1_200)));
    }
}
