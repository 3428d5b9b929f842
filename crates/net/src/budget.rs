//! What strangers may make us hold: so much in all, and so much of it for each peer's address.
//!
//! Where all is taken, a newcomer is let in at the cost of whoever holds the most, so that many
//! addresses, and not many connections, are what it takes to shut others out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Lengths of what a customer of IPv6 has: a network, a small site's, a large site's.
const PREFIXES: [u8; LEVELS] = [64, 56, 48];

/// Networks around each peer that are counted.
pub const LEVELS: usize = 3;

/// Who is counted as one: an IPv4 address, or an IPv6 network of 64 bits. Around it lie those of 56 and
/// of 48 bits, since one customer may have as many as they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(IpAddr);

/// A peer's address, or an IPv6 network around it, with its length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(u8, IpAddr);

impl Peer {
    /// Who is at this address; those without one are counted together.
    pub fn of(address: Option<SocketAddr>) -> Peer {
        match address.map(|a| a.ip().to_canonical()) {
            Some(IpAddr::V6(v6)) => Peer(cut(v6, PREFIXES[0]).into()),
            Some(v4) => Peer(v4),
            None => Peer(Ipv6Addr::UNSPECIFIED.into()),
        }
    }

    /// From the peer itself to the widest network around it. Of IPv4 they are all the same address, which
    /// no network around makes anybody's.
    pub fn networks(self) -> [Network; LEVELS] {
        PREFIXES.map(|length| match self.0 {
            IpAddr::V6(v6) => Network(length, cut(v6, length).into()),
            v4 => Network(length, v4),
        })
    }

    /// How much of `total` the networks of [`networks`](Self::networks) may have if the peer itself may
    /// have `of_peer`: never all, so that no customer shuts out all others.
    pub fn shares(self, of_peer: usize, total: usize) -> [usize; LEVELS] {
        let rest = total.saturating_sub(of_peer);
        match self.0 {
            IpAddr::V6(_) => [of_peer, of_peer + rest / 4, of_peer + rest / 2],
            IpAddr::V4(_) => [of_peer; LEVELS],
        }
    }
}

fn cut(address: Ipv6Addr, length: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - length)))
}

/// An amount to be shared out. Clones share the same.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    per_peer: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// By their numbers, which is the order in which they were granted.
    grants: BTreeMap<u64, Holder>,
    granted: u64,
    /// All amounts together, and those of each network that holds a grant.
    all: usize,
    amounts: BTreeMap<Network, Amount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    held: usize,
    grants: usize,
}

#[derive(Debug)]
struct Holder {
    peer: Peer,
    amount: usize,
    revoke: watch::Sender<bool>,
}

/// Whose share is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// This peer's.
    Peer,
    /// Everybody's.
    All,
}

impl Budget {
    /// So much in all, of which one peer may hold `per_peer`.
    pub fn new(total: usize, per_peer: usize) -> Budget {
        Budget(Arc::new(Shared { total, per_peer, held: Mutex::default() }))
    }

    /// How much there is in all.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// Grants `amount` to `peer` as long as the grant lives.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn take(&self, peer: Peer, amount: usize) -> Result<Grant, Exhausted> {
        let mut held = self.lock();
        held.fits(&self.0, peer, amount)?;
        Ok(self.grant(&mut held, peer, amount))
    }

    /// As [`take`](Self::take). If all is taken and somebody else's widest network holds more than this
    /// peer's would, the oldest grant of whoever holds the most there is [revoked](Grant::revoked) in
    /// its favour.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn take_or_displace(&self, peer: Peer, amount: usize) -> Result<Grant, Exhausted> {
        let mut held = self.lock();
        self.make_room(&mut held, peer, amount)?;
        Ok(self.grant(&mut held, peer, amount))
    }

    /// As [`take_or_displace`](Self::take_or_displace), for what its holder can get anew: where the peer's own
    /// share is used up, the oldest of its grants are revoked. So those of connections that the peer let go of,
    /// where it could not say so, are not in its way.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn take_or_replace(&self, peer: Peer, amount: usize) -> Result<Grant, Exhausted> {
        let mut held = self.lock();
        if amount > self.0.per_peer {
            return Err(Exhausted::Peer);
        }
        while let Err(Exhausted::Peer) = held.fits(&self.0, peer, amount) {
            let oldest = held.oldest_in_the_way(&self.0, peer, amount).ok_or(Exhausted::Peer)?;
            held.revoke(oldest);
        }
        self.make_room(&mut held, peer, amount)?;
        Ok(self.grant(&mut held, peer, amount))
    }

    /// See [`Self::take_or_displace`].
    fn make_room(&self, held: &mut Held, peer: Peer, amount: usize) -> Result<(), Exhausted> {
        match held.fits(&self.0, peer, amount) {
            Err(Exhausted::All) => {
                let (network, most) = held.richest().ok_or(Exhausted::All)?;
                if most <= held.of(peer.networks()[LEVELS - 1]) + amount {
                    return Err(Exhausted::All);
                }
                let oldest = held.oldest_of_richest_in(network, amount).ok_or(Exhausted::All)?;
                held.revoke(oldest);
                Ok(())
            }
            fits => fits,
        }
    }

    fn grant(&self, held: &mut Held, peer: Peer, amount: usize) -> Grant {
        held.granted += 1;
        let number = held.granted;
        let (revoke, revoked) = watch::channel(false);
        held.grants.insert(number, Holder { peer, amount, revoke });
        held.all += amount;
        for network in peer.networks() {
            let of = held.amounts.entry(network).or_default();
            (of.held, of.grants) = (of.held + amount, of.grants + 1);
        }
        Grant { budget: self.clone(), number, peer, revoked }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The narrowest network around `peer` whose share does not hold `amount` more, and which of them it is.
    fn full(&self, shared: &Shared, peer: Peer, amount: usize) -> Option<(usize, Network)> {
        let shares = peer.shares(shared.per_peer, shared.total);
        let mut networks = peer.networks().into_iter().enumerate();
        networks.find(|&(level, network)| self.of(network).saturating_add(amount) > shares[level])
    }

    fn fits(&self, shared: &Shared, peer: Peer, amount: usize) -> Result<(), Exhausted> {
        if self.full(shared, peer, amount).is_some() {
            return Err(Exhausted::Peer);
        }
        let all = self.all.saturating_add(amount);
        if all > shared.total { Err(Exhausted::All) } else { Ok(()) }
    }

    fn of(&self, network: Network) -> usize {
        self.amounts.get(&network).map_or(0, |of| of.held)
    }

    /// Of the widest networks that which holds the most, and how much.
    fn richest(&self) -> Option<(Network, usize)> {
        let widest = self.amounts.iter().filter(|(network, _)| network.0 == PREFIXES[LEVELS - 1]);
        widest.map(|(network, of)| (*network, of.held)).max_by_key(|&(_, held)| held)
    }

    /// Within `network`, of the narrower networks again those that hold the most: customers of one
    /// provider are not each other's. Only a grant that makes room enough.
    fn oldest_of_richest_in(&self, network: Network, amount: usize) -> Option<u64> {
        let mut found: Option<([usize; LEVELS], u64)> = None;
        for (&number, holder) in &self.grants {
            let networks = holder.peer.networks();
            if networks[LEVELS - 1] != network || holder.amount < amount {
                continue;
            }
            let mut held = networks.map(|network| self.of(network));
            held.reverse();
            if found.is_none_or(|(most, _)| held > most) {
                found = Some((held, number));
            }
        }
        found.map(|(_, number)| number)
    }

    /// The oldest grant of something in the network whose share is used up.
    fn oldest_in_the_way(&self, shared: &Shared, peer: Peer, amount: usize) -> Option<u64> {
        let (level, network) = self.full(shared, peer, amount)?;
        let is_in = |holder: &Holder| holder.amount > 0 && holder.peer.networks()[level] == network;
        self.grants.iter().find(|(_, holder)| is_in(holder)).map(|(&number, _)| number)
    }

    /// Whoever held it is on the way out; it counts no more.
    fn revoke(&mut self, number: u64) {
        if let Some(revoked) = self.give_back(number) {
            revoked.revoke.send_replace(true);
        }
    }

    /// Whose it was; `None` if it was given back before.
    fn give_back(&mut self, number: u64) -> Option<Holder> {
        let holder = self.grants.remove(&number)?;
        self.all -= holder.amount;
        for network in holder.peer.networks() {
            if let Some(of) = self.amounts.get_mut(&network) {
                (of.held, of.grants) = (of.held - holder.amount, of.grants - 1);
                if of.grants == 0 {
                    self.amounts.remove(&network);
                }
            }
        }
        Some(holder)
    }

    fn grow(&mut self, number: u64, more: usize) -> Option<()> {
        let holder = self.grants.get_mut(&number)?;
        holder.amount += more;
        self.all += more;
        for network in holder.peer.networks() {
            if let Some(of) = self.amounts.get_mut(&network) {
                of.held += more;
            }
        }
        Some(())
    }
}

/// A part of a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Grant {
    budget: Budget,
    number: u64,
    peer: Peer,
    revoked: watch::Receiver<bool>,
}

impl Grant {
    /// Takes `more`.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn grow(&mut self, more: usize) -> Result<(), Exhausted> {
        let mut held = self.budget.lock();
        held.fits(&self.budget.0, self.peer, more)?;
        held.grow(self.number, more).ok_or(Exhausted::All)
    }

    /// Waits until it is taken away in favour of another peer.
    ///
    /// Cancel safe.
    pub async fn revoked(&self) {
        let mut revoked = self.revoked.clone();
        let told = revoked.wait_for(|&told| told).await.is_ok();
        if !told {
            // It was taken away, and the word of it with it: only after it was sent.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        drop(self.budget.lock().give_back(self.number));
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::of(Some(([10, 0, 0, last], 1).into()))
    }

    #[test]
    fn a_peer_is_an_ipv4_address_or_an_ipv6_network() {
        let of = |text: &str| Peer::of(Some(text.parse().unwrap()));
        assert_eq!(of("10.0.0.1:1"), of("[::ffff:10.0.0.1]:2"));
        assert_ne!(of("10.0.0.1:1"), of("10.0.0.2:1"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:0:0:9]:1"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
    }

    #[test]
    fn a_newcomer_displaces_whoever_holds_the_most_and_nobody_else() {
        let budget = Budget::new(4, 3);
        let greedy: Vec<_> = (0..3).map(|_| budget.take(peer(1), 1).unwrap()).collect();
        assert_eq!(budget.take(peer(1), 1).unwrap_err(), Exhausted::Peer);
        let modest = budget.take(peer(2), 1).unwrap();
        assert_eq!(budget.take(peer(3), 1).unwrap_err(), Exhausted::All);
        let newcomer = budget.take_or_displace(peer(3), 1).unwrap();
        let revoked = |grant: &Grant| *grant.revoked.borrow();
        assert!(revoked(&greedy[0]) && !revoked(&greedy[1]) && !revoked(&greedy[2]));
        assert!(!revoked(&modest) && !revoked(&newcomer));
        // What it displaced gives nothing back a second time.
        drop(greedy);
        assert_eq!(budget.lock().of(peer(1).networks()[0]), 0);
        assert_eq!(budget.lock().grants.len(), 2);
        // Where all hold the same, whoever was first stays.
        let _more = [budget.take(peer(4), 1).unwrap(), budget.take(peer(5), 1).unwrap()];
        assert_eq!(budget.take_or_displace(peer(6), 1).unwrap_err(), Exhausted::All);
    }

    #[test]
    fn who_may_replace_its_own_gives_up_its_oldest_and_nobody_elses() {
        let budget = Budget::new(8, 3);
        let other = budget.take(peer(2), 1).unwrap();
        let mut own: Vec<_> = (0..3).map(|_| budget.take(peer(1), 1).unwrap()).collect();
        let revoked = |grant: &Grant| *grant.revoked.borrow();
        for next in 0..5 {
            own.push(budget.take_or_replace(peer(1), 1).unwrap());
            let gone: Vec<bool> = own.iter().map(revoked).collect();
            assert!(gone[..=next].iter().all(|gone| *gone) && !gone[next + 1..].contains(&true));
        }
        assert!(!revoked(&other));
        assert_eq!(budget.take_or_replace(peer(1), 4).unwrap_err(), Exhausted::Peer);
        assert!(!own[5..].iter().any(revoked), "nothing is given up for what cannot be had");
    }

    fn v6(site: u16, subnet: u16) -> Peer {
        Peer::of(Some(([0x2001, 0xdb8, site, subnet, 0, 0, 0, 1], 1).into()))
    }

    #[test]
    fn one_customer_of_ipv6_shuts_nobody_out_however_many_networks_it_has() {
        // The first has 65 536 networks, the second 256, the third one.
        for (subnets, most) in [(65_536, 12), (256, 10), (1, 8)] {
            let budget = Budget::new(16, 8);
            let held: Vec<_> = (0..65_536)
                .filter_map(|n: u32| budget.take_or_displace(v6(1, (n % subnets) as u16), 1).ok())
                .collect();
            assert_eq!(held.len(), most, "{subnets} networks");
            assert!(budget.take(v6(2, 0), 1).is_ok() && budget.take(peer(1), 1).is_ok());
        }
    }

    #[test]
    fn the_widest_network_makes_room_and_within_it_whoever_has_the_most() {
        let budget = Budget::new(16, 8);
        let neighbour = budget.take(v6(1, 0xff00), 1).unwrap();
        let scattered: Vec<_> = (0..9).map(|n| budget.take(v6(1, n), 1).unwrap()).collect();
        let others: Vec<_> = (0..6).map(|n| budget.take(peer(n), 1).unwrap()).collect();
        let newcomer = budget.take_or_displace(peer(99), 1).unwrap();
        let revoked = |grant: &Grant| *grant.revoked.borrow();
        assert!(revoked(&scattered[0]) && !scattered[1..].iter().any(revoked));
        assert!(!revoked(&neighbour) && !revoked(&newcomer) && !others.iter().any(revoked));
    }

    #[test]
    fn what_is_counted_is_what_the_grants_add_up_to() {
        let mut rng = Pcg64::seed_from_u64(0xb0e);
        let (budget, mut live) = (Budget::new(60, 20), Vec::<Grant>::new());
        for _ in 0..5_000 {
            let who = match rng.random_range(0..3) {
                0 => peer(rng.random_range(0..6)),
                _ => v6(rng.random_range(0..3), rng.random_range(0..3) * 128),
            };
            match rng.random_range(0..4) {
                0 => live.extend(budget.take_or_displace(who, rng.random_range(0..5)).ok()),
                1 => live.extend(budget.take_or_replace(who, rng.random_range(0..5)).ok()),
                2 if !live.is_empty() => {
                    let at = rng.random_range(0..live.len());
                    let _ = live[at].grow(rng.random_range(0..5));
                }
                _ if live.is_empty() => {}
                _ => drop(live.swap_remove(rng.random_range(0..live.len()))),
            }
            let held = budget.lock();
            let mut sums = BTreeMap::<Network, (usize, usize)>::new();
            for holder in held.grants.values() {
                for network in holder.peer.networks() {
                    let of = sums.entry(network).or_default();
                    (of.0, of.1) = (of.0 + holder.amount, of.1 + 1);
                }
                for (network, share) in
                    holder.peer.networks().iter().zip(holder.peer.shares(20, 60))
                {
                    assert!(held.of(*network) <= share);
                }
            }
            let counted = held.amounts.iter().map(|(n, of)| (*n, (of.held, of.grants)));
            assert!(counted.eq(sums));
            assert_eq!(held.all, held.grants.values().map(|holder| holder.amount).sum::<usize>());
            assert!(held.all <= 60);
        }
    }

    #[test]
    fn random_grants_never_exceed_what_there_is() {
        let mut rng = Pcg64::seed_from_u64(0xb0d);
        let (budget, mut live) = (Budget::new(100, 40), Vec::<(Grant, u8, usize)>::new());
        for _ in 0..5_000 {
            let (who, amount) = (rng.random_range(0..6), rng.random_range(0..20));
            let of =
                |who| live.iter().filter(|(_, w, _)| *w == who).map(|(.., n)| n).sum::<usize>();
            let all: usize = live.iter().map(|(.., n)| n).sum();
            let expected = match (of(who) + amount > 40, all + amount > 100) {
                (true, _) => Err(Exhausted::Peer),
                (false, true) => Err(Exhausted::All),
                (false, false) => Ok(()),
            };
            match rng.random_range(0..3) {
                0 => {
                    let granted = budget.take(peer(who), amount);
                    assert_eq!(granted.as_ref().map(drop).map_err(|e| *e), expected);
                    live.extend(granted.ok().map(|grant| (grant, who, amount)));
                }
                1 => {
                    if let Some((grant, _, n)) = live.iter_mut().find(|(_, w, _)| *w == who) {
                        assert_eq!(grant.grow(amount), expected);
                        *n += if expected.is_ok() { amount } else { 0 };
                    }
                }
                _ if live.is_empty() => {}
                _ => drop(live.swap_remove(rng.random_range(0..live.len()))),
            }
        }
    }
}
