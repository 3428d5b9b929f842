//! Loss recovery by [RFC 9002].
//!
//! ```text
//! lost        3 numbers below the largest acknowledged, or 9/8 RTT before it (reordering.rs)
//! PTO         smoothed RTT + max(4 RTTVAR, 1 ms) + what the peer may wait, doubled each time
//! ```

use core::ops::Range;
use core::time::Duration;

use tack::Acked;
use tack_cc::{RateSample, RateSource};
use tack_transport::Departure;
use tack_units::Instant;

use super::{Became, Fate, GRANULARITY, Heard, INITIAL_RTT, MAX_BACKOFF, MAX_PTO, Recovery, Sent};
use crate::conn::space::SpaceId;
use crate::seen::LossReason;

/// Probe timeouts in which what was taken for lost may yet arrive [RFC 9002 §6.1].
const REMEMBERED: u32 = 3;
/// kPersistentCongestionThreshold [RFC 9002 §7.6.1].
const PERSISTENT: u32 = 3;

impl Recovery {
    pub(super) fn pto_base(&self) -> Duration {
        let (srtt, rttvar) = match &self.tack {
            Some(tack) => (tack.srtt(), tack.rttvar()),
            None => (self.rtt.srtt(), self.rtt.rttvar()),
        };
        let srtt = srtt.unwrap_or(INITIAL_RTT);
        srtt + (4 * rttvar.unwrap_or(srtt / 2)).max(GRANULARITY)
    }

    /// When to probe next, and in which space [RFC 9002 §A.8].
    pub(super) fn pto(&self) -> Option<(Instant, SpaceId)> {
        let backoff = 1 << self.pto_count.min(MAX_BACKOFF);
        let of = |space: SpaceId| {
            let log = &self.logs[space as usize];
            let own = space != SpaceId::Data || self.tack.is_none() && self.confirmed;
            let last = log.last_eliciting.filter(|_| own && log.eliciting > 0)?;
            let waits = if space == SpaceId::Data { self.max_ack_delay } else { Duration::ZERO };
            Some((last + ((self.pto_base() + waits) * backoff).min(MAX_PTO), space))
        };
        let armed = SpaceId::ALL.into_iter().filter_map(of).min();
        let deadlock = || {
            let at = self.waiting_since + (self.pto_base() * backoff).min(MAX_PTO);
            self.peer_may_be_blocked.then_some((at, SpaceId::Initial))
        };
        armed.or_else(deadlock)
    }

    pub(super) fn on_plain_ack(
        &mut self,
        space: SpaceId,
        heard: &Heard<'_>,
        before: Option<u64>,
        now: Instant,
    ) -> Acked {
        let mut acked = Acked { prior_in_flight: self.in_flight(), ..Acked::default() };
        self.take_late(space, heard, &mut acked, now);
        let former = self.former;
        let log = &mut self.logs[space as usize];
        let mut newly: Vec<u64> = Vec::new();
        for range in heard.ack.ranges.iter().rev() {
            newly.extend(log.packets.range(range.clone()).map(|(number, _)| number));
        }
        let (mut eliciting, mut newest) = (false, None);
        for number in newly {
            let Some(logged) = log.remove(number) else { continue };
            newest = Some((number, logged.at));
            self.marked += u64::from(logged.sent.marked && number >= self.marked_from);
            if logged.sent.eliciting {
                eliciting = true;
                let bytes = u64::from(logged.sent.bytes);
                if space == SpaceId::Data && !former.has(space, number) {
                    let (sent_at, snapshot) = (logged.at, logged.snapshot);
                    let departure = Departure { xmit: number, sent_at, snapshot };
                    self.rate.on_delivered(bytes, departure, now);
                }
                acked.acked_bytes += bytes;
            }
            let Sent { bytes, carried, .. } = logged.sent;
            self.fates.push_back(Fate { space, became: Became::Arrived(number), bytes, carried });
        }
        if let Some((number, at)) = newest {
            if !self.peer_may_be_blocked {
                // A server that is slow to answer is not asked the more often for what it hears
                // [RFC 9002 §6.2.1].
                self.pto_count = 0;
            }
            let is_newest = number == heard.ack.largest();
            if eliciting && is_newest && !former.has(space, number) {
                let rtt = now.saturating_since(at);
                acked.rtt = self.on_rtt((space, number), rtt, heard.delay, now);
            }
            self.lost_at.take_if(|lost_at| at > *lost_at);
        }
        self.detect_lost(space, unheard_below(heard, before), &mut acked, now);
        self.complete(acked, now)
    }

    /// What was taken for lost and has arrived. An episode of nothing else was none.
    fn take_late(&mut self, space: SpaceId, heard: &Heard<'_>, acked: &mut Acked, now: Instant) {
        let (patience, rtt) = (REMEMBERED * self.pto_interval(), self.loss_rtt());
        let former = self.former;
        let log = &mut self.logs[space as usize];
        log.forget_lost(patience, now);
        let ranges = heard.ack.ranges.iter();
        let late: Vec<u64> =
            ranges.flat_map(|range| log.lost.range(range.clone())).map(|(n, _)| *n).collect();
        for number in late {
            let Some((logged, reason)) = log.lost.remove(&number) else { continue };
            self.reordering.on_spurious(reason, rtt, now);
            self.marked += u64::from(logged.sent.marked && number >= self.marked_from);
            let Sent { bytes, carried, .. } = logged.sent;
            if !former.has(space, number) {
                let (sent_at, snapshot) = (logged.at, logged.snapshot);
                let departure = Departure { xmit: number, sent_at, snapshot };
                self.rate.on_delivered(u64::from(bytes), departure, now);
            }
            acked.acked_bytes += u64::from(bytes);
            acked.needless += 1;
            self.fates.push_back(Fate { space, became: Became::Arrived(number), bytes, carried });
        }
        self.episode_needless += acked.needless;
        if acked.needless > 0 && self.episode_needless >= self.episode_lost {
            acked.spurious = true;
            (self.episode, self.lost_at) = (None, None);
            (self.episode_lost, self.episode_needless) = (0, 0);
        }
    }

    /// The round trip that loss is judged by [RFC 9002 §6.1.2].
    fn loss_rtt(&self) -> Duration {
        self.rtt.srtt().unwrap_or(INITIAL_RTT).max(self.latest)
    }

    /// A sample as it is, and as it counts: what the peer waited taken off [RFC 9002 §5.3]. What left before the
    /// handshake was confirmed may have lain there until there were keys: `None` where only what the peer says
    /// could tell how long a round trip takes.
    fn on_rtt(
        &mut self,
        (space, number): (SpaceId, u64),
        rtt: Duration,
        delay: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let may_have_lain = !self.confirmed || number < self.confirmed_from;
        let delay = match space {
            SpaceId::Data if may_have_lain => delay,
            SpaceId::Data => delay.min(self.max_ack_delay),
            // These are acknowledged at once, whatever they say.
            SpaceId::Initial | SpaceId::Handshake => Duration::ZERO,
        };
        let least = self.rtt.min().unwrap_or(rtt).min(rtt);
        let counts = if rtt >= least + delay { rtt - delay } else { rtt };
        if delay > self.max_ack_delay && counts == rtt {
            return None;
        }
        self.latest = rtt;
        self.rtt.sample_min(rtt, now);
        self.rtt.smooth(counts);
        self.timed_since.get_or_insert(now);
        Some(counts)
    }

    pub(super) fn on_loss_time(&mut self, space: SpaceId, now: Instant) -> Acked {
        let mut acked = Acked { prior_in_flight: self.in_flight(), ..Acked::default() };
        self.detect_lost(space, 0..0, &mut acked, now);
        self.complete(acked, now)
    }

    /// Declares lost what was overtaken long enough ago [RFC 9002 §6.1]. `unheard`: of these numbers none has
    /// arrived, but the next one above has.
    fn detect_lost(
        &mut self,
        space: SpaceId,
        unheard: Range<u64>,
        acked: &mut Acked,
        now: Instant,
    ) {
        let wait = self.reordering.time(self.loss_rtt()).max(GRANULARITY);
        let passed = self.reordering.packets().unwrap_or(u64::MAX);
        let log = &mut self.logs[space as usize];
        log.loss_time = None;
        let Some(largest) = log.largest_acked else { return };
        let mut lost = Vec::new();
        for (number, logged) in log.packets.range(0..largest) {
            if largest - number >= passed {
                lost.push((number, LossReason::Overtaken));
            } else if logged.at + wait <= now {
                lost.push((number, LossReason::Late));
            } else if log.loss_time.is_none_or(|at| logged.at + wait < at) {
                log.loss_time = Some(logged.at + wait);
            }
        }
        // When the first and the last of those left that were lost in a row [RFC 9002 §7.6.2].
        let mut stretch: Option<(Instant, Instant)> = None;
        let mut news = 0;
        for (number, reason) in lost {
            let Some(logged) = log.remove(number) else { continue };
            if logged.sent.eliciting {
                let is_timed = self.timed_since.is_some_and(|since| logged.at > since);
                if is_timed && unheard.contains(&number) {
                    stretch = Some((stretch.map_or(logged.at, |(first, _)| first), logged.at));
                }
                self.lost_packets += 1;
                acked.lost_bytes += u64::from(logged.sent.bytes);
                acked.lost_sent_at = acked.lost_sent_at.max(Some(logged.at));
            }
            let Sent { bytes, carried, eliciting, .. } = logged.sent.clone();
            let became = Became::Lost(number, reason);
            self.fates.push_back(Fate { space, became, bytes, carried });
            if eliciting && space == SpaceId::Data {
                news += 1;
                log.remember_lost(number, logged, reason);
            }
        }
        let newest = acked.lost_sent_at.filter(|_| news > 0);
        self.lost_at = newest.map_or(self.lost_at, |_| Some(now));
        if newest.is_some_and(|at| self.episode.is_none_or(|began| at > began)) {
            self.episode = Some(now);
            (self.episode_lost, self.episode_needless) = (0, 0);
            self.reordering.on_episode();
            acked.recovery_started = true;
        }
        self.episode_lost += news;
        let lasted = stretch.map(|(first, last)| last.saturating_since(first));
        let long = PERSISTENT * self.pto_interval();
        if space == SpaceId::Data && lasted.is_some_and(|time| time > long) {
            self.persistent = true;
            acked.recovery_started = false;
        }
    }

    fn complete(&mut self, mut acked: Acked, now: Instant) -> Acked {
        acked.delivered = self.rate.delivered();
        if let Some(sample) = self.rate.sample(self.rtt.min(), now) {
            acked.newest_sent_at = Some(sample.sent_at);
            acked.prior_delivered = sample.prior_delivered;
            acked.rate = sample.rate;
            acked.rate_interval = sample.interval;
            acked.app_limited = sample.app_limited;
        }
        acked.in_flight = self.in_flight();
        acked
    }

    pub(super) fn rate_sample(&self, acked: &Acked) -> Option<RateSample> {
        let (source, shows) = match self.tack {
            Some(_) => (RateSource::Receiver, acked.rate.is_some()),
            // A round trip counts by what was delivered, whether or not its times allow a rate.
            None => {
                let known = acked.acked_bytes > 0 && acked.newest_sent_at.is_some();
                (RateSource::Sender, acked.rate.is_some() || known)
            }
        };
        shows.then_some(RateSample {
            delivery_rate: acked.rate,
            app_limited: acked.app_limited,
            source,
            prior_delivered: acked.prior_delivered,
            interval: acked.rate_interval,
        })
    }
}

/// Numbers above `before`, the largest that was acknowledged, of which `heard` says that none has arrived: up
/// to the first that has.
fn unheard_below(heard: &Heard<'_>, before: Option<u64>) -> Range<u64> {
    let from = before.map_or(0, |before| before + 1);
    let above = heard.ack.ranges.iter().rev().find(|range| range.end > from);
    from..above.map_or(from, |range| range.start.max(from))
}
