//! Eq. 4 in time, against a model that looks at every arrival again at every step.

use super::*;
use core::time::Duration;

const MSS: u32 = 1_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

const FLUSH: Duration = Duration::from_millis(40);

fn params(startup: StartupAcks, segments_per_ack: u32) -> Params {
    Params { startup, segments_per_ack, mss: MSS, flush: FLUSH, ..Params::default() }
}

fn frequency(regime: Regime, interval: Duration, segments_per_ack: u32) -> Frequency {
    let rtt_min = interval.saturating_mul(4);
    Frequency { regime, interval, rtt_min, segments_per_ack, rho_prime: 0.0, bdp: 0 }
}

fn steady(alpha: Duration, l: u32) -> Schedule {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), l));
    s.on_frequency(&frequency(Regime::Steady, alpha, l));
    s
}

#[test]
fn before_anything_is_known_l_segments_or_ten_milliseconds_count() {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    assert_eq!(s.by_rules(), None);
    s.on_arrival(1_000, false, at(1));
    assert_eq!(s.by_rules(), Some(at(11)));
    s.on_arrival(1_000, false, at(2));
    assert_eq!(s.by_rules(), Some(at(2)));
    s.on_tack(at(2));
    assert_eq!(s.by_rules(), None);
}

#[test]
fn startup_costs_sixteen_tacks_per_rtt_of_the_handshake() {
    // 100 segments per RTTmin of 160 ms, for ten of them: per packet that would be 1 000.
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_handshake(ms(10), ms(160));
    let mut tacks = 0;
    for i in 0..1_000 {
        let now = Instant::from_micros(i * 1_600);
        s.on_arrival(1_000, false, now);
        if s.by_rules().is_some_and(|due| due <= now) {
            s.on_tack(now);
            tacks += 1;
        }
    }
    assert_eq!(tacks, 160);
}

#[test]
fn a_handshake_does_not_overrule_what_the_sender_told() {
    let mut s = steady(ms(20), 2);
    s.on_handshake(ms(1), ms(16));
    assert_eq!((s.alpha(), s.rtt_min()), (ms(20), ms(80)));
}

#[test]
fn a_window_of_an_odd_number_of_segments_waits_ten_milliseconds_in_startup() {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_handshake(ms(1), ms(16));
    s.on_arrival(1_000, false, at(5));
    assert_eq!(s.by_rules(), Some(at(15)));
    s.on_frequency(&frequency(Regime::Steady, ms(4), 2));
    assert_eq!(s.by_rules(), Some(at(5) + FLUSH));
    s.on_frequency(&frequency(Regime::Startup, ms(1), 2));
    s.on_tack(at(15));
    s.on_arrival(1_000, false, at(16));
    assert_eq!(s.by_rules(), Some(at(16) + FLUSH), "11 ms after the one before: a sparse flow");
}

#[test]
fn per_packet_acknowledges_every_instant_that_packets_arrived_whatever_else_happens() {
    // The rule that Startup had before it was given a frequency of its own [TON §VI-D].
    for seed in 1..=200u64 {
        let mut next = xorshift(seed);
        let mut s = Schedule::new(&params(StartupAcks::PerPacket, 1 + next(4) as u32));
        let (mut now, mut oldest, mut demanded) = (at(1), None, None);
        for _ in 0..400 {
            now += Duration::from_micros(next(20_000));
            match next(8) {
                0 => s.on_handshake(Duration::ZERO, Duration::from_micros(next(200_000))),
                1 => s.on_frequency(&frequency(Regime::Startup, ms(0), 1 + next(4) as u32)),
                2 => s.on_data_left(true, now),
                3 => {
                    s.demand(now);
                    demanded.get_or_insert(now);
                }
                _ => {
                    let at_once = next(9) == 0;
                    s.on_arrival(next(3_000), at_once, now);
                    oldest.get_or_insert(now);
                    demanded = demanded.or(at_once.then_some(now));
                }
            }
            assert_eq!(s.by_rules(), oldest.or(demanded), "seed {seed}");
            if next(2) == 0 && s.by_rules().is_some() {
                s.on_tack(now);
                (oldest, demanded) = (None, None);
            }
        }
    }
}

#[test]
fn counting_waits_for_l_full_sized_segments() {
    let mut s = steady(ms(1), 2);
    s.on_arrival(951, false, at(10));
    s.on_arrival(1_000, false, at(20));
    assert_eq!(s.by_rules(), Some(at(10) + FLUSH), "one byte short: only the flush timer");
    s.on_arrival(1, false, at(21));
    assert_eq!(s.by_rules(), Some(at(21)), "two segments less 24 bytes of options each");
}

#[test]
fn a_burst_beyond_l_segments_is_acknowledged_once_and_counting_begins_anew() {
    // Bursts of three: with L = 2 one TACK each, with L = 4 one for every second, as TCPs do.
    // Had bytes carried over, L = 4 would cost 225 TACKs for 900 segments.
    for (l, expected) in [(2, 300), (4, 150)] {
        let mut s = steady(ms(1), l);
        let mut tacks = 0;
        for t in (0..3_000).step_by(10) {
            s.on_arrival(3_000, false, at(t));
            while s.by_rules().is_some_and(|d| d <= at(t)) {
                s.on_tack(at(t));
                tacks += 1;
            }
        }
        assert_eq!(tacks, expected, "L = {l}");
    }
}

#[test]
fn the_period_counts_from_the_due_time_however_late_the_poll() {
    let mut s = steady(ms(10), 2);
    let mut tacks = 0;
    for t in 0..10_000 {
        s.on_arrival(2_000, false, at(t));
        // A driver that wakes up every 7 ms.
        if t % 7 == 0 && s.by_rules().is_some_and(|d| d <= at(t)) {
            s.on_tack(at(t));
            tacks += 1;
        }
    }
    assert!((998..=1_001).contains(&tacks), "{tacks}");
}

#[test]
fn a_lone_packet_is_flushed_and_never_waits_half_a_second() {
    for alpha in [0, 1, 25, 100, 400, 10_000] {
        let mut s = steady(ms(alpha), 2);
        s.on_arrival(1, false, at(1_000));
        let wait = s.by_rules().unwrap() - at(1_000);
        assert!(wait <= ms(alpha).max(FLUSH) && wait < ms(500), "alpha {alpha} ms: {wait:?}");
    }
    let endless = Params { flush: Duration::MAX, ..params(StartupAcks::PerRtt(16), 2) };
    let mut s = Schedule::new(&endless);
    s.on_frequency(&frequency(Regime::Steady, Duration::MAX, u32::MAX));
    s.on_arrival(u64::MAX, false, at(1_000));
    s.on_arrival(u64::MAX, false, at(1_000));
    assert!(s.by_rules().unwrap() - at(1_000) < ms(500));
}

#[test]
fn what_must_be_told_at_once_is() {
    let mut s = steady(ms(100), 2);
    s.on_arrival(1, true, at(5));
    assert_eq!(s.by_rules(), Some(at(5)));
    s.on_tack(at(5));
    s.demand(at(9));
    assert_eq!(s.by_rules(), Some(at(9)), "even if nothing arrived");
    s.on_tack(at(9));
    assert_eq!(s.by_rules(), None);
}

#[test]
fn a_regime_change_applies_to_what_waits_already() {
    let mut s = steady(ms(100), 4);
    s.on_tack(at(0));
    s.on_arrival(2_000, false, at(1));
    assert_eq!(s.by_rules(), Some(at(101)));
    s.on_frequency(&frequency(Regime::Steady, ms(10), 2));
    assert_eq!(s.by_rules(), Some(at(10)));
    s.on_frequency(&frequency(Regime::Startup, ms(3), 2));
    assert_eq!(s.by_rules(), Some(at(3)));
    s.on_frequency(&frequency(Regime::Startup, ms(0), 2));
    assert_eq!(s.by_rules(), Some(at(1)), "per packet");
}

#[test]
fn data_in_return_leaves_one_tack_per_rtt_to_a_bulk_flow_and_none_to_a_dialogue() {
    // alpha 10 ms, RTTmin 40 ms. Bulk: four segments per millisecond, each acknowledged by data.
    for (segments, expected) in [(4, 25), (0, 0)] {
        let mut s = steady(ms(10), 2);
        let mut tacks = 0;
        for t in 1..=1_000 {
            s.on_arrival(segments * 1_000 + 10, false, at(t));
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(at(t));
                tacks += 1;
            }
            s.on_data_left(true, at(t));
        }
        assert!(tacks <= expected && tacks + 1 >= expected, "{segments}: {tacks}");
    }
}

#[test]
fn a_dialogue_that_once_waited_in_vain_for_data_in_return_trusts_it_again() {
    // Responses of two full segments, each answered 4 ms later by the next request; once it takes 300 ms.
    let mut s = steady(ms(70), 2);
    let mut tacks = vec![];
    for (exchange, slow) in (0..60).map(|exchange| (exchange, exchange == 5)) {
        let begun = exchange * 1_000;
        s.on_arrival(1_000, false, at(begun));
        s.on_arrival(1_000, false, at(begun));
        let answered = if slow { 300 } else { 4 };
        for t in begun..begun + answered {
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(at(t));
                tacks.push(exchange);
            }
        }
        s.on_arrival(10, false, at(begun + answered));
        s.on_data_left(true, at(begun + answered));
    }
    assert!(tacks.len() <= 2 + DISTRUST as usize, "{tacks:?}");
    assert!(tacks.iter().all(|exchange| *exchange < 25), "{tacks:?}");
}

#[test]
fn a_dialogue_whose_tacks_come_before_its_data_soon_waits_for_it() {
    // RTTmin 30 ms: what would be acknowledged at once is answered 5 ms later.
    let alpha = Duration::from_micros(7_500);
    let frequency = Frequency { rtt_min: ms(30), ..frequency(Regime::Steady, alpha, 2) };
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_frequency(&frequency);
    let mut tacks = 0;
    for begun in (0..100).map(|exchange| exchange * 37) {
        for t in begun..begun + 5 {
            if t == begun {
                s.on_arrival(1_000, false, at(t));
                s.on_arrival(1_000, false, at(t));
            }
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(at(t));
                tacks += 1;
            }
        }
        s.on_data_left(true, at(begun + 5));
    }
    assert!(tacks <= 8, "{tacks}");
}

#[test]
fn bulk_data_beside_little_in_return_is_acknowledged_as_if_there_were_none() {
    // As QUIC's MAX_DATA: a packet after every other TACK, which has said all that it could say.
    let frequency = Frequency { rtt_min: ms(80), ..frequency(Regime::Steady, ms(20), 2) };
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_frequency(&frequency);
    let mut tacks = 0;
    for t in 0..2_000 {
        (0..8).for_each(|_| s.on_arrival(1_000, false, at(t)));
        if s.by_rules().is_some_and(|due| due <= at(t)) {
            s.on_tack(at(t));
            tacks += 1;
            if tacks % 2 == 0 {
                s.on_data_left(true, at(t));
            }
        }
    }
    assert!((97..=101).contains(&tacks), "{tacks}");
}

#[test]
fn what_comes_after_data_in_return_has_its_own_flush_timer() {
    let mut s = steady(ms(10), 2);
    s.on_arrival(5_000, false, at(1));
    s.on_data_left(true, at(1));
    assert_eq!(s.by_rules(), None);
    s.on_arrival(10, false, at(7));
    assert_eq!(s.by_rules(), Some(at(7) + FLUSH));
    s.on_arrival(10, true, at(9));
    s.on_data_left(true, at(9));
    assert_eq!(s.by_rules(), Some(at(9)), "what must be told at once stays so");
}

fn xorshift(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |n| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    }
}

/// The model keeps everything that happened and evaluates the definition.
struct Model {
    frequency: Frequency,
    /// Since the last TACK: when, how many bytes, and whether data in return has acknowledged them.
    arrivals: Vec<(Instant, u64, bool)>,
    /// Something has to be told at once since then.
    demanded: Option<Instant>,
    last_due: Option<Instant>,
    /// Every arrival.
    all: Vec<Instant>,
    /// Every departure of data.
    departures: Vec<Instant>,
    /// Arrivals that found L segments unsaid, since data last left.
    unanswered: Vec<Instant>,
    /// How long after the first of them data left, each time.
    answers: Vec<Duration>,
    /// TACKs since one waited for the pace in vain.
    trusted_in: u32,
    /// TACKs since one waited for data in return in vain.
    silent: u32,
}

/// The first of `arrivals` with which their bytes are `quota`.
fn reaches<'a>(
    arrivals: impl Iterator<Item = &'a (Instant, u64, bool)>,
    quota: u64,
) -> Option<Instant> {
    let mut sum = 0;
    let mut arrivals = arrivals.skip_while(|(_, bytes, _)| {
        sum += bytes;
        sum < quota
    });
    arrivals.next().map(|(t, ..)| *t)
}

impl Model {
    /// Between the last two arrivals, and the two before; zero where there were none.
    fn gaps(&self) -> [Duration; 2] {
        match self.all[..] {
            [.., a, b, c] => [c - b, b - a],
            [b, c] => [c - b, Duration::ZERO],
            _ => [Duration::ZERO; 2],
        }
    }

    fn patience(&self) -> Duration {
        let [gap, before] = self.gaps();
        if self.frequency.regime == Regime::Startup && gap < STARTUP_PATIENCE / 2 {
            return STARTUP_PATIENCE;
        }
        let is_steady = gap * 2 >= before && before * 2 >= gap;
        let next = gap.max(before) * (self.frequency.segments_per_ack - 1);
        if self.trusted_in > 0 || !is_steady || next > ms(200) {
            return self.slow();
        }
        (next * 3 / 2).min(ms(200)).max(self.slow())
    }

    /// Half as long again as packets usually take, within bounds.
    fn slow(&self) -> Duration {
        let gaps = self.all.windows(2).map(|pair| (pair[1] - pair[0]).min(ms(400)));
        let usual = gaps.fold(Duration::ZERO, |usual, gap| usual * 15 / 16 + gap / 16);
        (usual * 3 / 2).clamp(FLUSH, ms(120))
    }

    /// How long data in return may take to say the same.
    fn pause(&self) -> Duration {
        let Frequency { interval: alpha, rtt_min, .. } = self.frequency;
        let most = alpha.max(rtt_min / 2);
        let usual = |usual: Duration, next: Duration| usual * 3 / 4 + next.min(FLUSH) / 4;
        let said = self.arrivals.iter().any(|(.., said)| *said);
        if self.departures.is_empty() || self.silent > 0 {
            return Duration::ZERO;
        }
        if said {
            let pairs = self.departures.windows(2).filter(|pair| pair[0] < pair[1]);
            let gap = pairs.map(|pair| pair[1] - pair[0]).fold(FLUSH, usual);
            return (gap * PACE_SLACK).min(most);
        }
        let answer = self.answers.iter().copied().fold(FLUSH, usual);
        if self.answers.is_empty() || answer > most || self.worth_at().is_some() {
            return Duration::ZERO;
        }
        (answer * PACE_SLACK).min(most)
    }

    fn full_at(&self) -> Option<Instant> {
        let l_segments = u64::from(self.frequency.segments_per_ack * (MSS - 24));
        reaches(self.arrivals.iter().filter(|(.., said)| !said), l_segments)
    }

    fn worth_at(&self) -> Option<Instant> {
        let l_segments = u64::from(self.frequency.segments_per_ack * (MSS - 24));
        let (began, ..) = self.arrivals.first()?;
        let rtt_min = self.frequency.rtt_min;
        let mut sum = 0;
        let mut arrivals = self.arrivals.iter().skip_while(|(t, bytes, _)| {
            sum += bytes;
            let is_bulk = rtt_min.is_zero() || *t - *began <= rtt_min * 4;
            sum / l_segments < if is_bulk { 8 } else { 64 }
        });
        arrivals.next().map(|(t, ..)| *t)
    }

    fn due(&self) -> Option<Instant> {
        let Frequency { interval: alpha, rtt_min, .. } = self.frequency;
        let Some((oldest, ..)) = self.arrivals.iter().find(|(.., said)| !said) else {
            return self.demanded;
        };
        let probing = self.frequency.regime == Regime::Startup;
        if probing && alpha.is_zero() {
            return Some(*oldest);
        }
        let flush = *oldest + alpha.max(self.patience()).min(MAX_DELAY);
        let spaced = |t: Instant, by: Duration| self.last_due.map_or(t, |last| t.max(last + by));
        let said = self.arrivals.iter().any(|(.., said)| *said);
        let full = self.full_at().map(|full| spaced(full + self.pause(), alpha));
        let worth = self.worth_at().filter(|_| said);
        let worth = worth.map(|t| spaced(t, if probing { alpha } else { alpha.max(rtt_min) }));
        [Some(flush), full, worth, self.demanded].into_iter().flatten().min()
    }

    fn on_data_left(&mut self, now: Instant) {
        self.departures.push(now);
        self.answers.extend(self.unanswered.first().map(|full| now - *full));
        self.unanswered.clear();
        if self.demanded.is_none() {
            self.arrivals.iter_mut().for_each(|(.., said)| *said = true);
        }
    }

    fn on_tack(&mut self, now: Instant) {
        let oldest = self.arrivals.iter().find(|(.., said)| !said);
        let waited = oldest.is_some_and(|(oldest, ..)| now - *oldest > self.slow());
        let in_vain = waited
            && self.patience() > self.slow()
            && self.arrivals.len() < self.frequency.segments_per_ack as usize;
        self.trusted_in = match self.demanded {
            None if in_vain => DISTRUST,
            _ => self.trusted_in.saturating_sub(1),
        };
        let waited = !self.pause().is_zero();
        self.silent = match (self.full_at(), self.demanded) {
            (Some(_), None) if waited && self.worth_at().is_none() => DISTRUST,
            _ => self.silent.saturating_sub(1),
        };
        self.last_due = Some(self.due().unwrap().min(now));
        self.arrivals.clear();
        self.demanded = None;
    }
}

#[test]
fn random_arrivals_and_polls_agree_with_the_model() {
    for seed in 1..=600u64 {
        let mut next = xorshift(seed);
        let regime = if next(3) == 0 { Regime::Startup } else { Regime::Steady };
        let alpha = Duration::from_micros(1 + next(120_000));
        let rtt_min = alpha * [16, 4, 0][next(3) as usize];
        let (two_way, at_once) = (next(2) == 0, 1 + next(30));
        let frequency = Frequency { rtt_min, ..frequency(regime, alpha, 1 + next(5) as u32) };
        let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
        s.on_frequency(&frequency);
        let mut m = Model {
            frequency,
            arrivals: Vec::new(),
            demanded: None,
            last_due: None,
            all: Vec::new(),
            departures: Vec::new(),
            unanswered: Vec::new(),
            answers: Vec::new(),
            trusted_in: 0,
            silent: 0,
        };
        let mut now = Instant::ZERO;
        for _ in 0..400 {
            now += Duration::from_micros(next(20_000));
            if next(3) > 0 {
                let bytes = if next(2) == 0 { 1_000 } else { next(3_000) };
                let at_once = next(30) == at_once;
                s.on_arrival(bytes, at_once, now);
                m.arrivals.push((now, bytes, false));
                m.unanswered.extend(m.full_at().map(|_| now));
                m.all.push(now);
                m.demanded = m.demanded.or(at_once.then_some(now));
            }
            if two_way && next(2) == 0 {
                s.on_data_left(true, now);
                m.on_data_left(now);
            }
            assert_eq!(s.by_rules(), m.due(), "seed {seed}");
            if next(2) == 0 && s.by_rules().is_some_and(|due| due <= now) {
                s.on_tack(now);
                m.on_tack(now);
            }
        }
    }
}

#[test]
fn a_burst_that_finds_a_tack_overdue_is_acknowledged_whole() {
    let mut s = steady(ms(10), 2);
    for t in [0, 30, 60] {
        for _ in 0..60 {
            s.on_arrival(1_000, false, at(t));
            // A host that polls after each packet.
            assert!(s.due().is_none_or(|due| due > at(t)));
        }
        let due = s.due().unwrap();
        assert!(due < at(t) + Duration::from_micros(1), "{due} {t}");
        s.on_tack(due);
        assert_eq!(s.due(), None);
    }
}
