//! An acknowledgment arrives: what it delivers, the samples it yields, the losses it shows.

use core::time::Duration;

use tack::Acked;
use tack_units::Instant;

use crate::recovery::rack::Rack;
use crate::recovery::sent::Delivered;
use crate::recovery::undo::{Evidence, Undo};
use crate::recovery::{Feedback, LossDetection, PlainAck, PlainSender};
use tack_transport::{Departure, RateEstimator};

/// What one acknowledgment delivers, gathered segment by segment.
#[derive(Debug)]
struct Arrivals {
    echoes_original: bool,
    rtt_min: Option<Duration>,
    now: Instant,
    /// Bytes not counted before.
    bytes: u64,
    /// Departure of the first and the newest segment that were sent once only.
    oldest_sent_at: Option<Instant>,
    /// When the first of what is new first left.
    first_sent_at: Option<Instant>,
    newest: Option<(u64, Instant)>,
    over_original: bool,
    over_resent: bool,
    /// When the present episode first sent something again.
    resent_since: Option<Instant>,
    /// `over_resent`, by a transmission of the present episode.
    over_resent_now: bool,
}

/// By which an echoed stamp may be too old, for want of a finer clock.
const TICK: Duration = Duration::from_millis(1);

/// What was declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) bytes: u64,
    /// Departure of the newest of it.
    pub(super) newest: Option<Instant>,
}

impl PlainSender {
    /// In the order of the drawing in the parent: arrivals, samples, losses, timers, episode.
    pub(super) fn apply(&mut self, ack: &PlainAck<'_>, news: &mut Acked, now: Instant) {
        let snd_una = self.sent.snd_una();
        let advanced = ack.cum_ack > snd_una;
        let mut spurious = self.take_dsack(ack, news);
        let arrivals = self.take_arrivals(ack, now);
        news.acked_bytes += arrivals.bytes;
        self.take_samples(ack, &arrivals, news, now);
        spurious |= self.undo.on_ack(Evidence {
            cum_ack: ack.cum_ack,
            advanced,
            over_resent: arrivals.over_resent_now,
            echoes_original: ack.echoes_original,
            over_original: arrivals.over_original,
        });
        if spurious {
            self.undo_episode();
        }
        let recovered = self.recovery_end.is_some_and(|end| self.sent.snd_una() >= end);
        if recovered {
            self.recovery_end = None;
            self.rack.on_recovered();
            spurious |= self.undo.on_exit();
        }
        news.spurious |= spurious;
        if advanced {
            self.rto.on_advance(!self.sent.is_empty(), now);
            self.tlp.on_advance(now);
        }
        let bare_duplicate = !advanced && ack.is_pure_ack && ack.sack.is_empty();
        let dsack_end = ack.dsack.as_ref().map(|dsack| dsack.end);
        if let Some(bytes) = self.tlp.on_ack(ack.cum_ack, dsack_end, bare_duplicate) {
            // Repaired already, but congestion all the same [RFC 8985 §7.4.2].
            news.lost_bytes += bytes;
            news.recovery_started |= !self.in_recovery();
        }
        let by_time = self.detect_losses(now);
        news.lost_sent_at = news.lost_sent_at.max(by_time.newest);
        let lost = by_time.bytes + self.detect_losses_by_duplicates(ack, advanced, news, now);
        self.note_losses(lost, news);
        if recovered && self.recovery_end.is_none() && self.sent.has_unrepaired() {
            // Deviation: what was lost since the episode began is under repair, so that one episode
            // follows another, as in Linux. [RFC 6675 §5] waits for the next loss: under heavy
            // random loss, an end and a beginning every round trip.
            news.recovery_started = true;
            self.follow_episode();
        }
    }

    fn take_dsack(&mut self, ack: &PlainAck<'_>, news: &mut Acked) -> bool {
        let (needless, spurious) = match &ack.dsack {
            Some(dsack) => self.undo.on_dsack(dsack),
            None => (0, false),
        };
        news.needless += needless;
        // Deviation: [RFC 8985 §6.2 step 4] widens on any DSACK. One that names what was sent once
        // only tells of a network that duplicates, not of one that reorders.
        self.rack.on_ack(needless > 0, ack.cum_ack, self.sent.snd_nxt());
        spurious
    }

    fn take_arrivals(&mut self, ack: &PlainAck<'_>, now: Instant) -> Arrivals {
        let mut arrivals = Arrivals {
            echoes_original: ack.echoes_original,
            rtt_min: self.rtt.min(),
            now,
            bytes: 0,
            oldest_sent_at: None,
            first_sent_at: None,
            newest: None,
            over_original: false,
            over_resent: false,
            resent_since: self.undo.first_resent_at(),
            over_resent_now: false,
        };
        let advance = ack.cum_ack.saturating_sub(self.sent.snd_una());
        let outstanding = self.sent.snd_nxt() - self.sent.snd_una() - advance;
        let mut repaid = match &mut self.feedback {
            Feedback::DupAcks(dup_acks) if advance > 0 => {
                dup_acks.on_advance(advance, self.mss, outstanding)
            }
            _ => 0,
        };
        let Self { sent, feedback, rack, rate, undo, .. } = self;
        sent.ack_to(ack.cum_ack, |mut segment| {
            let known = repaid.min(segment.new_bytes);
            (segment.new_bytes, repaid) = (segment.new_bytes - known, repaid - known);
            let resent = segment.first_sent.is_some() && !segment.was_sacked;
            arrivals.over_resent |= resent;
            arrivals.over_resent_now |= resent && arrivals.is_of_episode(&segment);
            arrivals.note(&segment, rack, rate, undo);
        });
        if arrivals.over_resent {
            // Segments behind the hole waited for its repair at the receiver [RFC 6298 §3].
            (arrivals.oldest_sent_at, arrivals.newest) = (None, None);
        }
        match feedback {
            Feedback::Sack(scoreboard) => {
                scoreboard.advance(sent.snd_una());
                scoreboard.enter(ack.sack, sent, |s| arrivals.note(&s, rack, rate, undo));
            }
            Feedback::DupAcks(_) => {}
        }
        arrivals
    }

    fn take_samples(
        &mut self,
        ack: &PlainAck<'_>,
        arrivals: &Arrivals,
        news: &mut Acked,
        now: Instant,
    ) {
        // An echo counts only with news, or repeated acknowledgments would repeat a sample
        // [RFC 7323 §4.1]; the very first one comes from the handshake. One older than all the news is stale: the
        // peer sees no more of our stamps.
        let first = self.rtt.srtt().is_none();
        let news_since = arrivals.first_sent_at.filter(|_| arrivals.bytes > 0);
        let ts_rtt =
            ack.ts_rtt.filter(|rtt| first || news_since.is_some_and(|at| *rtt <= now - at + TICK));
        let newest = arrivals.newest.map(|(_, sent_at)| now - sent_at);
        // What became slow would else be sent again too soon for ever, and never be timed.
        let (fine, ts_rtt) = match ts_rtt {
            Some(rtt) if ack.ts_is_coarse => (None, Some(rtt.max(TICK))),
            fine => (fine, fine),
        };
        news.rtt = newest.or(fine);
        if let Some(rtt) = news.rtt {
            self.rtt.sample_min(rtt, now);
        }
        if let Some(rtt) = arrivals.oldest_sent_at.map(|sent_at| now - sent_at).or(ts_rtt) {
            self.rtt.smooth(rtt);
            self.rto.on_rtt_sample();
        }
        news.prior_delivered = self.rate.delivered();
        if let Some(sample) = self.rate.sample(self.rtt.min(), now) {
            news.prior_delivered = sample.prior_delivered;
            news.newest_sent_at = Some(sample.sent_at);
            news.rate = sample.rate;
            news.rate_interval = sample.interval;
            news.app_limited = sample.app_limited;
        }
    }

    /// RACK [RFC 8985 §6.2 step 5]; sets its timer.
    ///
    /// Deviation: the RFC sets the timer for the last segment that time alone may declare lost;
    /// here it is set for the first one, which finds every loss when it is due and needs no walk.
    pub(super) fn detect_losses(&mut self, now: Instant) -> Losses {
        self.rack_deadline = None;
        let mut losses = Losses::default();
        if !self.has_sack() {
            return losses;
        }
        if self.detection == LossDetection::DupThresh {
            return self.detect_losses_by_sacks();
        }
        let path = self.path();
        while let Some(oldest) = self.sent.oldest()
            && let Some(lost_at) = self.rack.lost_at(&oldest, path)
        {
            if lost_at > now {
                self.rack_deadline = Some(lost_at);
                break;
            }
            losses.bytes += self.sent.mark_lost(&oldest);
            losses.newest = losses.newest.max(Some(oldest.sent_at));
        }
        losses
    }

    /// [RFC 6675 §4]. Looks at each sequence number once, an undone episode apart.
    fn detect_losses_by_sacks(&mut self) -> Losses {
        let Feedback::Sack(scoreboard) = &self.feedback else { return Losses::default() };
        let Some(below) = scoreboard.lost_below(self.mss) else { return Losses::default() };
        let from = self.judged_below.max(self.sent.snd_una());
        self.judged_below = below.max(from);
        let (bytes, newest) = self.sent.mark_fresh_lost(from..self.judged_below);
        Losses { bytes, newest }
    }

    /// [RFC 5681 §3.2, RFC 6582 §3.2], where there is no SACK.
    fn detect_losses_by_duplicates(
        &mut self,
        ack: &PlainAck<'_>,
        advanced: bool,
        news: &mut Acked,
        now: Instant,
    ) -> u64 {
        let (snd_una, snd_nxt) = (self.sent.snd_una(), self.sent.snd_nxt());
        let Feedback::DupAcks(dup_acks) = &mut self.feedback else { return 0 };
        if advanced {
            // A partial acknowledgment names the next hole.
            let partial = self.recovery_end.is_some() && self.sent.head_is_fresh();
            return if partial { self.sent.mark_head_lost() } else { 0 };
        }
        let duplicate = ack.is_pure_ack && ack.cum_ack == snd_una && !self.sent.is_empty();
        if !duplicate {
            return 0;
        }
        let (bytes, lost) = dup_acks.on_duplicate(self.mss, snd_nxt - snd_una, snd_una);
        self.rate.add_delivered(bytes, now);
        news.acked_bytes += bytes;
        if !lost || self.recovery_end.is_some() {
            return 0;
        }
        dup_acks.on_episode(snd_nxt);
        self.sent.mark_head_lost()
    }
}

impl Arrivals {
    /// Its latest transmission was made by the present episode: an echo older than the episode's
    /// first retransmission is then that of the original. What an earlier episode sent again has
    /// an older echo anyway, which proves nothing.
    fn is_of_episode(&self, segment: &Delivered) -> bool {
        self.resent_since.is_some_and(|first| segment.sent_at >= first)
    }

    fn note(
        &mut self,
        segment: &Delivered,
        rack: &mut Rack,
        rate: &mut RateEstimator,
        undo: &Undo,
    ) {
        self.bytes += segment.new_bytes;
        if segment.was_sacked {
            rate.add_delivered(segment.new_bytes, self.now);
        } else {
            let &Delivered { xmit, sent_at, snapshot, .. } = segment;
            rate.on_delivered(segment.new_bytes, Departure { xmit, sent_at, snapshot }, self.now);
        }
        let echoes_original = self.echoes_original && self.is_of_episode(segment);
        rack.on_delivered(segment, echoes_original, self.rtt_min, self.now);
        self.over_original |= undo.is_original(segment);
        if !segment.was_sacked {
            let first = segment.first_sent.unwrap_or(segment.sent_at);
            self.first_sent_at = Some(self.first_sent_at.map_or(first, |at| at.min(first)));
        }
        if segment.was_sacked || segment.first_sent.is_some() {
            return;
        }
        self.oldest_sent_at.get_or_insert(segment.sent_at);
        if self.newest.is_none_or(|(xmit, _)| segment.xmit > xmit) {
            self.newest = Some((segment.xmit, segment.sent_at));
        }
    }
}
