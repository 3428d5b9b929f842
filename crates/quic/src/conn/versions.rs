//! A server's change to the version that its client would rather speak [RFC 9368 §2.3, RFC 9369 §4].
//!
//! ```text
//! client   first flight of version A, "available: B, A" in its ClientHello
//! server   knows B too: all that it says from its first CRYPTO frame on is of B, "chosen: B"
//! client   goes on in B; what it repeats of its first flight is of A
//! ```
//!
//! The keys of TLS are the version's, so the whole ClientHello must have come before TLS begins. Without
//! 0-RTT alone: its packets would be of A, and so would the session that they go by.

use rustls::Side;

use super::Connection;
use crate::error::{Violation, code};
use crate::protection::initial_keys;
use crate::wire::{Hello, Parameters, Sender, Version, VersionInformation};

/// The version that a server speaks with a client that began with `first` and says this of itself.
fn chosen(first: Version, offered: &VersionInformation) -> Version {
    let names_first = offered.chosen == first.number();
    offered.available.first().copied().filter(|_| names_first).unwrap_or(first)
}

impl Connection {
    /// Bytes of the client's handshake came, in order: all of what TLS is to read now, which is nothing while a
    /// ClientHello is not whole. With it the version is settled.
    pub(super) fn settle_version(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Violation> {
        let Some(hello) = &mut self.hello else { return Ok(bytes) };
        hello.extend_from_slice(&bytes);
        let read = match Hello::read(hello) {
            Hello::Partial => return Ok(Vec::new()),
            Hello::Whole { parameters, is_early } => parameters
                .filter(|_| !is_early)
                .and_then(|it| Parameters::parse(it, Sender::Client).ok()),
            Hello::Other => None,
        };
        let offered = read.and_then(|parameters| parameters.version_information);
        let version = offered.map_or(self.version, |offered| chosen(self.version, &offered));
        if version != self.version {
            self.change_version(version)?;
        }
        Ok(self.hello.take().unwrap_or_default())
    }

    fn change_version(&mut self, version: Version) -> Result<(), Violation> {
        self.ours.version_information = Some(VersionInformation::of_server(version));
        let tls = self.tls.anew(version, &self.ours);
        self.tls =
            tls.map_err(|_| Violation::new(code::INTERNAL_ERROR, "TLS has no such version"))?;
        let keys = initial_keys(version, &self.original_dcid, Side::Server);
        let keys = self.initial_keys.replace(keys);
        self.first_keys = keys.map(|keys| (self.version, keys.remote));
        self.version = version;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_chooses_what_its_client_prefers_unless_that_contradicts_itself() {
        let (v1, v2) = (Version::V1, Version::V2);
        let of = |first, said: Version, available: &[Version]| {
            let (chosen_, available) = (said.number(), available.to_vec());
            chosen(first, &VersionInformation { chosen: chosen_, available })
        };
        assert_eq!(of(v1, v1, &[v2, v1]), v2);
        assert_eq!(of(v1, v1, &[v1, v2]), v1);
        assert_eq!(of(v2, v2, &[v1, v2]), v1);
        assert_eq!(of(v1, v2, &[v2, v1]), v1, "it did not begin with what it says");
        assert_eq!(of(v1, v1, &[]), v1);
    }
}
