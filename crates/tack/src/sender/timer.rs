//! When silence has lasted too long: probe first, retransmission timeout after.
//!
//! ```text
//! probe  min( last transmission + 2 usual RTT + held back + slack,  RTO )  once,
//!        and where TACKs are lost once more, twice as long after the first, if that is before the RTO
//! RTO    wait began + ( SRTT + max(G, 4 RTTVAR) + held back ) * 1, 2, 4, 6, 9, 13.5, ...  then
//!
//! held back = alpha once L segments are outstanding, for then one must come;
//!             else max(alpha, the receiver's patience at the pace of the last transmissions)
//! ```
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
//! lengthens the RTO itself; a way back that is gone for seconds again and again would be found late.)
//! Each sample of the round trip is of the packet that waited least: on a busy channel they vary less than
//! silences do.
//!
//! Where more arrives, but never the lowest that is missing, all of this waits for ever. Whoever fills a queue of
//! a few packets with each round's first may lose just that one each time, and a controller that takes no
//! loss for a sign goes on. So the RTO is due, too, when eight of it passed and nothing was delivered in order.
//! (Senders of TCP do not restart the timer for what arrives beyond a hole [RFC 6298 §5.3].)
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
use crate::pace::Pace;

/// RTO before the first RTT sample [RFC 6298 §2.1].
const INITIAL_RTO: Duration = Duration::from_secs(1);
const MIN_RTO: Duration = Duration::from_millis(200);
/// Silence that a needless timeout may teach to bear, at most: the least RTO of [RFC 6298 §2.4].
const MAX_PATIENCE: Duration = Duration::from_secs(1);
/// It is forgotten after so many times its length.
const MEMORY: u32 = 16;
/// [RFC 6298 §2.5].
const MAX_RTO: Duration = Duration::from_secs(60);
/// G: timers of both hosts are this coarse.
const GRANULARITY: Duration = Duration::from_millis(1);
/// How late a receiver's flush timer may fire in practice before a probe is sent in vain.
const PROBE_SLACK: Duration = Duration::from_millis(5);
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

/// What the deadlines are computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// `None` before the first sample.
    pub(super) srtt: Option<Duration>,
    pub(super) rttvar: Duration,
    /// What round trips usually are; `None` before the first sample.
    pub(super) usual_rtt: Option<Duration>,
    /// TACK interval in force.
    pub(super) alpha: Duration,
    /// `L`.
    pub(super) segments_per_ack: u32,
    /// The receiver's flush timer.
    pub(super) flush: Duration,
    /// TACKs are lost on the way back.
    pub(super) lossy: bool,
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
    /// Silence that ended though all had arrived, and until when it is remembered.
    patience: Duration,
    patient_until: Instant,
    last_sent: Instant,
    /// What left last is acknowledged as soon as it arrives.
    answered_at_once: bool,
    /// How far apart transmissions are that no timer asked for, and when the last of them was.
    pace: Pace,
    paced_at: Instant,
    by_timer: bool,
    /// Since when `L` segments are outstanding.
    full_since: Option<Instant>,
    /// Probes sent since the last progress, and when the last of them was.
    probes: u32,
    probed_at: Instant,
    backoff: u32,
}

impl Timer {
    pub(super) fn new(now: Instant) -> Self {
        Timer {
            waiting_since: now,
            silent_since: now,
            lowest: 0,
            stuck_since: now,
            patience: Duration::ZERO,
            patient_until: now,
            last_sent: now,
            answered_at_once: false,
            pace: Pace::default(),
            paced_at: now,
            by_timer: false,
            full_since: None,
            probes: 0,
            probed_at: now,
            backoff: 0,
        }
    }

    /// A transmission leaves; `idle`: nothing was outstanding.
    pub(super) fn on_sent(&mut self, idle: bool, now: Instant) {
        if !core::mem::take(&mut self.by_timer) {
            self.pace.on_gap(now - self.paced_at);
            self.paced_at = now;
        }
        self.last_sent = now;
        self.answered_at_once = false;
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
        }
    }

    /// Whether `L` segments are outstanding now.
    pub(super) fn set_full(&mut self, full: bool, now: Instant) {
        self.full_since = full.then(|| self.full_since.unwrap_or(now));
    }

    /// Something new arrived at the peer.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.waiting_since = now;
        self.silent_since = now;
        self.probes = 0;
        self.backoff = 0;
    }

    /// What ends the silence shows that no timeout in it was needed; before [`Self::on_progress`].
    pub(super) fn on_needless(&mut self, now: Instant) {
        let silence = (now - self.silent_since).min(MAX_PATIENCE);
        if silence >= self.patience || now >= self.patient_until {
            self.patience = silence;
            self.patient_until = now + MEMORY * silence;
        }
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
        let wait = 2 * usual + self.held_back(self.full_since.is_some(), path) + PROBE_SLACK;
        match self.probes {
            0 if self.answered_at_once => {
                let answered = (self.last_sent + 2 * usual).max(self.waiting_since + usual);
                rto.min(answered + PROBE_SLACK)
            }
            0 => rto.min(self.last_sent.max(self.waiting_since) + wait),
            1 if self.backoff == 0 && path.lossy => {
                rto.min(self.last_sent.max(self.probed_at) + 2 * wait)
            }
            _ => rto,
        }
    }

    fn timeout(&self, path: Path) -> Instant {
        let patient = self.waiting_since + self.rto_if(false, path);
        let full = self.full_since.map(|since| self.waiting_since.max(since));
        let rto = full.map_or(patient, |since| patient.min(since + self.rto_if(true, path)));
        let known = self.silent_since < self.patient_until;
        let borne = if known { self.patience } else { Duration::ZERO };
        rto.max(self.silent_since + borne)
    }

    /// The deadline has passed.
    pub(super) fn on_timeout(&mut self, path: Path, now: Instant) -> Timeout {
        let stuck = self.stuck(path).is_some_and(|stuck| stuck <= now);
        let again = path.lossy && self.probes < MOST_PROBES && now < self.timeout(path);
        let is_probe = !stuck && (self.probes == 0 || again);
        // What leaves next goes by this timer: that is no pace. Probes between the packets of a slow flow would
        // make it a brisk one, whose receiver waits for less, so that each next packet is probed for as well.
        self.by_timer = true;
        self.last_sent = now;
        if self.probes == 0 || !is_probe {
            self.waiting_since = now;
        }
        if is_probe {
            (self.probes, self.probed_at) = (self.probes + 1, now);
            return Timeout::Probe;
        }
        self.stuck_since = now;
        self.probes = MOST_PROBES;
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        Timeout::Rto
    }

    /// How long the receiver may wait before it acknowledges what left last. The path may have changed
    /// the pace a little, and the pace may be just too slow to count as one.
    fn held_back(&self, full: bool, path: Path) -> Duration {
        if full {
            return path.alpha.min(MAX_ACK_DELAY);
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
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn path(srtt: u64, rttvar: u64) -> Path {
        Path {
            srtt: Some(ms(srtt)),
            rttvar: ms(rttvar),
            usual_rtt: Some(ms(srtt)),
            alpha: ms(srtt / 4),
            segments_per_ack: 2,
            flush: ms(25),
            lossy: false,
        }
    }

    #[test]
    fn a_timeout_comes_when_others_arrive_for_long_but_never_the_lowest() {
        let mut t = Timer::new(at(0));
        t.on_lowest(1_000, at(0));
        t.on_sent(true, at(0));
        let rto = t.rto_if(false, path(40, 0)).as_millis() as u64;
        let mut now = 0;
        let mut expired = Vec::new();
        for _ in 0..30 {
            now += rto / 2;
            if t.deadline(path(40, 0)) <= at(now) {
                assert_eq!(t.on_timeout(path(40, 0), at(now)), Timeout::Rto);
                expired.push(now / rto);
            }
            t.on_progress(at(now));
            t.on_sent(false, at(now));
        }
        assert!(matches!(expired[..], [8 | 9]), "{expired:?} RTOs");
        t.on_lowest(2_000, at(now));
        assert!(t.stuck(path(40, 0)).is_none());
    }

    #[test]
    fn rto_includes_the_tack_interval_and_its_bounds_hold() {
        let t = Timer::new(at(0));
        assert_eq!(t.rto(path(200, 10)), ms(200 + 40 + 50));
        assert_eq!(t.rto(path(400, 0)), ms(400 + 1 + 100));
        assert_eq!(t.rto(path(4, 0)), MIN_RTO);
        assert_eq!(t.rto(Path { srtt: None, usual_rtt: None, ..path(0, 0) }), INITIAL_RTO);
        assert_eq!(t.rto(path(59_000, 10_000)), MAX_RTO);
    }

    #[test]
    fn a_probe_waits_for_the_flush_timer_only_where_a_lone_packet_is_outstanding() {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(10));
        let lone = path(20, 1);
        assert_eq!(t.deadline(lone), at(10 + 40 + 25 + 5));
        t.set_full(true, at(10));
        assert_eq!(t.deadline(lone), at(10 + 40 + 5 + 5));
    }

    #[test]
    fn a_probe_for_what_is_answered_at_once_does_not_wait_for_a_receiver_to_hold_anything_back() {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(10));
        t.expect_answer();
        assert_eq!(t.deadline(path(20, 1)), at(10 + 40 + 5));
        t.on_progress(at(45));
        assert_eq!(t.deadline(path(20, 1)), at(45 + 20 + 5));
        t.on_progress(at(15));
        t.on_sent(false, at(20));
        assert_eq!(t.deadline(path(20, 1)), at(20 + 40 + 25 + 5), "something else left since");
    }

    #[test]
    fn the_packet_that_makes_them_full_leaves_an_older_one_its_patience() {
        // 100 ms apart over a round trip of 145 ms: the receiver waits 150 ms for the next, which with
        // the third on its way is nothing that alpha bounds.
        let mut t = Timer::new(at(0));
        for (n, full) in [(0, false), (100, false), (200, true)] {
            t.on_sent(n == 0, at(n));
            t.set_full(full, at(n));
        }
        let p = path(145, 0);
        assert!(t.deadline(p) > at(145 + 150), "the first is acknowledged by then");
        t.on_progress(at(295));
        t.set_full(true, at(295));
        assert_eq!(t.deadline(p), at(295) + MIN_RTO, "alpha is enough from here on");
    }

    #[test]
    fn a_probe_comes_before_any_timeout_and_timeouts_back_off() {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(10));
        let p = path(20, 1);
        assert_eq!(t.deadline(p), at(10 + 40 + 25 + 5));
        assert_eq!(t.on_timeout(p, at(80)), Timeout::Probe);
        t.on_sent(false, at(80));
        assert_eq!(t.deadline(p), at(280));
        assert_eq!(t.on_timeout(p, at(280)), Timeout::Rto);
        t.on_sent(false, at(280));
        assert_eq!(t.deadline(p), at(280 + 400));
        assert_eq!(t.on_timeout(p, at(680)), Timeout::Rto);
        assert_eq!(t.rto(p), ms(800));
        t.on_progress(at(700));
        assert_eq!(t.deadline(p), at(770));
        for _ in 0..40 {
            t.on_timeout(p, at(1_000));
        }
        assert_eq!(t.rto(p), MAX_RTO);
    }

    #[test]
    fn where_tacks_are_lost_a_second_probe_goes_before_the_timeout_and_does_not_delay_it() {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(10));
        let p = Path { lossy: true, ..path(20, 1) };
        assert_eq!(t.on_timeout(p, at(80)), Timeout::Probe);
        t.on_sent(false, at(80));
        assert_eq!(t.deadline(p), at(80 + 2 * 70));
        assert_eq!(t.on_timeout(p, at(220)), Timeout::Probe);
        t.on_sent(false, at(220));
        assert_eq!(t.deadline(p), at(280));
        assert_eq!(t.on_timeout(p, at(280)), Timeout::Rto);
    }

    #[test]
    fn a_needless_timeout_teaches_patience_for_a_while_and_up_to_a_second() {
        // 70 ms until the probe, and 200 after it, are the least that is borne.
        for (silence, learnt) in [(350, 350), (5_000, 1_000), (150, 270)] {
            let mut t = Timer::new(at(0));
            t.on_sent(true, at(0));
            let p = path(20, 5);
            while t.deadline(p) < at(silence) {
                t.on_timeout(p, t.deadline(p));
            }
            t.on_needless(at(silence));
            t.on_progress(at(silence));
            let silence_to_the_timeout = |t: &mut Timer, from: u64| {
                t.on_progress(at(from));
                t.on_lowest(from, at(from));
                t.on_timeout(p, t.deadline(p));
                t.deadline(p) - at(from)
            };
            let silent = silence_to_the_timeout(&mut t, silence);
            assert_eq!(silent, ms(learnt), "{silence} ms");
            assert_eq!(t.rto(p), MIN_RTO, "{silence} ms");
            let remembered = silence_to_the_timeout(&mut t, silence + 15 * learnt.min(silence));
            assert_eq!(remembered, ms(learnt), "{silence} ms");
            let forgotten = silence_to_the_timeout(&mut t, silence + 16 * learnt);
            assert_eq!(forgotten, ms(270), "{silence} ms");
        }
    }

    #[test]
    fn a_probe_in_vain_between_the_packets_of_a_slow_flow_brings_no_others() {
        let mut t = Timer::new(at(0));
        let p = path(4, 0);
        for n in 0..20 {
            t.on_sent(true, at(n * 65));
        }
        let now = 19 * 65;
        assert_eq!(t.on_timeout(p, at(now + 54)), Timeout::Probe);
        t.on_sent(false, at(now + 54));
        t.on_progress(at(now + 58));
        t.on_sent(true, at(now + 65));
        let held_back = 65 * 3 / 2;
        assert!(t.deadline(p) > at(now + 65 + 4 + held_back), "the receiver waits for the next");
    }

    #[test]
    fn neither_timer_fires_before_a_tack_could_have_arrived() {
        // The last packet of a flight: held for max(alpha, flush), then a round trip.
        for rtt in [1, 5, 20, 80, 200, 500] {
            let mut t = Timer::new(at(0));
            t.on_sent(true, at(0));
            let p = path(rtt, 0);
            let tack = at(0) + ms(rtt) + p.alpha.max(p.flush);
            assert!(t.deadline(p) > tack, "{rtt} ms");
            t.on_timeout(p, at(0));
            assert!(t.deadline(p) > tack, "{rtt} ms");
        }
    }

    #[test]
    fn a_path_that_comes_back_waits_for_half_of_its_absence_at_most() {
        let mut t = Timer::new(Instant::ZERO);
        t.on_sent(true, Instant::ZERO);
        let p = path(20, 5);
        let mut waits = Vec::new();
        while t.backoff < 12 {
            let now = t.deadline(p);
            if t.on_timeout(p, now) == Timeout::Rto {
                waits.push(t.rto(p));
            }
        }
        assert_eq!(waits[..5], [ms(400), ms(800), ms(1_200), ms(1_800), ms(2_700)]);
        for (n, wait) in waits.iter().enumerate().skip(5) {
            let before: Duration = waits[..n].iter().sum();
            assert!(*wait <= before * 3 / 5, "{wait:?} after {before:?}");
        }
    }
}
