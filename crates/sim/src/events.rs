//! The event heap: who wants to be woken, and when. Ties go to who asked first.
//!
//! Deadlines move with nearly every packet, mostly further away. A target therefore has at most
//! one *valid* entry, the earliest asked for; when it comes up, the target says anew when it wants
//! to be woken. Moving a deadline further away costs nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tack_units::Instant;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Host(u32),
    Link(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Time, order of insertion, target.
    heap: BinaryHeap<Reverse<(Instant, u64, Target)>>,
    inserted: u64,
    /// The valid entry's order of insertion and time, per host and per link.
    hosts: Vec<Option<(Instant, u64)>>,
    links: Vec<Option<(Instant, u64)>>,
}

impl Events {
    /// Wakes `target` at `at` or before: an earlier request stands.
    pub(crate) fn wake(&mut self, target: Target, at: Option<Instant>) {
        let Some(at) = at else { return };
        let inserted = self.inserted;
        let valid = self.valid(target);
        if valid.is_some_and(|(earlier, _)| earlier <= at) {
            return;
        }
        *valid = Some((at, inserted));
        self.inserted += 1;
        self.heap.push(Reverse((at, inserted, target)));
    }

    /// When the next valid entry is due.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, inserted, target))) = self.heap.peek() {
            if *self.valid(target) == Some((at, inserted)) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next valid entry.
    pub(crate) fn pop(&mut self) -> Option<(Instant, Target)> {
        self.next()?;
        let Reverse((at, _, target)) = self.heap.pop().expect("there is a next entry");
        *self.valid(target) = None;
        Some((at, target))
    }

    fn valid(&mut self, target: Target) -> &mut Option<(Instant, u64)> {
        let (list, index) = match target {
            Target::Host(host) => (&mut self.hosts, host as usize),
            Target::Link(link) => (&mut self.links, link as usize),
        };
        if list.len() <= index {
            list.resize(index + 1, None);
        }
        &mut list[index]
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
        let popped: Vec<_> = core::iter::from_fn(|| events.pop()).map(|e| e.1).collect();
        assert_eq!(popped, order);
    }

    #[test]
    fn the_earliest_request_of_a_target_wins_and_the_others_vanish() {
        let mut events = Events::default();
        events.wake(Target::Host(0), at(9));
        events.wake(Target::Host(0), at(4));
        events.wake(Target::Host(0), at(7));
        events.wake(Target::Host(0), None);
        assert_eq!(events.pop(), Some((Instant::from_nanos(4), Target::Host(0))));
        assert_eq!(events.pop(), None);
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
                let expected = (!oracle.is_empty()).then(|| oracle.remove(0));
                assert_eq!(events.next(), expected.map(|e| e.0));
                assert_eq!(events.pop(), expected.map(|e| (e.0, e.2)));
            }
        }
    }
}
