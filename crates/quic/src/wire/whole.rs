//! Packets without a number, written whole: Retry [RFC 9000 §17.2.5] and Version Negotiation
//! [RFC 9000 §17.2.1].

use super::header::{ConnectionId, Version};
use super::read::Reader;
use crate::protection::retry_tag;

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;

/// Appends a Retry in answer to an Initial from `dcid` to `original`: the client shall come back to
/// `scid`, with `token`.
pub fn put_retry(
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    original: &ConnectionId,
    token: &[u8],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    // Version 2 counts kinds from Retry on [RFC 9369 §3.2].
    let kind = if version == Version::V2 { 0 } else { 3 };
    out.push(LONG | FIXED | kind << 4);
    out.extend_from_slice(&version.number().to_be_bytes());
    put_cids([dcid.as_bytes(), scid.as_bytes()], out);
    out.extend_from_slice(token);
    let tag = retry_tag(version, original, &out[start..]);
    out.extend_from_slice(&tag);
}

/// Appends a Version Negotiation in answer to a packet from `dcid` to `scid`, of 255 bytes at most each: what is
/// spoken here.
pub fn put_version_negotiation(dcid: &[u8], scid: &[u8], out: &mut Vec<u8>) {
    out.push(LONG | FIXED);
    out.extend_from_slice(&0u32.to_be_bytes());
    put_cids([dcid, scid], out);
    for version in Version::ALL {
        out.extend_from_slice(&version.number().to_be_bytes());
    }
}

fn put_cids(cids: [&[u8]; 2], out: &mut Vec<u8>) {
    for cid in cids {
        out.push(cid.len() as u8);
        out.extend_from_slice(cid);
    }
}

/// Destination and source of a long header of any version [RFC 8999 §5.1]: those of others than versions 1 and 2 have
/// up to 255 bytes, and a server has to repeat them [RFC 9000 §17.2].
pub fn invariant_cids(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(datagram);
    let first = reader.byte("first byte").ok()?;
    reader.array::<4>("version").ok()?;
    let mut cid = || {
        let len = reader.byte("connection ID length").ok()?;
        reader.take(len.into(), "connection ID").ok()
    };
    let (dcid, scid) = (cid()?, cid()?);
    (first & LONG != 0).then_some((dcid, scid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::is_valid_retry;
    use crate::wire::{Header, Protected};

    #[test]
    fn what_is_written_whole_is_read_again() {
        let id = |byte: u8| ConnectionId::new(&[byte; 8]).unwrap();
        for version in [Version::V1, Version::V2] {
            let mut packet = Vec::new();
            put_retry(version, &id(1), &id(2), &id(3), b"token", &mut packet);
            assert!(is_valid_retry(&id(3), &packet) && !is_valid_retry(&id(4), &packet));
            assert_eq!(invariant_cids(&packet), Some((id(1).as_bytes(), id(2).as_bytes())));
        }
        let mut packet = Vec::new();
        put_version_negotiation(id(1).as_bytes(), id(2).as_bytes(), &mut packet);
        let Header::VersionNegotiation { dcid, scid, versions } =
            Protected::parse(&packet, 8).unwrap().header
        else {
            panic!("it is another packet");
        };
        assert_eq!((dcid, scid), (id(1), id(2)));
        assert_eq!(versions, [0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf]);
    }
}
