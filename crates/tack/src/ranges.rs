//! An ordered set of half-open ranges: the "acked list", and the "unacked list" as its gaps.

use core::ops::Range;
use std::collections::BTreeMap;

/// Disjoint, non-adjacent half-open ranges of u64. Insertion costs O(log N) amortised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// start -> end
    map: BTreeMap<u64, u64>,
    covered: u64,
}

impl Ranges {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `range`, merging with what it touches. Returns how much of it was new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end) = (range.start, range.end);
        let before = self.covered;
        if let Some(new) = self.extend_last(&range) {
            return new;
        }
        if let Some((&s, &e)) = self.map.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return 0;
            }
            start = s;
            self.map.remove(&s);
            self.covered -= e - s;
        }
        while let Some((&s, &e)) = self.map.range(start..=end).next() {
            end = end.max(e);
            self.map.remove(&s);
            self.covered -= e - s;
        }
        self.map.insert(start, end);
        self.covered += end - start;
        self.covered - before
    }

    /// Most ranges come in order: the last one grows in its place. `None`: this one does something else.
    fn extend_last(&mut self, range: &Range<u64>) -> Option<u64> {
        let mut last = self.map.last_entry()?;
        let (start, end) = (*last.key(), *last.get());
        if range.start < start || range.start > end || range.end <= end {
            return None;
        }
        last.insert(range.end);
        self.covered += range.end - end;
        Some(range.end - end)
    }

    /// Takes `range` out. Returns how much of it was in the set.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.covered;
        if let Some((&s, &e)) = self.map.range(..range.start).next_back()
            && e > range.start
        {
            self.map.insert(s, range.start);
            self.covered -= e - range.start;
            if e > range.end {
                self.map.insert(range.end, e);
                self.covered += e - range.end;
            }
        }
        while let Some((&s, &e)) = self.map.range(range.clone()).next() {
            self.map.remove(&s);
            self.covered -= e - s;
            if e > range.end {
                self.map.insert(range.end, e);
                self.covered += e - range.end;
            }
        }
        before - self.covered
    }

    /// The parts of `range` that are not in the set, ascending.
    pub fn gaps_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let start = self
            .map
            .range(..=range.start)
            .next_back()
            .map_or(range.start, |(_, &e)| e.max(range.start))
            .min(range.end);
        let mut at = start;
        let inside = self.map.range(start..range.end.max(start)).map(|(&s, &e)| (s, e));
        inside.chain(core::iter::once((range.end, range.end))).filter_map(move |(s, e)| {
            let gap = at..s;
            at = at.max(e);
            (!gap.is_empty()).then_some(gap)
        })
    }

    /// Forgets everything below `limit`.
    pub fn remove_below(&mut self, limit: u64) {
        while let Some((&s, &e)) = self.map.first_key_value() {
            if s >= limit {
                return;
            }
            self.map.remove(&s);
            self.covered -= e - s;
            if e > limit {
                self.map.insert(limit, e);
                self.covered += e - limit;
                return;
            }
        }
    }

    /// Whether every member of `range` is in the set (true for an empty range).
    pub fn contains(&self, range: &Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        // Most questions are about the last one, or what lies behind it.
        match self.map.last_key_value() {
            Some((&s, &e)) if range.start >= s => e >= range.end,
            _ => self.map.range(..=range.start).next_back().is_some_and(|(_, &e)| e >= range.end),
        }
    }

    /// The range that holds `at`. O(log N).
    pub fn range_at(&self, at: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.map.range(..=at).next_back()?;
        (end > at).then_some(start..end)
    }

    /// Whether inserting `range` would join a range that is there. O(log N).
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.map.range(..=range.end).next_back().is_some_and(|(_, &end)| end >= range.start)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.map.iter().map(|(&s, &e)| s..e)
    }

    /// The gaps between `from` and the highest member, ascending.
    pub fn gaps(&self, from: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = from;
        self.map.iter().filter_map(move |(&s, &e)| {
            let gap = at..s;
            at = at.max(e);
            (!gap.is_empty()).then_some(gap)
        })
    }

    /// Number of disjoint ranges.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// How many numbers are in the set.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The lowest range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.map.first_key_value().map(|(&s, &e)| s..e)
    }

    /// The highest range.
    pub fn last(&self) -> Option<Range<u64>> {
        self.map.last_key_value().map(|(&s, &e)| s..e)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn blocks_and_gaps_match_the_worked_example() {
        // [TON §V-A]: packets 1..=10 sent; 1, 4, 5, 6, 10 received.
        let mut r = Ranges::new();
        for p in [1, 4, 5, 6, 10] {
            assert_eq!(r.insert(p..p + 1), 1);
        }
        assert_eq!(r.iter().collect::<Vec<_>>(), [1..2, 4..7, 10..11]);
        assert_eq!(r.gaps(1).collect::<Vec<_>>(), [2..4, 7..10]);
    }

    #[test]
    fn random_operations_agree_with_a_set_of_numbers() {
        let mut x: u64 = 0x2545_f491_4f6c_dd1d;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for _ in 0..300 {
            let (mut r, mut oracle) = (Ranges::new(), BTreeSet::new());
            for _ in 0..60 {
                let (a, n) = (next() % 200, next() % 20);
                let kind = next() % 6;
                if kind == 0 {
                    r.remove_below(a);
                    oracle.retain(|&m| m >= a);
                } else if kind == 1 {
                    let gone = (a..a + n).filter(|m| oracle.remove(m)).count() as u64;
                    assert_eq!(r.remove(a..a + n), gone);
                } else {
                    let new = (a..a + n).filter(|&m| oracle.insert(m)).count() as u64;
                    assert_eq!(r.insert(a..a + n), new);
                }
                assert_eq!(r.covered(), oracle.len() as u64);
                let members: Vec<u64> = r.iter().flatten().collect();
                assert_eq!(members, oracle.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = r.iter().collect();
                assert!(ranges.windows(2).all(|w| w[0].end < w[1].start), "not merged");
                let missing: Vec<u64> = r.gaps(0).flatten().collect();
                let top = oracle.last().copied().unwrap_or(0);
                assert!(missing.iter().all(|m| !oracle.contains(m) && *m < top));
                assert_eq!(
                    missing.len() + oracle.len(),
                    if oracle.is_empty() { 0 } else { top as usize + 1 }
                );
                let within: Vec<u64> = r.gaps_in(a..a + n).flatten().collect();
                let absent: Vec<u64> = (a..a + n).filter(|m| !oracle.contains(m)).collect();
                assert_eq!(within, absent);
                let q = next() % 200;
                assert_eq!(r.contains(&(q..q + 3)), (q..q + 3).all(|m| oracle.contains(&m)));
            }
        }
    }
}
