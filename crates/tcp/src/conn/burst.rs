//! The burst under construction: equal-sized segments of one connection, back to back.
//!
//! Text is copied once, from the send buffer to here; what follows is the kernel's affair.

use tack_transport::Offload;

use crate::conn::framing::{Framing, IpFraming};
use crate::conn::super_packet::{self, SuperPacket};
use crate::seq::SeqNum;
use crate::wire::compact::COMPACT_LEN;
use crate::wire::ip::Ecn;
use crate::wire::{Codepoints, CompactHeader, Flags, Header, checksum};

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
    /// With offload: what a segment must be to join the first one's packet.
    super_packet: Option<SuperPacket>,
    /// Where bodies are composed: the host's, from burst to burst.
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl<'a> BurstBuilder<'a> {
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        scratch: &'a mut Vec<u8>,
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
            super_packet: None,
            scratch,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes of each packet but the last.
    pub(crate) fn segment_size(&self) -> usize {
        match &self.super_packet {
            Some(packet) if packet.is_joined() => self.bytes(),
            _ => self.segment_size,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    pub(crate) fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Completes the headers; says what the device has to do.
    pub(crate) fn finish(&mut self) -> Option<Offload> {
        let Framing::Ip(ip) = self.framing else { return None };
        let packet = &mut self.out[self.start..];
        if !ip.offload || packet.is_empty() {
            return None;
        }
        let joined = self.super_packet.as_ref().filter(|packet| packet.is_joined());
        if let Some(joined) = joined {
            joined.finish(ip, packet);
        }
        Some(super_packet::describe(ip, joined, packet))
    }

    /// Segments are being joined to one packet.
    pub(crate) fn joins(&self) -> bool {
        self.super_packet.is_some()
    }

    /// Text at `seq` behind `options_len` bytes of options can follow what is there: anything can,
    /// unless segments are being joined.
    pub(crate) fn continues(&self, seq: SeqNum, options_len: usize, text: usize) -> bool {
        self.super_packet.as_ref().is_none_or(|packet| packet.admits(seq, options_len, text))
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
        let payload_len = payload.0.len() + payload.1.len();
        let header_len = header.len(self.codepoints);
        let tcp_len = header_len + payload_len;
        let size = self.framing.header_len() + tcp_len;
        debug_assert!(self.has_room(tcp_len, ecn), "room is asked for before it is used");
        if self.segments == 0 {
            self.segment_size = size;
            self.ecn = ecn;
        }
        match &mut self.super_packet {
            Some(packet) => {
                self.out.extend_from_slice(payload.0);
                self.out.extend_from_slice(payload.1);
                packet.join(header, payload_len, &mut self.out[self.start..]);
            }
            None => self.push_packet(header, tcp_len, ecn, payload),
        }
        if self.segments == 0
            && let Framing::Ip(ip) = self.framing
        {
            self.super_packet = SuperPacket::begin(ip, header, header_len, payload_len);
            // Alone: what follows it can be joined again.
            self.ended |= ip.offload && header.flags.has(Flags::POLL);
        }
        self.count(size);
    }

    /// Appends a segment with a short header; the caller asked for room.
    pub(crate) fn push_compact(&mut self, header: &CompactHeader, ecn: Ecn, text: (&[u8], &[u8])) {
        debug_assert_eq!(self.framing, Framing::Bare, "short headers are for UDP");
        let size = COMPACT_LEN + text.0.len() + text.1.len();
        debug_assert!(self.has_room(size, ecn), "room is asked for before it is used");
        if self.segments == 0 {
            self.segment_size = size;
            self.ecn = ecn;
        }
        header.emit(self.out);
        self.out.extend_from_slice(text.0);
        self.out.extend_from_slice(text.1);
        self.count(size);
    }

    fn count(&mut self, size: usize) {
        self.ended |= size < self.segment_size;
        self.segments += 1;
    }

    fn push_packet(&mut self, header: &Header, tcp_len: usize, ecn: Ecn, payload: (&[u8], &[u8])) {
        if let Framing::Ip(ip) = self.framing {
            let fits = "an MSS is 16 bits, so a segment fits an IP packet";
            ip.header(ecn).emit(tcp_len, self.out).expect(fits);
        }
        let tcp_start = self.out.len();
        header.emit(self.codepoints, self.out);
        self.out.extend_from_slice(payload.0);
        self.out.extend_from_slice(payload.1);
        if let Framing::Ip(IpFraming { src, dst, partial, .. }) = self.framing {
            let segment = &mut self.out[tcp_start..];
            if partial {
                checksum::fill_tcp_partial(src, dst, tcp_len, segment);
            } else {
                checksum::fill_tcp(src, dst, segment);
            }
        }
    }
}
