//! The IPv4 header [RFC 791 §3.1].
//!
//! ```text
//! +-------+-------+-----------+---+-------------------------------+
//! |   4   | IHL   |   DSCP    |ECN|         total length          |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |        identification         |0 D M|    fragment offset      |
//! +---------------+---------------+-----+-------------------------+
//! |      TTL      |   protocol    |        header checksum        |
//! +---------------+---------------+-------------------------------+
//! |                            source                             |
//! +---------------------------------------------------------------+
//! |                          destination                          |
//! +---------------------------------------------------------------+
//! ```
//!
//! Options are skipped on reading (they never reach the transport) and never written.

use core::net::Ipv4Addr;

use crate::wire::checksum::{checksum, header_checksum};
use crate::wire::ip_error::IpError;
use tack_transport::Ecn;

/// Length of the header we write, bytes.
pub const HEADER_LEN: usize = 20;

const MAX_PAYLOAD: usize = u16::MAX as usize - HEADER_LEN;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// A header by meaning; length, checksum and fragmentation are derived or fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services codepoint, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Tells fragments of different packets apart; means nothing with `dont_fragment`
    /// [RFC 6864 §4.1].
    pub identification: u16,
    /// DF: routers answer with ICMP instead of fragmenting [RFC 1191 §2].
    pub dont_fragment: bool,
}

/// A received packet: header by value, payload borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// What the total length says is there; link padding behind it is cut off.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// Wrong version, lengths or checksum, or a fragment.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, IpError> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(IpError::Truncated { need: HEADER_LEN, have: bytes.len() });
        };
        let half = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
        let version = fixed[0] >> 4;
        if version != 4 {
            return Err(IpError::Version { version });
        }
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let total = usize::from(half(2));
        if header_len < HEADER_LEN || header_len > total {
            return Err(IpError::HeaderLength { header: header_len, total });
        }
        if total > bytes.len() {
            return Err(IpError::TotalLength { total, have: bytes.len() });
        }
        // Nearly always there are no options: a length known beforehand is summed without a loop.
        let sum = match header_len {
            HEADER_LEN => header_checksum(fixed),
            _ => checksum(&bytes[..header_len]),
        };
        if sum != 0 {
            return Err(IpError::Checksum { found: half(10) });
        }
        let fragment = half(6);
        let (offset, more) = ((fragment & OFFSET_MASK) << 3, fragment & MORE_FRAGMENTS != 0);
        if offset != 0 || more {
            return Err(IpError::Fragment { offset, more });
        }
        let header = Header {
            src: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
            dst: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
            protocol: fixed[9],
            ttl: fixed[8],
            dscp: fixed[1] >> 2,
            ecn: Ecn::from_bits(fixed[1]),
            identification: half(4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
        };
        Ok(Packet { header, payload: &bytes[header_len..total] })
    }
}

impl Header {
    /// Appends the header of a packet with `payload_len` bytes behind it, checksum included.
    ///
    /// # Errors
    /// The packet would be longer than 65535 bytes; nothing is appended then.
    #[inline]
    pub fn emit(&self, payload_len: usize, out: &mut Vec<u8>) -> Result<(), IpError> {
        if payload_len > MAX_PAYLOAD {
            return Err(IpError::TooLong { payload: payload_len, limit: MAX_PAYLOAD });
        }
        let mut fixed = [0; HEADER_LEN];
        fixed[0] = 0x45;
        fixed[1] = self.dscp << 2 | self.ecn.bits();
        fixed[2..4].copy_from_slice(&((HEADER_LEN + payload_len) as u16).to_be_bytes());
        fixed[4..6].copy_from_slice(&self.identification.to_be_bytes());
        if self.dont_fragment {
            fixed[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        }
        fixed[8] = self.ttl;
        fixed[9] = self.protocol;
        fixed[12..16].copy_from_slice(&self.src.octets());
        fixed[16..20].copy_from_slice(&self.dst.octets());
        let sum = header_checksum(&fixed);
        fixed[10..12].copy_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(&fixed);
        Ok(())
    }
}

/// Rewrites the total length of a packet that [`Header::emit`] began and that grew since, and the
/// checksum with it. Bytes that are no header are left alone.
pub fn set_total_len(packet: &mut [u8], total: u16) {
    let Some(fixed) = packet.first_chunk_mut::<HEADER_LEN>() else { return };
    fixed[2..4].copy_from_slice(&total.to_be_bytes());
    fixed[10..12].fill(0);
    let sum = header_checksum(fixed);
    fixed[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
#[path = "ipv4_tests.rs"]
mod tests;
