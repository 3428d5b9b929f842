//! Stream IDs [RFC 9000 §2.1].

use rustls::Side;

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Both sides send.
    Bidi,
    /// Who opened it sends.
    Uni,
}

/// A stream's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

impl StreamId {
    /// The `index`th stream that `opener` opens in direction `dir`.
    pub fn new(opener: Side, dir: Dir, index: u64) -> StreamId {
        StreamId(index << 2 | (dir as u64) << 1 | u64::from(opener == Side::Server))
    }

    /// As it travels.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Who opened it.
    pub fn opener(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Which way it goes.
    pub fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bidi } else { Dir::Uni }
    }

    /// How many of its kind came before.
    pub fn index(self) -> u64 {
        self.0 >> 2
    }
}
