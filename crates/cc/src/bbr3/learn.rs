//! What acknowledgments teach the model: bandwidth, RTTmin, excess, and what a flight may hold.

use tack_units::{Instant, Rate};

use super::bounds::{Flown, Round};
use super::cycle::Phase;
use super::{Bbr3, News, State};
use crate::bbr::extra_acked::Limits;
use crate::bbr::short_term::Standing;
use crate::flight::Mark;
use crate::sample::{RateSample, RateSource};

impl Bbr3 {
    pub(super) fn update_model(&mut self, news: News<'_>) {
        let (ack, rate) = (news.ack, news.rate);
        self.learn_bandwidth(rate);
        let known = self.min_rtt.get();
        if let Some(rtt) = ack.rtt.or(if known.is_none() { ack.rtt_min } else { None }) {
            self.min_rtt.on_sample(rtt, ack.now);
        }
        let round = Round {
            rate: rate.and_then(|rate| rate.delivery_rate),
            brought: rate.map_or(0, |rate| ack.delivered.saturating_sub(rate.prior_delivered)),
            ended: news.round_started,
            lost: ack.lost_bytes,
            bursts: self.bursts(ack.lost_bytes),
        };
        let before = (self.max_bw.get().unwrap_or(Rate::ZERO), self.cwnd);
        self.bounds.on_ack(&round, ack.acked_bytes, before, !self.is_probing());
        if let Some(bandwidth) = self.max_bw.get() {
            let (cwnd, mss, ack_interval) = (self.cwnd, self.mss(), self.ack_interval);
            let limits = Limits { cwnd, mss, ack_interval, ran_dry: ack.ran_dry() };
            self.extra_acked.on_ack(ack.acked_bytes, bandwidth, limits, ack.now);
        }
        if news.round_started {
            self.extra_acked.on_round();
        }
    }

    /// In how many bursts packets were lost, by the one report of them. A round trip has a few TACKs: one that
    /// tells of several packets counts as two, or six bursts in a round would never be.
    fn bursts(&self, lost: u64) -> u32 {
        let several = self.by_receiver && lost > self.mss();
        u32::from(lost > 0) + u32::from(several)
    }

    fn learn_bandwidth(&mut self, sample: Option<RateSample>) {
        let Some(sample) = sample else { return };
        self.by_receiver = sample.source == RateSource::Receiver;
        let Some(rate) = sample.delivery_rate else { return };
        if !sample.app_limited || self.max_bw.get().is_none_or(|max| rate >= max) {
            self.max_bw.update(self.cycle.count(), rate);
        }
    }

    pub(super) fn learn_inflight(&mut self, news: News<'_>) {
        let Some(mark) = news.ack.newest_sent_at.and_then(|at| self.departures.at(at)) else {
            return;
        };
        let app_limited = news.rate.is_some_and(|rate| rate.app_limited);
        let flown = self.flown(mark, 0, app_limited);
        let probing_over = self.cycle.on_round_of_samples(news.round_started);
        if probing_over && self.state == State::ProbeBw && !app_limited {
            self.cycle.advance_filter();
        }
        if flown.is_too_high() {
            self.on_inflight_too_high(flown, news.ack.now);
        } else {
            let is_up = self.state == State::ProbeBw && self.cycle.phase() == Phase::Up;
            let used = news.ack.cwnd_limited;
            let probed = is_up.then_some((news.ack.acked_bytes, news.round_started, used));
            self.bounds.raise(flown.tx_in_flight, probed, self.cwnd, self.mss());
        }
    }

    /// Packets were lost, the newest of which left at `sent_at`.
    pub(super) fn learn_loss(&mut self, news: News<'_>) {
        if news.ack.lost_bytes == 0 {
            return;
        }
        let at = news.ack.lost_sent_at.unwrap_or(news.ack.now);
        let Some(mark) = self.departures.at(at) else { return };
        let app_limited = news.rate.is_some_and(|rate| rate.app_limited);
        let flown = self.flown(mark, news.ack.lost_bytes, app_limited);
        if flown.is_too_high() {
            let at_loss = Flown { tx_in_flight: flown.inflight_at_loss(), ..flown };
            self.on_inflight_too_high(at_loss, news.ack.now);
        }
    }

    /// Whether a path that turned slower dropped what it does not hold: what waited is not told of by loss alone.
    pub(super) fn learn_overflow(&mut self, news: News<'_>) {
        let (Some(rtt_min), Some(bandwidth)) = (self.min_rtt.get(), self.max_bw.get()) else {
            return;
        };
        let (ack, delivered) = (news.ack, self.delivered);
        let standing = Standing { delivered, rtt_min, bandwidth };
        self.short_term.on_ack(ack.rtt, ack.lost_bytes);
        if self.by_receiver && self.full_pipe.reached() {
            let waiting = self.short_term.waiting(ack, &standing);
            self.overflow.on_ack(ack, waiting, self.cwnd, self.mss());
        }
        if news.round_started {
            self.short_term.on_round(&standing, !self.is_probing(), ack.now);
        }
    }

    fn flown(&self, mark: Mark, packet: u64, app_limited: bool) -> Flown {
        let lost = self.lost.saturating_sub(mark.lost);
        Flown { tx_in_flight: mark.in_flight, lost, packet, app_limited }
    }

    fn on_inflight_too_high(&mut self, flown: Flown, now: Instant) {
        let in_up = self.state == State::ProbeBw && self.cycle.phase() == Phase::Up;
        if !self.cycle.take_samples() {
            return;
        }
        let target = self.bdp(self.bandwidth(), 1.0).unwrap_or(u64::MAX).min(self.cwnd);
        self.bounds.on_too_high(&flown, target);
        if in_up {
            self.enter_phase(Phase::Down, now);
        }
    }
}
