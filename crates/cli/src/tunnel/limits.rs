//! What clients of `tack tunnel serve` may hold of it: in all, and of one address.
//!
//! Places are counted when they are taken. Memory is not, since it grows and shrinks with each packet: once a
//! [`LOOK`] all streams say what they hold, and where that is too much, some end. Between two looks there comes
//! no more than the path carries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tack_net::HandshakeLimits;
use tack_net::budget::{Budget, Exhausted, Grant, LEVELS, Network, Peer};
use tokio::sync::Notify;

use super::MAX_STREAMS;
use super::pool::MOST_ATTEMPTS;
use crate::conn::{Connection, Meter};

/// How often memory is looked at.
pub const LOOK: Duration = Duration::from_secs(1);

/// How much there is in all, and how much of it one address may have (an IPv6 /64; see [`Peer`]).
///
/// Whoever comes when all is taken displaces the oldest of whichever address holds the most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections on which nothing was asked for yet, or is refused: a client keeps up to 64. One too many of an
    /// address takes the place of its oldest.
    pub waiting: (usize, usize),
    /// Streams, whether a connection carries them or they wait for one.
    pub streams: (usize, usize),
    /// Targets that are being resolved and connected to. Each takes up to 8 sockets, and 20 s.
    pub attempts: (usize, usize),
    /// Associations for datagrams, each with a socket.
    pub associations: (usize, usize),
    /// Bytes in the transport's buffers, and of what is kept for another connection.
    pub memory: (usize, usize),
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            waiting: (2_048, 512),
            streams: (MAX_STREAMS, MAX_STREAMS / 8 * 7),
            attempts: (1_024, 512),
            associations: (1_024, 256),
            memory: (2 << 30, 1 << 30),
        }
    }
}

/// On who has not come in yet: of one address what a client begins at once, and once more for each that is late.
pub fn handshakes() -> HandshakeLimits {
    HandshakeLimits::default().with(|it| {
        it.of_one_peer = 2 * MOST_ATTEMPTS;
        it.at_once = 4 * it.of_one_peer;
    })
}

/// Who holds what. Clones share the same.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// See [`Limits::waiting`].
    pub waiting: Budget,
    /// See [`Limits::attempts`].
    pub attempts: Budget,
    streams: Budget,
    associations: Budget,
    memory: (usize, usize),
    seats: Arc<Mutex<Seats>>,
}

#[derive(Debug, Default)]
struct Seats {
    given: u64,
    taken: BTreeMap<u64, (Peer, Arc<Holding>)>,
}

impl Ledger {
    /// Nobody holds anything.
    pub fn new(limits: &Limits) -> Ledger {
        let budget = |(all, of_peer)| Budget::new(all, of_peer);
        Ledger {
            waiting: budget(limits.waiting),
            attempts: budget(limits.attempts),
            streams: budget(limits.streams),
            associations: budget(limits.associations),
            memory: limits.memory,
            seats: Arc::default(),
        }
    }

    /// A place for a stream of `peer`.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn stream(&self, peer: Peer) -> Result<Seat, Exhausted> {
        Ok(self.seat(peer, self.streams.take_or_displace(peer, 1)?))
    }

    /// A place for an association of `peer`.
    ///
    /// # Errors
    /// Whose share is used up.
    pub fn association(&self, peer: Peer) -> Result<Seat, Exhausted> {
        Ok(self.seat(peer, self.associations.take_or_displace(peer, 1)?))
    }

    fn seat(&self, peer: Peer, grant: Grant) -> Seat {
        let holding = Arc::new(Holding::default());
        let mut seats = lock(&self.seats);
        seats.given += 1;
        let number = seats.given;
        seats.taken.insert(number, (peer, holding.clone()));
        Seat { number, seats: self.seats.clone(), grant, holding }
    }

    /// Ends streams until the others hold no more memory than there is. Of one address the largest end.
    pub fn look(&self) {
        let seats: Vec<_> = lock(&self.seats).taken.values().cloned().collect();
        let held: Vec<_> = seats.iter().map(|(peer, holding)| (*peer, holding.bytes())).collect();
        for number in beyond(&held, self.memory) {
            seats[number].1.end.notify_one();
        }
    }
}

/// Which of those that hold so much have to end for the rest to fit.
fn beyond(held: &[(Peer, usize)], (all, of_peer): (usize, usize)) -> Vec<usize> {
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_by_key(|&number| held[number].1);
    // What a network holds up to and with each. In this order nobody is refused for what others hold beyond it.
    let mut sums = BTreeMap::<Network, usize>::new();
    let mut reach = |number: usize| {
        let (peer, bytes) = held[number];
        let sum = sums.entry(peer.networks()[LEVELS - 1]).or_default();
        *sum = sum.saturating_add(bytes);
        (*sum, number)
    };
    let mut order: Vec<_> = order.into_iter().map(&mut reach).collect();
    order.sort_unstable();
    let (budget, mut granted) = (Budget::new(all, of_peer), Vec::new());
    let mut is_refused = |&(_, number): &(usize, usize)| {
        let (peer, bytes) = held[number];
        budget.take(peer, bytes).map(|grant| granted.push(grant)).is_err()
    };
    order.retain(&mut is_refused);
    order.into_iter().map(|(_, number)| number).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place that is held as long as this lives.
#[derive(Debug)]
pub struct Seat {
    number: u64,
    seats: Arc<Mutex<Seats>>,
    grant: Grant,
    holding: Arc<Holding>,
}

impl Seat {
    /// What it holds, to be told.
    pub fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }

    /// What comes of `work`; `None`: the place had to be given up before, to make room or since it held too
    /// much memory.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.grant.revoked() => None,
            () = self.holding.end.notified() => None,
            done = work => Some(done),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.seats).taken.remove(&self.number);
    }
}

/// How much memory a stream holds.
#[derive(Default)]
pub struct Holding {
    kept: Arc<AtomicUsize>,
    conn: Mutex<Option<Meter>>,
    end: Notify,
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Holding {
    /// This connection carries it now.
    pub fn carried_by(&self, conn: &impl Connection) {
        *lock(&self.conn) = conn.meter();
    }

    /// Where what is kept beside the connection is to be told.
    pub fn kept(&self) -> Arc<AtomicUsize> {
        self.kept.clone()
    }

    fn bytes(&self) -> usize {
        let conn = lock(&self.conn).as_ref().map_or(0, |meter| meter());
        self.kept.load(Relaxed).saturating_add(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::of(Some(([10, 0, 0, last], 1).into()))
    }

    #[test]
    fn of_an_address_that_holds_too_much_the_largest_streams_end() {
        let held = [(peer(1), 30), (peer(1), 5), (peer(2), 40), (peer(1), 10), (peer(1), 20)];
        assert_eq!(beyond(&held, (200, 40)), [0]);
        assert!(beyond(&held, (200, 65)).is_empty());
    }

    #[test]
    fn where_all_is_held_only_the_address_with_the_most_makes_room() {
        let greedy = (0..8).map(|_| (peer(1), 10));
        let held: Vec<_> = greedy.chain([(peer(2), 15), (peer(3), 15)]).collect();
        assert_eq!(beyond(&held, (100, 80)), [7]);
        // Nor do two that are modest pay for two that are not.
        assert_eq!(beyond(&held, (60, 55)), [3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_place_that_is_given_back_holds_nothing() {
        let ledger = Ledger::new(&Limits { streams: (2, 1), ..Limits::default() });
        let seat = ledger.stream(peer(1)).unwrap();
        assert_eq!(ledger.stream(peer(1)).unwrap_err(), Exhausted::Peer);
        drop(seat);
        assert!(lock(&ledger.seats).taken.is_empty());
        assert!(ledger.stream(peer(1)).is_ok());
    }
}
