use super::*;

#[test]
fn names_read_back_as_what_they_name() {
    for ack in AckStrategy::ALL {
        assert_eq!(ack.name().parse(), Ok(*ack));
        assert_eq!(ack.name().to_uppercase().parse(), Ok(*ack));
    }
    let mut names: Vec<_> = AckStrategy::ALL.iter().map(AckStrategy::name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), AckStrategy::ALL.len(), "each has a name of its own");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    for name in [
        "",
        "tcp-l",
        "tcp-l0",
        "tcp-l65",
        "tcp-l2-0ms",
        "tcp-l2-quick",
        "tackle",
        "a4l8",
        "a1l1",
        "1w",
        "4w-beta",
        "w",
        "ar1",
    ] {
        let error = name.parse::<AckStrategy>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
        assert!(error.contains("tack") && error.contains("tcp-l1 to"), "{error}");
    }
}

#[test]
fn what_nobody_agreed_to_is_not_done() {
    for ack in AckStrategy::ALL {
        assert_eq!(ack.in_force(ack.needs()), *ack);
        let alone = ack.in_force(Needs::Nothing);
        assert_eq!(alone.needs(), Needs::Nothing);
        assert_eq!(alone == *ack, ack.needs() == Needs::Nothing);
    }
}

const FULL: u32 = 1_000;

/// What came and waits, with what was known of the path then.
type Waiting = Vec<(Instant, Arrival, PathSeen)>;

/// When an acknowledgment of what waits is due, from the text of a rule alone.
trait Oracle {
    /// `count`: bytes that came before, since the connection began.
    fn due(&self, waiting: &Waiting, count: u64) -> Instant;
}

/// The first moment at which `limit` bytes wait or something must be answered; else the earliest of
/// every arrival plus its delay.
fn counted(
    waiting: &Waiting,
    mut limit: impl FnMut(usize) -> u64,
    delay: impl Fn(usize) -> Duration,
) -> Instant {
    let mut sum = 0;
    let due = waiting.iter().enumerate().map(|(i, (at, arrival, _))| {
        sum += u64::from(arrival.bytes);
        if arrival.immediate || sum >= limit(i) { *at } else { *at + delay(i) }
    });
    due.min().expect("something waits")
}

impl<F: Fn(&Waiting, u64) -> Instant> Oracle for F {
    fn due(&self, waiting: &Waiting, count: u64) -> Instant {
        self(waiting, count)
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn ratio(segments: u64) -> impl Oracle {
    move |waiting: &Waiting, before: u64| {
        let begun: Vec<u64> = waiting
            .iter()
            .scan(before, |count, (_, arrival, _)| {
                let was = *count;
                *count += u64::from(arrival.bytes.div_ceil(FULL));
                Some(was)
            })
            .collect();
        let limit = |i: usize| {
            let n = if begun[i] < 100 { 2 } else { segments };
            n.saturating_mul(u64::from(FULL))
        };
        let delay = |i: usize| waiting[i].2.rtt_min.map_or(ms(25), |rtt| ms(25).min(rtt / 4));
        counted(waiting, limit, delay)
    }
}

fn every(segments: u64, delay: Duration) -> impl Oracle {
    move |waiting: &Waiting, _: u64| counted(waiting, |_| segments * u64::from(FULL), |_| delay)
}

fn picoquic(waiting: &Waiting, _: u64) -> Instant {
    let gap = |i: usize| waiting[i].2.window.map_or(2, |w| (w / 1_000 / 4).clamp(2, 32)) * 1_000;
    let delay =
        |i: usize| waiting[i].2.rtt_min.map_or(ms(10), |rtt| (rtt / 4).clamp(ms(1), ms(10)));
    counted(waiting, gap, delay)
}

/// Marks, or the timer; all random arrivals bring a mark before the third timer in a row.
fn polled(delay: Duration) -> impl Oracle {
    move |waiting: &Waiting, _: u64| {
        let mut asked = waiting.clone();
        asked.iter_mut().for_each(|(_, arrival, _)| arrival.immediate |= arrival.polled);
        counted(&asked, |_| u64::MAX, |_| delay)
    }
}

/// Periods of 10 ms from time zero on.
fn srt(waiting: &Waiting, _: u64) -> Instant {
    let to_end = |i: usize| {
        let past = waiting[i].0.as_nanos() % 10_000_000;
        Duration::from_nanos(10_000_000 - past)
    };
    counted(waiting, |_| 64 * u64::from(FULL), to_end)
}

/// Random arrivals: `strategy` says an acknowledgment is due when the oracle says so.
fn compare(strategy: &str, oracle: &dyn Oracle) {
    use rand::{RngExt, SeedableRng};
    let ack: AckStrategy = strategy.parse().expect("a name");
    for seed in 0..60 {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
        let mut receiver = ack.receiver(FULL);
        let (mut waiting, mut before, mut now) = (Waiting::new(), 0, Instant::from_secs(3));
        let mut seen = PathSeen::default();
        // The first segment teaches its size.
        receiver.on_data(
            &Arrival {
                bytes: FULL,
                segment: FULL,
                immediate: true,
                news: News::InOrder,
                polled: true,
            },
            &seen,
            now,
        );
        receiver.on_ack_sent(now);
        before += 1;
        for step in 0..400 {
            now += Duration::from_micros(rng.random_range(0..4_000));
            if rng.random_bool(0.02) {
                seen.rtt_min = Some(Duration::from_micros(rng.random_range(100..200_000)));
                seen.window = Some(rng.random_range(0..200_000));
            }
            let bytes = if rng.random_bool(0.8) { FULL } else { rng.random_range(1..=FULL) };
            // Before a timer can have fired three times in a row.
            let polled = rng.random_bool(0.1) || step % 20 == 0;
            let (immediate, news) = (rng.random_bool(0.01), News::InOrder);
            let arrival = Arrival { bytes, segment: bytes, immediate, news, polled };
            receiver.on_data(&arrival, &seen, now);
            waiting.push((now, arrival, seen));
            let due = oracle.due(&waiting, before);
            assert_eq!(receiver.deadline(), Some(due.max(waiting[0].0)), "{strategy}, seed {seed}");
            assert_eq!(receiver.is_due(now), due <= now, "{strategy}, seed {seed}");
            // Due, or data leaves and takes it along.
            if due <= now || rng.random_bool(0.02) {
                receiver.on_ack_sent(now);
                assert_eq!(receiver.deadline(), None, "{strategy}, seed {seed}");
                let counted = waiting.iter().map(|w| u64::from(w.1.bytes.div_ceil(FULL)));
                before += counted.sum::<u64>();
                waiting.clear();
            }
        }
    }
}

#[test]
fn random_arrivals_are_acknowledged_when_the_rule_of_each_strategy_says_so() {
    compare("ae", &every(0, Duration::ZERO));
    compare("tcp-l4-200ms-noquick", &every(4, ms(200)));
    compare("ar10", &ratio(10));
    compare("akdu", &ratio(u64::MAX));
    compare("picoquic", &picoquic);
    compare("srt", &srt);
    compare("4w", &polled(ms(100)));
    compare("a8l8-1000ms", &polled(ms(1_000)));
}

#[test]
fn whatever_must_be_answered_at_once_is_by_every_strategy_and_nothing_waits_for_ever() {
    for ack in AckStrategy::ALL {
        let mut receiver = ack.receiver(FULL);
        let (path, now) = (PathSeen::default(), Instant::from_secs(1));
        assert_eq!(receiver.deadline(), None, "{ack}");
        receiver.on_data(
            &Arrival { bytes: 0, segment: 0, immediate: false, news: News::InOrder, polled: false },
            &path,
            now,
        );
        assert_eq!(receiver.deadline(), None, "{ack}: nothing came");
        receiver.on_data(
            &Arrival { bytes: 1, segment: 1, immediate: false, news: News::InOrder, polled: false },
            &path,
            now,
        );
        assert!(receiver.deadline().is_some_and(|at| at <= now + ms(1_000)), "{ack}");
        receiver.on_ack_sent(now);
        receiver.on_data(
            &Arrival { bytes: 0, segment: 0, immediate: true, news: News::InOrder, polled: false },
            &path,
            now,
        );
        assert!(receiver.is_due(now), "{ack}");
        receiver.on_ack_sent(now);
        assert_eq!(receiver.deadline(), None, "{ack}");
    }
}

#[test]
fn formulas_meet_their_equations_in_the_limit_of_small_segments() {
    use ::tack::equations::{byte_counting_frequency, delayed_frequency, tack_frequency};
    let (bw, rtt_min) = (Rate::from_mbps(100), ms(80));
    let facts = |mss| PathFacts { bw, rtt_min, window: bw.bytes_in(rtt_min), mss };
    let of = |name: &str, mss| name.parse::<AckStrategy>().expect("a name").frequency(&facts(mss));
    assert_eq!(of("ae", 1_000), byte_counting_frequency(bw, 1, 1_000));
    assert_eq!(of("tcp-l8", 1_000), delayed_frequency(bw, ms(40), 8, 1_000));
    assert_eq!(of("ar10", 1_000), delayed_frequency(bw, ms(20), 10, 1_000));
    assert_eq!(of("tack", 1_000), tack_frequency(bw, rtt_min, 4, 2, 1_000));
    // The timer's regime: with single bytes, nothing is whole segments' doing.
    for (name, delay) in [("tcp-l64", 40), ("akdu", 20), ("ar100", 20)] {
        let slow = PathFacts { bw: Rate::from_kbps(8), ..facts(1) };
        let formula = name.parse::<AckStrategy>().expect("a name").frequency(&slow);
        let limit = 1.0 / ms(delay).as_secs_f64();
        assert!((formula / limit - 1.0).abs() < 0.05, "{name}: {formula} and {limit}");
    }
    assert_eq!(of("4w", 1_000), 4.0 / 0.08);
    assert_eq!(of("2waf", 1_000), 2.0 / 0.08);
}
