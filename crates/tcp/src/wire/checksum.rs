//! The Internet checksum [RFC 1071] and the pseudo-headers TCP puts under it
//! [RFC 9293 §3.1, RFC 8200 §8.1].
//!
//! The one's-complement sum does not care for byte order nor for the width of the words summed,
//! so 64-bit words are added in the machine's order to 128 bits and folded at the end.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

/// Where the checksum sits in a TCP header.
const TCP_FIELD: core::ops::Range<usize> = TCP_OFFSET..TCP_OFFSET + 2;
/// Where it begins, in bytes from the start of the segment.
pub const TCP_OFFSET: usize = 16;

/// A one's-complement sum under construction, over any number of pieces of any length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Words in the machine's order; below 2^32 of them, so that it cannot overflow.
    total: u64,
    /// An odd number of bytes went in: the next piece is shifted by one byte.
    odd: bool,
}

impl Sum {
    /// The sum over nothing.
    pub const fn new() -> Sum {
        Sum { total: 0, odd: false }
    }

    /// Adds the next bytes of what is summed.
    pub fn add(&mut self, bytes: &[u8]) {
        let folded = u64::from(fold(sum_words(bytes)));
        // A piece at an odd place contributes its sum with the bytes swapped [RFC 1071 §2(B)].
        self.total += if self.odd { u64::from((folded as u16).swap_bytes()) } else { folded };
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// The checksum field that makes the whole sum up: the complement, in host order.
    pub fn finish(self) -> u16 {
        !u16::from_be(fold(self.total))
    }
}

/// The checksum of `bytes`, in host order; 0 when a correct checksum is among them.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.finish()
}

/// The checksum of an IPv4 header without options, in host order, as [`checksum`] has it. With each
/// packet this is wanted twice, and of so few words a loop is most of the work.
#[inline]
pub fn header_checksum(header: &[u8; 20]) -> u16 {
    let word = |bytes: &[u8; 4]| u64::from(u32::from_ne_bytes(*bytes));
    Sum { total: header.as_chunks().0.iter().map(word).sum(), odd: false }.finish()
}

/// The pseudo-header of IPv4 for an upper-layer packet of `len` bytes.
pub fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    let address = |ip: Ipv4Addr| u64::from(u32::from_ne_bytes(ip.octets()));
    let half = |value: u16| u64::from(value.to_be());
    let total = address(src) + address(dst) + half(protocol.into()) + half(len);
    Sum { total, odd: false }
}

/// The pseudo-header of IPv6 for an upper-layer packet of `len` bytes.
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    let mut bytes = [0; 40];
    bytes[0..16].copy_from_slice(&src.octets());
    bytes[16..32].copy_from_slice(&dst.octets());
    bytes[32..36].copy_from_slice(&len.to_be_bytes());
    bytes[39] = protocol;
    let mut sum = Sum::new();
    sum.add(&bytes);
    sum
}

/// The checksum of a TCP segment given in two pieces, header (checksum field zero) and payload.
/// Addresses of two families are both read as IPv6, IPv4 mapped into it.
pub fn tcp_checksum(src: IpAddr, dst: IpAddr, header: &[u8], payload: &[u8]) -> u16 {
    let len = header.len() + payload.len();
    let mut sum = pseudo_header(src, dst, PROTOCOL_TCP, len);
    sum.add(header);
    sum.add(payload);
    sum.finish()
}

/// The pseudo-header of either family for an upper-layer packet of `len` bytes.
/// Addresses of two families are both read as IPv6, IPv4 mapped into it.
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Sum {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_header_v4(src, dst, protocol, len as u16),
        (src, dst) => pseudo_header_v6(to_v6(src), to_v6(dst), protocol, len as u32),
    }
}

/// Writes into a TCP segment of `len` bytes what checksum offload starts from: the sum over the
/// pseudo-header, not complemented. `header` is its beginning; one too short is left alone.
pub fn fill_tcp_partial(src: IpAddr, dst: IpAddr, len: usize, header: &mut [u8]) {
    let Some(field) = header.get_mut(TCP_FIELD) else { return };
    let sum = !pseudo_header(src, dst, PROTOCOL_TCP, len).finish();
    field.copy_from_slice(&sum.to_be_bytes());
}

/// Writes the checksum into a whole TCP segment; one shorter than a header is left alone.
pub fn fill_tcp(src: IpAddr, dst: IpAddr, segment: &mut [u8]) {
    let Some(field) = segment.get_mut(TCP_FIELD) else { return };
    field.fill(0);
    let sum = tcp_checksum(src, dst, segment, &[]);
    segment[TCP_FIELD].copy_from_slice(&sum.to_be_bytes());
}

/// The checksum of a received TCP segment is right.
pub fn tcp_is_valid(src: IpAddr, dst: IpAddr, segment: &[u8]) -> bool {
    tcp_checksum(src, dst, segment, &[]) == 0
}

fn to_v6(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Sums 64-bit words in the machine's order, the tail padded with zeros, to one of fewer bits.
fn sum_words(bytes: &[u8]) -> u64 {
    // Four sums that do not wait for one another.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [0; 4];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks().0) {
            *sum += word_of(word);
        }
    }
    let (words, tail) = rest.as_chunks();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let whole: u128 = sums.iter().sum::<u128>() + words.iter().map(word_of).sum::<u128>();
    let sum = whole + word_of(&last);
    let (low, carries) = (sum as u64, (sum >> 64) as u64);
    (low & 0xffff_ffff) + (low >> 32) + carries
}

fn word_of(bytes: &[u8; 8]) -> u128 {
    u128::from(u64::from_ne_bytes(*bytes))
}

/// Brings a sum of words down to 16 bits, carries added back.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Word by word as [RFC 1071 §1] describes it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn a_real_ipv4_header_sums_to_zero() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0);
    }

    #[test]
    fn what_is_summed_without_a_loop_is_as_with_one() {
        proptest!(|(header: [u8; 20], src: [u8; 4], dst: [u8; 4], protocol: u8, len: u16)| {
            prop_assert_eq!(header_checksum(&header), checksum(&header));
            let mut bytes = [src, dst, [0; 4]].concat();
            bytes[9] = protocol;
            bytes[10..].copy_from_slice(&len.to_be_bytes());
            let sum = pseudo_header_v4(src.into(), dst.into(), protocol, len);
            prop_assert_eq!(sum.finish(), checksum(&bytes));
        });
        assert_eq!(header_checksum(&[0; 20]), checksum(&[0; 20]));
        assert_eq!(header_checksum(&[0xff; 20]), checksum(&[0xff; 20]));
    }

    #[test]
    fn a_flipped_bit_is_seen_in_either_family() {
        let pairs: [(IpAddr, IpAddr); 2] = [
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()),
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).into()),
        ];
        for (src, dst) in pairs {
            let mut segment: Vec<u8> = (0..61).collect();
            fill_tcp(src, dst, &mut segment);
            assert!(tcp_is_valid(src, dst, &segment));
            assert!(tcp_is_valid(dst, src, &segment), "the pseudo-header is symmetric");
            for bit in 0..segment.len() * 8 {
                segment[bit / 8] ^= 1 << (bit % 8);
                assert!(!tcp_is_valid(src, dst, &segment), "bit {bit}");
                segment[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_partial_checksum_is_completed_by_summing_from_the_tcp_header_on() {
        // What an interface does: one's-complement sum over the segment as it is, complemented.
        let pairs: [(IpAddr, IpAddr); 2] = [
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()),
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).into()),
        ];
        for (src, dst) in pairs {
            let mut segment: Vec<u8> = (0..61).collect();
            let len = segment.len();
            fill_tcp_partial(src, dst, len, &mut segment[..20]);
            let sum = checksum(&segment);
            segment[TCP_FIELD].copy_from_slice(&sum.to_be_bytes());
            assert!(tcp_is_valid(src, dst, &segment));
        }
    }

    #[test]
    fn a_segment_too_short_for_a_checksum_is_left_alone() {
        let addr = Ipv4Addr::LOCALHOST.into();
        let mut short = [1, 2, 3];
        fill_tcp(addr, addr, &mut short);
        assert_eq!(short, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_naive_sum(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..4),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut sum = Sum::new();
            for pair in at.windows(2) {
                sum.add(&bytes[pair[0]..pair[1]]);
            }
            // 0 and 0xffff are the same number in one's complement; only all-zero input shows it.
            prop_assert_eq!(sum.finish(), naive(&bytes));
        }
    }
}
