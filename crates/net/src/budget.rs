//! What strangers may make us hold: so much in all, and so much of it for each peer's address.
//!
//! Where all is taken, a newcomer is let in at the cost of whoever holds the most, so that many
//! addresses, and not many connections, are what it takes to shut others out.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Who is counted as one: an IPv4 address, or an IPv6 network of 64 bits, which is what a single
/// customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(IpAddr);

impl Peer {
    /// Who is at this address; those without one are counted together.
    pub fn of(address: Option<SocketAddr>) -> Peer {
        match address.map(|a| a.ip().to_canonical()) {
            Some(IpAddr::V6(v6)) => {
                let network = v6.to_bits() >> 64 << 64;
                Peer(Ipv6Addr::from_bits(network).into())
            }
            Some(v4) => Peer(v4),
            None => Peer(Ipv6Addr::UNSPECIFIED.into()),
        }
    }
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
    /// In the order in which they were granted.
    grants: Vec<Holder>,
    granted: u64,
}

#[derive(Debug)]
struct Holder {
    number: u64,
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

    /// As [`take`](Self::take). If all is taken and somebody else holds more than this peer would,
    /// that one's oldest grant is [revoked](Grant::revoked) in its favour.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn take_or_displace(&self, peer: Peer, amount: usize) -> Result<Grant, Exhausted> {
        let mut held = self.lock();
        match held.fits(&self.0, peer, amount) {
            Err(Exhausted::All) => {
                let richest = held.richest().ok_or(Exhausted::All)?;
                if held.of(richest) <= held.of(peer) + amount {
                    return Err(Exhausted::All);
                }
                let oldest = held.grants.iter().position(|g| g.peer == richest);
                // Whoever held it is on the way out; it counts no more.
                let revoked = held.grants.remove(oldest.ok_or(Exhausted::All)?);
                revoked.revoke.send_replace(true);
            }
            fits => fits?,
        }
        Ok(self.grant(&mut held, peer, amount))
    }

    fn grant(&self, held: &mut Held, peer: Peer, amount: usize) -> Grant {
        held.granted += 1;
        let number = held.granted;
        let (revoke, revoked) = watch::channel(false);
        held.grants.push(Holder { number, peer, amount, revoke });
        Grant { budget: self.clone(), number, peer, revoked }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn fits(&self, shared: &Shared, peer: Peer, amount: usize) -> Result<(), Exhausted> {
        if self.of(peer).saturating_add(amount) > shared.per_peer {
            return Err(Exhausted::Peer);
        }
        let all: usize = self.grants.iter().map(|g| g.amount).sum();
        if all.saturating_add(amount) > shared.total { Err(Exhausted::All) } else { Ok(()) }
    }

    fn of(&self, peer: Peer) -> usize {
        self.grants.iter().filter(|g| g.peer == peer).map(|g| g.amount).sum()
    }

    fn richest(&self) -> Option<Peer> {
        self.grants.iter().map(|g| g.peer).max_by_key(|&peer| self.of(peer))
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
        let ours = held.grants.iter_mut().find(|g| g.number == self.number);
        ours.ok_or(Exhausted::All)?.amount += more;
        Ok(())
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
        self.budget.lock().grants.retain(|g| g.number != self.number);
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
        assert_eq!(budget.lock().of(peer(1)), 0);
        assert_eq!(budget.lock().grants.len(), 2);
        // Where all hold the same, whoever was first stays.
        let _more = [budget.take(peer(4), 1).unwrap(), budget.take(peer(5), 1).unwrap()];
        assert_eq!(budget.take_or_displace(peer(6), 1).unwrap_err(), Exhausted::All);
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
