//! The samples of [RFC 9001 §A] and [RFC 9369 §A].

use rustls::Side;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
use rustls::crypto::tls13::OkmBlock;

use super::*;
use crate::wire::{Ack, Frame, LongKind, Reader};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn client_dcid() -> ConnectionId {
    ConnectionId::new(&hex("8394c8f03e515708")).unwrap()
}

/// A ClientHello in a CRYPTO frame.
const CLIENT_FRAMES: &str = "
    060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
    04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
    616d706c652e636f6dff01000100000a00080006001d00170018001000070005
    04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
    baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
    0d0010000e0403050306030203080408050806002d00020101001c0002400100
    3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
    75300901100f088394c8f03e51570806048000ffff";

/// An ACK and a ServerHello.
const SERVER_FRAMES: &str = "
    02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
    88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
    0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
    020304";

const SERVER_V1: &str = "
    cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
    5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
    dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
    022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
    2158407dd074ee";

const SERVER_V2: &str = "
    dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698
    baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17
    f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2
    c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca8
    4bed8521e2e140";

#[test]
fn the_clients_initial_is_sealed_as_in_the_samples() {
    // The tag at the end covers every byte of the packet.
    let samples = [
        (
            Version::V1,
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            Version::V2,
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            "a18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ];
    for (version, begins, ends) in samples {
        let keys = initial_keys(version, &client_dcid(), Side::Client);
        let (dcid, scid) = (client_dcid(), ConnectionId::default());
        let header = Header::Long { version, kind: LongKind::Initial, dcid, scid, token: &[] };
        let mut frames = hex(CLIENT_FRAMES);
        frames.resize(1_162, 0);
        let mut packet = Vec::new();
        seal((&keys.local).into(), &header, 2, PacketNumber::in_bytes(2, 4), &frames, &mut packet);
        assert_eq!(packet.len(), 1_200);
        assert!(packet.starts_with(&hex(begins)) && packet.ends_with(&hex(ends)), "{version:?}");

        let keys = initial_keys(version, &client_dcid(), Side::Server);
        let number_at = Protected::parse(&packet, 0).unwrap().number_at.unwrap();
        let opened = open(&keys.remote, &mut packet, number_at, 0).unwrap();
        assert_eq!((opened.number, opened.frames), (2, &frames[..]));
        let mut reader = Reader::new(opened.frames);
        let crypto = Frame::parse(&mut reader).unwrap();
        assert!(matches!(crypto, Frame::Crypto { offset: 0, data } if data.len() == 241));
        assert_eq!(Frame::parse(&mut reader), Ok(Frame::Padding(917)));
    }
}

#[test]
fn the_servers_initial_is_opened_and_sealed_as_in_the_samples() {
    for (version, sample) in [(Version::V1, SERVER_V1), (Version::V2, SERVER_V2)] {
        let sample = hex(sample);
        let mut packet = sample.clone();
        let protected = Protected::parse(&sample, 0).unwrap();
        let keys = initial_keys(version, &client_dcid(), Side::Client);
        let opened = open(&keys.remote, &mut packet, protected.number_at.unwrap(), 0).unwrap();
        assert_eq!((opened.number, opened.frames), (1, &hex(SERVER_FRAMES)[..]));
        let mut reader = Reader::new(opened.frames);
        #[allow(clippy::single_range_in_vec_init)]
        let ack = Ack { delay: 0, ranges: vec![0..1], ecn: None };
        assert_eq!(Frame::parse(&mut reader), Ok(Frame::Ack(ack)));

        let keys = initial_keys(version, &client_dcid(), Side::Server);
        let mut again = Vec::new();
        let number = PacketNumber::in_bytes(1, 2);
        seal((&keys.local).into(), &protected.header, 1, number, &hex(SERVER_FRAMES), &mut again);
        assert_eq!(again, sample, "{version:?}");
    }
}

/// HKDF-Expand-Label [RFC 8446 §7.1] with SHA-256 and an empty context.
fn expand<const N: usize>(secret: &[u8], label: &str) -> [u8; N] {
    let suite = TLS13_CHACHA20_POLY1305_SHA256.tls13().unwrap();
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let label = format!("tls13 {label}");
    let mut out = [0; N];
    let info: [&[u8]; 4] =
        [&(N as u16).to_be_bytes(), &[label.len() as u8], label.as_bytes(), &[0]];
    expander.expand_slice(&info, &mut out).unwrap();
    out
}

#[test]
fn a_short_packet_of_chacha20_is_sealed_and_opened_as_in_the_samples() {
    // [RFC 9001 §A.5], [RFC 9369 §A.5]: key, iv and hp of the secret, the next secret, the packet.
    let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
    let samples = [
        (
            "quic",
            "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8",
            "e0459b3474bdd0e44a41c144",
            "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4",
            "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
            "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
        ),
        (
            "quicv2",
            "3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2",
            "a6b5bc6ab7dafce30ffff5dd",
            "d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2",
            "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
            "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
        ),
    ];
    const NUMBER: u64 = 654_360_564;
    let quic = TLS13_CHACHA20_POLY1305_SHA256.tls13().unwrap().quic.unwrap();
    for (prefix, key, iv, hp, next, packet) in samples {
        let derived: [u8; 32] = expand(&secret, &format!("{prefix} key"));
        assert_eq!(derived[..], hex(key));
        let nonce: [u8; 12] = expand(&secret, &format!("{prefix} iv"));
        assert_eq!(nonce[..], hex(iv));
        let header_key: [u8; 32] = expand(&secret, &format!("{prefix} hp"));
        assert_eq!(header_key[..], hex(hp));
        assert_eq!(expand::<32>(&secret, &format!("{prefix} ku"))[..], hex(next));

        let payload = quic.packet_key(AeadKey::from(derived), Iv::from(nonce));
        let header = quic.header_protection_key(AeadKey::from(header_key));
        let (dcid, key_phase) = (ConnectionId::default(), false);
        let mut sealed = Vec::new();
        let number = PacketNumber::in_bytes(NUMBER, 3);
        let keys = SealKeys { header: &*header, packet: &*payload };
        seal(keys, &Header::Short { dcid, key_phase }, NUMBER, number, &[1], &mut sealed);
        assert_eq!(sealed, hex(packet), "{prefix}");

        let unprotected = unprotect(&*header, &mut sealed, 1, NUMBER).unwrap();
        let opened = open_payload(&*payload, &mut sealed, &unprotected).unwrap();
        assert_eq!((opened.number, opened.frames), (NUMBER, &[1][..]));
    }
}

#[test]
fn the_keys_of_version_2_differ_from_those_of_version_1() {
    // The same packet, opened with the keys of the other version.
    for (version, sample) in [(Version::V2, SERVER_V1), (Version::V1, SERVER_V2)] {
        let mut packet = hex(sample);
        let number_at = Protected::parse(&packet, 0).unwrap().number_at.unwrap();
        let keys = initial_keys(version, &client_dcid(), Side::Client);
        assert_eq!(open(&keys.remote, &mut packet, number_at, 0), Err(OpenError::Damaged));
    }
}

#[test]
fn retry_packets_of_the_samples_are_valid_and_no_others() {
    let samples = [
        "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
        "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
    ];
    for sample in samples {
        let packet = hex(sample);
        assert!(is_valid_retry(&client_dcid(), &packet));
        assert!(!is_valid_retry(&ConnectionId::default(), &packet));
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The four bits that mean nothing are covered by the tag, too.
            assert!(!is_valid_retry(&client_dcid(), &damaged), "bit {bit}");
        }
    }
}

#[test]
fn a_packet_with_any_bit_changed_cannot_be_opened() {
    let sample = hex(SERVER_V1);
    let keys = initial_keys(Version::V1, &client_dcid(), Side::Client);
    let number_at = Protected::parse(&sample, 0).unwrap().number_at.unwrap();
    for bit in 0..sample.len() * 8 {
        let mut damaged = sample.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let opened = open(&keys.remote, &mut damaged, number_at, 0);
        assert_eq!(opened, Err(OpenError::Damaged), "bit {bit}");
    }
    for len in 0..sample.len() {
        let mut short = sample[..len].to_vec();
        let opened = open(&keys.remote, &mut short, number_at, 0);
        assert_eq!(opened, Err(OpenError::Damaged), "{len} bytes");
    }
}

#[test]
fn a_packet_of_one_byte_is_padded_for_header_protection() {
    let header = Header::Short { dcid: client_dcid(), key_phase: false };
    let keys = initial_keys(Version::V1, &client_dcid(), Side::Client);
    let peer = initial_keys(Version::V1, &client_dcid(), Side::Server);
    for len in 1..=4 {
        let mut packet = Vec::new();
        let number = PacketNumber::in_bytes(0x1234_5678, len);
        seal((&keys.local).into(), &header, 0x1234_5678, number, &[1], &mut packet);
        let at = Protected::parse(&packet, 8).unwrap().number_at.unwrap();
        let opened = open(&peer.remote, &mut packet, at, 0x1234_5677).unwrap();
        assert_eq!((opened.number, opened.frames[0]), (0x1234_5678, 1));
        assert!(opened.frames[1..].iter().all(|byte| *byte == 0));
    }
}
