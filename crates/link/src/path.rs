//! Links in series, as one link: a WLAN and the wide-area path behind it.
//!
//! ```text
//! A [ links[0] ] B-A [ links[1] ] B-A ... [ links[n-1] ] B
//! ```

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::Instant;

use crate::link::{End, Link, Output, Packet};

/// Links end to end. What leaves one at its end B enters the next at its end A, and back.
///
/// Inside, every hop happens at its modelled time, also when the path is polled late. `L` is a
/// box by default, so that links of different kinds can follow each other.
#[derive(Debug)]
pub struct Path<L = Box<dyn Link + Send>> {
    hops: Vec<Hop<L>>,
    /// What surfaced while time was moved on for an offer.
    surfaced: VecDeque<Output>,
}

#[derive(Debug)]
struct Hop<L> {
    link: L,
    /// When the link wants to be polled; [`Instant::MAX`] is never.
    deadline: Instant,
}

impl<L: Link> Path<L> {
    /// A path over `links`, from the one at end A to the one at end B.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(links: Vec<L>) -> Path<L> {
        assert!(!links.is_empty(), "a path has at least one link");
        // A link may have events of its own, beacons say, before anything is offered.
        let hop = |link| Hop { link, deadline: Instant::ZERO };
        let hops = links.into_iter().map(hop).collect();
        Path { hops, surfaced: VecDeque::new() }
    }

    /// The links, from the one at end A to the one at end B.
    pub fn links(&self) -> impl Iterator<Item = &L> {
        self.hops.iter().map(|hop| &hop.link)
    }

    /// Where what comes out of `hop` at `end` goes on; `None`: it surfaces.
    fn beyond(&self, hop: usize, end: End) -> Option<(usize, End)> {
        match end {
            End::A => Some((hop.checked_sub(1)?, End::B)),
            End::B => Some((hop + 1, End::A)).filter(|(next, _)| *next < self.hops.len()),
        }
    }

    /// The earliest deadline, and whose it is: of the first hop that has it. A path has two or three.
    #[inline]
    fn next(&self) -> (Instant, usize) {
        let (mut at, mut hop) = (self.hops[0].deadline, 0);
        for (number, other) in self.hops.iter().enumerate().skip(1) {
            if other.deadline < at {
                (at, hop) = (other.deadline, number);
            }
        }
        (at, hop)
    }

    /// The hop wants to be polled anew.
    #[inline]
    fn enter(&mut self, hop: usize, end: End, packet: Packet, t: Instant) {
        let hop = &mut self.hops[hop];
        hop.link.offer(end, packet, t);
        hop.deadline = t;
    }

    /// Works off all hops in order of time, up to the next packet that surfaces by `now`.
    fn step(&mut self, now: Instant) -> Output {
        loop {
            let (t, hop) = self.next();
            if t > now || t == Instant::MAX {
                return Output::Wait(Some(t).filter(|at| *at < Instant::MAX));
            }
            match self.hops[hop].link.poll(t) {
                Output::Wait(at) => self.hops[hop].deadline = at.unwrap_or(Instant::MAX),
                Output::Deliver { end, packet } => match self.beyond(hop, end) {
                    Some((next, entry)) => self.enter(next, entry, packet, t),
                    None => return Output::Deliver { end, packet },
                },
            }
        }
    }
}

impl<L: Link> Link for Path<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        // What is due at this very instant may as well come after the packet: so a burst is taken
        // in whole before anything moves.
        let before = now - Duration::from_nanos(1);
        while self.next().0 <= before
            && let deliver @ Output::Deliver { .. } = self.step(before)
        {
            self.surfaced.push_back(deliver);
        }
        let hop = match end {
            End::A => 0,
            End::B => self.hops.len() - 1,
        };
        self.enter(hop, end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        match self.surfaced.pop_front() {
            Some(before) => before,
            None => self.step(now),
        }
    }
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        (**self).offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        (**self).poll(now)
    }
}

#[cfg(test)]
mod tests {
    use tack_units::Rate;

    use super::*;
    use crate::queue::Limit;
    use crate::wired::{DirectionConfig, Wired};

    fn hop(mbps: u64, delay_ms: u64) -> Box<dyn Link + Send> {
        let delay = Duration::from_millis(delay_ms);
        let config = DirectionConfig::clean(Rate::from_mbps(mbps), delay, Limit::Packets(1_000));
        Box::new(Wired::symmetric(config, 1).unwrap())
    }

    fn packet(id: u64) -> Packet {
        Packet { id, dst: 1, ip_bytes: 1_250, ..Packet::default() }
    }

    fn drain(path: &mut Path, mut now: Instant, until: Instant) -> Vec<(Instant, End, u64)> {
        let mut out = Vec::new();
        loop {
            match path.poll(now) {
                Output::Deliver { end, packet } => out.push((now, end, packet.id)),
                Output::Wait(Some(at)) if at <= until => {
                    assert!(at > now);
                    now = at;
                }
                Output::Wait(_) => return out,
            }
        }
    }

    #[test]
    fn packets_cross_every_hop_in_both_directions() {
        let mut path = Path::new(vec![hop(100, 1), hop(10, 20), hop(1_000, 5)]);
        path.offer(End::A, packet(1), Instant::ZERO);
        path.offer(End::B, packet(2), Instant::ZERO);
        let out = drain(&mut path, Instant::ZERO, Instant::MAX);
        // 100 us + 1 ms + 1 ms + 20 ms + 10 us + 5 ms, the same both ways.
        let at = Instant::from_micros(27_110);
        assert_eq!(out, [(at, End::A, 2), (at, End::B, 1)]);
        assert_eq!(path.links().count(), 3);
    }

    #[test]
    fn the_slowest_hop_spaces_the_packets() {
        let mut path = Path::new(vec![hop(100, 0), hop(10, 0)]);
        for id in 0..100 {
            path.offer(End::A, packet(id), Instant::ZERO);
        }
        let out = drain(&mut path, Instant::ZERO, Instant::MAX);
        for (n, (at, _, id)) in out.into_iter().enumerate() {
            assert_eq!((at, id), (Instant::from_micros(1_100 + 1_000 * n as u64), n as u64));
        }
    }

    #[test]
    fn a_late_poll_does_not_shift_what_follows() {
        let mut exact = Path::new(vec![hop(100, 3), hop(10, 20), hop(100, 3)]);
        let mut late = Path::new(vec![hop(100, 3), hop(10, 20), hop(100, 3)]);
        for id in 0..50 {
            exact.offer(End::A, packet(id), Instant::ZERO);
            late.offer(End::A, packet(id), Instant::ZERO);
        }
        let expected = drain(&mut exact, Instant::ZERO, Instant::MAX);
        // Polled for the first time when all is over, then offered one more.
        let over = Instant::from_secs(1);
        late.offer(End::A, packet(50), over);
        let mut got = drain(&mut late, over, Instant::MAX);
        assert_eq!(got.pop(), Some((over + Duration::from_micros(27_200), End::B, 50)));
        let ids = |list: &[(Instant, End, u64)]| list.iter().map(|p| p.2).collect::<Vec<_>>();
        assert_eq!(ids(&got), ids(&expected));
        // A poll in the middle finds exactly what is due.
        let mut middle = Path::new(vec![hop(100, 3), hop(10, 20), hop(100, 3)]);
        for id in 0..50 {
            middle.offer(End::A, packet(id), Instant::ZERO);
        }
        let cut = Instant::from_millis(40);
        let mut due = 0;
        while let Output::Deliver { .. } = middle.poll(cut) {
            due += 1;
        }
        assert_eq!(due, expected.iter().filter(|p| p.0 <= cut).count());
    }
}
