//! Tokens of Retry packets [RFC 9000 §8.1.2]: who has one, has got a packet at its address.
//!
//! ```text
//! token = issued (8 bytes, ns) | original destination ID | tag of all that, address and new ID (16)
//! ```

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use tack_units::Instant;

use crate::secret::Secret;
use crate::wire::ConnectionId;

const ISSUED_LEN: usize = 8;
const TAG_LEN: usize = 16;

/// For a client at `address` whose first packet went to `original`, and whose next goes to `ours`.
pub(super) fn new(
    secret: &Secret,
    address: SocketAddr,
    original: &ConnectionId,
    ours: &ConnectionId,
    now: Instant,
) -> Vec<u8> {
    let mut token = now.as_nanos().to_be_bytes().to_vec();
    token.extend_from_slice(original.as_bytes());
    let tag = tag(secret, &token, address, ours);
    token.extend_from_slice(&tag);
    token
}

/// Where the first packet of a client went that shows `token`; `None`: it is not ours, not the
/// client's, or too old.
pub(super) fn original(
    secret: &Secret,
    token: &[u8],
    address: SocketAddr,
    ours: &ConnectionId,
    life: Duration,
    now: Instant,
) -> Option<ConnectionId> {
    let (said, shown) = token.split_at_checked(token.len().checked_sub(TAG_LEN)?)?;
    let differs = tag(secret, said, address, ours)
        .iter()
        .zip(shown)
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    if differs != 0 {
        return None;
    }
    let (issued, original) = said.split_at_checked(ISSUED_LEN)?;
    let issued = Instant::from_nanos(u64::from_be_bytes(issued.try_into().ok()?));
    let is_fresh = issued <= now && now.saturating_since(issued) <= life;
    ConnectionId::new(original).filter(|_| is_fresh)
}

fn tag(secret: &Secret, said: &[u8], address: SocketAddr, ours: &ConnectionId) -> [u8; TAG_LEN] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let port = address.port().to_be_bytes();
    secret.token_tag(&[&ip[..], &port, &[said.len() as u8], said, ours.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_address_for_a_while() {
        let secret = Secret::new([7; 32]);
        let id = |byte: u8| ConnectionId::new(&[byte; 8]).unwrap();
        let (here, there) = (([10, 0, 0, 1], 5).into(), ([10, 0, 0, 1], 6).into());
        let life = Duration::from_secs(10);
        let token = new(&secret, here, &id(1), &id(2), Instant::from_secs(100));
        let read = |token: &[u8], from, ours, s| {
            original(&secret, token, from, &ours, life, Instant::from_secs(s))
        };
        assert_eq!(read(&token, here, id(2), 110), Some(id(1)));
        assert_eq!(read(&token, here, id(2), 111), None, "too old");
        assert_eq!(read(&token, here, id(2), 99), None, "not issued yet");
        assert_eq!(read(&token, there, id(2), 101), None, "another address");
        assert_eq!(read(&token, here, id(3), 101), None, "another ID");
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&forged, here, id(2), 101), None, "bit {bit}");
        }
        for len in 0..token.len() {
            assert_eq!(read(&token[..len], here, id(2), 101), None, "{len} bytes");
        }
    }
}
