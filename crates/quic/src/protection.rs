//! Packet protection [RFC 9001 §5] by rustls' keys, and the integrity of Retry [RFC 9001 §5.8].

use ring::aead;
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey};

use crate::wire::{ConnectionId, Header, PacketNumber, Protected, Version};

/// Header protection samples from here on behind the start of the packet number.
const SAMPLE_OFFSET: usize = 4;
const LONG: u8 = 0x80;
const KEY_PHASE: u8 = 0x04;
/// Bits of the first byte that header protection leaves for zero [RFC 9000 §17.2, §17.3.1].
const RESERVED_LONG: u8 = 0x0c;
const RESERVED_SHORT: u8 = 0x18;

/// Why a packet cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is damaged, or not of this connection: to be dropped.
    #[error("the packet cannot be opened")]
    Damaged,
    /// It is the peer's, and breaks the protocol.
    #[error("reserved bits are set")]
    Reserved,
}

/// The keys of Initial packets: anyone who sees the client's first one has them. `dcid` is the
/// connection ID that it was sent to.
pub fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Keys {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("it is a suite of TLS 1.3");
    let quic = suite.quic.expect("it is a suite of QUIC");
    let version = match version {
        Version::V1 => rustls::quic::Version::V1,
        Version::V2 => rustls::quic::Version::V2,
    };
    Keys::initial(version, suite, quic, dcid.as_bytes(), side)
}

/// The keys that protect what leaves.
#[derive(Clone, Copy)]
pub struct SealKeys<'a> {
    /// Of headers: it stays when keys are updated.
    pub header: &'a dyn HeaderProtectionKey,
    /// Of payloads.
    pub packet: &'a dyn PacketKey,
}

impl<'a> From<&'a DirectionalKeys> for SealKeys<'a> {
    fn from(keys: &'a DirectionalKeys) -> Self {
        SealKeys { header: &*keys.header, packet: &*keys.packet }
    }
}

/// Appends a packet with `frames` to `out`, protected by `keys`. Frames that are too short for header
/// protection get padding.
///
/// # Panics
/// If `header` has no packet number, or a key has passed its limit: bugs of the caller.
pub fn seal(
    keys: SealKeys<'_>,
    header: &Header<'_>,
    number: u64,
    as_sent: PacketNumber,
    frames: &[u8],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let tag_len = keys.packet.tag_len();
    // The number and what is behind it are as long as what is skipped and sampled.
    let least = SAMPLE_OFFSET + keys.header.sample_len() - tag_len;
    let len = frames.len().max(least.saturating_sub(as_sent.len()));
    let number_at = header.emit(as_sent, len + tag_len, out);
    let payload_at = out.len();
    out.extend_from_slice(frames);
    out.resize(payload_at + len, 0);
    let (head, payload) = out[start..].split_at_mut(payload_at - start);
    let tag = keys.packet.encrypt_in_place(number, head, payload).expect("keys are not worn out");
    out.extend_from_slice(tag.as_ref());
    let (head, payload) = out[start..].split_at_mut(number_at - start + SAMPLE_OFFSET);
    let (first, rest) = head.split_at_mut(1);
    let at = number_at - start - 1;
    keys.header
        .encrypt_in_place(
            &payload[..keys.header.sample_len()],
            &mut first[0],
            &mut rest[at..at + as_sent.len()],
        )
        .expect("the sample has its length");
}

/// An opened packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Its full number.
    pub number: u64,
    /// Its key phase, of a short header.
    pub key_phase: bool,
    /// Its frames.
    pub frames: &'a [u8],
}

/// A packet whose header protection is off, and whose payload is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// Its full number.
    pub number: u64,
    /// Its key phase, of a short header: which key opens it.
    pub key_phase: bool,
    first: u8,
    payload_at: usize,
}

/// Takes header protection off in place: `packet` are its bytes, `number_at` from [`Protected`],
/// `expected` one past the largest number that arrived in its space.
///
/// # Errors
/// It is too short.
pub fn unprotect(
    key: &dyn HeaderProtectionKey,
    packet: &mut [u8],
    number_at: usize,
    expected: u64,
) -> Result<Unprotected, OpenError> {
    let sample_at = number_at + SAMPLE_OFFSET;
    if packet.len() < sample_at + key.sample_len() {
        return Err(OpenError::Damaged);
    }
    let (head, payload) = packet.split_at_mut(sample_at);
    let (first, rest) = head.split_first_mut().ok_or(OpenError::Damaged)?;
    let sample = &payload[..key.sample_len()];
    key.decrypt_in_place(sample, first, &mut rest[number_at - 1..])
        .map_err(|_| OpenError::Damaged)?;
    let first = *first;
    let payload_at = number_at + usize::from(first & 3) + 1;
    let number = PacketNumber::from_bytes(&packet[number_at..payload_at]).expand(expected);
    let key_phase = first & (LONG | KEY_PHASE) == KEY_PHASE;
    Ok(Unprotected { number, key_phase, first, payload_at })
}

/// Opens the payload in place of a packet that [`unprotect`] has been at.
///
/// # Errors
/// See [`OpenError`]; the bytes are worthless then.
pub fn open_payload<'a>(
    key: &dyn PacketKey,
    packet: &'a mut [u8],
    unprotected: &Unprotected,
) -> Result<Opened<'a>, OpenError> {
    let Unprotected { number, key_phase, first, payload_at } = *unprotected;
    let (head, payload) = packet.split_at_mut(payload_at);
    let frames = key.decrypt_in_place(number, head, payload).map_err(|_| OpenError::Damaged)?;
    // Only now is it certain that the peer set them [RFC 9000 §17.2].
    let reserved = if first & LONG != 0 { RESERVED_LONG } else { RESERVED_SHORT };
    if first & reserved != 0 {
        return Err(OpenError::Reserved);
    }
    Ok(Opened { number, key_phase, frames })
}

/// [`unprotect`] and [`open_payload`] with the keys of one direction.
///
/// # Errors
/// See [`OpenError`]; the bytes are worthless then.
pub fn open<'a>(
    keys: &DirectionalKeys,
    packet: &'a mut [u8],
    number_at: usize,
    expected: u64,
) -> Result<Opened<'a>, OpenError> {
    let unprotected = unprotect(&*keys.header, packet, number_at, expected)?;
    open_payload(&*keys.packet, packet, &unprotected)
}

/// The keys and nonces that every Retry of a version has.
const RETRY_V1: ([u8; 16], [u8; 12]) = (
    0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes(),
    [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
);
const RETRY_V2: ([u8; 16], [u8; 12]) = (
    0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes(),
    [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
);

/// The tag of a Retry packet whose bytes before the tag are `retry`, in answer to an Initial that went to
/// `original`.
pub fn retry_tag(version: Version, original: &ConnectionId, retry: &[u8]) -> [u8; 16] {
    let (key, nonce) = match version {
        Version::V1 => RETRY_V1,
        Version::V2 => RETRY_V2,
    };
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).expect("the key has its length");
    let key = aead::LessSafeKey::new(key);
    let mut pseudo = vec![original.as_bytes().len() as u8];
    pseudo.extend_from_slice(original.as_bytes());
    pseudo.extend_from_slice(retry);
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, aead::Aad::from(pseudo), &mut [])
        .expect("a packet is not too long");
    tag.as_ref().try_into().expect("tags of AES-GCM have 16 bytes")
}

/// Whether a Retry packet, whole in `packet`, answers an Initial that went to `original`.
pub fn is_valid_retry(original: &ConnectionId, packet: &[u8]) -> bool {
    let Ok(Protected { header: Header::Retry { version, tag, .. }, .. }) =
        Protected::parse(packet, 0)
    else {
        return false;
    };
    // The tag is no secret: who sees the Initial can compute it.
    retry_tag(version, original, &packet[..packet.len() - tag.len()]) == tag
}

#[cfg(test)]
#[path = "protection_tests.rs"]
mod tests;
