//! The window of a window-based controller.

use core::time::Duration;

use super::*;
use crate::controller::Controller;
use crate::sample::tests::ack;
use crate::sample::{RateSample, RateSource};

pub(crate) fn loss(kind: LossKind, lost_bytes: u64, in_flight: u64) -> LossSample {
    LossSample { now: Instant::ZERO, kind, lost_bytes, in_flight }
}

impl CongestionWindow {
    pub(crate) fn set_rules(&mut self, rules: WindowRules) {
        self.rules = rules;
    }
}

/// A full window is acknowledged, `per_ack` bytes at a time.
pub(crate) fn round(controller: &mut impl Controller, per_ack: u64) {
    let mut left = controller.window();
    while left > 0 {
        let acked_bytes = left.min(per_ack);
        controller.on_ack(&AckSample { acked_bytes, ..ack() });
        left -= acked_bytes;
    }
}

const MSS: u64 = 1_000;
const SRTT: Duration = Duration::from_millis(40);

/// In congestion avoidance with `segments`, acknowledged every `interval_ms`.
fn acknowledged_every(interval_ms: u64, segments: u64, pacing: Pacing) -> CongestionWindow {
    let mut window = CongestionWindow::new(&Config { pacing, ..Config::new(1_000) });
    window.set_cwnd(segments * MSS);
    window.leave_slow_start();
    let ack_interval = Duration::from_millis(interval_ms);
    window.on_ack(&AckSample { srtt: Some(SRTT), ack_interval, ..ack() });
    window
}

/// Five megabytes per second arrive: 200 000 bytes in a round trip.
fn arriving() -> RateSample {
    RateSample {
        delivery_rate: Some(Rate::from_mbps(40)),
        app_limited: false,
        source: RateSource::Receiver,
        prior_delivered: 0,
        interval: Duration::ZERO,
    }
}

#[test]
fn what_waits_for_the_next_tack_does_not_count_against_the_window() {
    let allowed = |interval_ms, segments, pacing| {
        acknowledged_every(interval_ms, segments, pacing).window() / MSS
    };
    assert_eq!(allowed(10, 80, Pacing::Always), 99, "80 * (1 + 1/4) - 1");
    assert_eq!(allowed(10, 80, Pacing::OnlyIfRateBased), 89);
    assert_eq!(allowed(10, 6, Pacing::Always), 7, "TACKs for two segments each");
    assert_eq!(allowed(10, 2, Pacing::Always), 2, "one for the whole window");
    assert_eq!(allowed(0, 80, Pacing::Always), 80, "plain TCP");
    assert_eq!(allowed(1_000, 80, Pacing::Always), 119, "half a window at most");
}

#[test]
fn a_round_trip_a_little_over_beta_intervals_costs_no_segment() {
    let mut window = acknowledged_every(10, 16, Pacing::Always);
    assert_eq!(window.window() / MSS, 19, "16 * (1 + 1/4) - 1");
    let srtt = Some(SRTT + Duration::from_micros(200));
    window.on_ack(&AckSample { srtt, ack_interval: SRTT / 4, ..ack() });
    assert_eq!(window.window() / MSS, 19);
}

#[test]
fn of_few_segments_a_reduction_leaves_the_nearest_number_to_a_flow_of_tacks() {
    let left = |interval_ms, kind| {
        let window = acknowledged_every(interval_ms, 5, Pacing::Always);
        [4_900, 5_100, 9_800].map(|flight| window.left_of(flight, 0.5, kind))
    };
    assert_eq!(left(10, LossKind::Recovery), [2_000, 3_000, 4_000]);
    assert_eq!(left(0, LossKind::Recovery), [2_000, 2_000, 4_000], "plain TCP");
    assert_eq!(left(10, LossKind::Timeout), [2_000, 2_000, 4_000]);
}

#[test]
fn what_stands_in_a_queue_needs_no_segment_beyond_it() {
    let beyond = |queued| {
        let mut window = acknowledged_every(10, 12, Pacing::Always);
        let (rtt, queued) = (Some(SRTT), Some(queued));
        window.on_ack(&AckSample {
            rtt,
            srtt: rtt,
            rtt_min: rtt,
            queued,
            ack_interval: SRTT / 4,
            ..ack()
        });
        (window.window() - window.cwnd()) / MSS
    };
    assert_eq!([0, 8, 4, 2].map(|n| beyond(SRTT.checked_div(n).unwrap_or_default())), [2, 1, 1, 1]);
}

#[test]
fn a_recovery_leaves_a_third_segment_in_flight_where_a_tack_waits_for_two() {
    let left = |interval_ms, ssthresh| {
        let mut window = acknowledged_every(interval_ms, 9, Pacing::Always);
        window.reduce(ssthresh * MSS, &loss(LossKind::Recovery, MSS, 8 * MSS));
        window.recovery_target() / MSS
    };
    assert_eq!([2, 3, 4].map(|ssthresh| left(10, ssthresh)), [3, 4, 5]);
    assert_eq!([2, 3, 4].map(|ssthresh| left(0, ssthresh)), [2, 3, 4], "plain TCP");
}

#[test]
fn the_allowance_is_no_part_of_what_grows_falls_or_sets_the_rate() {
    let mut tack = acknowledged_every(10, 80, Pacing::Always);
    let mut plain = acknowledged_every(0, 80, Pacing::Always);
    let gains = [tack.pacing_gain(), plain.pacing_gain()];
    assert_eq!(gains, [TACK_PACING_GAIN, AVOIDANCE_PACING_GAIN]);
    assert_eq!(tack.bandwidth(), plain.bandwidth());
    for window in [&mut tack, &mut plain] {
        let flight = window.flight_at(&loss(LossKind::Recovery, MSS, 79 * MSS));
        assert_eq!(flight, 80 * MSS);
        window.reduce(flight / 2, &loss(LossKind::Recovery, MSS, 79 * MSS));
        window.on_ack(&AckSample { srtt: Some(SRTT), ..ack() });
    }
    assert_eq!((tack.cwnd(), tack.ssthresh()), (plain.cwnd(), plain.ssthresh()));
}

#[test]
fn slow_start_goes_no_further_than_arrivals_show_room_for() {
    let mut window = CongestionWindow::new(&Config::new(1_000));
    let rtt = Some(SRTT);
    let round = AckSample { rate: Some(arriving()), rtt, srtt: rtt, rtt_min: rtt, ..ack() };
    for n in 0..20u64 {
        let now = Instant::from_millis(40 * n);
        let acked = window.on_ack(&AckSample { now, acked_bytes: window.cwnd(), ..round });
        window.slow_start(acked);
    }
    assert_eq!(window.cwnd(), 200_000 * 2 + 20_000);
    // With 60 ms of queue, the path holds what arrives in 100 ms.
    let srtt = Some(Duration::from_millis(100));
    window.on_ack(&AckSample { now: Instant::from_millis(800), srtt, ..round });
    let lost = |window: &CongestionWindow| window.flight_at(&loss(LossKind::Recovery, 1, 1));
    assert_eq!(lost(&window), 420_000, "less than that was sent");
    window.set_cwnd(1_000_000);
    assert_eq!(lost(&window), 500_000);
    let mut reduced = window.clone();
    reduced.reduce(150_000, &loss(LossKind::Recovery, 1, 1));
    assert_eq!(reduced.ssthresh(), Some(200_000), "the path holds as much without a queue");
    window.leave_slow_start();
    assert_eq!(lost(&window), 1_000_000);
}

#[test]
fn a_reduction_under_tack_leaves_in_flight_what_the_smaller_window_allows() {
    let mut window = acknowledged_every(10, 80, Pacing::Always);
    let (allowed, ack_interval) = (window.window(), Duration::from_millis(10));
    window.reduce(40 * MSS, &loss(LossKind::Recovery, MSS, allowed - MSS));
    let mut in_flight = allowed - MSS;
    let mut left = in_flight;
    while left > 0 {
        let acked_bytes = left.min(10 * MSS);
        left -= acked_bytes;
        in_flight -= acked_bytes;
        let sample = AckSample { acked_bytes, in_flight, in_recovery: true, ..ack() };
        window.on_ack(&AckSample { srtt: Some(SRTT), ack_interval, ..sample });
        let target = Rate::from_bytes_over(40 * MSS, SRTT).unwrap();
        assert_eq!(window.pacing_rate(), Some(target.mul_f64(TACK_PACING_GAIN)));
        let sent = (window.window().saturating_sub(in_flight)) / MSS * MSS;
        window.on_sent(sent);
        in_flight += sent;
    }
    assert_eq!(in_flight, 49 * MSS, "40 * (1 + 1/4) - 1");
    window.on_ack(&AckSample { srtt: Some(SRTT), ack_interval, in_flight, ..ack() });
    assert_eq!((window.cwnd(), window.window() / MSS), (40 * MSS, 49));
}

#[test]
fn a_slow_start_that_lost_a_quarter_of_its_flight_ends_with_what_arrives_though_no_queue_was_seen()
{
    let rtt = Some(SRTT);
    let round = AckSample { rate: Some(arriving()), rtt, srtt: rtt, rtt_min: rtt, ..ack() };
    // As much again was sent as arrives, and half of all is left.
    let after_losing = |bytes: u64| {
        let mut window = CongestionWindow::new(&Config::new(1_000));
        window.on_ack(&round);
        window.set_cwnd(400 * MSS);
        window.halve(&loss(LossKind::Recovery, MSS, 399 * MSS));
        assert_eq!(window.ssthresh(), Some(200 * MSS), "half of the window");
        let lost = AckSample { in_recovery: true, in_flight: 300 * MSS, ..round };
        window.on_ack(&AckSample { lost_bytes: bytes, ..lost });
        window.on_ack(&AckSample { in_flight: 200 * MSS, ..round });
        window.cwnd()
    };
    assert_eq!(after_losing(90 * MSS), 200 * MSS, "by chance, on a path that has room");
    assert_eq!(after_losing(99 * MSS), 160 * MSS, "four fifths of what arrives in a round trip");
}

#[test]
fn what_left_in_the_first_half_of_a_reduction_is_lost_to_the_same_overflow() {
    let reduced_again = |ack_interval_ms: u64, after_ms: u64| {
        let mut window = acknowledged_every(ack_interval_ms, 80, Pacing::Always);
        assert_eq!(window.on_loss(&loss(LossKind::Recovery, MSS, 79 * MSS)), Answer::Reduce);
        window.reduce(40 * MSS, &loss(LossKind::Recovery, MSS, 79 * MSS));
        let now = Instant::from_millis(after_ms);
        let again = LossSample { now, ..loss(LossKind::Recovery, MSS, 60 * MSS) };
        window.on_loss(&again) == Answer::Reduce
    };
    assert!(!reduced_again(10, 59), "what left within 20 ms");
    assert!(reduced_again(10, 60));
    assert!(reduced_again(0, 40), "plain TCP, as ever");
}

#[test]
fn where_tacks_were_lost_as_well_repairs_leave_for_all_that_had_arrived() {
    // Of 99 segments that may be in flight 60 were acknowledged with the news that 39 are lost.
    let allowed_at_once = |interval_ms| {
        let mut window = acknowledged_every(interval_ms, 80, Pacing::Always);
        window.reduce(40 * MSS, &loss(LossKind::Recovery, 39 * MSS, 0));
        let ack_interval = Duration::from_millis(interval_ms);
        window.on_ack(&AckSample { in_recovery: true, ack_interval, ..ack() });
        window.window() / MSS
    };
    assert_eq!(allowed_at_once(10), 49, "40 * (1 + 1/4) - 1");
    assert_eq!(allowed_at_once(0), 1, "plain TCP [RFC 9937]");
}
