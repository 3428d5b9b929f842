//! Random arrivals and polls, against a model that looks at every arrival again at every step.

use super::*;

/// The model keeps everything that happened and evaluates the definition.
struct Model {
    frequency: Frequency,
    /// Since the last TACK: when, how many bytes, and whether data in return has acknowledged them.
    arrivals: Vec<(Instant, u64, bool)>,
    /// Something has to be told at once since then.
    demanded: Option<Instant>,
    /// When something last was.
    answered: Option<Instant>,
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
        self.answered = self.demanded.take().map(|_| now).or(self.answered);
    }
}

#[test]
fn random_arrivals_and_polls_agree_with_the_model() {
    for seed in 1..=600u64 {
        let mut next = xorshift(seed);
        let regime = if next(3) == 0 { Regime::Startup } else { Regime::Steady };
        let alpha = Duration::from_micros(1 + next(120_000));
        let rtt_min = alpha * [16, 4, 0][next(3) as usize];
        let (two_way, at_once, needless) = (next(2) == 0, 1 + next(30), 1 + next(30));
        let frequency = Frequency { rtt_min, ..frequency(regime, alpha, 1 + next(5) as u32) };
        let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
        s.on_frequency(&frequency);
        let mut m = Model {
            frequency,
            arrivals: Vec::new(),
            demanded: None,
            answered: None,
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
                let urgency = match next(30) {
                    n if n == at_once => Urgency::AtOnce,
                    n if n == needless => Urgency::Needless,
                    _ => Urgency::None,
                };
                s.on_arrival(bytes, urgency, now);
                m.arrivals.push((now, bytes, false));
                m.unanswered.extend(m.full_at().map(|_| now));
                m.all.push(now);
                let earliest = match urgency {
                    Urgency::None => None,
                    Urgency::Needless => m.answered.map(|at| at + alpha).max(Some(now)),
                    Urgency::AtOnce => Some(now),
                };
                m.demanded = m.demanded.into_iter().chain(earliest).min();
            }
            if two_way && next(2) == 0 {
                s.on_data_left(true, now);
                m.on_data_left(now);
            }
            assert_eq!(s.by_rules(), m.due(), "seed {seed}");
            if next(2) == 0 && s.by_rules().is_some_and(|due| due <= now) {
                s.on_tack(Duration::ZERO, now);
                m.on_tack(now);
            }
        }
    }
}
