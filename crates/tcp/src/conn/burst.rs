//! The burst under construction: equal-sized segments of one connection, back to back.
//!
//! Text is copied once, from the send buffer to here; what follows is the kernel's affair.

use std::net::IpAddr;

use crate::wire::ip::Ecn;
use crate::wire::{Codepoints, Header, checksum, ipv4, ipv6};

/// How a segment is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The datagram is the segment.
    Bare,
    /// An IP header goes in front, and checksums are filled in.
    Ip {
        /// Source address.
        src: IpAddr,
        /// Destination address, of the same family.
        dst: IpAddr,
    },
}

impl Framing {
    fn header_len(self) -> usize {
        match self {
            Framing::Bare => 0,
            Framing::Ip { src: IpAddr::V4(_), .. } => ipv4::HEADER_LEN,
            Framing::Ip { src: IpAddr::V6(_), .. } => ipv6::HEADER_LEN,
        }
    }
}

/// Bounds of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstLimits {
    pub(crate) bytes: usize,
    pub(crate) segments: usize,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct BurstBuilder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    framing: Framing,
    codepoints: Codepoints,
    ecn: Ecn,
    limits: BurstLimits,
    /// Size of the first datagram.
    segment_size: usize,
    segments: usize,
    /// A shorter datagram ended the burst.
    ended: bool,
    /// Where bodies are composed; kept from burst to burst by the host.
    pub(crate) scratch: Vec<u8>,
}

impl<'a> BurstBuilder<'a> {
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        framing: Framing,
        codepoints: Codepoints,
        limits: BurstLimits,
    ) -> Self {
        let start = out.len();
        BurstBuilder {
            out,
            start,
            framing,
            codepoints,
            ecn: Ecn::NotEct,
            limits,
            segment_size: 0,
            segments: 0,
            ended: false,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn segment_size(&self) -> usize {
        self.segment_size
    }

    pub(crate) fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    pub(crate) fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// A segment of `len` bytes, TCP header included, can join with this ECN field.
    pub(crate) fn has_room(&self, len: usize, ecn: Ecn) -> bool {
        if self.segments == 0 {
            return true;
        }
        let size = self.framing.header_len() + len;
        !self.ended
            && ecn == self.ecn
            && size <= self.segment_size
            && self.segments < self.limits.segments
            && self.bytes() + size <= self.limits.bytes
    }

    /// Appends a segment; the caller asked for room.
    pub(crate) fn push(&mut self, header: &Header, ecn: Ecn, payload: (&[u8], &[u8])) {
        let begin = self.out.len();
        let payload_len = payload.0.len() + payload.1.len();
        let tcp_len = header.len(self.codepoints) + payload_len;
        debug_assert!(self.has_room(tcp_len, ecn), "room is asked for before it is used");
        emit_ip(self.framing, tcp_len, ecn, self.out);
        let tcp_start = self.out.len();
        header.emit(self.codepoints, self.out);
        self.out.extend_from_slice(payload.0);
        self.out.extend_from_slice(payload.1);
        if let Framing::Ip { src, dst } = self.framing {
            checksum::fill_tcp(src, dst, &mut self.out[tcp_start..]);
        }
        let size = self.out.len() - begin;
        if self.segments == 0 {
            self.segment_size = size;
            self.ecn = ecn;
        }
        self.ended |= size < self.segment_size;
        self.segments += 1;
    }
}

const HOPS: u8 = 64;

fn emit_ip(framing: Framing, tcp_len: usize, ecn: Ecn, out: &mut Vec<u8>) {
    let protocol = checksum::PROTOCOL_TCP;
    let fits = "an MSS is 16 bits, so a segment fits an IP packet";
    match framing {
        Framing::Bare => {}
        Framing::Ip { src: IpAddr::V4(src), dst: IpAddr::V4(dst) } => {
            let header = ipv4::Header {
                src,
                dst,
                protocol,
                ttl: HOPS,
                dscp: 0,
                ecn,
                identification: 0,
                dont_fragment: true,
            };
            header.emit(tcp_len, out).expect(fits);
        }
        Framing::Ip { src: IpAddr::V6(src), dst: IpAddr::V6(dst) } => {
            let (hop_limit, dscp, flow_label) = (HOPS, 0, 0);
            let header = ipv6::Header { src, dst, protocol, hop_limit, dscp, ecn, flow_label };
            header.emit(tcp_len, out).expect(fits);
        }
        Framing::Ip { .. } => unreachable!("both addresses are of one family"),
    }
}
