//! Who a server is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustls::crypto::ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Fingerprint, TlsError};

/// The file below the configuration directory that holds key and certificate.
const FILE: &str = "identity.pem";

/// A certificate chain and its private key.
#[derive(Debug)]
pub struct ServerIdentity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
}

impl ServerIdentity {
    /// From PEM: the chain with the server's certificate first, and its key. Both may be the same
    /// text.
    ///
    /// # Errors
    /// Malformed PEM, or nothing in it.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<ServerIdentity, TlsError> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>()?;
        let first = chain.first().ok_or(TlsError::NoCertificate)?;
        let fingerprint = Fingerprint::of(first)?;
        Ok(ServerIdentity { key: PrivateKeyDer::from_pem_slice(key)?, fingerprint, chain })
    }

    /// As [`ServerIdentity::from_pem`], from files.
    ///
    /// # Errors
    /// As there, or a file cannot be read.
    pub fn from_pem_files(chain: &Path, key: &Path) -> Result<ServerIdentity, TlsError> {
        ServerIdentity::from_pem(&read(chain)?, &read(key)?)
    }

    /// A new key with a certificate signed by itself for `names`, kept in memory only. Clients can
    /// trust it by its [`fingerprint`](Self::fingerprint).
    ///
    /// # Errors
    /// A name that cannot stand in a certificate.
    pub fn generate(names: &[&str]) -> Result<ServerIdentity, TlsError> {
        let pem = generate_pem(names)?;
        ServerIdentity::from_pem(pem.as_bytes(), pem.as_bytes())
    }

    /// The identity kept in `dir`, made there on first use; only the user may read the file. See
    /// [`config_dir`](super::config_dir).
    ///
    /// # Errors
    /// The directory or the file cannot be read or written, or others can read the file.
    pub fn load_or_generate(dir: &Path) -> Result<ServerIdentity, TlsError> {
        let path = dir.join(FILE);
        if !path.exists() {
            let at = |source| TlsError::File { path: path.clone(), source };
            fs::create_dir_all(dir).map_err(at)?;
            let pem = generate_pem(&["localhost"])?;
            keep_first(&path, |file| file.write_all(pem.as_bytes())).map_err(at)?;
        }
        let pem = read_secret(&path)?;
        ServerIdentity::from_pem(&pem, &pem)
    }

    /// A secret that follows from the private key and `context`, and tells nothing of the key:
    /// HKDF [RFC 5869].
    pub fn derive(&self, context: &str) -> [u8; 32] {
        let suite = TLS13_CHACHA20_POLY1305_SHA256.tls13().expect("a suite of TLS 1.3");
        let key = suite.hkdf_provider.extract_from_secret(Some(b"tack"), self.key.secret_der());
        let mut secret = [0; 32];
        key.expand_slice(&[context.as_bytes()], &mut secret).expect("as long as the hash");
        secret
    }

    /// What a client pins.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Reads a file that nobody else may read.
fn read_secret(path: &Path) -> Result<Vec<u8>, TlsError> {
    let at = |source| TlsError::File { path: path.to_owned(), source };
    let mut file = fs::File::open(path).map_err(at)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(at)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(TlsError::Readable { path, mode });
        }
    }
    let mut secret = Vec::new();
    file.read_to_end(&mut secret).map_err(at)?;
    Ok(secret)
}

fn generate_pem(names: &[&str]) -> Result<String, TlsError> {
    let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

/// Has `write` write `path` unless another process was first; nobody ever sees half a file.
fn keep_first(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let draft = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    // Unlike a rename, a link never replaces what is there.
    let kept = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    });
    // On a full disk, too: half a key is of no use to anybody.
    let removed = fs::remove_file(&draft);
    kept.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_readable_by_its_user_only() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("tack");
        let first = ServerIdentity::load_or_generate(&dir).unwrap();
        let again = ServerIdentity::load_or_generate(&dir).unwrap();
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no draft is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir.join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
        assert_ne!(first.fingerprint(), ServerIdentity::generate(&["x"]).unwrap().fingerprint());
    }

    #[test]
    fn a_key_that_a_full_disk_does_not_take_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let full = keep_first(&dir.path().join(FILE), |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn an_identity_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        ServerIdentity::load_or_generate(dir.path()).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            let open = fs::Permissions::from_mode(mode);
            fs::set_permissions(dir.path().join(FILE), open).unwrap();
            let refused = ServerIdentity::load_or_generate(dir.path()).unwrap_err();
            assert!(refused.to_string().contains("chmod 600"), "{refused}");
        }
        fs::set_permissions(dir.path().join(FILE), fs::Permissions::from_mode(0o600)).unwrap();
        ServerIdentity::load_or_generate(dir.path()).unwrap();
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        let pem = generate_pem(&["localhost"]).unwrap();
        let key_only = pem.split_inclusive("-----END PRIVATE KEY-----\n").next().unwrap();
        assert!(ServerIdentity::from_pem(pem.as_bytes(), b"").is_err());
        assert!(matches!(
            ServerIdentity::from_pem(key_only.as_bytes(), key_only.as_bytes()),
            Err(TlsError::NoCertificate)
        ));
        assert!(ServerIdentity::from_pem(b"-----BEGIN CERTIFICATE-----", b"x").is_err());
    }
}
