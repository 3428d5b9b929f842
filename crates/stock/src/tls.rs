//! A certificate of the simulation's own. Every field has one length, so that handshakes are alike to
//! the byte count from run to run.

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::SetupError;

/// The name that it is for.
pub(crate) const NAME: &str = "stock.test";

/// The certificate, its key, and a store that trusts it alone.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) roots: RootCertStore,
}

pub(crate) fn identity() -> Result<Identity, SetupError> {
    let failed = |e: &dyn std::fmt::Display| SetupError::Tls(e.to_string());
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(|e| failed(&e))?;
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).map_err(|e| failed(&e))?;
    params.serial_number = Some(SerialNumber::from_slice(&[1]));
    let certificate = params.self_signed(&key).map_err(|e| failed(&e))?.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(|e| failed(&e))?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|e| failed(&e))?;
    Ok(Identity { certificate, key, roots })
}
