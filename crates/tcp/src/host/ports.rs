//! Local ports of outgoing connections, without searching for a free one.
//!
//! Towards each peer a port is in one place: never taken yet, free again, in TIME-WAIT with
//! timestamps, or in use. Ports are taken from the front of these in that order, so that one is left
//! alone for as long as there are others.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use tack_units::Instant;

use crate::config::Encapsulation;
use crate::conn::LastWords;
use crate::host::demux::Key;
use crate::host::secret::Use;
use crate::host::{ConnectError, Host, Remote};

/// How long a 4-tuple with timestamps rests before we use it anew: by then our stamp is a newer one
/// [RFC 6191 §2]. As Linux's `tcp_tw_reuse`.
pub(super) const REUSE_AFTER: Duration = Duration::from_secs(1);

/// Numbers beyond the last that a 4-tuple used: more than any window without scaling.
const NUMBERS_APART: u32 = 65_537;

/// Everything of a key but the local port.
type Peer = (SocketAddr, u16, IpAddr);

fn peer_of(key: &Key) -> Peer {
    (key.path, key.remote_port, key.local_ip)
}

/// Who has which ports.
#[derive(Debug)]
pub(crate) struct LocalPorts {
    low: u16,
    count: u32,
    towards: BTreeMap<Peer, Towards>,
    /// How many were taken, of all peers.
    taken: u32,
}

#[derive(Debug)]
struct Towards {
    /// Where those never taken begin, and how many were.
    first: u32,
    fresh: u32,
    free: VecDeque<u16>,
    /// In TIME-WAIT with timestamps, and since when.
    resting: VecDeque<(Instant, u16)>,
    /// In use or in TIME-WAIT. When none is, this is forgotten.
    held: u32,
}

impl LocalPorts {
    pub(crate) fn new(range: &RangeInclusive<u16>) -> LocalPorts {
        let count = u32::from(range.end().saturating_sub(*range.start())) + 1;
        LocalPorts { low: *range.start(), count, towards: BTreeMap::new(), taken: 0 }
    }

    /// Takes a port for a key like `key`. `may_use` knows of ports that others took without asking
    /// here, and of those that rest.
    pub(crate) fn take(
        &mut self,
        key: &Key,
        offset: u32,
        now: Instant,
        may_use: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let LocalPorts { low, count, towards, taken } = self;
        // A start that depends on the peer, and a step: hard to guess [RFC 6056 §3.3.3].
        let first = || offset.wrapping_add(*taken) % *count;
        let of_peer = towards.entry(peer_of(key)).or_insert_with(|| Towards::new(first()));
        let port = of_peer.next(*low, *count, now, may_use);
        match port {
            Some(_) => {
                of_peer.held += 1;
                *taken = taken.wrapping_add(1);
            }
            None if of_peer.held == 0 => drop(towards.remove(&peer_of(key))),
            None => {}
        }
        port
    }

    /// A port that was taken is in TIME-WAIT, and has timestamps.
    pub(crate) fn rest(&mut self, key: &Key, now: Instant) {
        if let Some(of_peer) = self.towards.get_mut(&peer_of(key)) {
            of_peer.resting.push_back((now, key.local_port));
        }
    }

    /// A port that was taken is free. One that [rests](Self::rest) stays where it is.
    pub(crate) fn give_back(&mut self, key: &Key, rests: bool) {
        let Some(of_peer) = self.towards.get_mut(&peer_of(key)) else { return };
        of_peer.held = of_peer.held.saturating_sub(1);
        if of_peer.held == 0 {
            self.towards.remove(&peer_of(key));
        } else if !rests {
            of_peer.free.push_back(key.local_port);
        }
    }
}

impl Towards {
    fn new(first: u32) -> Towards {
        let (free, resting) = (VecDeque::new(), VecDeque::new());
        Towards { first, fresh: 0, free, resting, held: 0 }
    }

    fn next(
        &mut self,
        low: u16,
        count: u32,
        now: Instant,
        may_use: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        while self.fresh < count {
            let port = low + ((self.first + self.fresh) % count) as u16;
            self.fresh += 1;
            if may_use(port) {
                return Some(port);
            }
            self.free.push_back(port);
        }
        // Only those that somebody took by number are met in vain.
        for _ in 0..self.free.len() {
            let port = self.free.pop_front()?;
            if may_use(port) {
                return Some(port);
            }
            self.free.push_back(port);
        }
        while let Some(&(since, port)) = self.resting.front()
            && now.saturating_since(since) >= REUSE_AFTER
        {
            self.resting.pop_front();
            if may_use(port) {
                return Some(port);
            }
            self.free.push_back(port);
        }
        None
    }
}

/// A key for a new connection, and what its last one left in TIME-WAIT.
pub(super) struct Chosen {
    pub(super) key: Key,
    /// The port is from [`LocalPorts`], and goes back there.
    pub(super) borrowed: bool,
    before: Option<LastWords>,
}

impl Chosen {
    /// Our first number, after the last that this 4-tuple used [RFC 6191 §2].
    pub(super) fn iss(&self, isn: crate::seq::SeqNum) -> crate::seq::SeqNum {
        match &self.before {
            Some(words) if isn.since(words.snd_nxt) < NUMBERS_APART as i32 => {
                words.snd_nxt.add(NUMBERS_APART)
            }
            _ => isn,
        }
    }
}

impl Host {
    /// A key that no connection has.
    pub(super) fn choose_key(
        &mut self,
        remote: Remote,
        port: Option<u16>,
        now: Instant,
    ) -> Result<Chosen, ConnectError> {
        let (path, local_ip) = match &self.config.encapsulation {
            Encapsulation::Udp => (remote.path, Ipv4Addr::UNSPECIFIED.into()),
            Encapsulation::Ip { local } => {
                let of_family = |ip: &&IpAddr| ip.is_ipv4() == remote.path.is_ipv4();
                let local = *local.iter().find(of_family).ok_or(ConnectError::NoLocalAddress)?;
                (SocketAddr::new(remote.path.ip(), 0), local)
            }
        };
        let key = |local_port| Key { path, remote_port: remote.port, local_port, local_ip };
        self.time_wait.expire(now);
        self.take_ports_back();
        let (demux, time_wait) = (&self.demux, &self.time_wait);
        let may_use = |port| {
            let key = key(port);
            !demux.contains(&key) && time_wait.may_reuse(&key, now)
        };
        let taken = match port {
            Some(port) => may_use(port).then_some(port).ok_or(ConnectError::PortInUse)?,
            None => {
                let offset = self.secret.hash(Use::Port, &key(0), 0) as u32;
                let taken = self.ports.take(&key(0), offset, now, may_use);
                taken.ok_or(ConnectError::NoPort)?
            }
        };
        let key = key(taken);
        let before = self.time_wait.forget(&key);
        self.take_ports_back();
        Ok(Chosen { key, borrowed: port.is_none(), before })
    }

    /// Ports whose TIME-WAIT is over are free again.
    pub(super) fn take_ports_back(&mut self) {
        while let Some((key, rests)) = self.time_wait.pop_over() {
            self.ports.give_back(&key, rests);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    const WAIT: Duration = Duration::from_secs(60);

    fn key(peer: u8, local_port: u16) -> Key {
        Key {
            path: ([10, 0, 0, peer], 7).into(),
            remote_port: 7,
            local_port,
            local_ip: [0, 0, 0, 0].into(),
        }
    }

    /// Connections and TIME-WAIT by the book, and ports that somebody took by number.
    #[derive(Default)]
    struct Naive {
        used: BTreeSet<(u8, u16)>,
        foreign: BTreeSet<(u8, u16)>,
        waiting: BTreeMap<(u8, u16), (Instant, bool)>,
    }

    impl Naive {
        fn may_use(&self, at: (u8, u16), now: Instant) -> bool {
            let rested = |&(since, rests): &(Instant, bool)| rests && now >= since + REUSE_AFTER;
            !self.used.contains(&at)
                && !self.foreign.contains(&at)
                && self.waiting.get(&at).is_none_or(rested)
        }
    }

    #[test]
    fn a_port_is_found_whenever_one_may_be_used_and_none_is_used_twice() {
        for seed in 0..40 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let range = 100..=100 + rng.random_range(0..12);
            let mut ports = LocalPorts::new(&range);
            let (mut naive, mut now) = (Naive::default(), Instant::from_secs(1));
            for step in 0..3_000 {
                now += Duration::from_millis(rng.random_range(0..400));
                for (at, (since, rests)) in naive.waiting.clone() {
                    if now >= since + WAIT {
                        naive.waiting.remove(&at);
                        ports.give_back(&key(at.0, at.1), rests);
                    }
                }
                let peer = rng.random_range(0..2);
                match rng.random_range(0..8) {
                    0..4 => {
                        let free = range.clone().any(|p| naive.may_use((peer, p), now));
                        let may_use = |p| naive.may_use((peer, p), now);
                        let took = ports.take(&key(peer, 0), 77, now, may_use);
                        assert_eq!(took.is_some(), free, "seed {seed} step {step}");
                        let Some(port) = took else { continue };
                        assert!(range.contains(&port) && naive.used.insert((peer, port)));
                        if let Some((_, rests)) = naive.waiting.remove(&(peer, port)) {
                            ports.give_back(&key(peer, port), rests);
                        }
                    }
                    4..7 => {
                        let Some(&at) = naive.used.iter().next() else { continue };
                        naive.used.remove(&at);
                        match rng.random_range(0..3) {
                            0 => ports.give_back(&key(at.0, at.1), false),
                            waits => {
                                if waits == 1 {
                                    ports.rest(&key(at.0, at.1), now);
                                }
                                naive.waiting.insert(at, (now, waits == 1));
                            }
                        }
                    }
                    _ => {
                        let at = (peer, rng.random_range(range.clone()));
                        let idle = !naive.used.contains(&at) && !naive.waiting.contains_key(&at);
                        if !naive.foreign.remove(&at) && idle {
                            naive.foreign.insert(at);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_peers_without_a_connection() {
        let mut ports = LocalPorts::new(&(1..=10));
        for peer in 0..100 {
            let port = ports.take(&key(peer, 0), 5, Instant::ZERO, |_| true).unwrap();
            ports.rest(&key(peer, port), Instant::ZERO);
            ports.give_back(&key(peer, port), true);
        }
        assert!(ports.towards.is_empty());
        assert_eq!(ports.take(&key(1, 0), 5, Instant::ZERO, |_| false), None);
        assert!(ports.towards.is_empty());
    }
}
