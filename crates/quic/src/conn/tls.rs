//! The TLS session [RFC 9001 §4], by rustls.

mod of_version;

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{self, DirectionalKeys, KeyChange};
use rustls::{ClientConfig, HandshakeKind, ServerConfig};

use crate::error::{Violation, code};
use crate::wire::{Parameters, Sender, Version};

use of_version::of_version;

/// See the [module's text](self).
pub(crate) struct Tls {
    session: quic::Connection,
    /// A server's: what another session begins with as long as nothing was read.
    begins: Option<(Arc<ServerConfig>, bool)>,
    /// This is a client that names no more than one application protocol.
    one_protocol: bool,
}

impl core::fmt::Debug for Tls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Tls(handshaking: {})", self.session.is_handshaking())
    }
}

fn version(version: Version) -> quic::Version {
    match version {
        Version::V1 => quic::Version::V1,
        Version::V2 => quic::Version::V2,
    }
}

impl Tls {
    pub(crate) fn client(
        config: Arc<ClientConfig>,
        v: Version,
        name: ServerName<'static>,
        ours: &Parameters,
    ) -> Result<Tls, rustls::Error> {
        let mut parameters = Vec::new();
        ours.emit(&mut parameters);
        let one_protocol = config.alpn_protocols.len() <= 1;
        let session = quic::ClientConnection::new(config, version(v), name, parameters)?;
        Ok(Tls { session: session.into(), begins: None, one_protocol })
    }

    pub(crate) fn server(
        config: Arc<ServerConfig>,
        v: Version,
        ours: &Parameters,
        takes_early: bool,
    ) -> Result<Tls, rustls::Error> {
        let mut parameters = Vec::new();
        ours.emit(&mut parameters);
        let begins = Some((Arc::clone(&config), takes_early));
        let config = of_version(&config, v);
        let mut session = quic::ServerConnection::new(config, version(v), parameters)?;
        if !takes_early {
            session.reject_early_data();
        }
        Ok(Tls { session: session.into(), begins, one_protocol: false })
    }

    /// A server that has read nothing yet begins anew, in another version.
    pub(crate) fn anew(&self, v: Version, ours: &Parameters) -> Result<Tls, rustls::Error> {
        let (config, takes_early) = self.begins.clone().expect("a server that has read nothing");
        Tls::server(config, v, ours, takes_early)
    }

    /// The keys of what may be said before the server is heard, and what it said of itself another time. A
    /// client alone has them, before the handshake, and only if it can be sure which protocol will be spoken.
    pub(crate) fn remembered(&self) -> Option<(DirectionalKeys, Parameters)> {
        let keys = self.zero_rtt_keys().filter(|_| self.one_protocol)?;
        Some((keys, self.peer_parameters(Sender::Server).ok()??))
    }

    /// Those of 0-RTT packets, where there may be some.
    pub(crate) fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.session.zero_rtt_keys()
    }

    /// The server has taken what this client said early.
    pub(crate) fn is_early_data_accepted(&self) -> bool {
        match &self.session {
            quic::Connection::Client(client) => client.is_early_data_accepted(),
            quic::Connection::Server(_) => false,
        }
    }

    /// Bytes of the handshake came, in order.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        self.begins = None;
        self.session.read_hs(bytes).map_err(|_| {
            let alert = self.session.alert().map_or(0, |alert| u64::from(u8::from(alert)));
            Violation::new(code::CRYPTO_ERROR + alert, "the handshake failed")
        })
    }

    /// Appends what is to be sent at the present level; with new keys the level changes behind it.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.session.write_hs(out)
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The peer's transport parameters, once they came; `sender` is the peer.
    pub(crate) fn peer_parameters(&self, sender: Sender) -> Result<Option<Parameters>, Violation> {
        let Some(bytes) = self.session.quic_transport_parameters() else { return Ok(None) };
        let parameters = Parameters::parse(bytes, sender);
        parameters.map(Some).map_err(|_| {
            Violation::new(code::TRANSPORT_PARAMETER_ERROR, "transport parameters cannot be read")
        })
    }

    /// The application protocol agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    /// The peer's certificates, its own first.
    pub(crate) fn peer_certificates(
        &self,
    ) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.session.peer_certificates()
    }
}
