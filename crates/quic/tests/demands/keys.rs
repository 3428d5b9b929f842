//! Keys: their updates, and what old ones may still do.

use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};
use tack_quic::wire::{Close, Frame, Parameters};
use tack_quic::{Config, code};

use super::met::Met;
use super::puppet::{DATA, emitted, id, usual};
use super::tls::{self, Sessions};

#[test]
fn a_peer_s_update_is_followed() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::Ping]);
    met.puppet.update_keys();
    let before = met.ours.info().counters.packets_received;
    met.say(DATA, &[Frame::Ping]);
    let after = met.ours.info().counters;
    assert_eq!((after.packets_received - before, after.key_updates), (1, 1));
}

#[test]
fn a_second_update_before_the_first_was_followed_is_a_breach() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::Ping]);
    met.puppet.update_keys();
    // Ours says nothing in between.
    let packet = met.puppet.packet(DATA, vec![1]);
    met.deliver(packet);
    met.puppet.update_keys();
    let packet = met.puppet.packet(DATA, vec![1]);
    met.deliver(packet);
    assert_eq!(met.breach(), Some(code::KEY_UPDATE_ERROR));
}

#[test]
fn a_packet_with_the_last_key_is_taken_if_it_is_late_and_a_breach_if_it_is_newer() {
    let mut met = Met::server(Config::default());
    let (dcid, next) = (met.puppet.dcid, met.puppet.next(DATA));
    let late = met.puppet.numbered(dcid, DATA, next, &[1], &[]);
    // Ours begins the update: the peer may not know yet, and what it says has the last key.
    met.say_at(DATA, next + 1);
    assert!(met.settle_and_update());
    let newer = met.puppet.numbered(dcid, DATA, next + 20, &[1], &[]);
    met.deliver(late);
    met.deliver(newer);
    assert_eq!(met.breach(), None, "it has not followed");
    met.puppet.update_keys();
    let older_with_new = met.puppet.numbered(dcid, DATA, next + 10, &[1], &[]);
    met.deliver(older_with_new);
    assert_eq!(met.breach(), Some(code::KEY_UPDATE_ERROR));
}

#[test]
fn keys_are_not_updated_before_the_peer_has_acknowledged_the_last_ones() {
    let mut met = Met::server(Config::default());
    assert!(met.settle_and_update());
    assert!(!met.ours.update_keys(), "nothing left under it that was acknowledged");
}

/// Packets that a weak key may seal.
const WORN_OUT: u64 = 300;

/// AES-128-GCM whose keys are worn out soon.
struct Weak(&'static dyn Algorithm);

impl Algorithm for Weak {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(WeakKey { key: self.0.packet_key(key, iv), sealed: AtomicU64::new(0) })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.0.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.0.aead_key_len()
    }
}

struct WeakKey {
    key: Box<dyn PacketKey>,
    sealed: AtomicU64,
}

impl PacketKey for WeakKey {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, rustls::Error> {
        let before = self.sealed.fetch_add(1, Ordering::Relaxed);
        assert!(before < WORN_OUT, "a packet beyond the limit");
        self.key.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        self.key.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        WORN_OUT
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

/// A server of ours with weak keys.
fn server_with_weak_keys() -> Met {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let weak = Box::leak(Box::new(Weak(suite.quic.unwrap())));
    let suite: &'static _ = Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..suite.common },
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: Some(weak),
    }));
    let cipher_suites = vec![SupportedCipherSuite::Tls13(suite)];
    let server = tls::server_by(CryptoProvider { cipher_suites, ..default_provider() });
    let parameters = Parameters { initial_scid: Some(id(2)), ..usual() };
    let sessions = Sessions { server, ..Sessions::none() };
    let mut met = Met::server_of(id(2), Config::default(), emitted(&parameters), sessions);
    met.exchange();
    assert!(met.ours.is_established(), "{:?}", met.ours.closed());
    met
}

#[test]
fn a_connection_whose_keys_are_worn_out_ends_while_they_are_good_for_telling_so() {
    let mut met = server_with_weak_keys();
    let mut said = 0;
    while met.ours.closed().is_none() {
        met.say(DATA, &[Frame::Ping]);
        said += 1;
    }
    assert_eq!(met.breach(), Some(code::AEAD_LIMIT_REACHED));
    assert!(said >= WORN_OUT - 100, "{said}");
    let told = |met: &Met| met.sent.len();
    let before = told(&met);
    (0..5_000).for_each(|_| met.say(DATA, &[Frame::Ping]));
    assert!(told(&met) > before + 10, "it is said again, the more seldom the more comes");
    let is_it = |frame: &Frame<'_>| {
        matches!(frame, Frame::Close(Close { code: code::AEAD_LIMIT_REACHED, .. }))
    };
    assert!(met.heard(is_it));
}
