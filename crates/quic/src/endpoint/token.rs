//! Tokens [RFC 9000 §8.1]: who has one, has got a packet at its address. Those of a Retry are for the client's
//! next packet; those of NEW_TOKEN for its next connection, from the same address and any port.
//!
//! ```text
//! Retry       0 | issued (8 bytes, ns) | original destination ID | tag of that, version, address, port, new ID
//! NEW_TOKEN   1 | issued                                         | tag of that, version and address
//! ```
//!
//! No token is good for another version than the one that gave it [RFC 9369 §5].
//!
//! Times are of the endpoint's clock and tags (16 bytes) of its secret: after a restart no token is good
//! any more, and costs its client a Retry at worst.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use tack_units::Instant;

use crate::secret::Secret;
use crate::wire::{ConnectionId, Version};

const OF_RETRY: u8 = 0;
const FOR_LATER: u8 = 1;
const ISSUED_LEN: usize = 8;
const TAG_LEN: usize = 16;
/// How long a Retry's token is good for: a round trip, and a client that is slow.
const RETRY_LIFE: Duration = Duration::from_secs(15);
/// How long others are: an address changes hands within days.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// What a client has shown with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// That it got our Retry; its packet before that went to this ID.
    Retry(ConnectionId),
    /// That it got our Retry, too long ago. It heeds no other [RFC 9000 §17.2.5.2].
    Late,
    /// That it was connected from this address before.
    Before,
}

/// For a client at `address` whose first packet went to `original`, and whose next goes to `ours`.
pub(super) fn of_retry(
    secret: &Secret,
    version: Version,
    address: SocketAddr,
    original: &ConnectionId,
    ours: &ConnectionId,
    now: Instant,
) -> Vec<u8> {
    let said = [&[OF_RETRY], &now.as_nanos().to_be_bytes()[..], original.as_bytes()].concat();
    let bound = bound(OF_RETRY, version, address.port(), ours);
    signed(secret, said, address.ip(), &bound)
}

/// For whoever was connected from `address` in `version`, for another time.
pub(crate) fn for_later(
    secret: &Secret,
    version: Version,
    address: IpAddr,
    now: Instant,
) -> Vec<u8> {
    let said = [&[FOR_LATER], &now.as_nanos().to_be_bytes()[..]].concat();
    signed(secret, said, address, &bound(FOR_LATER, version, 0, &ConnectionId::EMPTY))
}

/// What a token of this kind is bound to beside the address.
fn bound(kind: u8, version: Version, port: u16, ours: &ConnectionId) -> Vec<u8> {
    let version = version.number().to_be_bytes();
    match kind {
        OF_RETRY => [&version, &port.to_be_bytes()[..], ours.as_bytes()].concat(),
        _ => version.to_vec(),
    }
}

/// What a client at `address` shows with `token`, in a packet of `version` to `ours`; `None`: it is not ours,
/// not the client's, or of a connection too long ago.
pub(super) fn read(
    secret: &Secret,
    token: &[u8],
    version: Version,
    address: SocketAddr,
    ours: &ConnectionId,
    now: Instant,
) -> Option<Shown> {
    let (said, shown) = token.split_at_checked(token.len().checked_sub(TAG_LEN)?)?;
    let (&kind, rest) = said.split_first()?;
    let bound = bound(kind, version, address.port(), ours);
    let differs = tag(secret, said, address.ip(), &bound)
        .iter()
        .zip(shown)
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    if differs != 0 {
        return None;
    }
    let (issued, original) = rest.split_at_checked(ISSUED_LEN)?;
    let issued = Instant::from_nanos(u64::from_be_bytes(issued.try_into().ok()?));
    let life = if kind == OF_RETRY { RETRY_LIFE } else { LIFE };
    let is_good = issued <= now && now.saturating_since(issued) <= life;
    match kind {
        OF_RETRY if !is_good => Some(Shown::Late),
        _ if !is_good => None,
        OF_RETRY => ConnectionId::new(original).map(Shown::Retry),
        _ => Some(Shown::Before),
    }
}

fn signed(secret: &Secret, said: Vec<u8>, address: IpAddr, bound: &[u8]) -> Vec<u8> {
    let tag = tag(secret, &said, address, bound);
    [said, tag.to_vec()].concat()
}

fn tag(secret: &Secret, said: &[u8], address: IpAddr, bound: &[u8]) -> [u8; TAG_LEN] {
    let ip = match address {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    secret.token_tag(&[&ip[..], &[said.len() as u8], said, bound].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Instant = Instant::from_secs;

    fn id(byte: u8) -> ConnectionId {
        ConnectionId::new(&[byte; 8]).unwrap()
    }

    const V: Version = Version::V1;

    fn at(host: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, host], port).into()
    }

    #[test]
    fn a_retry_s_token_is_good_for_its_address_and_id_for_a_while() {
        let secret = Secret::new([7; 32]);
        let token = of_retry(&secret, V, at(1, 5), &id(1), &id(2), AT(100));
        let read = |from, ours, s| read(&secret, &token, V, from, &ours, AT(s));
        assert_eq!(read(at(1, 5), id(2), 115), Some(Shown::Retry(id(1))));
        assert_eq!(read(at(1, 5), id(2), 116), Some(Shown::Late), "too old");
        assert_eq!(read(at(1, 5), id(2), 99), Some(Shown::Late), "not issued yet");
        assert_eq!(read(at(1, 6), id(2), 101), None, "another port");
        assert_eq!(read(at(2, 5), id(2), 101), None, "another address");
        assert_eq!(read(at(1, 5), id(3), 101), None, "another ID");
    }

    #[test]
    fn a_token_for_later_is_good_from_any_port_of_its_address_for_a_day() {
        let secret = Secret::new([7; 32]);
        let token = for_later(&secret, V, at(1, 5).ip(), AT(100));
        let read = |from, s| read(&secret, &token, V, from, &id(9), AT(s));
        assert_eq!(read(at(1, 6), 100 + 24 * 3_600), Some(Shown::Before));
        assert_eq!(read(at(1, 6), 101 + 24 * 3_600), None, "too old");
        assert_eq!(read(at(2, 5), 101), None, "another address");
    }

    #[test]
    fn a_token_that_was_changed_anywhere_or_is_of_another_version_is_none() {
        let secret = Secret::new([7; 32]);
        let tokens = [
            of_retry(&secret, V, at(1, 5), &id(1), &id(2), AT(100)),
            for_later(&secret, V, at(1, 5).ip(), AT(100)),
        ];
        for token in tokens {
            let read = |token: &[u8]| read(&secret, token, V, at(1, 5), &id(2), AT(101));
            assert!(read(&token).is_some());
            for bit in 0..token.len() * 8 {
                let mut forged = token.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(&forged), None, "bit {bit}");
            }
            for len in 0..token.len() {
                assert_eq!(read(&token[..len]), None, "{len} bytes");
            }
        }
    }
}
