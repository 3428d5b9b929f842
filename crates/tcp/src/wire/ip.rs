//! What IPv4 and IPv6 have in common for a transport, and the choice between them.

use core::net::IpAddr;

use crate::wire::{ipv4, ipv6};

pub use tack_transport::Ecn;

/// Why bytes are not an IP packet we read, or a packet cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IpError {
    /// Shorter than the fixed header.
    #[error("{have} bytes, but the header has {need}")]
    Truncated {
        /// Bytes of the fixed header.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Neither 4 nor 6, or not the one asked for.
    #[error("IP version {version}")]
    Version {
        /// The version found.
        version: u8,
    },
    /// The header length is below the fixed header or past the total length.
    #[error("header of {header} bytes in a packet of {total}")]
    HeaderLength {
        /// Bytes of header claimed.
        header: usize,
        /// Bytes of packet claimed.
        total: usize,
    },
    /// The total length is more than the bytes there: the packet was cut short.
    #[error("total length {total}, but {have} bytes are there")]
    TotalLength {
        /// Bytes claimed.
        total: usize,
        /// Bytes there.
        have: usize,
    },
    /// The header checksum is wrong.
    #[error("header checksum {found:#06x} is wrong")]
    Checksum {
        /// The field as found.
        found: u16,
    },
    /// A fragment. We send with path MTU discovery and reassemble nothing: fragments are an
    /// attacker's way to make a receiver hold memory.
    #[error("a fragment at offset {offset}, {}", if *more { "more follow" } else { "the last" })]
    Fragment {
        /// Its offset in bytes.
        offset: u16,
        /// More fragments follow.
        more: bool,
    },
    /// More extension headers than any honest packet has.
    #[error("more than {limit} extension headers")]
    TooManyExtensions {
        /// The bound.
        limit: usize,
    },
    /// An extension header that runs past the end, is out of place, or source-routes.
    #[error("extension header {kind} is malformed, misplaced or refused")]
    Extension {
        /// Its protocol number.
        kind: u8,
    },
    /// What is to be sent does not fit a packet.
    #[error("{payload} bytes do not fit an IP packet (at most {limit})")]
    TooLong {
        /// Bytes to be sent.
        payload: usize,
        /// Most bytes behind the header.
        limit: usize,
    },
}

/// A received packet of either version: what a transport needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// TTL or hop limit left.
    pub hop_limit: u8,
    /// Differentiated services codepoint, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// The transport's bytes, link padding cut off.
    pub payload: &'a [u8],
}

/// The header of a packet to be sent, of the version its addresses say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Differentiated services codepoint, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// IPv6's flow label, 20 bits.
    pub flow_label: u32,
}

impl IpHeader {
    /// Appends the header of a packet with `payload_len` bytes behind it, never to be fragmented.
    ///
    /// # Errors
    /// The packet would be too long, or the addresses are of two families.
    pub fn emit(&self, payload_len: usize, out: &mut Vec<u8>) -> Result<(), IpError> {
        let IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label } = *self;
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // An atomic datagram's identification means nothing [RFC 6864 §4.1].
                let (ttl, identification, dont_fragment) = (hop_limit, 0, true);
                ipv4::Header { src, dst, protocol, ttl, dscp, ecn, identification, dont_fragment }
                    .emit(payload_len, out)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ipv6::Header { src, dst, protocol, hop_limit, dscp, ecn, flow_label }
                    .emit(payload_len, out)
            }
            (IpAddr::V4(_), _) => Err(IpError::Version { version: 6 }),
            (IpAddr::V6(_), _) => Err(IpError::Version { version: 4 }),
        }
    }
}

impl<'a> IpPacket<'a> {
    /// Reads a packet of the version its first nibble says.
    ///
    /// # Errors
    /// As [`ipv4::Packet::parse`] and [`ipv6::Packet::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<IpPacket<'a>, IpError> {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => {
                let ipv4::Packet { header, payload } = ipv4::Packet::parse(bytes)?;
                Ok(IpPacket {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    protocol: header.protocol,
                    hop_limit: header.ttl,
                    dscp: header.dscp,
                    ecn: header.ecn,
                    payload,
                })
            }
            Some(6) => {
                let ipv6::Packet { header, payload } = ipv6::Packet::parse(bytes)?;
                Ok(IpPacket {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    protocol: header.protocol,
                    hop_limit: header.hop_limit,
                    dscp: header.dscp,
                    ecn: header.ecn,
                    payload,
                })
            }
            Some(version) => Err(IpError::Version { version }),
            None => Err(IpError::Truncated { need: ipv4::HEADER_LEN, have: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_is_its_two_bits() {
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
        }
    }

    #[test]
    fn another_version_and_nothing_at_all_are_refused() {
        assert_eq!(IpPacket::parse(&[0x50; 40]), Err(IpError::Version { version: 5 }));
        assert_eq!(IpPacket::parse(&[]), Err(IpError::Truncated { need: 20, have: 0 }));
    }
}
