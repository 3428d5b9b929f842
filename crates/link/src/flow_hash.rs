//! Which packets belong to one flow, as a router without state sees it.
//!
//! Where a packet has readable bytes its addresses, protocol and ports tell flows apart; open-loop
//! traffic has none and is told apart by its hosts. Fragments and unknown protocols go by their
//! addresses, as in Linux's flow dissector.

use crate::link::Packet;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A number that all packets of `packet`'s flow and direction share, and others hardly ever do.
/// `perturbation` makes which flows collide a matter of the seed [RFC 8290 §4.1.1].
pub(crate) fn flow_hash(packet: &Packet, perturbation: u64) -> u32 {
    let mut hash = Mixer(perturbation);
    hash.word(u64::from(packet.src) << 32 | u64::from(packet.dst));
    let b = packet.bytes.as_slice();
    match b.first().map(|version| version >> 4) {
        Some(4) if b.len() >= 20 => {
            hash.words(&b[12..20]);
            let header = usize::from(b[0] & 0x0f) * 4;
            let is_fragment = u16::from_be_bytes([b[6], b[7]]) & 0x3fff != 0;
            hash.transport(b[9], b.get(header..).filter(|_| !is_fragment && header >= 20));
        }
        Some(6) if b.len() >= 40 => {
            hash.words(&b[8..40]);
            hash.transport(b[6], b.get(40..));
        }
        _ => {}
    }
    hash.finish()
}

/// Multiply and fold, a word at a time (the finish is Vigna's splitmix64).
struct Mixer(u64);

impl Mixer {
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn words(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_be_bytes(*w)));
    }

    fn transport(&mut self, protocol: u8, payload: Option<&[u8]>) {
        self.word(u64::from(protocol));
        if let (TCP | UDP, Some([a, b, c, d, ..])) = (protocol, payload) {
            self.word(u64::from(u32::from_be_bytes([*a, *b, *c, *d])));
        }
    }

    fn finish(self) -> u32 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ip::build::{ipv4_tcp, ipv6_tcp};

    fn packet(src: u32, dst: u32, bytes: Vec<u8>) -> Packet {
        Packet { src, dst, ip_bytes: 1_500, bytes, ..Packet::default() }
    }

    #[test]
    fn ports_tell_flows_apart_and_nothing_else_in_a_segment_does() {
        let of = |b: Vec<u8>| flow_hash(&packet(1, 2, b), 7);
        for six in [false, true] {
            let wrap = |b: Vec<u8>| if six { ipv6_tcp(&b) } else { b };
            let one = of(wrap(ipv4_tcp(1, 0x10, 5, &[], b"data")));
            assert_eq!(one, of(wrap(ipv4_tcp(1, 0x18, 900, &[], &[]))));
            assert_ne!(one, of(wrap(ipv4_tcp(2, 0x10, 5, &[], b"data"))));
        }
        assert_ne!(of(ipv4_tcp(1, 0x10, 5, &[], &[])), of(Vec::new()), "open-loop traffic beside");
    }

    #[test]
    fn flows_and_their_way_back_spread_evenly() {
        let mut seen = [0u32; 64];
        let mut hashes = BTreeSet::new();
        for host in 0..64 {
            for port in 0..100 {
                for (src, dst) in [(0, host), (host, 0)] {
                    let hash = flow_hash(&packet(src, dst, ipv4_tcp(port, 0x10, 1, &[], &[])), 3);
                    hashes.insert(hash);
                    seen[(hash >> 26) as usize] += 1;
                }
            }
        }
        // 12 700 different flows (host 0 to itself counts once); 200 per bucket, five deviations.
        assert!(hashes.len() > 12_690, "{}", hashes.len());
        assert!(seen.iter().all(|n| (125..=275).contains(n)), "{seen:?}");
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = crate::draw::stream(5, 0);
        for _ in 0..20_000 {
            let mut bytes = ipv4_tcp(1, 0x10, 9, &[], b"payload");
            for _ in 0..crate::draw::below(&mut rng, 8) {
                let at = crate::draw::below(&mut rng, bytes.len() as u64) as usize;
                bytes[at] = crate::draw::below(&mut rng, 256) as u8;
            }
            bytes.truncate(crate::draw::below(&mut rng, 50) as usize);
            let _ = flow_hash(&packet(0, 1, bytes), 0);
        }
    }
}
