//! What travels with a super-packet: `struct virtio_net_hdr` [virtio 1.2 §5.1.6].
//!
//! ```text
//!  0        1         2          4          6             8               10
//!  +--------+---------+----------+----------+-------------+---------------+
//!  | flags  | gso_type| hdr_len  | gso_size | csum_start  | csum_offset   |
//!  +--------+---------+----------+----------+-------------+---------------+
//! ```
//! Numbers are in the byte order of the machine, as a TUN has it unless told otherwise.

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// How segments of a super-packet are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either, a datagram per segment (USO).
    Udp,
}

/// A packet stands for several: its payload is cut every `segment_bytes`, and each piece gets the
/// packet's headers with lengths, identification, sequence numbers and checksums adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gso {
    /// Which headers repeat.
    pub kind: GsoKind,
    /// Payload bytes of each segment but the last, which may be shorter. More than 0.
    pub segment_bytes: u16,
    /// Bytes of all headers before the payload. The kernel takes it for a hint.
    pub header_bytes: u16,
    /// The TCP header has CWR set, which belongs to the first segment only [RFC 3168 §6.1.2].
    pub cwr: bool,
}

/// What is known of a packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Checksum {
    /// The field holds the checksum. A receiver has to verify it.
    #[default]
    Complete,
    /// The field was verified, or the packet never left the machine. Sent, it means `Complete`.
    Verified,
    /// The field holds the sum of the pseudo-header only, not inverted; whoever puts the packet on
    /// a wire sums from `start` to the end and stores the result at `start + offset`. Such a
    /// packet comes from this machine: there is nothing to verify.
    Partial {
        /// Where the transport header begins, in bytes from the start of the packet.
        start: u16,
        /// Where the field is in it: 16 for TCP, 6 for UDP.
        offset: u16,
    },
}

/// What a packet leaves to whoever handles it next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Offload {
    /// `None`: one packet. A super-packet that is sent needs [`Checksum::Partial`].
    pub gso: Option<Gso>,
    /// State of the transport checksum.
    pub checksum: Checksum,
}

impl Offload {
    /// As the kernel reads it.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        if let Checksum::Partial { start, offset } = self.checksum {
            out[0] = NEEDS_CSUM;
            out[6..8].copy_from_slice(&start.to_ne_bytes());
            out[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        if let Some(gso) = self.gso {
            let kind = match gso.kind {
                GsoKind::TcpV4 => GSO_TCPV4,
                GsoKind::TcpV6 => GSO_TCPV6,
                GsoKind::Udp => GSO_UDP_L4,
            };
            out[1] = kind | if gso.cwr { GSO_ECN } else { 0 };
            out[2..4].copy_from_slice(&gso.header_bytes.to_ne_bytes());
            out[4..6].copy_from_slice(&gso.segment_bytes.to_ne_bytes());
        }
        out
    }

    /// From what the kernel wrote; `None` for a kind of segmentation that was not asked for.
    pub(crate) fn decode(header: &[u8; HEADER_BYTES]) -> Option<Offload> {
        let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let checksum = match header[0] {
            flags if flags & NEEDS_CSUM != 0 => {
                Checksum::Partial { start: field(6), offset: field(8) }
            }
            flags if flags & DATA_VALID != 0 => Checksum::Verified,
            _ => Checksum::Complete,
        };
        let kind = match header[1] & !GSO_ECN {
            0 => return Some(Offload { gso: None, checksum }),
            GSO_TCPV4 => GsoKind::TcpV4,
            GSO_TCPV6 => GsoKind::TcpV6,
            GSO_UDP_L4 => GsoKind::Udp,
            _ => return None,
        };
        let segment_bytes = field(4);
        let gso =
            Gso { kind, segment_bytes, header_bytes: field(2), cwr: header[1] & GSO_ECN != 0 };
        (segment_bytes > 0).then_some(Offload { gso: Some(gso), checksum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let checksums = [Checksum::Complete, Checksum::Partial { start: 20, offset: 16 }];
        let kinds = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::Udp];
        for checksum in checksums {
            let plain = Offload { gso: None, checksum };
            assert_eq!(Offload::decode(&plain.encode()), Some(plain));
            for (kind, cwr) in kinds.into_iter().zip([true, false, true]) {
                let gso = Some(Gso { kind, segment_bytes: 1_448, header_bytes: 52, cwr });
                let offload = Offload { gso, checksum };
                assert_eq!(Offload::decode(&offload.encode()), Some(offload));
            }
        }
    }

    #[test]
    fn every_header_is_read_or_refused_and_no_super_packet_has_empty_segments() {
        for flags in 0..=3 {
            for kind in 0..=u8::MAX {
                for size in [0, 1, 0xff] {
                    let header = [flags, kind, 1, 2, size, 0, 3, 4, 5, 6];
                    match Offload::decode(&header) {
                        Some(Offload { gso: Some(gso), .. }) => assert!(gso.segment_bytes > 0),
                        Some(_) => assert_eq!(kind & !GSO_ECN, 0),
                        None => assert!(size == 0 || !matches!(kind & !GSO_ECN, 1 | 4 | 5)),
                    }
                }
            }
        }
    }

    #[test]
    fn a_verified_checksum_is_told_from_one_to_verify() {
        let mut header = [0; HEADER_BYTES];
        assert_eq!(Offload::decode(&header).unwrap().checksum, Checksum::Complete);
        header[0] = DATA_VALID;
        assert_eq!(Offload::decode(&header).unwrap().checksum, Checksum::Verified);
    }
}
