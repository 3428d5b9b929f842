//! When each of many wants to be woken.

use std::collections::{BTreeMap, BTreeSet};

use crate::Instant;

/// A deadline, or none, for each of any number of keys; O(log n) per change.
///
/// ```
/// use tack_units::{Instant, Timers};
///
/// let mut timers = Timers::default();
/// timers.set("ack", Some(Instant::from_millis(40)));
/// timers.set("loss", Some(Instant::from_millis(30)));
/// timers.set("loss", Some(Instant::from_millis(90)));
/// assert_eq!(timers.earliest(), Some(Instant::from_millis(40)));
/// assert_eq!(timers.pop_due(Instant::from_millis(50)), Some("ack"));
/// assert_eq!(timers.pop_due(Instant::from_millis(50)), None);
/// ```
#[derive(Clone, Debug)]
pub struct Timers<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: BTreeMap<K, Instant>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// From now on `key` wants to be woken at `at` and not when it did before; `None` is never.
    pub fn set(&mut self, key: K, at: Option<Instant>) {
        // As with most: nobody wants to be woken.
        if at.is_none() && self.by_key.is_empty() {
            return;
        }
        let before = match at {
            Some(at) => self.by_key.insert(key, at),
            None => self.by_key.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, key));
        }
        self.by_time.extend(at.map(|at| (at, key)));
    }

    /// The first deadline of all; `None` is never.
    pub fn earliest(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the first deadline that is due by `now`, and says whose it was; of several at one time that of the
    /// least key.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (_, key) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.set(key, None);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_whatever_was_set_before() {
        let mut x = 1u64;
        let mut random = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 33) % n
        };
        let (mut timers, mut oracle) = (Timers::default(), [None; 4]);
        for _ in 0..20_000 {
            let (key, at) = (random(4) as usize, Instant::from_nanos(random(9)));
            if random(3) == 0 {
                let earliest = (0..).zip(oracle).filter_map(|(key, at)| Some((at?, key))).min();
                let due = earliest.filter(|(due, _)| *due <= at).map(|(_, key)| key);
                assert_eq!(timers.pop_due(at), due);
                due.into_iter().for_each(|key: usize| oracle[key] = None);
            } else {
                oracle[key] = (random(3) > 0).then_some(at);
                timers.set(key, oracle[key]);
            }
            assert_eq!(timers.earliest(), oracle.into_iter().flatten().min());
        }
        assert_eq!(timers.by_time.len(), timers.by_key.len());
    }
}
