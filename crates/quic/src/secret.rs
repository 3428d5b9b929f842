//! What nobody else can guess: connection IDs, tokens of stateless resets, seeds.

use ring::hmac;

use crate::wire::ConnectionId;

/// Bytes of the connection IDs that are issued here.
pub(crate) const CID_LEN: usize = 8;

/// What a value is for: values for different uses must not be comparable.
#[derive(Clone, Copy, Debug)]
enum Use {
    Cid = 1,
    Reset = 2,
    Word = 3,
    Token = 4,
}

/// A secret of 32 random bytes, and what is derived from it; tokens of resets may have a key of their
/// own.
#[derive(Clone)]
pub(crate) struct Secret {
    key: hmac::Key,
    resets: hmac::Key,
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        Secret { resets: key.clone(), key }
    }

    /// The same, with resets by what follows from this key in this context.
    pub(crate) fn with_reset_key(self, key: &[u8; 32], context: &[u8]) -> Secret {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), context);
        Secret { resets: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()), ..self }
    }

    fn derive<const N: usize>(&self, usage: Use, of: &[u8]) -> [u8; N] {
        let key = if matches!(usage, Use::Reset) { &self.resets } else { &self.key };
        let mut context = hmac::Context::with_key(key);
        context.update(&[usage as u8]);
        context.update(of);
        context.sign().as_ref()[..N].try_into().expect("a tag has 32 bytes")
    }

    /// Connection ID `sequence` of connection `number`.
    pub(crate) fn cid(&self, number: u64, sequence: u64) -> ConnectionId {
        let bytes: [u8; CID_LEN] = self.derive(Use::Cid, &of(number, sequence));
        ConnectionId::new(&bytes).expect("it is short enough")
    }

    /// What resets a connection with `cid` [RFC 9000 §10.3.2].
    pub(crate) fn reset_token(&self, cid: &ConnectionId) -> [u8; 16] {
        self.derive(Use::Reset, cid.as_bytes())
    }

    /// The tag of a token that says `of`.
    pub(crate) fn token_tag(&self, of: &[u8]) -> [u8; 16] {
        self.derive(Use::Token, of)
    }

    /// The `index`th random number of connection `number`.
    pub(crate) fn word(&self, number: u64, index: u64) -> u64 {
        u64::from_le_bytes(self.derive(Use::Word, &of(number, index)))
    }
}

fn of(number: u64, index: u64) -> [u8; 16] {
    (u128::from(number) << 64 | u128::from(index)).to_le_bytes()
}
