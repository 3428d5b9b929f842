//! Handshakes that others began and have not ended: which connection a first packet belongs to, and who
//! makes room where there is no more of it.
//!
//! Each holds what TLS and a connection's buffers take. Where as many as may be are under way, a newcomer takes
//! the place of the oldest of whoever has the most, counted by IPv4 address and, of IPv6, by networks of 48, 56
//! and 64 bits from the widest on; of those that have as many, whoever has the oldest. Who has more than all
//! others waits itself: its client asks again. So a few hundred addresses that begin and fall silent keep nobody
//! out: they would have to begin again as many times within each round trip of the others.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tack_units::Instant;

use crate::wire::ConnectionId;

/// Lengths of what one customer of IPv6 may have.
const PREFIXES: [u8; 3] = [48, 56, 64];
/// The newcomer among those that are counted: the youngest.
const NEWCOMER: u64 = u64::MAX;

/// Where a first packet came from, and the ID that it was sent to.
type First = (SocketAddr, ConnectionId);

/// See the [module's text](self). Connections are known by their numbers, which grow.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// With when each is given up; those that began first come first.
    by_number: BTreeMap<u64, (First, Instant)>,
    by_first: BTreeMap<First, u64>,
}

impl Handshakes {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// The connection of a first packet, or of one that repeats it.
    pub(super) fn find(&self, first: First) -> Option<u64> {
        self.by_first.get(&first).copied()
    }

    pub(super) fn begin(&mut self, number: u64, first: First, until: Instant) {
        self.by_number.insert(number, (first, until));
        self.by_first.insert(first, number);
    }

    /// When the first of them is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.by_number.values().next().map(|(_, until)| *until)
    }

    /// One that is to be given up now; it is known no more.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<u64> {
        let (&number, (_, until)) = self.by_number.first_key_value()?;
        let is_due = *until <= now;
        is_due.then(|| self.end(number)).map(|()| number)
    }

    /// It has ended, or was given up; harmless if it is not known.
    pub(super) fn end(&mut self, number: u64) {
        if let Some((first, _)) = self.by_number.remove(&number) {
            self.by_first.remove(&first);
        }
    }

    /// Who makes room for another of `from`, of those that `may_go`; `None`: nobody does.
    pub(super) fn displaced_by(
        &self,
        from: SocketAddr,
        may_go: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let known = self.by_number.iter().map(|(number, ((at, _), _))| (*number, *at));
        let mut most: Vec<_> =
            known.filter(|(number, _)| may_go(*number)).chain([(NEWCOMER, from)]).collect();
        for length in PREFIXES {
            // How many each has, and its oldest.
            let mut counts = BTreeMap::<IpAddr, (usize, Reverse<u64>)>::new();
            for (number, at) in &most {
                counts.entry(network(*at, length)).or_insert((0, Reverse(*number))).0 += 1;
            }
            let (&largest, _) = counts.iter().max_by_key(|(_, had)| **had)?;
            most.retain(|(_, at)| network(*at, length) == largest);
        }
        let is_own = most.last().is_some_and(|(number, _)| *number == NEWCOMER);
        most.first().map(|(number, _)| *number).filter(|_| !is_own)
    }
}

/// The network of so many bits around an IPv6 address; an IPv4 address itself.
fn network(at: SocketAddr, length: u8) -> IpAddr {
    match at.ip().to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - length))).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ip: &str, port: u16) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), port)
    }

    fn under_way(addresses: &[&str]) -> Handshakes {
        let mut handshakes = Handshakes::default();
        for (number, ip) in (0_u8..).zip(addresses) {
            let id = ConnectionId::new(&[number; 8]).unwrap();
            handshakes.begin(number.into(), (at(ip, 9), id), Instant::from_secs(number.into()));
        }
        handshakes
    }

    #[test]
    fn the_oldest_of_whoever_has_the_most_makes_room() {
        let crowd = under_way(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]);
        assert_eq!(crowd.displaced_by(at("10.0.0.3", 1), |_| true), Some(1));
        assert_eq!(crowd.displaced_by(at("10.0.0.1", 1), |_| true), Some(1));
        // Also where IPv4 comes through a socket of IPv6.
        assert_eq!(crowd.displaced_by(at("::ffff:10.0.0.2", 1), |_| true), None);
        assert_eq!(crowd.displaced_by(at("10.0.0.3", 1), |n| n != 1), Some(2));
    }

    #[test]
    fn who_has_more_than_all_others_waits_and_of_as_many_the_oldest_goes() {
        let crowd = under_way(&["10.0.0.1", "10.0.0.2"]);
        assert_eq!(crowd.displaced_by(at("10.0.0.2", 1), |_| true), None);
        assert_eq!(crowd.displaced_by(at("10.0.0.3", 1), |_| true), Some(0), "one each");
        assert_eq!(crowd.displaced_by(at("10.0.0.3", 1), |_| false), None, "nobody may go");
    }

    #[test]
    fn many_networks_of_one_customer_are_one_and_a_neighbour_in_it_keeps_its_place() {
        let crowd = under_way(&[
            "2001:db8:1:100::1",
            "2001:db8:1:201::1",
            "2001:db8:1:202::1",
            "2001:db8:1:203::1",
            "2001:db8:2::1",
            "2001:db8:2::2",
        ]);
        assert_eq!(crowd.displaced_by(at("192.0.2.1", 1), |_| true), Some(1));
        assert_eq!(crowd.displaced_by(at("2001:db8:2::3", 1), |_| true), Some(1));
    }

    #[test]
    fn what_has_ended_is_found_no_more() {
        let mut crowd = under_way(&["10.0.0.1"]);
        let first = (at("10.0.0.1", 9), ConnectionId::new(&[0; 8]).unwrap());
        assert_eq!(crowd.find(first), Some(0));
        crowd.end(0);
        crowd.end(0);
        assert_eq!((crowd.find(first), crowd.len()), (None, 0));
    }

    #[test]
    fn those_whose_time_is_over_are_given_up_one_by_one() {
        let mut crowd = under_way(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        crowd.end(0);
        assert_eq!(crowd.deadline(), Some(Instant::from_secs(1)));
        let now = Instant::from_millis(1_500);
        assert_eq!((crowd.take_overdue(now), crowd.take_overdue(now)), (Some(1), None));
        assert_eq!((crowd.deadline(), crowd.len()), (Some(Instant::from_secs(2)), 1));
    }
}
