//! A host whose processor comes late.
//!
//! ```text
//! packet ──► inbox ─┐  a random time later, at most `longest`
//! deadline ─────────┴──────────────► awake: all of the inbox, timers, sending ──► asleep
//! ```
//!
//! Interrupts are gathered, timers served with a scheduler's tick, and other programs run first: what happens to a
//! host is noticed later than it happens, and together with what happened meanwhile.

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use tack_link::Packet;
use tack_units::{Instant, earliest};

use crate::endpoint::{Endpoint, Outgoing, Spare};

/// A host that is late, or is not: without a lateness it is what it holds.
#[derive(Debug)]
pub struct Late<E> {
    host: E,
    lateness: Option<Lateness>,
}

#[derive(Debug)]
struct Lateness {
    longest: Duration,
    rng: Pcg64,
    awake: bool,
    inbox: Vec<Packet>,
    /// What it is to be woken for next, and when it is.
    cause: Option<Instant>,
    wake: Option<Instant>,
}

impl Lateness {
    /// Something asks for the processor at `cause`.
    fn want(&mut self, cause: Instant) {
        if self.cause.is_some_and(|known| known <= cause) {
            return;
        }
        let late = self.longest.mul_f64(self.rng.random());
        self.cause = Some(cause);
        self.wake = earliest(self.wake, Some(cause + late));
    }
}

impl<E> Late<E> {
    /// A host that is never late.
    pub(crate) fn never(host: E) -> Self {
        Late { host, lateness: None }
    }

    /// From now on it is late by up to `longest`, each time by another share of it.
    pub(crate) fn by(&mut self, longest: Duration, rng: Pcg64) {
        let awake = true;
        let (inbox, cause, wake) = (Vec::new(), None, None);
        self.lateness = Some(Lateness { longest, rng, awake, inbox, cause, wake });
    }
}

impl<E> Deref for Late<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.host
    }
}

impl<E> DerefMut for Late<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.host
    }
}

impl<E: Endpoint> Endpoint for Late<E> {
    fn handle(&mut self, packet: &Packet, now: Instant) {
        match &mut self.lateness {
            None => self.host.handle(packet, now),
            Some(late) => {
                late.inbox.push(packet.clone());
                late.want(now);
            }
        }
    }

    fn poll_transmit(&mut self, spare: &mut Spare, now: Instant) -> Option<Outgoing> {
        let Some(late) = &mut self.lateness else { return self.host.poll_transmit(spare, now) };
        if late.awake
            && let Some(out) = self.host.poll_transmit(spare, now)
        {
            return Some(out);
        }
        late.awake = false;
        if let Some(deadline) = self.host.deadline() {
            late.want(deadline.max(now));
        }
        None
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.lateness {
            None => self.host.deadline(),
            Some(late) => late.wake,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(late) = &mut self.lateness {
            (late.awake, late.cause, late.wake) = (true, None, None);
            for packet in core::mem::take(&mut late.inbox) {
                self.host.handle(&packet, now);
            }
        }
        self.host.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use tack_link::PacketKind;

    use super::*;
    use crate::seed::Seed;

    /// Answers each packet, and each deadline; both after they came.
    #[derive(Default)]
    struct Echo {
        deadline: Option<Instant>,
        owed: u32,
    }

    impl Endpoint for Echo {
        fn handle(&mut self, _packet: &Packet, _now: Instant) {
            self.owed += 1;
        }

        fn poll_transmit(&mut self, _spare: &mut Spare, _now: Instant) -> Option<Outgoing> {
            self.owed = self.owed.checked_sub(1)?;
            let kind = PacketKind::Data;
            Some(Outgoing { dst: 0, ip_bytes: 40, kind, bytes: Vec::new(), ecn: 0 })
        }

        fn deadline(&self) -> Option<Instant> {
            self.deadline
        }

        fn handle_timeout(&mut self, now: Instant) {
            self.owed += u32::from(self.deadline.take_if(|at| *at <= now).is_some());
        }
    }

    fn packet(now: Instant) -> Packet {
        let (kind, bytes) = (PacketKind::Data, Vec::new());
        Packet { id: 0, src: 1, dst: 0, ip_bytes: 40, kind, bytes, ecn: 0, sent_at: now }
    }

    fn sent(host: &mut Late<Echo>, now: Instant) -> usize {
        core::iter::from_fn(|| host.poll_transmit(&mut Spare::default(), now)).count()
    }

    #[test]
    fn what_arrives_before_a_late_host_wakes_is_handled_together_and_within_its_lateness() {
        let longest = Duration::from_millis(5);
        let mut host = Late::never(Echo::default());
        host.by(longest, Seed(1).stream("late"));
        let (mut now, mut total) = (Instant::ZERO, Duration::ZERO);
        for _ in 0..1_000 {
            now += Duration::from_millis(20);
            host.handle(&packet(now), now);
            assert_eq!(sent(&mut host, now), 0, "it sleeps");
            let woken = host.deadline().expect("a packet waits");
            let late = woken - now;
            assert!(late <= longest);
            total += late;
            let between = now + late / 2;
            host.handle(&packet(between), between);
            assert_eq!(host.deadline(), Some(woken), "a second packet wakes it no sooner or later");
            host.handle_timeout(woken);
            assert_eq!((sent(&mut host, woken), host.deadline()), (2, None));
        }
        let mean = total / 1_000;
        assert!(mean.abs_diff(longest / 2) < longest / 20, "{mean:?}");
    }

    #[test]
    fn a_deadline_is_served_late_and_one_that_comes_closer_in_its_time() {
        let at = Instant::from_millis;
        let longest = Duration::from_millis(5);
        let mut host = Late::never(Echo { deadline: Some(at(900)), owed: 0 });
        host.by(longest, Seed(1).stream("late"));
        assert_eq!(sent(&mut host, at(0)), 0);
        let far = host.deadline().expect("it has a deadline");
        assert!(far >= at(900) && far <= at(905));
        // From outside, as an application does; the world asks what there is to send then.
        host.deadline = Some(at(100));
        assert_eq!(sent(&mut host, at(50)), 0);
        let near = host.deadline().expect("it has a deadline");
        assert!(near >= at(100) && near <= at(105));
        host.handle_timeout(near);
        assert_eq!(sent(&mut host, near), 1);
    }
}
