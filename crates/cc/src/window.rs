//! What every window-based controller has in common: a window, a threshold, a way down (PRR) and a
//! way back (undo). How the window grows, and how far it falls, is the algorithm's.
//!
//! ```text
//!              cwnd < ssthresh: slow start        otherwise: congestion avoidance
//!   Recovery   cwnd falls to ssthresh over one round [RFC 9937]
//!   Timeout    cwnd = 1 MSS [RFC 5681 §3.1]; ssthresh falls once however often the timer fires
//!   ECN mark   cwnd = ssthresh at once [RFC 3168 §6.1.2]
//!   Spurious   cwnd and ssthresh as they were before the episode
//! ```
//!
//! `cwnd` is what the path holds. What a receiver has but will only acknowledge with its next TACK
//! is beyond that: [`CongestionWindow::window`] allows for it, or a flow whose data is acknowledged
//! later by design would send less per round trip than one that hears of each segment, on the same
//! `cwnd` ([`withheld`](super::withheld)).

use tack_units::{Instant, Rate};

use crate::arrivals::{Arrivals, Held};
use crate::config::{AfterRto, Config, Pacing, WindowRules};
use crate::prr::Prr;
use crate::sample::{AckSample, LossKind, LossSample};
use crate::withheld::Withheld;

/// The window of a window-based controller, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct CongestionWindow {
    mss: u64,
    max: u64,
    rules: WindowRules,
    pacing: Pacing,
    cwnd: u64,
    /// `u64::MAX` is infinite.
    ssthresh: u64,
    /// The reduction under way, and when it began.
    prr: Option<(Prr, Instant)>,
    /// Where to return to if the last episode proves needless.
    undo: Option<Undo>,
    acks: Withheld,
    /// The newest acknowledgment found the sender held back by the window.
    cwnd_limited: bool,
    /// The timer fired and nothing new has been acknowledged since.
    timed_out: bool,
    /// Slow start under way follows a timeout.
    after_rto: bool,
    /// The first slow start is over.
    has_avoided: bool,
    arrivals: Arrivals,
    /// It grows until something is lost.
    fills_queues: bool,
    /// Lost in the recovery that ended the first slow start, where no queue was seen.
    lost_at_first: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    has_avoided: bool,
}

/// Linux's pacing gains: in slow start the window doubles per round trip, so the rate must be at least twice `cwnd/srtt`;
/// afterwards a little above one keeps pacing from limiting the window.
const SLOW_START_PACING_GAIN: f64 = 2.0;
const AVOIDANCE_PACING_GAIN: f64 = 1.2;
/// A round trip's data leaves at the gain's rate until its window is full. Plain TCP's acknowledgments, which the bottleneck
/// spaces, wear such a wave down; TACKs of more segments hand it on, and a short buffer has to hold `1 - 1/gain` of it.
const TACK_PACING_GAIN: f64 = 1.0625;

/// Recoveries that lose this part of their flight, and so many segments, are those of a full path, to which as much again
/// was sent. Chance loses less.
const OVERSHOT_DIVISOR: u64 = 4;
const OVERSHOT_MSS: u64 = 8;

/// Until the loss of what left in the first half of a reduction is told.
const FALLS_FOR_RTTS: f64 = 1.5;

/// Segments of which one more or less is much.
const FEW_MSS: u64 = 4;
/// No reduction goes below two segments [RFC 5681 §3.1 Eq. 4].
const MIN_SSTHRESH_MSS: u64 = 2;

/// What a loss leaves to the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To choose what is left, and to [reduce](CongestionWindow::reduce) to it.
    Reduce,
    /// To take back what it remembers of the last reduction; the window's is undone.
    Undone,
    /// Nothing.
    Done,
}

impl CongestionWindow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            mss: u64::from(config.mss),
            max: config.max_window,
            rules: config.rules,
            pacing: config.pacing,
            cwnd: config.initial_window,
            ssthresh: u64::MAX,
            prr: None,
            undo: None,
            acks: Withheld::default(),
            cwnd_limited: true,
            timed_out: false,
            after_rto: false,
            has_avoided: false,
            arrivals: Arrivals::new(config.initial_window),
            fills_queues: true,
            lost_at_first: None,
        }
    }

    /// The same for an algorithm that keeps queues short itself.
    pub(crate) fn keeping_queues_short(self) -> Self {
        Self { fills_queues: false, ..self }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// What may be in flight, as the sender counts it: the window, and what waits at the receiver for its next TACK.
    pub(crate) fn window(&self) -> u64 {
        // PRR counts by what is in flight already.
        let withheld = if self.in_recovery() { 0 } else { self.withheld(&self.acks, self.cwnd) };
        self.cwnd.saturating_add(withheld).min(self.max.max(self.mss))
    }

    /// Bytes of a window `cwnd` that have arrived and are not yet acknowledged.
    fn withheld(&self, acks: &Withheld, cwnd: u64) -> u64 {
        let held = acks.of(cwnd, self.mss);
        if self.is_paced() { held } else { held / 2 }
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss).max(1);
        self.set_cwnd(self.cwnd);
    }

    /// `None` while infinite.
    pub(crate) fn ssthresh(&self) -> Option<u64> {
        (self.ssthresh != u64::MAX).then_some(self.ssthresh)
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.pacing == Pacing::Always
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.prr.is_some()
    }

    /// Ends slow start here, without a reduction.
    pub(crate) fn leave_slow_start(&mut self) {
        self.ssthresh = self.ssthresh.min(self.cwnd);
        self.has_avoided = true;
    }

    pub(crate) fn set_cwnd(&mut self, bytes: u64) {
        self.cwnd = bytes.clamp(self.mss, self.max.max(self.mss));
    }

    pub(crate) fn on_sent(&mut self, bytes: u64) {
        if let Some((prr, _)) = &mut self.prr {
            prr.on_sent(bytes);
        }
    }

    /// Applies recovery and returns the acknowledged bytes that may grow the window: of recovery's only those of the slow
    /// start after a timeout, and none of a window that nobody used, which says nothing about the path [RFC 7661 §2].
    pub(crate) fn on_ack(&mut self, ack: &AckSample) -> u64 {
        let mut srtt = ack.srtt.or(self.acks.srtt);
        if !ack.ack_interval.is_zero() {
            // Few TACKs tell that a queue is gone, each of them for all that it covers.
            srtt = srtt.map(|srtt| ack.rtt.map_or(srtt, |rtt| srtt.min(rtt)));
        }
        let queue = ack.queue().filter(|_| self.fills_queues).unwrap_or(self.acks.queue);
        self.acks = Withheld { queue, ..Withheld::told(ack, srtt) };
        self.arrivals.on_ack(ack);
        self.cwnd_limited = ack.cwnd_limited;
        if ack.acked_bytes > 0 {
            self.timed_out = false;
        }
        self.end_first_at_held(ack);
        if let Some((mut prr, began)) = self.prr {
            if !ack.in_recovery {
                self.prr = None;
                self.set_cwnd(self.ssthresh);
                return 0;
            }
            if began == ack.now {
                prr.count_into_flight(ack.acked_bytes);
                prr.count_from(self.flight_before(prr.flight(), ack));
            }
            let safe = ack.acked_bytes > 0 && ack.lost_bytes == 0;
            let covered = if ack.ack_interval.is_zero() { 0 } else { ack.acked_bytes };
            let more = if safe { covered.max(self.mss) } else { 0 };
            let window = prr.on_ack(ack.acked_bytes, ack.in_flight, more, self.mss);
            self.prr = Some((prr, began));
            self.set_cwnd(window);
            return 0;
        }
        if ack.cwnd_limited && !self.is_held_by(ack) { ack.acked_bytes } else { 0 }
    }

    /// What was in flight before the loss that began recovery, `left` of it when that was told.
    ///
    /// Deviation: in [RFC 9937 §6] `left`. Under TACK, of a flow that its window limits, that window: where TACKs were
    /// lost as well, half of it may have arrived, and nothing left for that.
    fn flight_before(&self, left: u64, ack: &AckSample) -> u64 {
        let cwnd = self.undo.filter(|_| !ack.ack_interval.is_zero()).map(|undo| undo.cwnd);
        match cwnd {
            _ if !ack.cwnd_limited => self.arrivals.flight_behind(left),
            Some(cwnd) => cwnd.saturating_add(self.withheld(&self.acks, cwnd)),
            None => left,
        }
    }

    /// Ends the recovery after the first slow start with [what the path holds](Held::kept), once as much is lost as full
    /// paths lose. A queue of an eighth of a bdp and more shows with the first loss; behind a shorter one slow start
    /// would end above what the path holds, lose again at once and be cut twice; or far below, where late packets kept the
    /// news back until less was in flight.
    fn end_first_at_held(&mut self, ack: &AckSample) {
        let Some((lost, (prr, _))) = self.lost_at_first.as_mut().zip(self.prr) else { return };
        *lost = lost.saturating_add(ack.lost_bytes);
        if *lost < (prr.flight() / OVERSHOT_DIVISOR).max(OVERSHOT_MSS * self.mss) {
            return;
        }
        self.lost_at_first = None;
        let held = self.acks.srtt.and_then(|srtt| self.arrivals.held(srtt));
        let Some(kept) = held.map(Held::kept) else { return };
        self.ssthresh = kept.min(prr.flight()).max(MIN_SSTHRESH_MSS * self.mss);
        let target = self.recovery_target();
        if let Some((prr, _)) = &mut self.prr {
            prr.end_with(target);
        }
    }

    /// While repairs after a timeout are lost, no loss is news. TCPs grow until their timer fires again.
    fn is_held_by(&self, ack: &AckSample) -> bool {
        ack.in_recovery && !self.in_slow_start() && !ack.ack_interval.is_zero()
    }

    /// Grows by what was acknowledged, `L` segments at most [RFC 3465 §2.2], up to `ssthresh`; returns what is left over.
    pub(crate) fn slow_start(&mut self, acked: u64) -> u64 {
        let fast = self.is_paced() && !self.has_avoided;
        let growth = if fast { self.arrivals.grown_by(acked, self.cwnd) } else { acked };
        // Never more than the window: no acknowledgment does more than double it.
        let counted = growth.min(self.counted_at_most()).min(self.cwnd);
        let grown = counted.min(self.slow_start_limit().saturating_sub(self.cwnd));
        self.set_cwnd(self.cwnd.saturating_add(grown));
        self.after_rto &= self.in_slow_start();
        counted - grown
    }

    /// Most that slow start may grow to.
    ///
    /// Deviation: [RFC 5681 §3.1] knows no such limit, nor growth beyond doubling. A sender that has
    /// only acknowledgments learns that the path is full a round trip later, when the window has
    /// doubled; a receiver that tells rates says what the path has room for.
    fn slow_start_limit(&self) -> u64 {
        let shown = if self.has_avoided { None } else { self.arrivals.room_for(self.cwnd) };
        self.ssthresh.min(shown.unwrap_or(u64::MAX))
    }

    /// Bytes that one acknowledgment may count in this slow start.
    ///
    /// Deviation: by default after a timeout, too, `L` segments, where [RFC 3465 §2.3] says one.
    fn counted_at_most(&self) -> u64 {
        match self.rules.abc_limit_after_rto {
            AfterRto::One if self.after_rto => self.mss,
            _ => u64::from(self.rules.abc_limit).saturating_mul(self.mss),
        }
    }

    /// What a reduction leaves of a window of `flight` bytes, `part` being the algorithm's choice:
    /// whole segments, as in Linux. The rest of one lets nothing leave, yet it would have to be
    /// acknowledged, too, before the window grows: at ten segments, growth 4 % slower. Of fewer than four under TACK the nearest
    /// number: where three and two segments are the choice, TCPs make up for two with an acknowledgment per segment.
    pub(crate) fn left_of(&self, flight: u64, part: f64, kind: LossKind) -> u64 {
        let chosen = self.rules.beta.filter(|_| self.has_avoided && kind != LossKind::Timeout);
        let mut left = (flight as f64 * chosen.map_or(part, |beta| 1.0 - beta)) as u64;
        let few = left < FEW_MSS * self.mss && kind == LossKind::Recovery;
        if few && !self.acks.interval.is_zero() {
            left = left.saturating_add(self.mss / 2);
        }
        left - left % self.mss
    }

    /// Bytes to take as FlightSize when a reduction begins [RFC 5681 §3.1].
    ///
    /// Deviation: the window itself while it is what limits the sender, and what it was falling to
    /// if it still was. What SACKs delivered before the loss was declared has left the flight, so
    /// flight alone would cut a little deeper. Under TACK, where slow start has filled a queue, what
    /// arrives in a round trip: it is a round trip ahead of what the path was seen to hold. And where data ends, the
    /// flight that the lost bytes left in, as pipeACK [RFC 7661 §4.4.1]: nothing may be left of it once a loss is told.
    pub(crate) fn flight_at(&self, loss: &LossSample) -> u64 {
        if self.in_recovery() {
            return self.ssthresh;
        }
        let seen = self.held_at_first(loss).map(|held| held.all);
        let left = loss.in_flight.saturating_add(loss.lost_bytes);
        let flight = if self.cwnd_limited { self.cwnd } else { self.arrivals.flight_behind(left) };
        self.cwnd.min(flight).min(seen.unwrap_or(u64::MAX))
    }

    /// What a recovery is to leave in flight, as the sender counts it.
    fn recovery_target(&self) -> u64 {
        let acks = Withheld { in_recovery: true, ..self.acks };
        self.ssthresh.saturating_add(self.withheld(&acks, self.ssthresh))
    }

    /// This loss ends the first slow start.
    fn ends_first(&self, loss: &LossSample) -> bool {
        loss.kind == LossKind::Recovery && !self.has_avoided
    }

    /// What the path was seen to hold when the first slow start ended with this loss.
    fn held_at_first(&self, loss: &LossSample) -> Option<Held> {
        self.acks
            .srtt
            .filter(|_| self.ends_first(loss))
            .and_then(|srtt| self.arrivals.held_at(srtt))
    }

    /// The least that a reduction leaves: two segments [RFC 5681 §3.1 Eq. 4], and of the first slow start
    /// [what the path holds](Held::kept).
    fn least_left(&self, loss: &LossSample) -> u64 {
        let kept = self.held_at_first(loss).map_or(0, Held::kept);
        kept.min(self.cwnd).max(MIN_SSTHRESH_MSS * self.mss)
    }

    /// Undoes, or collapses after another timeout; what is left to the algorithm, it returns.
    pub(crate) fn on_loss(&mut self, loss: &LossSample) -> Answer {
        if loss.kind == LossKind::Spurious {
            return if self.undo() { Answer::Undone } else { Answer::Done };
        }
        if self.is_news(loss) {
            return Answer::Reduce;
        }
        if loss.kind == LossKind::Timeout {
            self.collapse();
        }
        Answer::Done
    }

    /// What is lost now left in the first half of the reduction under way.
    ///
    /// Deviation: [RFC 5681 §4.3] lowers the window once more for a lost retransmission. PRR takes a round trip to fall,
    /// and the repair at the head of what one TACK lets leave meets the queue that was full: cut twice for one overflow,
    /// flows had a tenth less where their period met that of TACKs.
    fn is_falling(&self, loss: &LossSample) -> bool {
        let falls = self.prr.filter(|_| self.comes_in_waves(self.ssthresh)).zip(self.acks.srtt);
        falls.is_some_and(|((_, began), srtt)| loss.now - began < srtt.mul_f64(FALLS_FOR_RTTS))
    }

    /// NewReno's reduction [RFC 5681 §3.1 Eq. 4].
    pub(crate) fn halve(&mut self, loss: &LossSample) {
        let left = self.left_of(self.flight_at(loss), 0.5, loss.kind);
        self.reduce(left, loss);
    }

    /// Whether this event is to reduce the window at all: a timer that fires again for the same data, and a mark in the
    /// round of a loss, are no further news [RFC 5681 §3.1, RFC 3168 §6.1.2].
    fn is_news(&self, loss: &LossSample) -> bool {
        match loss.kind {
            LossKind::Recovery => !self.is_falling(loss),
            LossKind::Timeout => !self.timed_out,
            LossKind::CongestionExperienced => self.prr.is_none() && !self.timed_out,
            LossKind::Spurious => false,
        }
    }

    /// Whether it begins an episode of its own, to be undone by itself: a timeout during recovery does not, but a
    /// second recovery, even if nobody said that the first one ended.
    pub(crate) fn begins_episode(&self, kind: LossKind) -> bool {
        kind == LossKind::Recovery || (self.prr.is_none() && !self.timed_out)
    }

    /// Falls to `ssthresh` in the way that `loss` asks for.
    pub(crate) fn reduce(&mut self, ssthresh: u64, loss: &LossSample) {
        if self.begins_episode(loss.kind) {
            let cwnd = if self.in_recovery() { self.ssthresh } else { self.cwnd };
            let (ssthresh, has_avoided) = (self.ssthresh, self.has_avoided);
            self.undo = Some(Undo { cwnd, ssthresh, has_avoided });
        }
        self.ssthresh = ssthresh.max(self.least_left(loss));
        let unseen = self.ends_first(loss) && self.held_at_first(loss).is_none();
        self.lost_at_first = unseen.then_some(loss.lost_bytes);
        self.has_avoided = true;
        match loss.kind {
            LossKind::Recovery => {
                let flight = loss.in_flight.saturating_add(loss.lost_bytes);
                let target = self.recovery_target();
                self.prr = Some((Prr::new(target, flight), loss.now));
                // One segment may leave at once: the retransmission [RFC 9937 §6].
                self.set_cwnd(loss.in_flight.saturating_add(self.mss));
            }
            LossKind::Timeout => self.collapse(),
            LossKind::CongestionExperienced => self.set_cwnd(self.ssthresh),
            LossKind::Spurious => {}
        }
    }

    /// One segment, after a timeout.
    pub(crate) fn collapse(&mut self) {
        self.prr = None;
        (self.timed_out, self.after_rto) = (true, true);
        self.set_cwnd(self.mss);
    }

    /// The last episode was needless: as it was before. False when there is nothing to undo.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(undo) = self.undo.take() else { return false };
        self.prr = None;
        (self.timed_out, self.after_rto) = (false, false);
        self.has_avoided = undo.has_avoided;
        self.ssthresh = self.ssthresh.max(undo.ssthresh);
        self.set_cwnd(self.cwnd.max(undo.cwnd));
        true
    }

    /// Each acknowledgment lets several segments of a window `cwnd` leave.
    fn comes_in_waves(&self, cwnd: u64) -> bool {
        self.acks.of(cwnd, self.mss) > self.mss
    }

    pub(crate) fn pacing_gain(&self) -> f64 {
        let deep = self.acks.srtt.is_some_and(|srtt| self.arrivals.is_deep(srtt));
        let waves = self.comes_in_waves(self.cwnd) && !deep && !self.in_slow_start();
        let avoidance = if waves { TACK_PACING_GAIN } else { AVOIDANCE_PACING_GAIN };
        if self.cwnd < self.ssthresh / 2 { SLOW_START_PACING_GAIN } else { avoidance }
    }

    /// `cwnd/srtt`; `None` before the first RTT sample.
    pub(crate) fn bandwidth(&self) -> Option<Rate> {
        Rate::from_bytes_over(self.cwnd, self.acks.srtt?)
    }

    /// `gain * cwnd/srtt`, never zero; `None` where acknowledgments alone are the clock.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        if !self.is_paced() {
            return None;
        }
        // In recovery the window only follows the flight down; the rate follows the target, under plain TCP as soon as
        // the flight is below it. At the flight's rate, what one TACK lets leave would fill the queue again.
        let flight = if self.acks.interval.is_zero() { self.cwnd } else { 0 };
        let window = if self.in_recovery() { self.ssthresh.max(flight) } else { self.cwnd };
        let rate = Rate::from_bytes_over(window, self.acks.srtt?)?.mul_f64(self.pacing_gain());
        Some(rate.max(Rate::from_bps(1)))
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
pub(crate) mod tests;
