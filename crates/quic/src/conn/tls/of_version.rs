//! A server's sessions and tickets, good for the version that gave them and no other [RFC 9369 §5]: what is kept
//! begins with its number. Of another version it is as good as none, and the handshake is a whole one.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};

use crate::wire::Version;

/// `config` for connections of `version`.
pub(super) fn of_version(config: &ServerConfig, version: Version) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.session_storage = Arc::new(OfVersion { version, inner: config.session_storage });
    config.ticketer = Arc::new(OfVersion { version, inner: config.ticketer });
    Arc::new(config)
}

#[derive(Debug)]
struct OfVersion<T: ?Sized> {
    version: Version,
    inner: Arc<T>,
}

impl<T: ?Sized> OfVersion<T> {
    fn mark(&self, value: &[u8]) -> Vec<u8> {
        [&self.version.number().to_be_bytes(), value].concat()
    }

    fn unmark(&self, value: &[u8]) -> Option<Vec<u8>> {
        value.strip_prefix(&self.version.number().to_be_bytes()).map(<[u8]>::to_vec)
    }
}

impl StoresServerSessions for OfVersion<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, self.mark(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unmark(&self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unmark(&self.inner.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

impl ProducesTickets for OfVersion<dyn ProducesTickets> {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&self.mark(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.unmark(&self.inner.decrypt(cipher)?)
    }
}
