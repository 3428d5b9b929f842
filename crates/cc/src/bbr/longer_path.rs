//! A wait that ended Startup, and is no queue: the path has become longer.
//!
//! To a receiver a longer route looks as a queue does. But a queue rises as packets fill it, with each a little, and goes
//! when less is sent; a route is another from one packet to the next, and stays. So where the round trip jumped in Startup,
//! by [`STEEP`] times the time between two departures, and Startup ended since packets waited, what leaves in the round trip
//! after Drain is looked at. If the least of it takes as long as after the jump (an eighth of that more or less), with no
//! more in flight than the path was taken to hold, that is the path: Startup goes on, and beyond its wait begins a queue.
//!
//! Without this a route that became twice as long in the midst of Startup was left at a twentieth of its rate, for ten
//! seconds: the flight is a multiple of an RTTmin that is no more. Without the jump the queue of others in Startup was
//! taken for a route, and filled anew.

use core::time::Duration;

use tack_units::Instant;

use super::overshoot::RISE_MIN;
use crate::sample::AckSample;

/// Samples that make the least of them trustworthy.
const SAMPLES: u32 = 3;
/// What may differ, of a jump.
const ALIKE: u32 = 8;
/// No queue rises faster, over the time in which it is filled: several times its rate would have to arrive.
const STEEP: u32 = 4;

/// Looks whether a wait stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LongerPath {
    /// When the newest packet in Startup left, and its round trip.
    newest: Option<(Instant, Duration)>,
    jump: Option<Jump>,
    /// Since when no more is in flight than the path was taken to hold, after a Startup that ended for waits.
    drained_at: Option<Instant>,
    least: Option<Passage>,
    samples: u32,
}

/// Of the round trip, in Startup.
#[derive(Clone, Copy, Debug)]
struct Jump {
    by: Duration,
    to: Duration,
}

/// How one packet passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Passage {
    pub(crate) rtt: Duration,
    /// Its wait on the data path.
    pub(crate) queued: Duration,
}

impl Passage {
    /// Of the packet that `ack` tells most of.
    pub(crate) fn of(ack: &AckSample) -> Option<Passage> {
        Some(Passage { queued: ack.queue()?, rtt: ack.rtt? })
    }
}

impl LongerPath {
    /// A packet passed in Startup.
    pub(crate) fn on_startup_ack(&mut self, passage: Option<Passage>, now: Instant) {
        let Some(Passage { rtt, .. }) = passage else { return };
        let sent_at = now - rtt;
        if let Some((before, least)) = self.newest {
            let by = rtt.saturating_sub(least);
            if by > RISE_MIN && by > sent_at.saturating_since(before) * STEEP {
                self.jump = Some(Jump { by, to: rtt });
            }
        }
        self.newest = Some((sent_at, rtt));
    }

    /// Startup ended, since each packet waited or for other reasons.
    pub(crate) fn on_startup_end(&mut self, for_waits: bool) {
        *self = LongerPath { jump: self.jump.filter(|_| for_waits), ..LongerPath::default() };
    }

    /// Drain ended.
    pub(crate) fn on_drained(&mut self, now: Instant) {
        self.drained_at = Some(now);
    }

    /// A packet passed since. What the path is now, if it is another.
    pub(crate) fn on_ack(&mut self, passage: Option<Passage>, now: Instant) -> Option<Passage> {
        let (jump, drained_at) = (self.jump?, self.drained_at?);
        let since = now.saturating_since(drained_at);
        let passage = passage.filter(|passage| since >= passage.rtt)?;
        let least = self.least.map_or(passage, |least| least.min(passage));
        self.least = Some(least);
        self.samples += 1;
        if self.samples < SAMPLES || since < 2 * passage.rtt {
            return None;
        }
        *self = LongerPath::default();
        (least.rtt.abs_diff(jump.to) <= jump.by / ALIKE).then_some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Packets leave all 10 ms over a path of 100, and wait for `startup_ms` one after the other. Startup ends, Drain a
    /// round trip later, and they wait for `then_ms` each. Whether that is known for another path.
    fn is_known(startup_ms: &[u64], for_waits: bool, then_ms: impl Fn(u64) -> u64) -> bool {
        let mut path = LongerPath::default();
        let passage = |queued| Passage { rtt: ms(100 + queued), queued: ms(queued) };
        for (sent, queued) in startup_ms.iter().enumerate() {
            let at = Instant::from_millis(sent as u64 * 10) + passage(*queued).rtt;
            path.on_startup_ack(Some(passage(*queued)), at);
        }
        path.on_startup_end(for_waits);
        path.on_drained(Instant::from_millis(400));
        (0..60).any(|ack| {
            let (after, at) = (ack * 10, Instant::from_millis(400 + ack * 10));
            path.on_ack(Some(passage(then_ms(after))), at).is_some_and(|path| path.queued > ms(50))
        })
    }

    const JUMP: [u64; 5] = [0, 0, 60, 60, 62];

    #[test]
    fn a_wait_that_came_from_one_packet_to_the_next_and_stays_is_the_path() {
        assert!(is_known(&JUMP, true, |_| 60));
        assert!(is_known(&JUMP, true, |after| if after < 160 { 90 } else { 62 }));
    }

    #[test]
    fn one_that_packets_have_filled_is_a_queue_though_it_stays() {
        assert!(!is_known(&[0, 10, 25, 40, 60], true, |_| 60));
    }

    #[test]
    fn so_is_one_that_goes_or_grows() {
        for queued_ms in [0, 10, 50, 70, 120] {
            assert!(!is_known(&JUMP, true, |_| queued_ms), "{queued_ms} ms");
        }
        assert!(!is_known(&JUMP, true, |after| if after == 250 { 20 } else { 60 }));
    }

    #[test]
    fn what_ended_startup_otherwise_is_not_asked_about() {
        assert!(!is_known(&JUMP, false, |_| 60));
    }
}
