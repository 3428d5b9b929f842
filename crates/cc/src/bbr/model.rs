//! What BBR believes of the path: bandwidth, RTTmin, and whether they can be trusted.
//!
//! The bandwidth filter has two axes. With rates measured by the sender it is rounds; with rates
//! measured by the receiver it is TACK intervals ([`TackClock`]).

use core::ops::Range;
use core::time::Duration;

use tack_units::{Instant, Rate, WindowedMax};

use super::clock::TackClock;
use super::extra_acked::{ExtraAcked, Limits};
use super::few_packets::{FewPackets, Path};
use super::full_pipe::FullPipe;
use super::lt_bw::{LongTerm, Totals, Verdict};
use super::min_rtt::MinRtt;
use super::round::Round;
use super::short_term::{ShortTerm, Standing};
use crate::delivered::{Delivered, Times};
use crate::sample::{AckSample, RateSample, RateSource};

/// Packets that came faster than a round trip delivered by more than this were too few to fill it.
const PROVEN: f64 = 1.25;

/// Hosts take whole windows at once, too; where a round trip is shorter than this, nobody can tell theirs from a
/// channel's.
const OF_HOSTS: Duration = Duration::from_micros(500);

/// The estimators, and the totals they share.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) source: RateSource,
    pub(crate) round: Round,
    pub(crate) clock: TackClock,
    pub(crate) min_rtt: MinRtt,
    pub(crate) full_pipe: FullPipe,
    pub(crate) long_term: LongTerm,
    pub(crate) short_term: ShortTerm,
    pub(crate) few_packets: FewPackets,
    bandwidth: WindowedMax<Rate>,
    /// How fast packets arrived that no pause lay between, whatever a round trip delivered.
    spread: WindowedMax<Rate>,
    /// The last sample was a lower bound.
    held_down: bool,
    /// Since the application paused.
    app_limited: bool,
    /// The greatest bandwidth was no lower bound.
    proven: bool,
    /// Position of the latest sample.
    latest: u64,
    delivered_marks: Delivered,
    extra_acked: ExtraAcked,
    /// Bytes.
    delivered: u64,
    lost: u64,
    /// What was sent before this much was delivered was sent under ProbeRTT: no estimate.
    limited_until: u64,
    /// Delivered when the application paused last, and when all that it had sent will have been.
    paused: Range<u64>,
    srtt: Option<Duration>,
    ack_interval: Duration,
}

/// How the sender stands when an acknowledgment arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stance {
    /// In ProbeBW.
    pub(crate) probing_bw: bool,
    /// In ProbeBW, and not sending faster than the estimate.
    pub(crate) cruising: bool,
    /// In ProbeRTT: rates are low on purpose.
    pub(crate) probing_rtt: bool,
    /// Bytes.
    pub(crate) cwnd: u64,
    /// Bytes.
    pub(crate) mss: u64,
}

/// What an acknowledgment meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) round_started: bool,
    pub(crate) verdict: Verdict,
}

impl Model {
    pub(crate) fn new(filter: u64, now: Instant) -> Self {
        Self {
            source: RateSource::Sender,
            round: Round::default(),
            clock: TackClock::new(now),
            min_rtt: MinRtt::new(now),
            full_pipe: FullPipe::default(),
            long_term: LongTerm::default(),
            short_term: ShortTerm::new(now),
            few_packets: FewPackets::default(),
            bandwidth: WindowedMax::new(filter),
            spread: WindowedMax::new(filter),
            held_down: false,
            app_limited: false,
            proven: false,
            latest: 0,
            delivered_marks: Delivered::default(),
            extra_acked: ExtraAcked::new(now),
            delivered: 0,
            lost: 0,
            limited_until: 0,
            paused: 0..0,
            srtt: None,
            ack_interval: Duration::ZERO,
        }
    }

    /// Rates come from `source` from now on; the filter remembers `filter` positions of its axis.
    /// What was learnt stays: a connection that falls back to plain TCP is still on its path.
    pub(crate) fn adopt(&mut self, source: RateSource, filter: u64, now: Instant) {
        let known = self.bandwidth.get();
        self.source = source;
        self.long_term.reset();
        self.bandwidth.reset(filter);
        self.spread.reset(filter);
        if let Some(rate) = known {
            let position = self.position(now);
            self.bandwidth.update(position, rate);
        }
    }

    /// The application has nothing more to send, with `in_flight` bytes on their way.
    pub(crate) fn on_pause(&mut self, in_flight: u64) {
        // Before anything has arrived nothing is known that could be held down.
        if self.delivered > 0 {
            let all = self.delivered.saturating_add(in_flight);
            self.paused = self.delivered..all.saturating_add(1);
        }
    }

    /// Nothing was in flight until `now`.
    pub(crate) fn on_idle_end(&mut self, now: Instant) {
        self.clock.skip(now);
        self.delivered_marks.restart(self.delivered, now);
        self.extra_acked.restart(now);
    }

    pub(crate) fn on_ack(&mut self, ack: &AckSample, stance: &Stance) -> News {
        self.delivered = self.delivered.max(ack.delivered);
        self.lost = self.lost.saturating_add(ack.lost_bytes);
        // Loss is announced without a rate.
        self.short_term.on_ack(ack.rtt, ack.lost_bytes);
        self.few_packets.on_ack(ack.rtt, ack.lost_bytes);
        self.srtt = ack.srtt.or(self.srtt);
        self.ack_interval = ack.ack_interval;
        let known = self.min_rtt.get();
        if let Some(rtt) = ack.rtt.or(if known.is_none() { ack.rtt_min } else { None }) {
            self.min_rtt.on_sample(rtt, ack.now);
        }
        if stance.probing_rtt {
            self.clock.skip(ack.now);
            // Nor what leaves before news of it is back: what arrives first is measured from the last of the probe on.
            self.limited_until = self.delivered.saturating_add(ack.in_flight).saturating_add(1);
        }
        let two = self.bandwidth.get().and_then(|rate| rate.time_for(2 * stance.mss));
        let counting = two.unwrap_or(Duration::ZERO);
        self.clock.on_feedback(ack.ack_interval, self.min_rtt.get(), self.srtt, counting, ack.now);
        let news = ack.rate.map(|rate| self.on_rate(&rate, ack, stance));
        self.delivered_marks.on_ack(self.delivered, self.srtt, ack.now);
        news.unwrap_or(News { round_started: false, verdict: Verdict::None })
    }

    fn on_rate(&mut self, rate: &RateSample, ack: &AckSample, stance: &Stance) -> News {
        let round_started = self.round.on_ack(rate.prior_delivered, self.delivered);
        let app_limited = rate.app_limited || rate.prior_delivered < self.limited_until;
        let mut verdict = Verdict::None;
        let mut measured = rate.delivery_rate;
        match rate.source {
            RateSource::Sender => {
                let totals = Totals {
                    now: ack.now,
                    delivered: self.delivered,
                    lost: self.lost,
                    is_loss: ack.lost_bytes > 0,
                    round_started,
                    app_limited,
                };
                verdict = self.long_term.on_ack(&totals, stance.probing_bw);
            }
            RateSource::Receiver => {
                let times = Times { srtt: self.srtt, ack_interval: self.clock.interval() };
                let prior = rate.prior_delivered;
                let ceiling = self.delivered_marks.ceiling(prior, self.delivered, &times, ack.now);
                measured = ceiling.map_or(measured, |ceiling| measured.map(|m| m.min(ceiling)));
            }
        }
        // A sample that the application held down is a lower bound: it counts only when higher. So is what a round
        // trip delivered that began before all of that had arrived: a part of it was silent.
        let lower_bound = app_limited || self.paused.contains(&rate.prior_delivered);
        let known = self.bandwidth.get();
        // What tells of nothing new, as after data that has told of it all, measures nothing.
        let counts =
            |m: &Rate| *m > Rate::ZERO && (!lower_bound || known.is_none_or(|known| *m >= known));
        (self.held_down, self.app_limited) = (lower_bound, rate.app_limited);
        self.latest = self.position(ack.now);
        // Duplicates alone show no rate at all, what left during ProbeRTT that of ProbeRTT, and repairs, which leave one
        // by one as losses are told, that of the telling.
        let usual = self.spread.get().filter(|_| ack.in_recovery).unwrap_or(Rate::ZERO);
        let shows = |spread: &Rate| *spread > Rate::ZERO && *spread >= usual && !app_limited;
        if let Some(spread) = rate.delivery_rate.filter(shows) {
            self.spread.update(self.latest, spread);
        }
        if let Some(measured) = measured.filter(counts) {
            let short = rate.delivery_rate.is_some_and(|spread| spread > measured.mul_f64(PROVEN));
            if self.bandwidth.update(self.latest, measured) == measured {
                self.proven = !lower_bound && !short;
            }
        }
        if round_started {
            self.end_short_term_round(stance, ack.now);
            self.extra_acked.on_round();
            let dry = self.runs_dry(ack);
            if let Some(bandwidth) = self.bandwidth.get().filter(|_| !lower_bound && !dry) {
                self.full_pipe.on_round(bandwidth);
            }
        }
        let ack_interval = self.allowed_interval();
        let (cwnd, mss, ran_dry) = (stance.cwnd, stance.mss, ack.ran_dry());
        let limits = Limits { cwnd, mss, ack_interval, ran_dry };
        // What a congested round left of the bandwidth is no measure: of all that comes it makes an excess.
        if let Some(bandwidth) = self.long_term.bandwidth().or(self.bandwidth.get()) {
            self.extra_acked.on_ack(ack.acked_bytes, bandwidth, limits, ack.now);
        }
        News { round_started, verdict }
    }

    /// A window arrived as a whole, and not for the hosts: products of RTTmin are no bound to Startup's.
    pub(super) fn runs_dry(&self, ack: &AckSample) -> bool {
        self.source == RateSource::Receiver && self.is_beyond_hosts() && ack.ran_dry()
    }

    /// See [`OF_HOSTS`].
    pub(super) fn is_beyond_hosts(&self) -> bool {
        self.min_rtt.get().is_some_and(|rtt_min| rtt_min >= OF_HOSTS)
    }

    /// Of `1/f`, what the inflight cap allows for: it counts in RTTmin, intervals grow with the round trip.
    fn allowed_interval(&self) -> Duration {
        match (self.min_rtt.get(), self.srtt) {
            (Some(rtt_min), Some(srtt)) if srtt > rtt_min => {
                let share = rtt_min.as_secs_f64() / srtt.as_secs_f64();
                let allowed = Duration::try_from_secs_f64(share * self.ack_interval.as_secs_f64());
                // Near the end of time a float rounds beyond it.
                allowed.unwrap_or(self.ack_interval)
            }
            _ => self.ack_interval,
        }
    }

    fn end_short_term_round(&mut self, stance: &Stance, now: Instant) {
        let Some(standing) = self.standing() else { return };
        let Standing { delivered, rtt_min, bandwidth } = standing;
        let bounding = self.source == RateSource::Receiver && stance.cruising;
        let (cwnd, mss) = (stance.cwnd, stance.mss);
        self.short_term.on_round(&standing, bounding, now);
        self.few_packets.on_round(&Path { delivered, rtt_min, bandwidth, cwnd, mss });
    }

    /// Where the estimates stand; `None` before there are any.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let (rtt_min, bandwidth) = (self.min_rtt.get()?, self.bandwidth.get()?);
        Some(Standing { delivered: self.delivered, rtt_min, bandwidth })
    }

    fn position(&mut self, now: Instant) -> u64 {
        match self.source {
            RateSource::Sender => self.round.count(),
            RateSource::Receiver => self.clock.advance(now),
        }
    }

    /// Bandwidth to act on; `None` before the first sample.
    pub(crate) fn bandwidth(&self) -> Option<Rate> {
        let bound = self.short_term.bandwidth().unwrap_or(Rate::MAX);
        self.long_term.bandwidth().or(self.bandwidth.get().map(|rate| rate.min(bound)))
    }

    /// The application is what limits the rate: all that the bandwidth is of includes its pauses.
    pub(crate) fn is_held_down(&self) -> bool {
        self.held_down && self.source == RateSource::Receiver
    }

    /// All that is known of the path are its bursts, by the application's doing: no round trip was full.
    pub(crate) fn knows_bursts_alone(&self) -> bool {
        self.app_limited && !self.proven && self.source == RateSource::Receiver
    }

    /// As fast as packets between two pauses have arrived, and how many windows ago they last were enough to tell.
    pub(crate) fn spread(&self) -> Option<(Rate, u64)> {
        Some((self.spread.get()?, self.spread.windows_since(self.latest)?))
    }

    /// The greatest rate that the filter remembers, whatever happened since.
    pub(crate) fn greatest_bandwidth(&self) -> Option<Rate> {
        self.bandwidth.get()
    }

    /// `gain * bandwidth * RTTmin` in bytes; `None` while either is unknown.
    pub(crate) fn bdp(&self, gain: f64) -> Option<u64> {
        let rtt_min = self.min_rtt.get()?;
        Some(self.bandwidth()?.mul_f64(gain).bytes_in(rtt_min))
    }

    /// Allowance for aggregation, in bytes; none before the pipe is full, since an estimate that is
    /// still growing makes every acknowledgment look like an excess.
    pub(crate) fn extra_acked(&self) -> u64 {
        match self.bandwidth() {
            Some(bandwidth) if self.full_pipe.reached() => self.extra_acked.allowance(bandwidth),
            _ => 0,
        }
    }

    /// Bytes delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }
}
