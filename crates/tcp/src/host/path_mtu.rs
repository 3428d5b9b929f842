//! Path MTUs by destination: what one connection learned, all others heed [RFC 8201 §5.2].
//!
//! Only what a validated ICMP error or a probe of our own said gets here, so nobody fills the
//! table who is not on the path of one of our connections. It is bounded all the same.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tack_units::Instant;

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct PathMtus {
    entries: BTreeMap<IpAddr, (u16, Instant)>,
    by_expiry: BTreeSet<(Instant, IpAddr)>,
    age: Duration,
    max: usize,
    generation: u64,
}

/// MTUs that links had when [RFC 1191 §7.1] was written, and those of later ones: what to try
/// next when a router does not say.
const PLATEAUS: [u16; 13] =
    [68, 296, 508, 552, 1_006, 1_280, 1_400, 1_492, 2_002, 4_352, 8_166, 17_914, 32_000];

/// The largest plateau below a packet of `total_len` bytes that was too big.
pub(crate) fn plateau_below(total_len: usize) -> u16 {
    let below = |&&mtu: &&u16| usize::from(mtu) < total_len;
    PLATEAUS.iter().rev().find(below).copied().unwrap_or(PLATEAUS[0])
}

impl PathMtus {
    pub(crate) fn new(age: Duration, max: usize) -> PathMtus {
        PathMtus {
            entries: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            age,
            max: max.max(1),
            generation: 0,
        }
    }

    /// Changes whenever an entry does.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// What is known of a destination; `None`: as much as the interface takes.
    pub(crate) fn get(&self, destination: IpAddr) -> Option<u16> {
        self.entries.get(&destination).map(|(mtu, _)| *mtu)
    }

    /// The path there takes packets of `mtu` bytes and no larger ones.
    pub(crate) fn learn(&mut self, destination: IpAddr, mtu: u16, now: Instant) {
        let before = self.forget(destination);
        if before.is_none()
            && self.entries.len() >= self.max
            && let Some((_, oldest)) = self.by_expiry.pop_first()
        {
            self.entries.remove(&oldest);
        }
        let until = now + self.age;
        self.entries.insert(destination, (mtu, until));
        self.by_expiry.insert((until, destination));
        if before != Some(mtu) {
            self.generation += 1;
        }
    }

    /// Forgets what is too old; to be called before anything is looked up.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(&(until, destination)) = self.by_expiry.first()
            && until <= now
        {
            self.forget(destination);
            self.generation += 1;
        }
    }

    fn forget(&mut self, destination: IpAddr) -> Option<u16> {
        let (mtu, until) = self.entries.remove(&destination)?;
        self.by_expiry.remove(&(until, destination));
        Some(mtu)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn routers_that_do_not_say_cost_one_step_down_the_table() {
        // [RFC 1191 §5]
        let steps = [(65_535, 32_000), (1_500, 1_492), (1_492, 1_400), (1_280, 1_006), (576, 552)];
        for (was, tried) in steps {
            assert_eq!(plateau_below(was), tried);
        }
        assert_eq!(plateau_below(68), 68);
        assert_eq!(plateau_below(0), 68);
        assert!(PLATEAUS.is_sorted());
    }

    #[test]
    fn random_news_agree_with_a_list_of_them() {
        for seed in 0..50 {
            let rng = &mut rand_pcg::Pcg64::seed_from_u64(seed);
            let age = Duration::from_secs(10);
            let (mut table, mut list) =
                (PathMtus::new(age, 5), Vec::<(IpAddr, u16, Instant)>::new());
            let mut now = Instant::ZERO;
            for _ in 0..500 {
                now += Duration::from_millis(rng.random_range(0..4_000));
                table.expire(now);
                list.retain(|(_, _, until)| *until > now);
                let destination = IpAddr::from([10, 0, 0, rng.random_range(0..8u8)]);
                let before = table.generation();
                let known = table.get(destination);
                assert_eq!(
                    known,
                    list.iter().find(|e| e.0 == destination).map(|e| e.1),
                    "seed {seed}"
                );
                if rng.random_bool(0.5) {
                    let mtu = rng.random_range(1_000..1_003);
                    table.learn(destination, mtu, now);
                    if known.is_none() && list.len() == 5 {
                        list.remove(0);
                    }
                    list.retain(|e| e.0 != destination);
                    list.push((destination, mtu, now + age));
                    assert_eq!(table.generation() > before, known != Some(mtu), "seed {seed}");
                }
            }
        }
    }
}
