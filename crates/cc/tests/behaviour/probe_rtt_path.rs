//! Probing for RTTmin when nothing but old losses is left to send.

use core::time::Duration;

use tack_cc::{
    AckSample, Algorithm, Config, CongestionControl, Controller, LossKind, LossSample, RateSample,
    RateSource,
};
use tack_units::{Instant, Rate};

const MSS: u64 = 1_448;
const RTT: Duration = Duration::from_millis(80);

fn ack(round: u64, in_flight: u64, rate: Option<Rate>, rtt: Option<Duration>) -> AckSample {
    AckSample {
        now: Instant::ZERO + RTT * u32::try_from(round).unwrap(),
        acked_bytes: 4 * MSS,
        lost_bytes: 0,
        delivered: round * 4 * MSS,
        prior_in_flight: in_flight + 4 * MSS,
        in_flight,
        rtt,
        srtt: Some(RTT),
        queued: None,
        rtt_min: Some(RTT),
        rate: Some(RateSample {
            delivery_rate: rate,
            app_limited: false,
            source: RateSource::Sender,
            prior_delivered: (round - 1) * 4 * MSS,
            interval: rate.map_or(Duration::ZERO, |_| RTT),
        }),
        newest_sent_at: None,
        lost_sent_at: None,
        ack_interval: Duration::ZERO,
        cwnd_limited: true,
        in_recovery: rate.is_none(),
        ece: false,
    }
}

/// 802.11ac at 80 ms, L = 1, seed 9: the probe fell into a loss episode, all it sent were
/// retransmissions, and their round trips gave neither an RTT nor a rate.
#[test]
fn a_probe_of_retransmissions_alone_ends_after_a_round_and_200_ms() {
    let mut bbr = CongestionControl::new(Algorithm::Bbr, Config::new(MSS as u32), Instant::ZERO);
    let rate = Rate::from_mbps(5);
    // 10 s and more without a lower RTT.
    let mut round = 0;
    while bbr.window() > 4 * MSS {
        round += 1;
        assert!(round < 200, "it never probes");
        bbr.on_ack(&ack(round, 100 * MSS, Some(rate), Some(RTT)));
    }
    let began = round;
    while bbr.window() <= 4 * MSS {
        round += 1;
        assert!(round < began + 10, "the probe does not end");
        bbr.on_ack(&ack(round, 0, None, None));
    }
    assert!(RTT * u32::try_from(round - began).unwrap() >= Duration::from_millis(200));
}

/// 802.11n at 80 ms, L = 16, seed 3: a loss episode that began inside the probe cut the window to
/// the probe's flight, and plain TCP grew back from there.
#[test]
fn a_probe_ends_with_the_window_from_before_though_loss_cut_it_meanwhile() {
    let mut bbr = CongestionControl::new(Algorithm::Bbr, Config::new(MSS as u32), Instant::ZERO);
    let rate = Rate::from_mbps(5);
    let (mut round, mut before) = (0, 0);
    while bbr.window() > 4 * MSS {
        round += 1;
        assert!(round < 200, "it never probes");
        before = bbr.window();
        bbr.on_ack(&ack(round, 100 * MSS, Some(rate), Some(RTT)));
    }
    let now = Instant::ZERO + RTT * u32::try_from(round).unwrap();
    let loss = LossKind::Recovery;
    bbr.on_loss(&LossSample { now, kind: loss, lost_bytes: 50 * MSS, in_flight: 4 * MSS });
    let began = round;
    while bbr.window() <= 4 * MSS {
        round += 1;
        assert!(round < began + 10, "the probe does not end");
        bbr.on_ack(&ack(round, 0, None, None));
    }
    assert!(bbr.window() >= before / 2, "{} after {before}", bbr.window());
}
