use super::*;
use crate::sample::RateSource;
use crate::sample::tests::ack;

const RTT: Duration = Duration::from_millis(20);

/// A response of 20 segments every 50 ms, of which each report shows 20 Mbit/s, and `lost` are lost.
fn dialogue(source: RateSource, lost: u64) -> Bbr3 {
    let mut bbr3 = Bbr3::new(&Config::new(1_000), Instant::ZERO);
    for exchange in 1..=20 {
        let now = Instant::from_millis(50 * exchange);
        bbr3.on_sent(20_000, 20_000, true, now - RTT);
        let rate = RateSample {
            delivery_rate: Some(Rate::from_mbps(20)),
            app_limited: true,
            source,
            prior_delivered: 20_000 * (exchange - 1),
            interval: Duration::ZERO,
        };
        bbr3.on_ack(&AckSample {
            now,
            acked_bytes: 20_000 - 1_000 * lost,
            lost_bytes: 1_000 * lost,
            lost_sent_at: (lost > 0).then_some(now - RTT),
            delivered: 20_000 * exchange,
            in_flight: 0,
            rtt: Some(RTT),
            srtt: Some(RTT),
            rtt_min: Some(RTT),
            rate: Some(rate),
            ack_interval: RTT / 4,
            ..ack()
        });
    }
    bbr3
}

#[test]
fn startup_ends_where_each_burst_of_a_dialogue_overflows() {
    // Held down by the application, no round shows that the pipe is full, and none has six bursts of loss.
    assert_ne!(dialogue(RateSource::Receiver, 2).state, State::Startup);
    assert_eq!(
        dialogue(RateSource::Receiver, 0).state,
        State::Startup,
        "nothing says that it is full"
    );
    assert_eq!(dialogue(RateSource::Sender, 2).state, State::Startup, "as the draft has it");
}

/// Startup after `rounds` round trips of four acknowledgments, through which each window arrives as a whole, `queued`.
fn started(source: RateSource, queued: Duration, rounds: u64) -> Bbr3 {
    let mut bbr3 = Bbr3::new(&Config::new(1_000), Instant::ZERO);
    let mut delivered = 0;
    for round in 1..=rounds {
        let (window, prior_delivered) = (bbr3.window(), delivered);
        for quarter in 1..=4 {
            let now = Instant::ZERO + RTT.mul_f64(round as f64 + f64::from(quarter) / 4.0);
            bbr3.on_sent(window / 4, window, false, now - RTT);
            delivered += window / 4;
            let rate = RateSample {
                delivery_rate: Rate::from_bytes_over(window, RTT),
                app_limited: false,
                source,
                prior_delivered,
                interval: RTT / 4,
            };
            bbr3.on_ack(&AckSample {
                now,
                acked_bytes: window / 4,
                delivered,
                prior_in_flight: window,
                in_flight: window / 4 * 3,
                rtt: Some(RTT + queued),
                queued: Some(queued),
                srtt: Some(RTT + queued),
                rtt_min: Some(RTT),
                newest_sent_at: Some(now - RTT),
                rate: Some(rate),
                ack_interval: RTT / 4,
                ..ack()
            });
        }
    }
    bbr3
}

#[test]
fn startup_grows_faster_than_by_doubling_where_a_receiver_tells_that_nothing_waits() {
    let grown = |source, queued| {
        let window = |rounds| started(source, queued, rounds).window() as f64;
        window(4) / window(3)
    };
    let queue = Duration::from_millis(7);
    assert!(grown(RateSource::Receiver, Duration::ZERO) > 2.3);
    assert!(grown(RateSource::Receiver, queue) < 2.1, "a queue");
    assert!(grown(RateSource::Sender, Duration::ZERO) < 2.1, "as the draft has it");
}

#[test]
fn a_timeout_that_proves_needless_gives_the_window_back_and_another_does_not() {
    let loss = |kind| LossSample { now: Instant::ZERO, kind, lost_bytes: 0, in_flight: 0 };
    for (in_recovery, returns) in [(true, true), (false, false)] {
        let mut bbr3 = dialogue(RateSource::Receiver, 0);
        let before = bbr3.window();
        bbr3.on_loss(&loss(LossKind::Timeout));
        bbr3.on_loss(&loss(LossKind::Timeout));
        bbr3.on_ack(&AckSample { in_recovery, ..ack() });
        assert!(bbr3.window() <= 4_000);
        bbr3.on_loss(&loss(LossKind::Spurious));
        assert_eq!(bbr3.window() == before, returns);
    }
}

#[test]
fn what_waits_for_the_next_tack_is_no_part_of_what_loss_has_bounded() {
    // 50 kB of bdp, a quarter of it waits.
    let bounded = |source| {
        let mut bbr3 = dialogue(source, 0);
        bbr3.state = State::ProbeBw;
        bbr3.bounds.bound_startup(20_000);
        bbr3.cwnd = 100_000;
        bbr3.update_window(&ack());
        bbr3.window()
    };
    assert_eq!(bounded(RateSource::Receiver) - bounded(RateSource::Sender), 12_500 / 2);
}

#[test]
fn a_path_that_turns_slower_and_drops_a_window_is_sent_as_much_as_arrives() {
    // Five reports of a packet that arrived and ten that were lost, of 100 in flight.
    let window_after = |source, rtt| {
        let mut bbr3 = dialogue(source, 2);
        (bbr3.cwnd, bbr3.bounds) = (100_000, Bounds::default());
        let last = (1..=5).map(|report| AckSample {
            now: Instant::from_millis(1_000 + 5 * report),
            acked_bytes: 1_000,
            lost_bytes: 10_000,
            delivered: 400_000 + 1_000 * report,
            in_flight: 100_000 - 11_000 * report,
            rtt: Some(rtt),
            srtt: Some(rtt),
            ..ack()
        });
        last.for_each(|ack| bbr3.on_ack(&ack));
        bbr3.window()
    };
    assert_eq!(window_after(RateSource::Receiver, RTT * 4), 48_000);
    assert_eq!(window_after(RateSource::Receiver, RTT), 55_000, "nothing waited");
    assert_eq!(window_after(RateSource::Sender, RTT * 4), 55_000, "as the draft has it");
}
