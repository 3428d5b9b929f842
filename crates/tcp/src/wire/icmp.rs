//! ICMP for IPv4 [RFC 792] and IPv6 [RFC 4443], as far as a TCP host needs it.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |     type      |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |  echo: identifier, sequence; too big: MTU (v6), 0 and MTU (v4) |
//! +---------------------------------------------------------------+
//! |  echo: data; errors: the packet it is about, from its IP      |
//! |  header on, at least 8 bytes behind that header               |
//! +---------------------------------------------------------------+
//! ```
//!
//! What quotes anything but the first bytes of a TCP segment is no news for this host. A quoted
//! packet's checksums are not looked at: routers changed its TTL and quote only part of it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::seq::SeqNum;
use crate::wire::checksum::{PROTOCOL_TCP, Sum, pseudo_header};
use crate::wire::{ipv4, ipv6};

/// Protocol number of ICMP for IPv4.
pub const PROTOCOL_ICMPV4: u8 = 1;
/// Protocol number of ICMP for IPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// Type, code, checksum and four bytes more.
pub const HEADER_LEN: usize = 8;

/// What the network tells of a path or an end, other than that a packet was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No route there.
    #[error("network unreachable")]
    NetworkUnreachable,
    /// The last router does not find the host.
    #[error("host unreachable")]
    HostUnreachable,
    /// The host speaks no TCP.
    #[error("protocol unreachable")]
    ProtocolUnreachable,
    /// Nobody listens, says a host or a firewall for it.
    #[error("port unreachable")]
    PortUnreachable,
    /// A firewall says no.
    #[error("communication administratively prohibited")]
    Prohibited,
    /// TTL or hop limit ran out on the way, or a fragment was missing.
    #[error("time exceeded in transit")]
    TimeExceeded,
    /// Somebody did not understand the header.
    #[error("parameter problem")]
    ParameterProblem,
}

impl PathError {
    /// It will not go away by itself: codes 2 and 3 of [RFC 1122 §4.2.3.9], port unreachable of
    /// IPv6 [RFC 5461 §2.2], and administrative prohibition of both.
    ///
    /// Deviation: [RFC 1122 §3.2.2.1] takes prohibition for a matter of routing. What a packet
    /// filter refuses today it refuses at the next try, and systems treat it so.
    pub fn is_hard(self) -> bool {
        matches!(
            self,
            PathError::ProtocolUnreachable | PathError::PortUnreachable | PathError::Prohibited
        )
    }
}

/// What an ICMP error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The packet was longer than the next link takes, and may not be fragmented.
    TooBig {
        /// MTU of that link in bytes; `None` from routers older than [RFC 1191].
        mtu: Option<u32>,
    },
    /// Anything else of meaning.
    Failed(PathError),
    /// Source quench: must be ignored [RFC 6633 §4].
    Quench,
}

/// The packet an error is about, if it began a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Its source: one of our addresses, if we sent it.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// Length in bytes, IP header included, as that header says.
    pub total_len: usize,
}

/// A message by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp<'a> {
    /// "Are you there?": identifier, sequence number and data, which the answer repeats.
    EchoRequest(&'a [u8]),
    /// An error about a packet with TCP in it.
    Error(Report, Quote),
    /// An error about something else, or about too little of it to tell.
    ForeignError,
    /// Neighbours, routers, groups, echo replies, timestamps, redirects: not for a TCP host.
    Other,
}

/// Why bytes are not an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IcmpError {
    /// Shorter than its header.
    #[error("{have} bytes, but an ICMP header has 8")]
    Truncated {
        /// Bytes there.
        have: usize,
    },
    /// The checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
}

impl<'a> Icmp<'a> {
    /// Reads the payload of a packet from `src` to `dst`. `checksum_valid`: it need not be looked
    /// at.
    ///
    /// # Errors
    /// Too short for a header, or the checksum is wrong.
    pub fn parse(
        src: IpAddr,
        dst: IpAddr,
        bytes: &'a [u8],
        checksum_valid: bool,
    ) -> Result<Icmp<'a>, IcmpError> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(IcmpError::Truncated { have: bytes.len() });
        };
        if !checksum_valid && sum(src, dst, bytes) != 0 {
            return Err(IcmpError::Checksum);
        }
        let &[kind, code, _, _, ref rest @ ..] = header;
        let read =
            if src.is_ipv4() { read_v4(kind, code, *rest) } else { read_v6(kind, code, *rest) };
        Ok(match read {
            Meaning::EchoRequest => Icmp::EchoRequest(&bytes[4..]),
            Meaning::Error(report) => {
                quote(body, src.is_ipv6()).map_or(Icmp::ForeignError, |q| Icmp::Error(report, q))
            }
            Meaning::Other => Icmp::Other,
        })
    }
}

enum Meaning {
    EchoRequest,
    Error(Report),
    Other,
}

fn read_v4(kind: u8, code: u8, rest: [u8; 4]) -> Meaning {
    use PathError::*;
    let mtu = u32::from(u16::from_be_bytes([rest[2], rest[3]]));
    let report = match (kind, code) {
        (8, 0) => return Meaning::EchoRequest,
        (3, 4) => Report::TooBig { mtu: (mtu > 0).then_some(mtu) },
        (3, 2) => Report::Failed(ProtocolUnreachable),
        (3, 3) => Report::Failed(PortUnreachable),
        (3, 9 | 10 | 13..=15) => Report::Failed(Prohibited),
        (3, 0 | 6 | 11) => Report::Failed(NetworkUnreachable),
        (3, _) => Report::Failed(HostUnreachable),
        (4, _) => Report::Quench,
        (11, _) => Report::Failed(TimeExceeded),
        (12, _) => Report::Failed(ParameterProblem),
        _ => return Meaning::Other,
    };
    Meaning::Error(report)
}

fn read_v6(kind: u8, code: u8, rest: [u8; 4]) -> Meaning {
    use PathError::*;
    let report = match (kind, code) {
        (128, 0) => return Meaning::EchoRequest,
        (2, _) => Report::TooBig { mtu: Some(u32::from_be_bytes(rest)) },
        (1, 1 | 5 | 6) => Report::Failed(Prohibited),
        (1, 3) => Report::Failed(HostUnreachable),
        (1, 4) => Report::Failed(PortUnreachable),
        (1, _) => Report::Failed(NetworkUnreachable),
        (3, _) => Report::Failed(TimeExceeded),
        // An unknown next header is TCP not understood [RFC 4443 §3.4].
        (4, 1) => Report::Failed(ProtocolUnreachable),
        (4, _) => Report::Failed(ParameterProblem),
        _ => return Meaning::Other,
    };
    Meaning::Error(report)
}

/// The beginning of a TCP segment in a quoted packet. We send no options and no extension headers,
/// but a router on the way may have added IPv4 options.
fn quote(bytes: &[u8], ipv6: bool) -> Option<Quote> {
    let (src, dst, total_len, tcp): (IpAddr, IpAddr, usize, &[u8]) = if ipv6 {
        let (fixed, tcp) = bytes.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
        let address = |i: usize| -> Option<Ipv6Addr> {
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(&fixed[i..i + 16]).ok()?))
        };
        if fixed[0] >> 4 != 6 || fixed[6] != PROTOCOL_TCP {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        (address(8)?.into(), address(24)?.into(), ipv6::HEADER_LEN + len, tcp)
    } else {
        let fixed = bytes.first_chunk::<{ ipv4::HEADER_LEN }>()?;
        let header_len = usize::from(fixed[0] & 15) * 4;
        let later_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
        if fixed[0] >> 4 != 4
            || fixed[9] != PROTOCOL_TCP
            || later_fragment
            || header_len < ipv4::HEADER_LEN
        {
            return None;
        }
        let src = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
        let dst = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
        let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        (src.into(), dst.into(), len, bytes.get(header_len..)?)
    };
    let &[a, b, c, d, s0, s1, s2, s3] = tcp.first_chunk::<8>()?;
    Some(Quote {
        src,
        dst,
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        seq: SeqNum(u32::from_be_bytes([s0, s1, s2, s3])),
        total_len,
    })
}

/// 0 when a correct checksum is among `message`.
fn sum(src: IpAddr, dst: IpAddr, message: &[u8]) -> u16 {
    let mut sum = match src {
        IpAddr::V4(_) => Sum::new(),
        IpAddr::V6(_) => pseudo_header(src, dst, PROTOCOL_ICMPV6, message.len()),
    };
    sum.add(message);
    sum.finish()
}

/// Appends an ICMP message from `src` to `dst`: type, code, and everything behind the checksum.
fn emit(src: IpAddr, dst: IpAddr, kind: u8, code: u8, rest: [&[u8]; 2], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(rest[0]);
    out.extend_from_slice(rest[1]);
    let sum = sum(src, dst, &out[start..]);
    out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Appends the answer to an echo request with `rest` behind its checksum.
pub fn emit_echo_reply(src: IpAddr, dst: IpAddr, rest: &[u8], out: &mut Vec<u8>) {
    let kind = if src.is_ipv4() { 0 } else { 129 };
    emit(src, dst, kind, 0, [rest, &[]], out);
}

/// Appends an echo request with `rest` (identifier, sequence number, data) behind its checksum.
pub fn emit_echo_request(src: IpAddr, dst: IpAddr, rest: &[u8], out: &mut Vec<u8>) {
    let kind = if src.is_ipv4() { 8 } else { 128 };
    emit(src, dst, kind, 0, [rest, &[]], out);
}

/// Appends an error about `packet`, of which as much is quoted as a router may: the IP header and
/// 8 bytes over IPv4 [RFC 792], what fits the least MTU over IPv6 [RFC 4443 §2.4(c)]. For
/// emulated routers; a host on TCP sends none.
pub fn emit_error(src: IpAddr, dst: IpAddr, report: Report, packet: &[u8], out: &mut Vec<u8>) {
    let ipv6 = src.is_ipv6();
    let (kind, code) = if ipv6 { codes_v6(report) } else { codes_v4(report) };
    let mut rest = [0; 4];
    if let Report::TooBig { mtu } = report {
        let mtu = mtu.unwrap_or(0);
        // The upper half is not IPv4's to use.
        rest = if ipv6 { mtu } else { mtu.min(u32::from(u16::MAX)) }.to_be_bytes();
    }
    let most = if ipv6 { 1_280 - ipv6::HEADER_LEN - HEADER_LEN } else { ipv4::HEADER_LEN + 8 };
    emit(src, dst, kind, code, [&rest, &packet[..packet.len().min(most)]], out);
}

fn codes_v4(report: Report) -> (u8, u8) {
    match report {
        Report::TooBig { .. } => (3, 4),
        Report::Quench => (4, 0),
        Report::Failed(error) => match error {
            PathError::NetworkUnreachable => (3, 0),
            PathError::HostUnreachable => (3, 1),
            PathError::ProtocolUnreachable => (3, 2),
            PathError::PortUnreachable => (3, 3),
            PathError::Prohibited => (3, 13),
            PathError::TimeExceeded => (11, 0),
            PathError::ParameterProblem => (12, 0),
        },
    }
}

fn codes_v6(report: Report) -> (u8, u8) {
    match report {
        Report::TooBig { .. } => (2, 0),
        // There is none: the type is unassigned.
        Report::Quench => (100, 0),
        Report::Failed(error) => match error {
            PathError::NetworkUnreachable => (1, 0),
            PathError::HostUnreachable => (1, 3),
            PathError::ProtocolUnreachable => (4, 1),
            PathError::PortUnreachable => (1, 4),
            PathError::Prohibited => (1, 1),
            PathError::TimeExceeded => (3, 0),
            PathError::ParameterProblem => (4, 0),
        },
    }
}

#[cfg(test)]
#[path = "icmp_tests.rs"]
mod tests;
