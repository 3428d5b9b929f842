//! What IPv4 and IPv6 have in common for a transport, and the choice between them.

use core::net::IpAddr;

use crate::wire::{ipv4, ipv6};

pub use crate::wire::ip_error::IpError;
pub use tack_transport::Ecn;

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
