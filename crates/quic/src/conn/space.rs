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

impl From<crate::streams::Carried> for Carried {
    fn from(carried: crate::streams::Carried) -> Carried {
        Carried::Stream(carried)
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
