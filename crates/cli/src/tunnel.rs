//! `tack tunnel`: unmodified programs over TACK.
//!
//! ```text
//!  program -- TCP -- client == one TACK connection per TCP connection == server -- TCP -- target
//! ```
//!
//! TCP ends at both sides and what it carried travels as the bytes of one encrypted TACK stream:
//! never TCP inside TCP, and no stream waits for another one's lost packet. Connections to the
//! server are opened, authenticated and let in before anybody asks for them ([`pool`]), so that a
//! stream begins with its [opening](protocol::Open) and, where the program has spoken, its first
//! bytes, in one flight.
//!
//! What decides is plain state machines: [`protocol`], [`proxy`] (SOCKS5 and HTTP CONNECT),
//! [`pool`], [`allow`], [`datagram`]. The rest moves bytes.

pub mod allow;
pub mod client;
pub mod datagram;
pub mod egress;
pub mod forward;
#[cfg(target_os = "linux")]
pub mod intercept;
pub mod limits;
pub mod link;
pub mod message;
pub mod patrol;
pub mod pool;
pub mod protocol;
pub mod proxy;
#[cfg(target_os = "linux")]
pub mod routes;
pub mod server;
mod sockets;
pub mod stream;
pub mod streams;
pub mod target;
pub mod udp;

/// UDP port of `tack tunnel serve` unless told otherwise: one beside that of `tack recv`.
pub const DEFAULT_PORT: u16 = 8226;

/// Most streams at one end.
pub const MAX_STREAMS: usize = 16_384;

/// Lets this process have as many descriptors as it may: each stream takes one.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}

/// Descriptors that are kept for what is no stream: connecting anew, files that are read for it, who looks on.
const RESERVE: u64 = 128;

/// How many programs a client may take in. If they took all descriptors, none would be left to connect with, and
/// they would wait for ever.
fn places() -> usize {
    use rustix::process::{Resource, getrlimit};
    let all = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = all - RESERVE.min(all / 2);
    usize::try_from(left).map_or(MAX_STREAMS, |left| left.clamp(1, MAX_STREAMS))
}

/// Has everything read `bytes` that reads what strangers and programs send. For fuzzing; a test
/// runs it with seeded input.
///
/// # Panics
/// When something is not as promised.
pub fn fuzz(bytes: &[u8]) {
    protocol::fuzz(bytes);
    datagram::fuzz(bytes);
    crate::relay::incoming::fuzz(bytes);
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let mut handshake = proxy::Handshake::default();
    for piece in bytes.chunks(usize::from(size).max(1)) {
        handshake.handle(piece);
        loop {
            match handshake.poll() {
                Ok(proxy::Output::Send(_)) => {}
                Ok(proxy::Output::Wait) => break,
                Ok(proxy::Output::Wants(..)) => return,
                Err(refused) => return drop(refused.answer()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};

    #[test]
    fn random_and_nearly_right_bytes_are_read_or_refused() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(0xf022);
        let right: [&[u8]; 6] = [
            b"tkt\x02\x010123456789abcdef\x03\x0bexample.org\x01\xbb",
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x7f\x00\x00\x01\x00\x50",
            b"\x00\x00\x00\x00\x02ab\x01\x00\x00\x00\x00\x00\x00\x00\x09\x02\x03",
            b"\x00\x08\x01\x7f\x00\x00\x01\x00\x35x",
            b"\x09\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00",
            b"\x09CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
        ];
        for _ in 0..50_000 {
            let mut bytes = right[rng.random_range(0..right.len())].to_vec();
            match rng.random_range(0..3) {
                0 => rng.fill_bytes(&mut bytes),
                1 => bytes.truncate(rng.random_range(0..=bytes.len())),
                _ => {
                    for _ in 0..rng.random_range(0..3) {
                        let at = rng.random_range(0..bytes.len());
                        bytes[at] = rng.random();
                    }
                }
            }
            super::fuzz(&bytes);
        }
    }
}
