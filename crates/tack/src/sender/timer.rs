//! When silence has lasted too long: probe first, retransmission timeout after.
//!
//! ```text
//! probe  min( last transmission + 2 usual RTT + held back + slack,  RTO )  once,
//!        and where TACKs are lost, or the hosts know no least RTO [RFC 9002 §6.2], once more, twice as long after the first, if
//!        that is before the RTO
//! RTO    wait began + ( SRTT + max(G, 4 RTTVAR) + held back ) * 1, 2, 4, 6, 9, 13.5, ...  then
//!
//! held back = alpha once L segments are outstanding, for then one must come; max(alpha, RTTmin/2) in a dialogue;
//!             else max(alpha, the receiver's patience at the pace of the last transmissions)
//! ```
//!
//! Where data comes in return, a receiver that has `L` segments waits for its own data to say so, half an RTTmin at
//! most. A request whose last packet is paced late has its response as late, after the timer of the first ones.
//!
//! In a dialogue an answer acknowledges: less than `L` segments are probed for once it has been out for longer than it
//! ever is ([`Answer`]) and 10 ms, if that is sooner.
//!
//! Where acknowledgments tell rates, the last transmission's is due as long after it as that of the newest that has arrived,
//! and by what the path takes for all that is outstanding. In a queue that is an end of a file that is found lost
//! a round trip sooner than by twice what is usual: the probe leaves a quarter of that later, or twice RTTVAR.
//!
//! A TACK that covers less than `L` segments says how long the receiver waited for more. What left so early that it
//! should have come in half of that time, other packets in the queue included, and did not, is lost: the probe leaves at
//! once.
//!
//! Where the last transmission is answered at once, as a FIN is, its answer follows upon that of the others: the probe
//! leaves 2 usual RTT after it, or one after the last progress, and slack.
//!
//! The segment that made them `L` may have left just now, while an older one waited for it at the
//! receiver: then the RTO counts from it, or from the older one with patience, whichever is sooner.
//!
//! The wait begins with the first transmission when nothing was outstanding, and again with each
//! progress, first probe and timeout. Both deadlines include how long the receiver may hold a TACK back,
//! so that neither can pass before a TACK could have arrived. The first expiry is always a probe
//! [RFC 8985 §7.2]: it costs one packet, and the answer to it tells all that is missing.
//!
//! A timeout in vain (what it sent has not arrived when the silence ends) teaches patience: for sixteen
//! times as long as that silence, none comes before another has lasted as long, up to 1 s. ([RFC 4015 §3.3]
//! lengthens the RTO itself; a way back that is gone for seconds again and again would be found late.) So does a
//! probe in vain, for as long as it confirms itself: where the packets of several flows queue behind each other, all
//! that times the path may be probes that find the queue empty.
//! Each sample of the round trip is of the packet that waited least: on a busy channel they vary less than
//! silences do.
//!
//! Where more arrives, but never the lowest that is missing, all of this waits for ever. Whoever fills a queue of
//! a few packets with each round's first may lose just that one each time, and a controller that takes no
//! loss for a sign goes on. So the RTO is due, too, when eight of it passed and nothing was delivered in order.
//! (Senders of TCP do not restart the timer for what arrives beyond a hole [RFC 6298 §5.3].) What is lost so again
//! and again, while others arrive, is to leave alone: a queue that drops its first drops the first of any number.
//!
//! Deviation: [RFC 8985 §7.2] has one probe. Acknowledgments are few here and easily lost together, so the
//! answer to one is soon lost with the others.
//!
//! Deviation: [RFC 6298 §5.5] doubles every time. From the third timeout in a row on, the wait grows by
//! half: a full queue answers one of three, so this is a path that is gone. When it comes back, nothing
//! is sent for half of the time that it was gone at worst, where it would be all of that. Exponential it
//! stays, as [RFC 8961 §4] demands.
//!
//! Deviation: [RFC 6298 §2.4] bounds the RTO by 1 s from below; 200 ms is what Linux uses and
//! enough, since the delayed acknowledgment it guards against is in the sum.

use core::time::Duration;

use tack_units::Instant;

use super::Timeout;
use super::answer::Answer;
use super::patience::Patience;
use crate::pace::Pace;

/// RTO before the first RTT sample [RFC 6298 §2.1].
const INITIAL_RTO: Duration = Duration::from_secs(1);
const MIN_RTO: Duration = Duration::from_millis(200);
/// [RFC 6298 §2.5].
const MAX_RTO: Duration = Duration::from_secs(60);
/// G: timers of both hosts are this coarse.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);
/// How late a receiver's flush timer may fire in practice before a probe is sent in vain.
const PROBE_SLACK: Duration = Duration::from_millis(5);
/// How much later than it ever was an answer may come before that: applications are as late as their hosts are busy.
const ANSWER_SLACK: Duration = Duration::from_millis(10);
/// No receiver holds a TACK back longer [RFC 9293 §3.8.6.3], whatever interval it claims.
const MAX_ACK_DELAY: Duration = Duration::from_millis(500);
/// RTOs for which others may arrive while the lowest outstanding does not.
const STUCK_RTOS: u32 = 8;
/// Probes before a timeout.
const MOST_PROBES: u32 = 2;
/// Timeouts that double the next wait; later ones make it longer by half.
const DOUBLING: u32 = 2;
/// 200 ms * 2^2 * 1.5^11 exceeds `MAX_RTO`.
const MAX_BACKOFF: u32 = 13;
/// Times that something arrived without data in return that said so, after which this is no dialogue any more.
const DIALOGUE: u32 = 16;

/// What the deadlines are computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// `None` before the first sample.
    pub(super) srtt: Option<Duration>,
    pub(super) rttvar: Duration,
    /// What round trips usually are; `None` before the first sample.
    pub(super) usual_rtt: Option<Duration>,
    /// Zero before the first sample.
    pub(super) rtt_min: Duration,
    /// TACK interval in force.
    pub(super) alpha: Duration,
    /// `L`.
    pub(super) segments_per_ack: u32,
    /// The receiver's flush timer.
    pub(super) flush: Duration,
    /// What the path takes for what is outstanding; `None` while nobody knows its rate.
    pub(super) drain: Option<Duration>,
    /// TACKs are lost on the way back.
    pub(super) lossy: bool,
    /// Hosts know no least timeout.
    pub(super) probed_again: bool,
}

/// Probe and retransmission timer.
#[derive(Debug)]
pub(super) struct Timer {
    waiting_since: Instant,
    /// Since the last progress, whatever expired.
    silent_since: Instant,
    /// The lowest outstanding, and since when it is, or was taken for lost.
    lowest: u64,
    stuck_since: Instant,
    /// The lowest at the last timeout, and whether anything of full size arrived since.
    timed_out: Option<u64>,
    others: bool,
    /// The lowest is lost again and again, while others arrive.
    alone: bool,
    /// Silences without a timeout, and, counted as the probe's wait is and without what was held back, without a probe.
    patience: Patience,
    before_probe: Patience,
    last_sent: Instant,
    /// From the departure of the newest that is known to have arrived until that was known.
    age: Option<Duration>,
    /// What left last is acknowledged as soon as it arrives.
    answered_at_once: bool,
    /// The receiver waited for more than came, and nothing left since that could still come.
    missed: bool,
    /// How far apart transmissions are that no timer asked for, and when the last of them was.
    pace: Pace,
    paced_at: Instant,
    by_timer: bool,
    /// So many times more that the receiver may wait for data in return before it says what arrived.
    dialogue: u32,
    answer: Answer,
    /// The silence that the last progress ended had no probe.
    unprobed: bool,
    /// Since when `L` segments are outstanding.
    full_since: Option<Instant>,
    /// Probes sent since the last progress, and when the last of them was.
    probes: u32,
    probed_at: Instant,
    /// Since when it had been quiet before the first of them.
    probe_for: Instant,
    /// How long that silence was in which one probe left, until something arrived.
    probed_silence: Option<Duration>,
    /// For how long the receiver had what the newest TACK tells of.
    held: Duration,
    backoff: u32,
}

impl Timer {
    pub(super) fn new(now: Instant) -> Self {
        Timer {
            waiting_since: now,
            silent_since: now,
            lowest: 0,
            stuck_since: now,
            timed_out: None,
            others: false,
            alone: false,
            patience: Patience::default(),
            before_probe: Patience::default(),
            last_sent: now,
            age: None,
            answered_at_once: false,
            missed: false,
            pace: Pace::default(),
            paced_at: now,
            by_timer: false,
            dialogue: 0,
            answer: Answer::default(),
            unprobed: false,
            full_since: None,
            probes: 0,
            probed_at: now,
            probe_for: now,
            probed_silence: None,
            held: Duration::ZERO,
            backoff: 0,
        }
    }

    /// A transmission leaves; `idle`: nothing was outstanding.
    #[inline]
    pub(super) fn on_sent(&mut self, idle: bool, now: Instant) {
        if !core::mem::take(&mut self.by_timer) {
            self.pace.on_gap(now - self.paced_at);
            self.paced_at = now;
        }
        self.last_sent = now;
        self.answered_at_once = false;
        self.missed = false;
        if idle {
            self.waiting_since = now;
            self.silent_since = now;
            self.stuck_since = now;
            self.probes = 0;
        }
    }

    /// What left last is acknowledged as soon as it arrives.
    pub(super) fn expect_answer(&mut self) {
        self.answered_at_once = true;
    }

    /// `una` is the lowest outstanding now.
    pub(super) fn on_lowest(&mut self, una: u64, now: Instant) {
        if una > self.lowest {
            (self.lowest, self.stuck_since) = (una, now);
            self.alone = false;
        }
    }

    /// Whether the lowest outstanding is to leave alone.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether `L` segments are outstanding now.
    pub(super) fn set_full(&mut self, full: bool, now: Instant) {
        self.full_since = full.then(|| self.full_since.unwrap_or(now));
    }

    /// Something new arrived at the peer.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.unprobed = self.probes == 0 && self.backoff == 0;
        if self.probes == 0 {
            self.before_probe.confirm(self.of_the_path(self.quiet_since(), now), now);
        }
        self.probed_silence = self.silence_with_a_probe(now).or(self.probed_silence);
        self.held = Duration::ZERO;
        self.waiting_since = now;
        self.silent_since = now;
        self.missed = false;
        self.probes = 0;
        self.backoff = 0;
        self.dialogue = self.dialogue.saturating_sub(1);
    }

    /// A TACK comes that the receiver held back for so long: before all that it tells.
    pub(super) fn on_tack(&mut self, held: Duration) {
        self.held = held;
    }

    /// The newest of it left so long ago.
    pub(super) fn on_age(&mut self, age: Duration) {
        self.age = Some(age);
    }

    /// Of that, something was of full size.
    pub(super) fn on_full_sized(&mut self) {
        self.others = true;
    }

    /// Data in return has told of it: after [`Self::on_progress`]. `all`: of everything outstanding, so long after the last
    /// of it left.
    pub(super) fn on_told_by_data(&mut self, all: Option<Duration>) {
        self.dialogue = DIALOGUE;
        if let Some(time) = all.filter(|_| self.unprobed) {
            self.answer.on_sample(time);
        }
    }

    /// A TACK has told of it: after [`Self::on_progress`]. Where a probe had to ask, data does not answer.
    pub(super) fn on_told_by_tack(&mut self) {
        if !self.unprobed {
            self.answer.on_none();
        }
    }

    /// A TACK has told of less than `L` segments, whose receiver waited until its timer: after [`Self::on_progress`].
    pub(super) fn on_waited_for(&mut self) {
        self.answer.on_none();
    }

    /// What answers took, which silences were borne and how often nothing was heard is the old path's: the new one has a
    /// whole timeout from now on.
    pub(super) fn on_path_change(&mut self, now: Instant) {
        self.answer = Answer::default();
        (self.patience, self.before_probe) = (Patience::default(), Patience::default());
        (self.probed_silence, self.held) = (None, Duration::ZERO);
        (self.waiting_since, self.silent_since, self.stuck_since) = (now, now, now);
        (self.timed_out, self.alone) = (None, false);
        (self.probes, self.backoff) = (0, 0);
        self.full_since = self.full_since.map(|_| now);
        self.age = None;
    }

    /// The receiver waited in vain for what left before then: after [`Self::on_progress`].
    pub(super) fn on_missed(&mut self, left_before: Instant) {
        self.missed = self.last_sent <= left_before;
    }

    /// What ends the silence shows that no timeout in it was needed; before [`Self::on_progress`].
    pub(super) fn on_needless(&mut self, now: Instant) {
        self.patience.learn(now - self.silent_since, now);
    }

    /// The original of the last probe had arrived, and no TACK was lost; before [`Self::on_progress`], if this is what
    /// tells of the original, and not of the probe alone.
    pub(super) fn on_probe_in_vain(&mut self, now: Instant) {
        if let Some(silence) = self.probed_silence.take().or(self.silence_with_a_probe(now)) {
            self.before_probe.learn(silence, now);
        }
    }

    /// Of the silence under way, if it is about the original of its only probe. After a second one, or a timeout, it is
    /// not. Where data tells what arrived, it was lost perhaps, and the silence had lasted without the probe.
    fn silence_with_a_probe(&self, now: Instant) -> Option<Duration> {
        let is_about_one = self.probes == 1 && self.backoff == 0 && self.dialogue == 0;
        is_about_one.then(|| self.of_the_path(self.probe_for, now))
    }

    /// Of a silence, what the receiver's wait for more has no part in: the next time it may wait longer.
    fn of_the_path(&self, since: Instant, now: Instant) -> Duration {
        (now - since).saturating_sub(self.held)
    }

    /// When the next timer fires, given that something is outstanding.
    pub(super) fn deadline(&self, path: Path) -> Instant {
        let silent = self.unless_stuck(path);
        self.stuck(path).map_or(silent, |stuck| silent.min(stuck))
    }

    /// When the lowest outstanding has been so for too long, if something else arrived since.
    fn stuck(&self, path: Path) -> Option<Instant> {
        let others = self.silent_since > self.stuck_since;
        others.then(|| self.stuck_since + STUCK_RTOS * self.rto_if(false, path))
    }

    fn unless_stuck(&self, path: Path) -> Instant {
        let rto = self.timeout(path);
        let usual = path.usual_rtt.unwrap_or(INITIAL_RTO / 2);
        let held_back = self.held_back(self.full_since.is_some(), path);
        let wait = 2 * usual + held_back + PROBE_SLACK;
        let quiet = self.quiet_since();
        match self.probes {
            0 if self.answered_at_once => {
                let answered = (self.last_sent + 2 * usual).max(self.waiting_since + usual);
                rto.min(answered + PROBE_SLACK).min(self.overdue(usual, path).unwrap_or(rto))
            }
            0 => {
                let answer = self.answer.at_most().filter(|_| self.full_since.is_none());
                let wait = answer.map_or(wait, |answer| wait.min(answer + ANSWER_SLACK));
                let overdue = self.overdue(usual, path).map_or(rto, |due| rto.min(due + held_back));
                let due = if self.missed { quiet } else { overdue.min(quiet + wait) };
                let borne = self.before_probe.borne(quiet);
                if borne.is_zero() { due } else { due.max(quiet + borne + held_back) }
            }
            1 if self.backoff == 0 && self.probes_twice(path) => {
                rto.min(self.last_sent.max(self.probed_at) + 2 * wait)
            }
            _ => rto,
        }
    }

    /// One unanswered probe says little: where TACKs are lost, or one was due without a wait for more and the least
    /// timeout is the longest wait.
    fn probes_twice(&self, path: Path) -> bool {
        path.lossy || path.probed_again && self.full_since.is_some()
    }

    /// When the last transmission should long have arrived and be acknowledged, if that is not held back.
    fn overdue(&self, usual: Duration, path: Path) -> Option<Instant> {
        let due = (self.last_sent + self.age?).max(self.quiet_since()) + path.drain?;
        Some(due + (usual / 4).max(2 * path.rttvar) + PROBE_SLACK)
    }

    fn timeout(&self, path: Path) -> Instant {
        let patient = self.waiting_since + self.rto_if(false, path);
        let full = self.full_since.map(|since| self.waiting_since.max(since));
        let rto = full.map_or(patient, |since| patient.min(since + self.rto_if(true, path)));
        rto.max(self.silent_since + self.patience.borne(self.silent_since))
    }

    /// Nothing left since, and nothing was heard.
    fn quiet_since(&self) -> Instant {
        self.last_sent.max(self.waiting_since)
    }

    /// The deadline has passed.
    pub(super) fn on_timeout(&mut self, path: Path, now: Instant) -> Timeout {
        let stuck = self.stuck(path).is_some_and(|stuck| stuck <= now);
        let again =
            self.probes_twice(path) && self.probes < MOST_PROBES && now < self.timeout(path);
        let is_probe = !stuck && (self.probes == 0 || again);
        // What leaves next goes by this timer: that is no pace. Probes between the packets of a slow flow would
        // make it a brisk one, whose receiver waits for less, so that each next packet is probed for as well.
        self.by_timer = true;
        self.probed_silence = None;
        if is_probe && self.probes == 0 {
            self.probe_for = self.quiet_since();
            self.answer.on_probe();
        }
        self.last_sent = now;
        if self.probes == 0 || !is_probe {
            self.waiting_since = now;
        }
        if is_probe {
            (self.probes, self.probed_at) = (self.probes + 1, now);
            return Timeout::Probe;
        }
        self.alone |= self.others && (stuck || self.timed_out == Some(self.lowest));
        (self.timed_out, self.others) = (Some(self.lowest), false);
        self.stuck_since = now;
        self.probes = MOST_PROBES;
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        Timeout::Rto
    }

    /// How long the receiver may wait before it acknowledges what left last. The path may have changed
    /// the pace a little, and the pace may be just too slow to count as one.
    fn held_back(&self, full: bool, path: Path) -> Duration {
        if full {
            let for_data = if self.dialogue > 0 { path.rtt_min / 2 } else { Duration::ZERO };
            return path.alpha.max(for_data).min(MAX_ACK_DELAY);
        }
        let steady = self.pace.steady_at_most(path.segments_per_ack, path.flush);
        let patience = steady.max(self.pace.slow_at_most(path.flush));
        path.alpha.max(patience).min(MAX_ACK_DELAY)
    }

    /// `RTO = SRTT + max(G, 4 RTTVAR)` and what the receiver may wait, backed off.
    pub(super) fn rto(&self, path: Path) -> Duration {
        self.rto_if(self.full_since.is_some(), path)
    }

    /// If `L` segments are outstanding, or not.
    fn rto_if(&self, full: bool, path: Path) -> Duration {
        let base = match path.srtt {
            None => INITIAL_RTO,
            Some(srtt) => srtt + GRANULARITY.max(4 * path.rttvar) + self.held_back(full, path),
        };
        let doubled = base.max(MIN_RTO).min(MAX_RTO) * (1 << self.backoff.min(DOUBLING));
        let longer = |rto: Duration, _| rto + rto / 2;
        (DOUBLING..self.backoff).fold(doubled, longer).min(MAX_RTO)
    }
}

#[cfg(test)]
#[path = "timer_tests.rs"]
mod tests;
