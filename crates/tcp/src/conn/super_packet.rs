//! A packet of several segments that the device cuts (TCP segmentation offload), and checksums
//! that it fills in.
//!
//! ```text
//! | IP | TCP seq=n, flags | text of segment 1 | text of segment 2 | ... | text of segment k |
//!                         |<--- gso_size ---->|<--- gso_size ---->|     |<-- at most it --->|
//!
//! cut into: seq = n + i * gso_size; CWR on the first only; FIN and PSH on the last only;
//!           everything else, timestamps and IPv4's DF included, as it is in the one header
//! ```
//!
//! So segments join only if they continue each other and their headers differ in nothing else. Under
//! TACK each has its PKT.SEQ: they join where both ends know numbers of a
//! [series](crate::wire::series), which is the super-packet, and none do otherwise. A burst with SACK
//! blocks is not joined either: every segment would repeat them. A poll mark would be repeated too: a
//! marked segment goes alone.

use tack_transport::Offload;

use crate::conn::framing::IpFraming;
use crate::seq::SeqNum;
use crate::wire::checksum::{TCP_OFFSET, fill_tcp_partial};
use crate::wire::{Flags, Header, ipv4, ipv6};

/// What a segment must be to join.
#[derive(Debug)]
pub(super) struct SuperPacket {
    /// SEG.SEQ of the next segment.
    next_seq: SeqNum,
    /// Its PKT.SEQ under TACK.
    next_pkt_seq: Option<u32>,
    options_len: usize,
    /// Text of the first segment.
    gso_size: usize,
    /// IP and TCP headers.
    header_len: usize,
    joined: bool,
}

impl SuperPacket {
    /// `header`, of `tcp_header_len` bytes with options, began a burst with `text` bytes.
    /// `None`: nothing can join it.
    pub(super) fn begin(
        framing: IpFraming,
        header: &Header,
        tcp_header_len: usize,
        text: usize,
    ) -> Option<SuperPacket> {
        let options = &header.options;
        let numbered = match (options.pkt_seq, options.series) {
            (Some(_), Some(series)) => usize::from(series.size()) == text,
            (pkt_seq, _) => pkt_seq.is_none(),
        };
        let plain = numbered && options.ack_type.is_none() && options.sack.as_slice().is_empty();
        let last =
            [Flags::FIN, Flags::SYN, Flags::PSH, Flags::POLL].iter().any(|&f| header.flags.has(f));
        (framing.offload && plain && !last && text > 0).then(|| SuperPacket {
            next_seq: header.seq.add(text as u32),
            next_pkt_seq: options.pkt_seq.map(|number| number.wrapping_add(1)),
            options_len: tcp_header_len - crate::wire::header::FIXED_LEN,
            gso_size: text,
            header_len: framing.header_len() + tcp_header_len,
            joined: false,
        })
    }

    /// A segment of this number and so many bytes of options continues the last one.
    pub(super) fn admits(&self, seq: SeqNum, options_len: usize, text: usize) -> bool {
        seq == self.next_seq && options_len == self.options_len && text > 0
    }

    /// Text of one more segment was appended to `packet`.
    pub(super) fn join(&mut self, header: &Header, text: usize, packet: &mut [u8]) {
        let next = self.next_pkt_seq;
        debug_assert_eq!(
            header.options.pkt_seq, next,
            "transmissions in a row have numbers in a row"
        );
        self.joined = true;
        self.next_seq = header.seq.add(text as u32);
        self.next_pkt_seq = next.map(|number| number.wrapping_add(1));
        let tcp_header = crate::wire::header::FIXED_LEN + self.options_len;
        // What the device puts on the last segment is what the one header says.
        let flags = &mut packet[self.header_len - tcp_header + FLAGS];
        *flags |= header.flags.octet() & (Flags::FIN | Flags::PSH).octet();
    }

    /// Headers of a packet that grew: lengths and checksums.
    pub(super) fn finish(&self, framing: IpFraming, packet: &mut [u8]) {
        if !self.joined {
            return;
        }
        let ip_len = framing.header_len();
        let total = packet.len();
        let fits = "a burst is bounded by what an IP packet holds";
        if framing.dst.is_ipv4() {
            ipv4::set_total_len(packet, u16::try_from(total).expect(fits));
        } else {
            let payload = total - ipv6::HEADER_LEN;
            ipv6::set_payload_len(packet, u16::try_from(payload).expect(fits));
        }
        fill_tcp_partial(framing.src, framing.dst, total - ip_len, &mut packet[ip_len..]);
    }

    pub(super) fn is_joined(&self) -> bool {
        self.joined
    }
}

/// Where the control bits are in a TCP header.
const FLAGS: usize = 13;

/// What the device is told about a burst of offloaded packets.
pub(super) fn describe(framing: IpFraming, joined: Option<&SuperPacket>, first: &[u8]) -> Offload {
    let ip_len = framing.header_len();
    let words = first.get(ip_len + 12).map_or(0, |byte| byte >> 4);
    let flags = first.get(ip_len + FLAGS).copied().unwrap_or_default();
    Offload {
        gso_size: joined.map(|packet| packet.gso_size as u16),
        header_len: (ip_len + usize::from(words) * 4) as u16,
        checksum_start: ip_len as u16,
        checksum_offset: TCP_OFFSET as u16,
        cwr: Flags::from_octet(flags).has(Flags::CWR),
    }
}

#[cfg(test)]
#[path = "super_packet_tests.rs"]
mod tests;
