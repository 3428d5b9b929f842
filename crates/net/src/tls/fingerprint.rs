//! A short name for a public key.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};

/// SHA-256 of a certificate's public key (its SubjectPublicKeyInfo), written as `SHA256:` and
/// base64 without padding, as ssh writes its own. A certificate renewed with the same key keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// Text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is SHA256: and 43 base64 digits")]
pub struct ParseFingerprintError;

const PREFIX: &str = "SHA256:";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Fingerprint {
    /// The fingerprint of a certificate's key.
    ///
    /// # Errors
    /// The certificate is malformed.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
        let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        Ok(Fingerprint(Sha256::digest(&key).into()))
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for group in self.0.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b));
            let bits = bits << (8 * (3 - group.len()));
            for digit in 0..=group.len() {
                let value = bits >> (18 - 6 * digit) & 63;
                write!(f, "{}", char::from(DIGITS[value as usize]))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(s: &str) -> Result<Self, ParseFingerprintError> {
        let digits = s.strip_prefix(PREFIX).ok_or(ParseFingerprintError)?.trim_end_matches('=');
        if digits.len() != 43 {
            return Err(ParseFingerprintError);
        }
        let mut hash = [0; 32];
        for (group, out) in digits.as_bytes().chunks(4).zip(hash.chunks_mut(3)) {
            let mut bits = 0u32;
            for digit in group {
                let value = DIGITS.iter().position(|d| d == digit).ok_or(ParseFingerprintError)?;
                bits = bits << 6 | value as u32;
            }
            bits <<= 6 * (4 - group.len());
            if bits & ((1u32 << (8 * (3 - out.len()))) - 1) != 0 {
                // Digits beyond the hash: another spelling of the same bytes.
                return Err(ParseFingerprintError);
            }
            out.copy_from_slice(&bits.to_be_bytes()[1..=out.len()]);
        }
        Ok(Fingerprint(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_matches_base64() {
        let mut hash = [0u8; 32];
        for round in 0..200u32 {
            for (i, b) in hash.iter_mut().enumerate() {
                *b = (round.wrapping_mul(2_654_435_761).rotate_left(i as u32) >> 7) as u8;
            }
            let text = Fingerprint(hash).to_string();
            assert_eq!(text.parse(), Ok(Fingerprint(hash)), "{text}");
        }
        // "Man" is the example everybody knows; the hash of it does not matter here.
        let mut man = [0u8; 32];
        man[..3].copy_from_slice(b"Man");
        assert!(Fingerprint(man).to_string().starts_with("SHA256:TWFuAAAA"));
    }

    #[test]
    fn other_spellings_and_other_hashes_are_refused() {
        let good = Fingerprint([0xff; 32]).to_string();
        for bad in [
            "",
            "SHA256:",
            "MD5:abc",
            &good[7..],
            &good[..49],
            &format!("{good}A"),
            &good.replace('8', "*"),
            &good.replace('8', "9"),
        ] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(ParseFingerprintError), "{bad}");
        }
    }
}
