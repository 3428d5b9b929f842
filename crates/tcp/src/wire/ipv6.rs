//! The IPv6 header [RFC 8200 §3] and the way through its extension headers [RFC 8200 §4].
//!
//! ```text
//! +-------+-----------+---+-------+-------------------------------+
//! |   6   |   DSCP    |ECN|              flow label               |
//! +-------+-----------+---+-------+---------------+---------------+
//! |        payload length         |  next header  |   hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                       source, 16 bytes                        |
//! +---------------------------------------------------------------+
//! |                     destination, 16 bytes                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! Hop-by-hop options (first only), destination options and spent routing headers are stepped
//! over, [`MAX_EXTENSIONS`] at most; fragments and routing headers with segments left are refused.

use core::net::Ipv6Addr;

use crate::wire::ip_error::IpError;
use tack_transport::Ecn;

/// Length of the header we write, bytes.
pub const HEADER_LEN: usize = 40;

/// Most extension headers followed: [RFC 8200 §4.1] lists at most seven in sensible order.
pub const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// A header by meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol of the payload, behind any extension headers.
    pub protocol: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Differentiated services codepoint, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Flow label, 20 bits [RFC 6437].
    pub flow_label: u32,
}

/// A received packet: header by value, payload borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// What lies behind the extension headers; link padding is cut off.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// Wrong version or lengths, a fragment, or extension headers that are malformed or too many.
    /// Jumbograms [RFC 2675] have a payload length of 0 and end up as an empty payload.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, IpError> {
        let Some((fixed, behind)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(IpError::Truncated { need: HEADER_LEN, have: bytes.len() });
        };
        let word = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        let version = fixed[0] >> 4;
        if version != 6 {
            return Err(IpError::Version { version });
        }
        let payload_len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let Some(payload) = behind.get(..payload_len) else {
            let total = HEADER_LEN + payload_len;
            return Err(IpError::TotalLength { total, have: bytes.len() });
        };
        let (protocol, payload) = skip_extensions(fixed[6], payload)?;
        let address = |i: usize| {
            let octets: [u8; 16] = fixed[i..i + 16].try_into().expect("16 bytes were taken");
            Ipv6Addr::from(octets)
        };
        let traffic_class = (word >> 20) as u8;
        let header = Header {
            src: address(8),
            dst: address(24),
            protocol,
            hop_limit: fixed[7],
            dscp: traffic_class >> 2,
            ecn: Ecn::from_bits(traffic_class),
            flow_label: word & 0x000f_ffff,
        };
        Ok(Packet { header, payload })
    }
}

impl Header {
    /// Appends the header of a packet with `payload_len` bytes behind it.
    ///
    /// # Errors
    /// The payload is longer than 65535 bytes; nothing is appended then.
    pub fn emit(&self, payload_len: usize, out: &mut Vec<u8>) -> Result<(), IpError> {
        let Ok(len) = u16::try_from(payload_len) else {
            let limit = usize::from(u16::MAX);
            return Err(IpError::TooLong { payload: payload_len, limit });
        };
        let traffic_class = u32::from(self.dscp << 2 | self.ecn.bits());
        let word = 6 << 28 | traffic_class << 20 | self.flow_label & 0x000f_ffff;
        let mut fixed = [0; HEADER_LEN];
        fixed[0..4].copy_from_slice(&word.to_be_bytes());
        fixed[4..6].copy_from_slice(&len.to_be_bytes());
        fixed[6] = self.protocol;
        fixed[7] = self.hop_limit;
        fixed[8..24].copy_from_slice(&self.src.octets());
        fixed[24..40].copy_from_slice(&self.dst.octets());
        out.extend_from_slice(&fixed);
        Ok(())
    }
}

/// Rewrites the payload length of a packet that [`Header::emit`] began and that grew since. Bytes
/// that are no header are left alone.
pub fn set_payload_len(packet: &mut [u8], len: u16) {
    if let Some(fixed) = packet.first_chunk_mut::<HEADER_LEN>() {
        fixed[4..6].copy_from_slice(&len.to_be_bytes());
    }
}

/// The upper-layer protocol and its bytes.
fn skip_extensions(first: u8, mut rest: &[u8]) -> Result<(u8, &[u8]), IpError> {
    let mut kind = first;
    for nth in 0..=MAX_EXTENSIONS {
        match kind {
            HOP_BY_HOP if nth > 0 => return Err(IpError::Extension { kind }),
            HOP_BY_HOP | ROUTING | DESTINATION => {}
            FRAGMENT => return Err(fragment(rest)),
            upper_layer => return Ok((upper_layer, rest)),
        }
        // Each starts with next header, and its length in 8-byte units past the first.
        let &[next, units, ref body @ ..] = rest else {
            return Err(IpError::Extension { kind });
        };
        // Segments left means: forward this. We are no router, and type 0 is banned [RFC 5095].
        if kind == ROUTING && body.get(1).is_none_or(|&left| left > 0) {
            return Err(IpError::Extension { kind });
        }
        let Some(behind) = rest.get((usize::from(units) + 1) * 8..) else {
            return Err(IpError::Extension { kind });
        };
        (kind, rest) = (next, behind);
    }
    Err(IpError::TooManyExtensions { limit: MAX_EXTENSIONS })
}

/// Deviation: atomic fragments (offset 0, none follow) are refused as well; nobody may send them
/// any more [RFC 8021].
fn fragment(rest: &[u8]) -> IpError {
    match *rest {
        [_, _, hi, lo, ..] => {
            let field = u16::from_be_bytes([hi, lo]);
            IpError::Fragment { offset: field & 0xfff8, more: field & 1 != 0 }
        }
        _ => IpError::Extension { kind: FRAGMENT },
    }
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
