use super::*;
use tack::StartupAcks;

const MS: Duration = Duration::from_millis(1);

/// xorshift64*, seeded.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }

    /// From `low` to `high`, each decade as often.
    fn decades(&mut self, low: f64, high: f64) -> f64 {
        let unit = self.below(1 << 53) as f64 / (1u64 << 53) as f64;
        low * tack_units::math::pow(high / low, unit)
    }
}

fn steady(mbps: u64, rtt_ms: u64) -> Path {
    let (bw, rtt_min) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
    Path { bw, rtt_min, regime: Regime::Steady }
}

/// Acknowledgments per second of a receiver as the draft has it, while full packets arrive at `bw`
/// with gaps that vary by half.
fn simulated(request: &Request, bw: Rate, mss: u32, rng: &mut Rng) -> f64 {
    let gap = f64::from(mss) * 8.0 / bw.as_bps() as f64;
    let delay = request.max_ack_delay.as_secs_f64();
    let (mut now, mut acks, mut packets, mut due) = (0.0, 0u32, 0, f64::INFINITY);
    let mut arrivals = 0;
    while acks < 500 && arrivals < 2_000_000 {
        now += gap * (0.5 + rng.below(1 << 20) as f64 / (1 << 20) as f64);
        arrivals += 1;
        if due <= now {
            (acks, packets, due) = (acks + 1, 0, f64::INFINITY);
        }
        packets += 1;
        if packets == 1 {
            due = now + delay;
        }
        if packets > request.ack_eliciting_threshold {
            (acks, packets, due) = (acks + 1, 0, f64::INFINITY);
        }
    }
    f64::from(acks) / now
}

#[test]
fn a_receiver_that_obeys_acknowledges_as_equation_4_says_on_any_path() {
    let mut rng = Rng(7);
    for draw in 0..1_500 {
        let bw = Rate::from_kbps(rng.decades(200.0, 10e6) as u64);
        let rtt_min = Duration::from_micros(rng.decades(100.0, 800e3) as u64);
        let path = Path { bw, rtt_min, regime: Regime::Steady };
        let params = Params {
            beta: 2 + rng.below(7) as u32,
            segments_per_ack: 1 + rng.below(8) as u32,
            mss: 1_000 + rng.below(450) as u32,
            ..Params::default()
        };
        let min_ack_delay = Duration::from_micros(rng.below(3_000));
        let request = Request::new(&path, &params, min_ack_delay, 3);
        assert!(request.max_ack_delay >= min_ack_delay, "draw {draw}: {request:?}");
        let Params { beta, segments_per_ack, mss, .. } = params;
        let eq4 = equations::tack_frequency(bw, rtt_min, beta, segments_per_ack, mss);
        // A sparse flow is acknowledged by a timer, which Eq. 4 does not have.
        let gap = bw.time_for(u64::from(mss)).unwrap();
        let counts = request.ack_eliciting_threshold < NEVER;
        if counts && gap * (segments_per_ack - 1) > request.max_ack_delay.mul_f64(0.6) {
            continue;
        }
        let ratio = simulated(&request, bw, mss, &mut rng) / eq4;
        // A count is a whole number of packets.
        let packets = bw.bytes_in(Duration::from_secs_f64(1.0 / eq4)) as f64 / f64::from(mss);
        let half_a_packet = 1.0 + 0.5 / (packets - 0.5).max(0.5);
        let within = if counts { half_a_packet } else { 1.06 };
        assert!(
            (1.0 / (within + 0.02)..within + 0.02).contains(&ratio),
            "draw {draw}: {ratio} of Eq. 4, {packets} packets each: {path:?} {params:?} {request:?}"
        );
    }
}

#[test]
fn the_form_is_the_one_that_rules() {
    let params = Params::default();
    let long = Request::new(&steady(250, 80), &params, MS, 3);
    assert_eq!(long.ack_eliciting_threshold, NEVER);
    assert_eq!(long.max_ack_delay.as_millis(), 19, "RTTmin/4 less half a packet");
    let slow = Request::new(&steady(1, 20), &params, MS, 3);
    assert_eq!((slow.ack_eliciting_threshold, slow.max_ack_delay), (1, params.flush));
    // Where the peer allows no delay as short: RTTmin/4 of 2 Gbit/s are 43 packets.
    let short = Request::new(&steady(2_000, 1), &params, MS, 3);
    assert_eq!((short.ack_eliciting_threshold, short.max_ack_delay), (42, params.flush));
}

#[test]
fn whatever_is_asked_for_is_within_what_a_peer_and_a_frame_allow() {
    let mut rng = Rng(11);
    for _ in 0..20_000 {
        let path = Path {
            bw: Rate::from_bps(rng.below(u64::MAX) >> rng.below(64)),
            rtt_min: Duration::from_nanos(rng.below(u64::MAX) >> rng.below(64)),
            regime: if rng.below(2) == 0 { Regime::Startup } else { Regime::Steady },
        };
        let params = Params {
            beta: rng.below(100) as u32,
            segments_per_ack: rng.below(100) as u32,
            mss: rng.below(70_000) as u32,
            startup: [StartupAcks::PerPacket, StartupAcks::PerRtt(16)][rng.below(2) as usize],
            ..Params::default()
        };
        let min_ack_delay = Duration::from_micros(rng.below(16_000_000));
        let r = Request::new(&path, &params, min_ack_delay, 3);
        assert!(r.max_ack_delay >= min_ack_delay && r.max_ack_delay <= MAX_ACK_DELAY, "{r:?}");
        assert!(r.ack_eliciting_threshold <= NEVER);
        assert_eq!(r.max_ack_delay.subsec_nanos() % 1_000, 0, "whole microseconds");
    }
}

#[test]
fn probing_for_bandwidth_asks_for_more_acknowledgments() {
    let path = steady(100, 80);
    let probing = Path { regime: Regime::Startup, ..path };
    let params = Params::default();
    let interval = |p: &Path| Request::new(p, &params, MS, 3).interval(p.bw, params.mss).unwrap();
    assert_eq!(interval(&path).as_millis(), 20);
    assert_eq!(interval(&probing).as_millis(), 5);
    let per_packet = Params { startup: StartupAcks::PerPacket, ..params };
    assert_eq!(Request::new(&probing, &per_packet, MS, 3).ack_eliciting_threshold, 0);
}

#[test]
fn a_frame_goes_when_the_interval_changes_and_not_otherwise() {
    let mut f = AckFrequency::new(Params::default(), 25 * MS, MS, 3);
    let at = Instant::from_millis;
    let rtt = 80 * MS;
    let first = f.poll(&steady(100, 80), rtt, at(0)).expect("told at once");
    assert_eq!((first.sequence, f.poll(&steady(100, 80), rtt, at(5_000))), (0, None));
    // Where the period rules the rate hardly matters.
    assert_eq!(f.poll(&steady(300, 80), rtt, at(5_000)), None);
    // A drift waits for 4 RTTmin, a factor of two for one round trip.
    assert!(f.poll(&steady(100, 95), rtt, at(100)).is_none());
    assert!(f.poll(&steady(100, 95), rtt, at(400)).is_some());
    assert!(f.poll(&steady(100, 20), rtt, at(450)).is_none());
    assert_eq!(f.poll(&steady(100, 20), rtt, at(480)).map(|f| f.sequence), Some(2));
}

#[test]
fn a_random_walk_is_followed_closely_and_with_few_frames() {
    let params = Params::default();
    let mut rng = Rng(3);
    let mut f = AckFrequency::new(params, 25 * MS, MS, 3);
    let (mut path, mut told, mut frames) = (steady(50, 40), None, 0u32);
    let mut far = 0;
    for ms in 0..100_000u64 {
        if ms % 10 == 0 {
            path.bw = path.bw.mul_f64(rng.decades(0.99, 1.0 / 0.99));
            path.bw = path.bw.max(Rate::from_kbps(500)).min(Rate::from_mbps(2_000));
        }
        if let Some(frame) = f.poll(&path, path.rtt_min, Instant::from_millis(ms)) {
            (told, frames) = (Some(frame.request), frames + 1);
        }
        let wanted = Request::new(&path, &params, MS, 3).interval(path.bw, params.mss).unwrap();
        let got = told.unwrap().interval(path.bw, params.mss).unwrap();
        far += u32::from((got.div_duration_f64(wanted) - 1.0).abs() > 0.15);
    }
    assert!(far < 2_000, "far off for {far} ms of 100 s");
    assert!(frames < 100, "{frames} frames");
}

#[test]
fn a_probe_timeout_allows_for_the_longest_delay_that_may_be_in_force() {
    let mut f = AckFrequency::new(Params::default(), 25 * MS, MS, 3);
    assert_eq!(f.max_ack_delay(), 25 * MS);
    let at = Instant::from_millis;
    let long = f.poll(&steady(100, 200), 200 * MS, at(0)).unwrap();
    assert_eq!(f.max_ack_delay(), long.request.max_ack_delay);
    f.on_acked(long.sequence);
    let short = f.poll(&steady(100, 20), 20 * MS, at(1_000)).unwrap();
    assert_eq!(f.max_ack_delay(), long.request.max_ack_delay, "until it is known to be over");
    f.on_acked(long.sequence);
    assert_eq!(f.max_ack_delay(), long.request.max_ack_delay, "news of the old one is no news");
    f.on_acked(short.sequence);
    assert_eq!(f.max_ack_delay(), short.request.max_ack_delay);
}

#[test]
fn a_lost_frame_is_told_anew_unless_a_newer_one_is_under_way() {
    let mut f = AckFrequency::new(Params::default(), 25 * MS, MS, 3);
    let at = Instant::from_millis;
    let path = steady(100, 80);
    let first = f.poll(&path, 80 * MS, at(0)).unwrap();
    f.on_lost(first.sequence);
    let again = f.poll(&path, 80 * MS, at(1)).expect("its loss is known");
    assert_eq!((again.sequence, again.request), (1, first.request));
    f.on_lost(first.sequence);
    assert_eq!(f.poll(&path, 80 * MS, at(2)), None);
}

#[test]
fn longer_packets_are_asked_for_by_fewer() {
    let params = Params { mss: 1_200, ..Params::DEFAULT };
    let mut asks = AckFrequency::new(params, 25 * MS, MS, 3);
    // 100 Mbit/s, 2 ms: a count, since the peer allows no delay below 1 ms; of 1 200 bytes 96 us apart.
    let path = steady(100, 2);
    let told = |asks: &mut AckFrequency, ms| {
        let frame = asks.poll(&path, 2 * MS, Instant::from_millis(ms));
        frame.map(|frame| frame.request.ack_eliciting_threshold + 1)
    };
    assert_eq!(told(&mut asks, 10), Some(5));
    assert_eq!(told(&mut asks, 1_000), None);
    asks.set_mss(1_450);
    assert_eq!(told(&mut asks, 2_000), Some(4), "116 us apart");
}
