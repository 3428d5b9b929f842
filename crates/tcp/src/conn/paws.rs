//! Timestamps: the clock we stamp with, the echo, and protection against wrapped sequence numbers.
//!
//! The clock ticks in microseconds on connections whose first SYN offered TACK or answered such an
//! offer: TSval is the departure time TACK's one-way delays are made of, and t0* comes back as a
//! copy of it. Otherwise it ticks in milliseconds, as [RFC 7323 §5.4] recommends, and from where it is once
//! TACK was declined or given up: a peer that does not speak it compares stamps over weeks. Microseconds wrap
//! after 71 minutes, so a TS.Recent older than half of that says nothing. Nor does a stamp in microseconds that seems
//! older than any segment can be: a machine that slept has a clock that stood, and to it the other's came round.

use core::time::Duration;

use tack_units::Instant;

use crate::wire::Timestamps;

/// Timestamp state of one connection.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Random per 4-tuple, so that clocks of different connections cannot be compared.
    offset: u32,
    micros: bool,
    /// Since when it ticks as it does.
    since: Instant,
    /// Both ends agreed to use timestamps.
    agreed: bool,
    /// TS.Recent.
    recent: Option<Stamp>,
}

/// A TSval of the peer's, and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) val: u32,
    at: Instant,
    /// In microseconds, not in milliseconds.
    micros: bool,
}

impl Stamp {
    /// It left no earlier than `before`, as far as stamps can tell: nothing that did is under way any more.
    pub(crate) fn follows(self, before: Stamp) -> bool {
        let behind = before.val.wrapping_sub(self.val);
        let impossible = self.micros && self.ticks(behind) > SEGMENT_LIFETIME;
        behind as i32 <= 0 || impossible || self.at.saturating_since(before.at) > self.lasts()
    }

    /// How long it can be compared with later ones: until the peer's clock has gone half way round, and a tenth less,
    /// since it may be faster than ours.
    fn lasts(self) -> Duration {
        self.ticks(1 << 31).mul_f64(0.9)
    }

    fn ticks(self, ticks: u32) -> Duration {
        duration(ticks, self.micros)
    }
}

fn duration(ticks: u32, micros: bool) -> Duration {
    let ticks = u64::from(ticks);
    if micros { Duration::from_micros(ticks) } else { Duration::from_millis(ticks) }
}

/// How much older than TS.Recent a segment may be.
///
/// Deviation: [RFC 7323 §5.3] has none. A retransmission that overtakes original segments raises
/// TS.Recent and would have them dropped: with microseconds at any reordering. A sequence number
/// wraps within 200 ms only beyond 80 Gbit/s, so protection is not lost.
const TOLERANCE: Duration = Duration::from_millis(200);

/// No segment is under way for longer: what TIME-WAIT waits for.
const SEGMENT_LIFETIME: Duration = Duration::from_secs(60);

impl Clock {
    pub(crate) fn new(offset: u32, micros: bool) -> Clock {
        Clock { offset, micros, since: Instant::ZERO, agreed: false, recent: None }
    }

    /// TACK does not govern: the clock goes on from where it is in milliseconds.
    pub(crate) fn coarsen(&mut self, now: Instant) {
        if self.micros {
            let val = self.val(now);
            (self.micros, self.since) = (false, now);
            self.offset = self.offset.wrapping_add(val.wrapping_sub(self.val(now)));
        }
    }

    /// Both SYNs carried timestamps.
    pub(crate) fn agree(&mut self, agreed: bool) {
        self.agreed = agreed;
    }

    /// TSval now.
    pub(crate) fn val(&self, now: Instant) -> u32 {
        let ticks = if self.micros { now.as_micros() } else { now.as_nanos() / 1_000_000 };
        self.offset.wrapping_add(ticks as u32)
    }

    /// What our segments carry now, in a SYN or once agreed.
    pub(crate) fn stamp(&self, now: Instant) -> Timestamps {
        Timestamps { val: self.val(now), ecr: self.recent.map_or(0, |recent| recent.val) }
    }

    /// The option of an ordinary segment.
    pub(crate) fn option(&self, now: Instant) -> Option<Timestamps> {
        self.agreed.then(|| self.stamp(now))
    }

    /// A TSval that comes now.
    pub(crate) fn arrived(&self, ts: Timestamps, now: Instant) -> Stamp {
        Stamp { val: ts.val, at: now, micros: self.micros }
    }

    /// The segment is not an old duplicate [RFC 7323 §5.3, R1].
    ///
    /// Deviation: a segment without the option passes, as in Linux, although §3.2 would drop it: a
    /// path that begins to strip options must not end the connection.
    pub(crate) fn admits(&self, timestamps: Option<Timestamps>, now: Instant) -> bool {
        let (true, Some(ts), Some(recent)) = (self.agreed, timestamps, self.recent) else {
            return true;
        };
        let stamp = self.arrived(ts, now);
        stamp.follows(recent) || stamp.ticks(recent.val.wrapping_sub(ts.val)) <= TOLERANCE
    }

    /// An acceptable segment came. `in_order`: it starts at or before the last ACK sent
    /// [RFC 7323 §4.3].
    pub(crate) fn on_accepted(&mut self, ts: Option<Timestamps>, in_order: bool, now: Instant) {
        let (true, true, Some(ts)) = (self.agreed, in_order, ts) else { return };
        let stamp = self.arrived(ts, now);
        if self.recent.is_none_or(|recent| stamp.follows(recent)) {
            self.recent = Some(stamp);
        }
    }

    /// The peer's SYN brought this.
    pub(crate) fn on_syn(&mut self, ts: Option<Timestamps>, now: Instant) {
        self.recent = ts.map(|ts| self.arrived(ts, now));
    }

    /// TS.Recent, for TIME-WAIT.
    pub(crate) fn recent(&self) -> Option<u32> {
        self.recent.filter(|_| self.agreed).map(|recent| recent.val)
    }

    /// Time since the echoed stamp, `None` if it is no stamp of ours from the last minutes, or of other ticks.
    pub(crate) fn rtt(&self, ts: Option<Timestamps>, now: Instant) -> Option<Duration> {
        let ts = ts.filter(|ts| self.agreed && ts.ecr != 0)?;
        let ticks = self.val(now).wrapping_sub(ts.ecr);
        let rtt = duration(ticks, self.micros);
        let most = Duration::from_secs(300).min(now.saturating_since(self.since));
        (ticks as i32 >= 0 && rtt <= most).then_some(rtt)
    }

    /// Milliseconds are too coarse to replace the sender's own measurement.
    pub(crate) fn is_fine(&self) -> bool {
        self.micros && self.agreed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(val: u32) -> Option<Timestamps> {
        Some(Timestamps { val, ecr: 0 })
    }

    #[test]
    fn a_segment_from_before_the_wrap_is_refused_and_a_reordered_one_admitted() {
        let mut clock = Clock::new(0, true);
        clock.agree(true);
        clock.on_accepted(ts(10_000_000), true, Instant::ZERO);
        assert!(clock.admits(ts(10_000_001), Instant::ZERO));
        assert!(clock.admits(ts(9_800_000), Instant::ZERO));
        assert!(!clock.admits(ts(9_799_999), Instant::ZERO));
        assert!(clock.admits(None, Instant::ZERO));
    }

    #[test]
    fn what_seems_older_than_a_segment_lives_is_of_a_clock_that_went_on_while_ours_stood() {
        let (minute, at) = (60_000_000u32, Instant::from_secs(1));
        let mut clock = Clock::new(0, true);
        clock.agree(true);
        clock.on_accepted(ts(minute), true, at);
        for (older, admitted) in [(1, false), (59, false), (61, true), (2_100, true)] {
            assert_eq!(
                clock.admits(ts(minute.wrapping_sub(older * 1_000_000)), at),
                admitted,
                "{older}"
            );
        }
        let slept = minute.wrapping_add(50 * minute);
        clock.on_accepted(ts(slept), true, at);
        assert_eq!(clock.recent(), Some(slept));
        let mut coarse = Clock::new(0, false);
        coarse.agree(true);
        coarse.on_accepted(ts(minute), true, at);
        assert!(!coarse.admits(ts(1), at), "nobody sleeps for weeks");
    }

    #[test]
    fn half_an_hour_of_silence_makes_microsecond_stamps_incomparable() {
        let mut clock = Clock::new(0, true);
        clock.agree(true);
        clock.on_accepted(ts(10_000_000), true, Instant::ZERO);
        assert!(!clock.admits(ts(1), Instant::from_secs(60)));
        assert!(clock.admits(ts(1), Instant::from_secs(35 * 60)));
        clock.on_accepted(ts(1), true, Instant::from_secs(35 * 60));
        assert_eq!(clock.recent(), Some(1));
    }

    #[test]
    fn an_echo_gives_the_time_since_the_stamp() {
        let mut clock = Clock::new(0xffff_fff0, true);
        clock.agree(true);
        let echo = Timestamps { val: 0, ecr: clock.val(Instant::from_micros(10)) };
        let rtt = clock.rtt(Some(echo), Instant::from_micros(60));
        assert_eq!(rtt, Some(Duration::from_micros(50)));
        let future = Timestamps { val: 0, ecr: clock.val(Instant::from_secs(1)) };
        assert_eq!(clock.rtt(Some(future), Instant::ZERO), None);
    }

    #[test]
    fn a_clock_that_becomes_coarse_goes_on_and_times_nothing_by_what_it_said_before() {
        let at = Instant::from_micros;
        let mut clock = Clock::new(u32::MAX - 9_000, true);
        clock.agree(true);
        let (syn, changed) = (at(700), at(10_900));
        let before = clock.val(syn);
        let last = clock.val(changed);
        clock.coarsen(changed);
        clock.coarsen(at(50_000));
        assert_eq!(clock.val(changed), last);
        assert_eq!(clock.val(at(25_000)), last.wrapping_add(15));
        let echo = |val| Some(Timestamps { val: 0, ecr: val });
        assert_eq!(clock.rtt(echo(before), at(25_000)), None);
        assert_eq!(clock.rtt(echo(last), at(30_900)), Some(Duration::from_millis(20)));
    }
}
