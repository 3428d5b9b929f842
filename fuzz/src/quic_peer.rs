//! A server of ours and a client that finishes a handshake and then says whatever it likes.
//!
//! Whatever comes: no panic, no endless talk at one moment, and no more than three times what came before
//! the client has shown where it is.

use core::time::Duration;
use std::sync::{Arc, OnceLock};

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::quic::{ClientConnection, KeyChange, Keys, Version as TlsVersion};
use rustls::{ClientConfig, RootCertStore, ServerConfig, Side, version::TLS13};
use tack_quic::protection::{initial_keys, open, seal};
use tack_quic::streams::Dir;
use tack_quic::wire::{
    ConnectionId, Frame, Header, LongKind, PacketNumber, Parameters, Protected, Reader, Version,
};
use tack_quic::{Accept, Config, Connection};
use tack_units::Instant;

const NAME: &str = "fuzz.test";
const CID_LEN: usize = 8;
const MAX_OPERATIONS: usize = 200;
/// Datagrams that may leave at one moment: a window, and what acknowledges.
const MAX_AT_ONCE: usize = 2_000;

fn tls() -> &'static (Arc<ClientConfig>, Arc<ServerConfig>) {
    static TLS: OnceLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = OnceLock::new();
    TLS.get_or_init(|| {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let params = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
        let certificate: CertificateDer<'static> =
            params.self_signed(&key).expect("a certificate").der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a root");
        let client = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let server = ServerConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key is the certificate's");
        (client.into(), server.into())
    })
}

/// The client: as much of QUIC as a handshake takes.
struct Peer {
    tls: ClientConnection,
    ids: (ConnectionId, ConnectionId),
    keys: [Option<Keys>; 3],
    next: [u64; 3],
    heard: [u64; 3],
    /// Bytes of each CRYPTO stream sent.
    said: [u64; 3],
}

impl Peer {
    fn new(with_tack: bool) -> Peer {
        let id = |byte| ConnectionId::new(&[byte; CID_LEN]).expect("8 bytes");
        let mut parameters = Vec::new();
        Parameters {
            initial_scid: Some(id(2)),
            max_data: 50_000,
            max_stream_data_bidi_local: 20_000,
            max_stream_data_bidi_remote: 20_000,
            max_stream_data_uni: 20_000,
            max_streams_bidi: 5,
            max_streams_uni: 5,
            tack: with_tack.then_some(1),
            ..Parameters::default()
        }
        .emit(&mut parameters);
        let name = NAME.try_into().expect("a name");
        let config = Arc::clone(&tls().0);
        let tls = ClientConnection::new(config, TlsVersion::V1, name, parameters).expect("QUIC");
        let keys = [Some(initial_keys(Version::V1, &id(1), Side::Client)), None, None];
        Peer { tls, ids: (id(1), id(2)), keys, next: [0; 3], heard: [0; 3], said: [0; 3] }
    }

    /// A datagram with `frames` in space `space`; `None`: there are no keys yet.
    fn seal(&mut self, space: usize, mut frames: Vec<u8>) -> Option<Vec<u8>> {
        let keys = self.keys[space].as_ref()?;
        let (dcid, scid) = self.ids;
        let long = |kind| Header::Long { version: Version::V1, kind, dcid, scid, token: &[] };
        let header = match space {
            0 => long(LongKind::Initial),
            1 => long(LongKind::Handshake),
            _ => Header::Short { dcid, key_phase: false },
        };
        if space == 0 {
            frames.resize(frames.len().max(1_200), 0);
        }
        let number = self.next[space];
        self.next[space] += 1;
        let mut packet = Vec::new();
        let as_sent = PacketNumber::in_bytes(number, 4);
        seal((&keys.local).into(), &header, number, as_sent, &frames, &mut packet);
        Some(packet)
    }

    /// What TLS wants to say, in datagrams.
    fn speak(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            let space = self.keys.iter().rposition(Option::is_some).expect("Initial keys");
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            if !bytes.is_empty() {
                let mut frames = Vec::new();
                Frame::Crypto { offset: self.said[space], data: &bytes }.emit(&mut frames);
                self.said[space] += bytes.len() as u64;
                datagrams.extend(self.seal(space, frames));
            }
            match change {
                Some(KeyChange::Handshake { keys }) => self.keys[1] = Some(keys),
                Some(KeyChange::OneRtt { keys, .. }) => self.keys[2] = Some(keys),
                None => return datagrams,
            }
        }
    }

    /// Reads what the server says of the handshake; nothing is lost, so all comes in order.
    fn hear(&mut self, datagram: &mut [u8]) {
        let mut at = 0;
        while let Ok(Protected { header, number_at: Some(number_at), end }) =
            Protected::parse(&datagram[at..], CID_LEN)
        {
            let (space, scid) = match header {
                Header::Long { kind: LongKind::Initial, scid, .. } => (0, Some(scid)),
                Header::Long { scid, .. } => (1, Some(scid)),
                _ => (2, None),
            };
            self.ids.0 = scid.unwrap_or(self.ids.0);
            let packet = &mut datagram[at..at + end];
            at += end;
            let Some(keys) = &self.keys[space] else { continue };
            let expected = self.heard[space];
            let Ok(opened) = open(&keys.remote, packet, number_at, expected) else { continue };
            self.heard[space] = opened.number + 1;
            let mut reader = Reader::new(opened.frames);
            while let Ok(frame) = Frame::parse(&mut reader) {
                if let Frame::Crypto { data, .. } = frame
                    && space < 2
                {
                    // A second flight would be a repetition, which TLS would take for an error.
                    let _ = self.tls.read_hs(data);
                    while let Some(KeyChange::Handshake { keys }) = self.change() {
                        self.keys[1] = Some(keys);
                    }
                }
            }
        }
    }

    /// Keys may be due before there is anything to say.
    fn change(&mut self) -> Option<KeyChange> {
        if self.keys[1].is_some() {
            return None;
        }
        let mut nothing = Vec::new();
        let change = self.tls.write_hs(&mut nothing);
        assert!(nothing.is_empty(), "a client says nothing between the server's flights");
        change
    }
}

/// First byte: configuration; then operations: what, how much, and the frames themselves.
pub fn quic_peer(data: &[u8]) -> bool {
    let Some((&choice, mut rest)) = data.split_first() else { return false };
    let (mut peer, mut now) = (Peer::new(choice & 1 > 0), Instant::ZERO);
    let config = Config {
        initial_window: 10_000,
        initial_connection_window: 20_000,
        max_streams_bidi: 8,
        max_streams_uni: 8,
        ..Config::default()
    };
    let accept = Accept {
        remote: ([10, 0, 0, 1], 1).into(),
        is_validated: false,
        version: Version::V1,
        original_dcid: peer.ids.0,
        retry_scid: None,
        remote_cid: peer.ids.1,
        tls: Arc::clone(&tls().1),
        config,
        seed: [7; 32],
    };
    let remote = accept.remote;
    let mut server = Connection::accept(accept, now).expect("TLS does QUIC");
    let (mut came, mut went) = (0, 0);
    for _ in 0..MAX_OPERATIONS {
        for mut datagram in peer.speak() {
            came += datagram.len();
            server.handle(remote, 0, &mut datagram, now);
        }
        let mut at_once = 0;
        let mut datagram = Vec::new();
        while server.poll_transmit(&mut datagram, now).is_some() {
            went += datagram.len();
            at_once += 1;
            assert!(at_once < MAX_AT_ONCE, "the server does not stop talking");
            peer.hear(&mut datagram);
            datagram.clear();
        }
        let shown = peer.keys[1].is_some() && peer.next[1] > 0;
        assert!(shown || went <= 3 * came, "{went} for {came}");
        while server.poll_event().is_some() {}
        let Some((&[what, len], more)) = rest.split_first_chunk() else { break };
        let (frames, more) = more.split_at(usize::from(len).min(more.len()));
        rest = more;
        match what % 8 {
            0..=4 => {
                let space = if what % 8 == 4 { usize::from(what >> 3) % 3 } else { 2 };
                if let Some(mut datagram) = peer.seal(space, frames.to_vec()) {
                    came += datagram.len();
                    server.handle(remote, (what >> 6) & 3, &mut datagram, now);
                }
            }
            5 => {
                now += Duration::from_millis(u64::from(len));
                server.handle_timeout(now);
            }
            6 => {
                if let Ok(id) = server.open(Dir::Bidi, now) {
                    // The peer may have ended it all already.
                    let _ = server.write(id, &[7; 9_000]);
                    let _ = server.finish(id);
                }
            }
            _ => {
                let mut buffer = [0; 4_000];
                for index in 0..8 {
                    let id = tack_quic::streams::StreamId::new(Side::Client, Dir::Bidi, index);
                    let _ = server.read(id, &mut buffer);
                }
            }
        }
    }
    server.is_established()
}
