//! A certificate for the tests, and TLS that trusts it.

use std::sync::{Arc, OnceLock};

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, version::TLS13};

pub(crate) const NAME: &str = "conversation.test";

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Identity { certificate, key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() }
    })
}

/// What TLS goes by at both ends; where it is shared, sessions go on.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Sessions {
    #[allow(dead_code, reason = "shared by tests of which not all need it")]
    pub(crate) fn none() -> Sessions {
        Sessions { client: client(), server: server() }
    }

    /// The client says what it may before it has heard the server, if it knows it from another time, and the
    /// server gives tickets for that.
    pub(crate) fn early() -> Sessions {
        let mut sessions = Sessions { client: client(), server: server() };
        Arc::make_mut(&mut sessions.client).enable_early_data = true;
        Arc::make_mut(&mut sessions.server).max_early_data_size = u32::MAX;
        sessions
    }
}

pub(crate) fn client() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(identity().certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

pub(crate) fn server() -> Arc<ServerConfig> {
    server_by(default_provider())
}

/// With this cryptography.
pub(crate) fn server_by(provider: CryptoProvider) -> Arc<ServerConfig> {
    let Identity { certificate, key } = identity();
    let config = ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.clone_key())
        .unwrap();
    Arc::new(config)
}
