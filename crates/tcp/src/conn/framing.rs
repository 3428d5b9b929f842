//! What goes around a segment: nothing, or an IP header.

use std::net::IpAddr;

use crate::wire::ip::{Ecn, IpHeader};
use crate::wire::{checksum, ipv4, ipv6};

/// How a segment is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The datagram is the segment.
    Bare,
    /// An IP header goes in front.
    Ip(IpFraming),
}

/// What the IP header of a connection's packets says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpFraming {
    /// Source address.
    pub(crate) src: IpAddr,
    /// Destination address, of the same family.
    pub(crate) dst: IpAddr,
    pub(crate) hop_limit: u8,
    /// Differentiated services codepoint, 6 bits.
    pub(crate) dscp: u8,
    /// IPv6's, 20 bits.
    pub(crate) flow_label: u32,
    /// The device fills checksums in and cuts super-packets.
    pub(crate) offload: bool,
    /// Checksums are what offload starts from.
    pub(crate) partial: bool,
}

impl Framing {
    pub(super) fn header_len(self) -> usize {
        match self {
            Framing::Bare => 0,
            Framing::Ip(ip) => ip.header_len(),
        }
    }
}

impl IpFraming {
    pub(super) fn header_len(&self) -> usize {
        if self.dst.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    pub(super) fn header(self, ecn: Ecn) -> IpHeader {
        let IpFraming { src, dst, hop_limit, dscp, flow_label, .. } = self;
        let protocol = checksum::PROTOCOL_TCP;
        IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label }
    }
}
