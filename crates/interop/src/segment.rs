//! What a packet says, read without any code of the stack under test.

use std::net::IpAddr;

use tack_link::End;
use tack_units::Instant;

/// FIN.
pub const FIN: u8 = 0x01;
/// SYN.
pub const SYN: u8 = 0x02;
/// RST.
pub const RST: u8 = 0x04;
/// ACK.
pub const ACK: u8 = 0x10;
/// ECN-Echo.
pub const ECE: u8 = 0x40;
/// Congestion Window Reduced.
pub const CWR: u8 = 0x80;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_ICMPV6: u8 = 58;

/// A packet at one end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, on the path's clock.
    pub at: Instant,
    /// Where.
    pub end: End,
    /// It came from the host at `end`; else it came out of the path there.
    pub entered: bool,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Size with the IP header.
    pub ip_bytes: usize,
    /// ECN field: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Differentiated services codepoint, 6 bits.
    pub dscp: u8,
    /// What is in it.
    pub content: Content,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A TCP segment.
    Tcp(Tcp),
    /// An ICMP or ICMPv6 message.
    Icmp {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
    },
    /// Anything else.
    Other,
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// The four reserved bits.
    pub reserved: u8,
    /// Flags, as in [`SYN`].
    pub flags: u8,
    /// Window field, not scaled.
    pub window: u16,
    /// Kind and body of each option, padding left out.
    pub options: Vec<(u8, Vec<u8>)>,
    /// Bytes of text.
    pub payload: usize,
}

impl Seen {
    /// Reads a packet's bytes; `None` for what is not an IP packet.
    pub fn read(bytes: &[u8], at: Instant, end: End, entered: bool) -> Option<Seen> {
        let (header, protocol, class, src, dst) = match bytes.first()? >> 4 {
            4 => {
                let header = usize::from(bytes[0] & 15) * 4;
                let src: [u8; 4] = bytes.get(12..16)?.try_into().ok()?;
                let dst: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
                (header, bytes[9], bytes[1], IpAddr::from(src), IpAddr::from(dst))
            }
            6 => {
                let src: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                let dst: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
                let class = bytes[0] << 4 | bytes[1] >> 4;
                (40, bytes[6], class, IpAddr::from(src), IpAddr::from(dst))
            }
            _ => return None,
        };
        let body = bytes.get(header..)?;
        let content = match protocol {
            PROTOCOL_TCP => Tcp::read(body).map_or(Content::Other, Content::Tcp),
            PROTOCOL_ICMP | PROTOCOL_ICMPV6 => match body {
                [kind, code, ..] => Content::Icmp { kind: *kind, code: *code },
                _ => Content::Other,
            },
            _ => Content::Other,
        };
        let (ecn, dscp) = (class & 3, class >> 2);
        Some(Seen { at, end, entered, src, dst, ip_bytes: bytes.len(), ecn, dscp, content })
    }

    /// The TCP segment in it.
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.content {
            Content::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// Whether it is a TCP segment with all of `flags`.
    pub fn has(&self, flags: u8) -> bool {
        self.tcp().is_some_and(|t| t.flags & flags == flags)
    }

    /// Bytes of TCP text.
    pub fn payload(&self) -> usize {
        self.tcp().map_or(0, |t| t.payload)
    }
}

impl Tcp {
    fn read(bytes: &[u8]) -> Option<Tcp> {
        let u16_at = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let header = usize::from(bytes.get(12)? >> 4) * 4;
        Some(Tcp {
            src_port: u16_at(0)?,
            dst_port: u16_at(2)?,
            seq: u32_at(4)?,
            ack: u32_at(8)?,
            reserved: bytes.get(12)? & 15,
            flags: *bytes.get(13)?,
            window: u16_at(14)?,
            options: options(bytes.get(20..header)?),
            payload: bytes.len().checked_sub(header)?,
        })
    }

    /// The body of the first option of a kind.
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        self.options.iter().find(|(k, _)| *k == kind).map(|(_, body)| &body[..])
    }

    /// Maximum segment size.
    pub fn mss(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.option(2)?.try_into().ok()?))
    }

    /// Shift of the window scale option.
    pub fn window_scale(&self) -> Option<u8> {
        self.option(3)?.first().copied()
    }

    /// SACK-permitted.
    pub fn sack_permitted(&self) -> bool {
        self.option(4).is_some()
    }

    /// Blocks of the SACK option.
    pub fn sack_blocks(&self) -> usize {
        self.option(5).map_or(0, |body| body.len() / 8)
    }

    /// Timestamps.
    pub fn has_timestamps(&self) -> bool {
        self.option(8).is_some()
    }

    /// One of ours: an experiment with TACK's identifier, or a kind of the paper's.
    pub fn has_tack(&self) -> bool {
        let ours = |(kind, body): &(u8, Vec<u8>)| match kind {
            253 | 254 => body.starts_with(&[0x7a, 0xc4]),
            40..=42 => true,
            _ => false,
        };
        self.options.iter().any(ours)
    }
}

fn options(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        match bytes {
            [] | [0, ..] => return found,
            [1, rest @ ..] => bytes = rest,
            [kind, len, ..] => {
                let len = usize::from(*len);
                let Some(body) = bytes.get(2..len) else { return found };
                found.push((*kind, body.to_vec()));
                bytes = &bytes[len..];
            }
            [_] => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.1:1000 to 10.0.0.2:80: SYN with MSS 1460, SACK, timestamps, window scale 7 and TACK.
    fn syn() -> Vec<u8> {
        let mut b = vec![0x45, 2, 0, 64, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        b.extend([0x03, 0xe8, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0xb0, SYN, 1, 0, 0, 0, 0, 0]);
        b.extend([2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
        b.extend([253, 4, 0x7a, 0xc4]);
        b
    }

    #[test]
    fn a_syn_is_read_with_its_options() {
        let seen = Seen::read(&syn(), Instant::ZERO, End::A, true).unwrap();
        assert_eq!((seen.ecn, seen.ip_bytes, seen.payload()), (2, 64, 0));
        assert!(seen.has(SYN) && !seen.has(ACK));
        let tcp = seen.tcp().unwrap();
        assert_eq!((tcp.src_port, tcp.dst_port, tcp.seq), (1_000, 80, 9));
        assert_eq!((tcp.mss(), tcp.window_scale()), (Some(1_460), Some(7)));
        assert!(tcp.sack_permitted() && tcp.has_timestamps() && tcp.has_tack());
    }

    #[test]
    fn what_is_cut_off_or_no_packet_is_not_misread() {
        let whole = syn();
        for len in 0..whole.len() {
            if let Some(seen) = Seen::read(&whole[..len], Instant::ZERO, End::A, true) {
                assert!(seen.tcp().is_none(), "{len} bytes are not the whole header");
            }
        }
        assert_eq!(Seen::read(&[0; 60], Instant::ZERO, End::A, true), None);
    }
}
