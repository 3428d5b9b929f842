//! Who wants to be woken, and when. Ties go to who asked first.
//!
//! Deadlines move with nearly every packet, mostly further away. A target therefore has at most
//! one request, the earliest it made; when that comes up, the target says anew when it wants to be
//! woken. Moving a deadline further away costs nothing.
//!
//! The earliest of all is the winner of a knockout tournament: a change of one request plays only
//! that target's matches again, one for each doubling of the number of targets. Who was woken last
//! stays out of it: mostly it is the next to be woken, as a link is that hands out one packet after
//! the other.
//!
//! ```text
//!             earliest            matches[1]
//!           /         \
//!       0 or 1       2 or 3       matches[2..4]
//!        /   \        /   \
//!       0     1      2     3      matches[4..8]: requests, by seat
//! ```

use tack_units::Instant;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Host(u32),
    Link(u32),
}

impl Target {
    /// Hosts have the even seats, links the odd ones.
    fn seat(self) -> usize {
        match self {
            Target::Host(host) => 2 * host as usize,
            Target::Link(link) => 2 * link as usize + 1,
        }
    }

    fn at(seat: usize) -> Target {
        let number = (seat / 2) as u32;
        if seat.is_multiple_of(2) { Target::Host(number) } else { Target::Link(number) }
    }
}

/// In one number, so that to compare them is one step: from the highest bits on when, which in order
/// of asking, and whose seat.
type Request = u128;

const NONE: Request = Request::MAX;
/// Of hosts and links: sixteen million of either.
const SEAT_BITS: u32 = 25;

fn time_of(request: Request) -> Instant {
    Instant::from_nanos((request >> 64) as u64)
}

fn seat_of(request: Request) -> usize {
    request as usize & ((1 << SEAT_BITS) - 1)
}

#[derive(Debug)]
pub(crate) struct Events {
    /// Of a power of two of seats: the winners of all matches, the first of all at 1, and from the
    /// number of seats on the requests themselves.
    matches: Vec<Request>,
    /// The seat of who was woken last, and the request made since: it has none in the tournament.
    last: (usize, Request),
    asked: u64,
}

impl Default for Events {
    fn default() -> Self {
        Events { matches: Vec::new(), last: (0, NONE), asked: 0 }
    }
}

impl Events {
    /// Wakes `target` at `at` or before: an earlier request stands.
    pub(crate) fn wake(&mut self, target: Target, at: Option<Instant>) {
        let Some(at) = at else { return };
        let seat = target.seat();
        let is_last = seat == self.last.0;
        let stands = if is_last { self.last.1 } else { self.standing(seat) };
        if stands == NONE || at < time_of(stands) {
            let order = u128::from(self.asked << SEAT_BITS | seat as u64);
            let request = u128::from(at.as_nanos()) << 64 | order;
            self.asked += 1;
            if is_last {
                self.last.1 = request;
            } else {
                self.enter(seat, request);
            }
        }
    }

    /// Takes the next request, if it is due by `until`.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<(Instant, Target)> {
        let winner = self.winner();
        let first = winner.min(self.last.1);
        if first == NONE || time_of(first) > until {
            return None;
        }
        if winner < self.last.1 {
            let next = seat_of(winner);
            self.enter(next, NONE);
            let (before, request) = core::mem::replace(&mut self.last, (next, winner));
            if request != NONE {
                self.enter(before, request);
            }
        }
        self.last.1 = NONE;
        Some((time_of(first), Target::at(self.last.0)))
    }

    /// The first of the tournament.
    fn winner(&self) -> Request {
        self.matches.get(1).copied().unwrap_or(NONE)
    }

    /// The request of `seat` in the tournament, in which it has a place from here on.
    fn standing(&mut self, seat: usize) -> Request {
        if seat >= self.seats() {
            self.seat_up_to(seat);
        }
        self.matches[self.seats() + seat]
    }

    fn seats(&self) -> usize {
        self.matches.len() / 2
    }

    /// The request of `seat` is another one: its matches are played again, up to the first that ends as
    /// it did before.
    fn enter(&mut self, seat: usize, request: Request) {
        let mut place = self.seats() + seat;
        let mut winner = request;
        while place > 0 && core::mem::replace(&mut self.matches[place], winner) != winner {
            winner = winner.min(self.matches[place ^ 1]);
            place /= 2;
        }
    }

    /// Makes room for `seat`.
    fn seat_up_to(&mut self, seat: usize) {
        let before = core::mem::take(&mut self.matches);
        self.matches = vec![NONE; 2 * (seat + 1).next_power_of_two().max(2)];
        for request in before.into_iter().skip(1).filter(|it| *it != NONE) {
            self.enter(seat_of(request), request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Option<Instant> {
        Some(Instant::from_nanos(n))
    }

    #[test]
    fn ties_go_to_who_asked_first() {
        let mut events = Events::default();
        let order = [Target::Link(3), Target::Host(9), Target::Host(2), Target::Link(0)];
        for target in order {
            events.wake(target, at(5));
        }
        let popped: Vec<_> =
            core::iter::from_fn(|| events.pop(Instant::MAX)).map(|e| e.1).collect();
        assert_eq!(popped, order);
    }

    #[test]
    fn the_earliest_request_of_a_target_wins_and_the_others_vanish() {
        let mut events = Events::default();
        events.wake(Target::Host(0), at(9));
        events.wake(Target::Host(0), at(4));
        events.wake(Target::Host(0), at(7));
        events.wake(Target::Host(0), None);
        assert_eq!(events.pop(Instant::from_nanos(3)), None, "not yet");
        assert_eq!(events.pop(Instant::MAX), Some((Instant::from_nanos(4), Target::Host(0))));
        assert_eq!(events.pop(Instant::MAX), None);
    }

    #[test]
    fn agrees_with_a_sorted_list_under_random_operations() {
        let mut x = 1u64;
        let mut random = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 33) % n
        };
        let mut events = Events::default();
        let mut oracle: Vec<(Instant, u64, Target)> = Vec::new();
        for n in 0..20_000 {
            if random(3) < 2 {
                let time = Instant::from_nanos(random(50));
                let target = match random(2) {
                    0 => Target::Host(random(5) as u32),
                    _ => Target::Link(random(5) as u32),
                };
                events.wake(target, Some(time));
                match oracle.iter().position(|e| e.2 == target) {
                    Some(i) if oracle[i].0 <= time => {}
                    Some(i) => oracle[i] = (time, n, target),
                    None => oracle.push((time, n, target)),
                }
            } else {
                oracle.sort();
                let until = Instant::from_nanos(random(100));
                let is_due = oracle.first().is_some_and(|e| e.0 <= until);
                let expected = is_due.then(|| oracle.remove(0));
                assert_eq!(events.pop(until), expected.map(|e| (e.0, e.2)));
            }
        }
    }
}
