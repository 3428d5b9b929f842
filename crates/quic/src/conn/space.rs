//! Packet number spaces [RFC 9000 §12.3].

use crate::seen::PacketKind;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpaceId {
    Initial,
    Handshake,
    /// Of 1-RTT packets, and of 0-RTT packets before them.
    Data,
}

impl SpaceId {
    pub(crate) const ALL: [SpaceId; 3] = [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data];

    /// That packets of a kind are numbered in.
    pub(crate) fn of(kind: PacketKind) -> SpaceId {
        match kind {
            PacketKind::Initial => SpaceId::Initial,
            PacketKind::Handshake => SpaceId::Handshake,
            PacketKind::ZeroRtt | PacketKind::OneRtt => SpaceId::Data,
        }
    }
}

/// What a packet carried that somebody must hear of when it arrives or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// A range of the space's CRYPTO stream.
    Crypto(core::ops::Range<u64>),
    Stream(crate::streams::Carried),
    HandshakeDone,
    NewToken,
    /// NEW_CONNECTION_ID with this number.
    NewCid(u64),
    /// RETIRE_CONNECTION_ID of this number.
    RetireCid(u64),
    /// ACK_FREQUENCY with this number.
    AckFrequency(u64),
    /// An ACK frame that told everything below this PKT.SEQ.
    Acks(u64),
}

/// What a packet carried. One thing nearly always, which is kept without memory of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    first: Option<Carried>,
    more: Vec<Carried>,
}

impl Load {
    pub(crate) fn push(&mut self, carried: Carried) {
        match &self.first {
            None => self.first = Some(carried),
            Some(_) => self.more.push(carried),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Carried> {
        self.first.iter().chain(&self.more)
    }

    pub(crate) fn into_each(self) -> impl Iterator<Item = Carried> {
        self.first.into_iter().chain(self.more)
    }
}

impl FromIterator<Carried> for Load {
    fn from_iter<I: IntoIterator<Item = Carried>>(all: I) -> Load {
        let mut all = all.into_iter();
        Load { first: all.next(), more: all.collect() }
    }
}

impl Extend<crate::streams::Carried> for Load {
    fn extend<I: IntoIterator<Item = crate::streams::Carried>>(&mut self, more: I) {
        more.into_iter().for_each(|carried| self.push(Carried::Stream(carried)));
    }
}
