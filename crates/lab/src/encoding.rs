//! Acknowledgments of other transports, laid out field by field and counted by the byte
//! [Custura et al. Table II]: over IPv4, without Ethernet.
//!
//! ```text
//! TCP      IP 20, TCP 20; timestamps 12, SACK 2 + 8 a block, padded to words   [RFC 7323, 2018]
//! SCTP     IP 20, common header 12, SACK chunk 16; gap block 4                 [RFC 4960 §3.3.4]
//! DCCP     IP 20, generic header 12, acknowledgment 4; long numbers 16 and 8;
//!          Ack Vector 2 + 1 a run, padded to words                             [RFC 4340 §5, §11.4]
//! RTCP XR  IP 20, UDP 8, header and SSRC 8, loss RLE block 12 + 2 a chunk      [RFC 3611 §4.1]
//! QUIC     IP 20, UDP 8, flags 1, connection ID, packet number 1 to 4, ACK frame, tag 16;
//!          frame: type 1, largest, delay, count, first range, 2 a further range, each a varint
//!                                                                              [RFC 9000 §17.3, §19.3]
//! ```

use std::collections::BTreeMap;

const IPV4: usize = 20;
const UDP: usize = 8;
const AEAD_TAG: usize = 16;
/// Data packets per acknowledgment while nothing is missing; while something is, each has its own.
const RATIO: f64 = 2.0;

fn words(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

fn tcp(timestamps: bool, sack_blocks: usize) -> usize {
    let sack = if sack_blocks > 0 { 2 + 8 * sack_blocks } else { 0 };
    // Both options begin behind two bytes of padding, as every stack sends them.
    let options = if timestamps { 12 } else { 0 } + words(sack);
    IPV4 + 20 + options
}

fn sctp(gap_blocks: usize) -> usize {
    IPV4 + 12 + 16 + 4 * gap_blocks
}

/// `runs` of the Ack Vector: an isolated loss makes three, what came after, itself, what came
/// before.
fn dccp(long_numbers: bool, runs: usize) -> usize {
    let header = if long_numbers { 16 + 8 } else { 12 + 4 };
    let vector = if runs > 0 { words(2 + runs) } else { 0 };
    IPV4 + header + vector
}

/// `chunks` of two bytes: run lengths, or fifteen packets bit by bit.
fn rtcp_xr(chunks: usize) -> usize {
    IPV4 + UDP + 8 + 12 + words(2 * chunks)
}

/// Bytes of a QUIC integer [RFC 9000 §16].
fn varint(value: u64) -> usize {
    match value {
        0..64 => 1,
        64..16_384 => 2,
        16_384..1_073_741_824 => 4,
        _ => 8,
    }
}

/// `largest` packet acknowledged `delay` units after it came, `further` ranges of some packets.
fn quic(
    connection_id: usize,
    packet_number: usize,
    largest: u64,
    delay: u64,
    further: u64,
) -> usize {
    let ranges = usize::try_from(further).unwrap_or(usize::MAX).saturating_mul(2);
    let frame = 1 + varint(largest) + varint(delay) + varint(further) + 1 + ranges;
    IPV4 + UDP + 1 + connection_id + packet_number + frame + AEAD_TAG
}

/// Bytes of an acknowledgment and of them per data packet, `KIND.NAME`.
pub(crate) fn figures() -> BTreeMap<String, f64> {
    let kinds = [
        ("TCP", tcp(false, 0), RATIO),
        ("TCP with timestamps", tcp(true, 0), RATIO),
        ("TCP, a hole", tcp(false, 1), 1.0),
        ("TCP, most holes", tcp(true, 3), 1.0),
        ("SCTP", sctp(0), RATIO),
        ("SCTP, a hole", sctp(1), 1.0),
        ("DCCP", dccp(false, 0), RATIO),
        ("DCCP with long numbers", dccp(true, 0), RATIO),
        ("DCCP, a hole", dccp(false, 3), 1.0),
        ("RTCP XR", rtcp_xr(1), RATIO),
        ("RTCP XR, a hole", rtcp_xr(3), RATIO),
        ("QUIC", quic(0, 1, 50, 50, 0), RATIO),
        ("QUIC with a long ID", quic(20, 1, 5_000, 50, 0), RATIO),
        ("QUIC, a hole", quic(0, 1, 50, 50, 1), 1.0),
        ("QUIC of a long transfer", quic(8, 2, 20_000, 5_000, 0), RATIO),
    ];
    let each = kinds.into_iter().flat_map(|(kind, bytes, ratio)| {
        let bytes = bytes as f64;
        let per_packet = bytes / ratio;
        [("bytes_per_ack", bytes), ("ack_bytes_per_packet", per_packet)]
            .map(|(name, value)| (format!("{kind}.{name}"), value))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specifications_examples() {
        // [RFC 2018 §3]: three blocks beside timestamps fill all options there can be.
        assert_eq!(tcp(true, 3) - tcp(false, 0), 40);
        // [RFC 9000 §A.1]: 37 takes a byte, 15 293 two, 494 878 333 four.
        assert_eq!([37, 15_293, 494_878_333, 1 << 30].map(varint), [1, 2, 4, 8]);
        // [Custura et al. §V]: 51 bytes, and 2 more for each range.
        assert_eq!((quic(0, 1, 1, 1, 0), quic(0, 1, 1, 1, 1)), (51, 53));
    }

    #[test]
    fn a_hole_makes_every_acknowledgment_longer() {
        let all = figures();
        for kind in ["TCP", "SCTP", "DCCP", "RTCP XR", "QUIC"] {
            let bytes = |name: &str| all[&format!("{name}.bytes_per_ack")];
            assert!(bytes(&format!("{kind}, a hole")) > bytes(kind), "{kind}");
        }
    }
}
