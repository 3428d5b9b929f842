//! Packet headers [RFC 9000 §17] of versions 1 and 2 [RFC 9369], before protection is taken off and
//! after it is put on.

use super::ParseError;
use super::read::{Reader, put_varint};

pub(crate) const MAX_CID_LEN: usize = 20;
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const KEY_PHASE: u8 = 0x04;
/// Bytes from the packet number on before those that header protection samples.
const SAMPLE_OFFSET: usize = 4;
/// Of every cipher suite.
const SAMPLE_LEN: usize = 16;

/// A version of QUIC that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// [RFC 9000].
    V1,
    /// [RFC 9369].
    V2,
}

impl Version {
    /// Every one.
    pub const ALL: [Version; 2] = [Version::V1, Version::V2];

    /// As it travels.
    pub const fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 0x6b33_43cf,
        }
    }

    /// `None`: another one.
    pub const fn from_number(number: u32) -> Option<Version> {
        match number {
            1 => Some(Version::V1),
            0x6b33_43cf => Some(Version::V2),
            _ => None,
        }
    }
}

/// 0 to 20 bytes that name a connection to one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: u8,
    bytes: [u8; MAX_CID_LEN],
}

impl ConnectionId {
    /// Of no bytes.
    pub const EMPTY: ConnectionId = ConnectionId { len: 0, bytes: [0; MAX_CID_LEN] };

    /// `None` beyond 20 bytes.
    pub fn new(id: &[u8]) -> Option<ConnectionId> {
        let mut bytes = [0; MAX_CID_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(ConnectionId { len: id.len() as u8, bytes })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn parse(reader: &mut Reader<'_>) -> Result<ConnectionId, ParseError> {
        let what = "connection ID length";
        let len = reader.byte(what)?;
        let too_long = ParseError::Value { what, value: len.into() };
        ConnectionId::new(reader.take(len.into(), "connection ID")?).ok_or(too_long)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.len);
        out.extend_from_slice(self.as_bytes());
    }
}

/// Kinds of long headers with a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongKind {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
}

/// A header as far as it can be read without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header<'a> {
    /// A packet with a number.
    Long {
        /// Version.
        version: Version,
        /// Kind.
        kind: LongKind,
        /// Of the receiver.
        dcid: ConnectionId,
        /// Of the sender.
        scid: ConnectionId,
        /// Of an Initial; empty in others.
        token: &'a [u8],
    },
    /// Retry.
    Retry {
        /// Version.
        version: Version,
        /// Of the receiver.
        dcid: ConnectionId,
        /// Of the sender, from now on.
        scid: ConnectionId,
        /// For the next Initial.
        token: &'a [u8],
        /// Of integrity.
        tag: [u8; 16],
    },
    /// Version Negotiation: what the sender speaks, four bytes each.
    VersionNegotiation {
        /// Of the receiver.
        dcid: ConnectionId,
        /// Of the sender.
        scid: ConnectionId,
        /// Versions.
        versions: &'a [u8],
    },
    /// A 1-RTT packet.
    Short {
        /// Of the receiver.
        dcid: ConnectionId,
        /// Which of two keys protects it [RFC 9001 §6]; false in what was parsed, which hides it.
        key_phase: bool,
    },
}

impl Header<'_> {
    /// The receiver's connection ID.
    pub fn dcid(&self) -> ConnectionId {
        match self {
            Header::Long { dcid, .. }
            | Header::Retry { dcid, .. }
            | Header::VersionNegotiation { dcid, .. }
            | Header::Short { dcid, .. } => *dcid,
        }
    }

    /// It is of an Initial packet.
    pub fn is_initial(&self) -> bool {
        matches!(self, Header::Long { kind: LongKind::Initial, .. })
    }
}

/// A packet whose protection is still on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected<'a> {
    /// What can be read of its header.
    pub header: Header<'a>,
    /// Where its packet number begins; `None` where it has none.
    pub number_at: Option<usize>,
    /// Where it ends; the datagram's next packet begins there.
    pub end: usize,
}

impl<'a> Protected<'a> {
    /// Reads the first packet of `datagram`. Short headers have connection IDs of `cid_len` bytes,
    /// 20 at most, which only their receiver knows.
    ///
    /// # Errors
    /// What makes it none. Of a version that is not ours nothing but that is said.
    pub fn parse(datagram: &'a [u8], cid_len: usize) -> Result<Protected<'a>, ParseError> {
        let mut reader = Reader::new(datagram);
        let first = reader.byte("packet")?;
        if first & LONG == 0 {
            if first & FIXED == 0 {
                return Err(ParseError::FixedBit);
            }
            let id = reader.take(cid_len.min(MAX_CID_LEN) as u64, "connection ID")?;
            let dcid = ConnectionId::new(id).expect("20 bytes at most were taken");
            return with_number(
                datagram,
                &reader,
                Header::Short { dcid, key_phase: false },
                datagram.len(),
            );
        }
        let number = u32::from_be_bytes(reader.array("version")?);
        let version = Version::from_number(number);
        if version.is_none() && number != 0 {
            // Its connection IDs may be longer than ours [RFC 8999 §5.1].
            return Err(ParseError::Version(number));
        }
        let dcid = ConnectionId::parse(&mut reader)?;
        let scid = ConnectionId::parse(&mut reader)?;
        let Some(version) = version else {
            let versions = reader.rest();
            if versions.is_empty() || !versions.len().is_multiple_of(4) {
                return Err(ParseError::Truncated { what: "version list" });
            }
            let header = Header::VersionNegotiation { dcid, scid, versions };
            return Ok(Protected { header, number_at: None, end: datagram.len() });
        };
        if first & FIXED == 0 {
            return Err(ParseError::FixedBit);
        }
        let Some(kind) = kind_of(first, version) else {
            let len = reader.rest().len() as u64;
            let cut_off = ParseError::Truncated { what: "retry tag" };
            let token = reader.take(len.checked_sub(16).ok_or(cut_off)?, "token")?;
            let tag = reader.array("retry tag")?;
            let header = Header::Retry { version, dcid, scid, token, tag };
            return Ok(Protected { header, number_at: None, end: datagram.len() });
        };
        let is_initial = kind == LongKind::Initial;
        let token = if is_initial { reader.prefixed("token")? } else { &[] };
        let len = reader.varint("length")?;
        let behind = reader.clone().take(len, "packet")?.len();
        let end = datagram.len() - reader.rest().len() + behind;
        let header = Header::Long { version, kind, dcid, scid, token };
        with_number(datagram, &reader, header, end)
    }
}

fn with_number<'a>(
    datagram: &[u8],
    reader: &Reader<'_>,
    header: Header<'a>,
    end: usize,
) -> Result<Protected<'a>, ParseError> {
    let number_at = datagram.len() - reader.rest().len();
    if end - number_at < SAMPLE_OFFSET + SAMPLE_LEN {
        return Err(ParseError::Truncated { what: "what header protection samples" });
    }
    Ok(Protected { header, number_at: Some(number_at), end })
}

/// `None`: Retry. Version 2 counts kinds from Retry on [RFC 9369 §3.2].
fn kind_of(first: u8, version: Version) -> Option<LongKind> {
    let offset = if version == Version::V2 { 3 } else { 0 };
    match ((first >> 4 & 3) + offset) % 4 {
        0 => Some(LongKind::Initial),
        1 => Some(LongKind::ZeroRtt),
        2 => Some(LongKind::Handshake),
        _ => None,
    }
}

impl Header<'_> {
    /// Appends the header of a packet with `number` and `payload_len` bytes behind it, the tag of its
    /// protection included. Returns where the packet number begins.
    ///
    /// # Panics
    /// For kinds without a number, which are written whole by their own functions.
    pub fn emit(&self, number: PacketNumber, payload_len: usize, out: &mut Vec<u8>) -> usize {
        match self {
            Header::Long { version, kind, dcid, scid, token } => {
                let offset = if *version == Version::V2 { 1 } else { 0 };
                let kind_bits = (*kind as u8 + offset) % 4;
                out.push(LONG | FIXED | kind_bits << 4 | (number.len - 1));
                out.extend_from_slice(&version.number().to_be_bytes());
                dcid.emit(out);
                scid.emit(out);
                if *kind == LongKind::Initial {
                    put_varint(token.len() as u64, out);
                    out.extend_from_slice(token);
                }
                put_varint(u64::from(number.len) + payload_len as u64, out);
            }
            Header::Short { dcid, key_phase } => {
                let phase = if *key_phase { KEY_PHASE } else { 0 };
                out.push(FIXED | phase | (number.len - 1));
                out.extend_from_slice(dcid.as_bytes());
            }
            other => panic!("{other:?} has no packet number"),
        }
        let number_at = out.len();
        out.extend_from_slice(&number.bits.to_be_bytes()[4 - usize::from(number.len)..]);
        number_at
    }
}

/// A packet number as it travels: its lowest 1 to 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketNumber {
    bits: u32,
    len: u8,
}

impl PacketNumber {
    /// `full` in the fewest bytes by which a peer tells it from all that may be under way
    /// [RFC 9000 §A.2]; `largest_acked` is the largest that it has acknowledged.
    pub fn truncate(full: u64, largest_acked: Option<u64>) -> PacketNumber {
        PacketNumber::in_bytes(full, least_bits(full, largest_acked).div_ceil(8).clamp(1, 4))
    }

    /// The same of a packet that may come after many which were sent later [RFC 9000 §17.1]: after four times as many
    /// as are under way, or thousands. How late it comes has nothing to do with the round trip; one of
    /// 8 000 per second over 10 ms that was late by 20 ms could not be read otherwise.
    pub fn if_late(full: u64, largest_acked: Option<u64>) -> PacketNumber {
        let bits = least_bits(full, largest_acked) + 2;
        PacketNumber::in_bytes(full, bits.div_ceil(8).clamp(2, 4))
    }

    /// `full` in `len` bytes, 1 to 4.
    pub fn in_bytes(full: u64, len: u32) -> PacketNumber {
        let len = len.clamp(1, 4);
        PacketNumber { bits: full as u32 & (u32::MAX >> (32 - 8 * len)), len: len as u8 }
    }

    /// How many bytes.
    #[allow(clippy::len_without_is_empty, reason = "it has one byte at least")]
    pub fn len(self) -> usize {
        self.len.into()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> PacketNumber {
        let bits = bytes.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        PacketNumber { bits, len: bytes.len() as u8 }
    }

    /// The full number nearest to `expected`, one past the largest that arrived [RFC 9000 §A.3].
    pub fn expand(self, expected: u64) -> u64 {
        let window = 1u64 << (8 * self.len);
        let candidate = (expected & !(window - 1)) | u64::from(self.bits);
        if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
            candidate + window
        } else if candidate > expected + window / 2 && candidate >= window {
            candidate - window
        } else {
            candidate
        }
    }
}

/// Bits of `full` that tell it from all above `largest_acked` that may be under way.
fn least_bits(full: u64, largest_acked: Option<u64>) -> u32 {
    let unacked = largest_acked.map_or(full + 1, |largest| full.saturating_sub(largest));
    64 - unacked.leading_zeros() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_are_cut_and_expanded_as_in_the_samples() {
        // [RFC 9000 §A.2, §A.3]
        let sample = PacketNumber::truncate(0xac_5c02, Some(0xab_e8b3));
        assert_eq!((sample.bits, sample.len), (0x5c02, 2));
        let sample = PacketNumber::truncate(0xac_e8fe, Some(0xab_e8b3));
        assert_eq!((sample.bits, sample.len), (0xac_e8fe, 3));
        assert_eq!(PacketNumber { bits: 0x9b32, len: 2 }.expand(0xa82f_30eb), 0xa82f_9b32);
    }

    #[test]
    fn a_number_survives_while_a_peer_is_not_too_far_behind() {
        let mut x = 0x2545_f491_4f6c_dd1du64;
        for _ in 0..100_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let acked = (x >> 2) % (1 << (x % 61 + 1));
            let full = acked + 1 + (x >> 7) % (1 << (x % 30));
            let cut = PacketNumber::truncate(full, Some(acked));
            // The peer has seen anything from what it acknowledged to the one before this.
            for expected in [acked + 1, full, (acked + full).div_ceil(2)] {
                assert_eq!(cut.expand(expected), full, "{acked} {expected}");
            }
            assert_eq!(PacketNumber::from_bytes(&full.to_be_bytes()[4..]).len(), 4);
        }
    }

    #[test]
    fn a_number_survives_where_far_more_than_is_under_way_came_before_it() {
        for under_way in [1, 2, 80, 128, 5_000, 40_000, 1 << 20] {
            for acked in [0, 77, 1 << 15, 1 << 40] {
                let full = acked + under_way;
                for later in [0, under_way, 4 * under_way, 20_000] {
                    let cut = PacketNumber::if_late(full, Some(acked));
                    assert_eq!(cut.expand(full + later + 1), full, "{under_way} {acked} {later}");
                }
            }
        }
    }

    #[test]
    fn headers_survive_and_no_part_of_one_is_a_packet() {
        let id = |n: usize| ConnectionId::new(&[7; 20][..n]).unwrap();
        for version in [Version::V1, Version::V2] {
            for kind in [LongKind::Initial, LongKind::ZeroRtt, LongKind::Handshake] {
                let token: &[u8] = if kind == LongKind::Initial { b"token" } else { b"" };
                let header = Header::Long { version, kind, dcid: id(20), scid: id(0), token };
                let mut bytes = Vec::new();
                let number_at = header.emit(PacketNumber::in_bytes(5, 2), 30, &mut bytes);
                bytes.resize(bytes.len() + 30, 0);
                let end = bytes.len();
                bytes.extend_from_slice(b"another packet");
                let expected = Protected { header, number_at: Some(number_at), end };
                assert_eq!(Protected::parse(&bytes, 8), Ok(expected));
                for cut in 0..end {
                    assert!(Protected::parse(&bytes[..cut], 8).is_err(), "{cut}");
                }
            }
        }
        let header = Header::Short { dcid: id(8), key_phase: false };
        let mut bytes = Vec::new();
        header.emit(PacketNumber::in_bytes(5, 1), 30, &mut bytes);
        bytes.resize(bytes.len() + 30, 0);
        assert_eq!(Protected::parse(&bytes, 8).unwrap().header, header);
        assert_eq!(
            Protected::parse(&[0x80, 9, 9, 9, 9, 0, 0], 8),
            Err(ParseError::Version(0x0909_0909))
        );
        assert_eq!(Protected::parse(&[0; 40], 8), Err(ParseError::FixedBit));
    }
}
