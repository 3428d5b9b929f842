//! The server's key, and what a client believes: files in the directory both run in.

use std::fs;
use std::sync::Arc;

use anyhow::Result;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) const CERTIFICATE: &str = "cert.pem";
pub(crate) const KEY: &str = "key.pem";
/// Whom the certificate names.
pub(crate) const NAME: &str = "localhost";

/// Makes both.
pub(crate) fn make() -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(vec![NAME.to_owned()])?;
    fs::write(KEY, key.serialize_pem())?;
    fs::write(CERTIFICATE, params.self_signed(&key)?.pem())?;
    Ok(())
}

pub(crate) fn certificate() -> Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(&fs::read(CERTIFICATE)?)?)
}

pub(crate) fn key() -> Result<PrivateKeyDer<'static>> {
    Ok(PrivateKeyDer::from_pem_slice(&fs::read(KEY)?)?)
}

pub(crate) fn roots() -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()?)?;
    Ok(Arc::new(roots))
}
