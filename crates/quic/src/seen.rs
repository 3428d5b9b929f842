//! What whoever looks on is told of connections: each packet in clear, what was dropped and why, and what
//! acknowledgments changed.
//!
//! Packets are protected, so nobody can read them from outside. An endpoint that
//! [is looked at](crate::Endpoint::look) keeps a copy of what passed until it is polled; one that is not keeps
//! nothing and pays nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tack_transport::Figures;
use tack_units::Instant;

use crate::wire::{ConnectionId, LongKind};

/// Something that happened on a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// The peer's address.
    pub peer: SocketAddr,
    /// What the client's first packet was sent to, which names the connection at both ends; of a packet for no
    /// connection, what that was sent to.
    pub original_dcid: ConnectionId,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A packet left.
    Sent(SeenPacket),
    /// A packet arrived that could be opened and was new.
    Received(SeenPacket),
    /// A packet arrived and was not read; its bytes, or those of its datagram.
    Dropped(usize, DropReason),
    /// A packet of ours, by keys and number, is taken for lost, and why.
    Lost(PacketKind, u64, LossReason),
    /// An acknowledgment, or its absence, told something of the path.
    Figures(Figures),
}

/// A packet in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPacket {
    /// Which keys protect it.
    pub kind: PacketKind,
    /// Packet number.
    pub number: u64,
    /// Bytes of it as it travels.
    pub bytes: usize,
    /// Its frames, for [`Frame::parse`](crate::wire::Frame::parse).
    pub frames: Vec<u8>,
    /// Why it acknowledges something. `None`: it does not, or the peer sent it, and no frame says why.
    pub reason: Option<AckReason>,
}

/// Which keys protect a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Those of a first packet.
    Initial,
    /// Those of what a client says before the handshake is done.
    ZeroRtt,
    /// Those of the handshake.
    Handshake,
    /// Those of the application's data.
    OneRtt,
}

impl From<LongKind> for PacketKind {
    fn from(kind: LongKind) -> PacketKind {
        match kind {
            LongKind::Initial => PacketKind::Initial,
            LongKind::ZeroRtt => PacketKind::ZeroRtt,
            LongKind::Handshake => PacketKind::Handshake,
        }
    }
}

/// Why an acknowledgment left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckReason {
    /// It is a TACK, due by Eq. 4.
    Tack,
    /// It is a TACK that leaves at once: a gap has settled.
    Loss,
    /// Marks of congestion arrived.
    CongestionExperienced,
    /// So many packets arrived since the last [RFC 9000 §13.2.2].
    Count,
    /// The longest delay has passed [RFC 9000 §13.2.1].
    Delay,
    /// A packet came out of order.
    Reordering,
    /// The peer asked for one at once: IMMEDIATE_ACK.
    Immediate,
    /// A packet of the handshake is acknowledged at once.
    Handshake,
    /// A packet left anyway, and there was something to acknowledge.
    Piggyback,
}

/// Why a packet is taken for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// As many sent after it have arrived [RFC 9002 §6.1.1].
    Overtaken,
    /// One sent after it arrived, and it did not for so long [RFC 9002 §6.1.2].
    Late,
    /// TACK: its receiver says so, or nothing came back for too long.
    Told,
}

/// Why a packet was dropped, by the names of qlog [draft-ietf-quic-qlog-quic-events].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It is no packet, or a header has what it may not.
    Header,
    /// It is for no connection.
    Unknown,
    /// There are no keys, or none yet: it may wait for them.
    KeyUnavailable,
    /// It is damaged, or forged.
    Decryption,
    /// It had come before.
    Duplicate,
    /// A Retry, a Version Negotiation or something that has no use now.
    Unexpected,
}

/// Events that wait to be polled; of more, the newest are not kept.
const MOST: usize = 1 << 12;

/// What waits to be polled; `None`: nobody looks on.
#[derive(Debug, Default)]
pub(crate) struct Log(Option<VecDeque<Seen>>);

impl Log {
    /// Keeps what happens from now on.
    pub(crate) fn open(&mut self) {
        self.0.get_or_insert_default();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Notes what `seen` says, if somebody looks on.
    pub(crate) fn note(&mut self, seen: impl FnOnce() -> Seen) {
        if let Some(waiting) = self.0.as_mut().filter(|waiting| waiting.len() < MOST) {
            waiting.push_back(seen());
        }
    }

    /// Takes over what waits in another one.
    pub(crate) fn take_from(&mut self, other: &mut Log) {
        if let (Some(waiting), Some(others)) = (&mut self.0, &mut other.0) {
            let room = MOST.saturating_sub(waiting.len());
            waiting.extend(others.drain(..).take(room));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Seen> {
        self.0.as_mut()?.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let peer = "127.0.0.1:1".parse().unwrap();
        let original_dcid = ConnectionId::new(&[1; 8]).unwrap();
        let what = What::Dropped(1, DropReason::Unknown);
        Seen { at: Instant::ZERO, peer, original_dcid, what }
    }

    #[test]
    fn a_log_that_nobody_polls_is_bounded_and_a_closed_one_keeps_nothing() {
        let (mut log, mut closed) = (Log::default(), Log::default());
        log.open();
        for _ in 0..3 * MOST {
            log.note(seen);
            closed.note(|| panic!("nobody looks on"));
        }
        let mut all = Log::default();
        all.open();
        all.note(seen);
        all.take_from(&mut log);
        assert_eq!((std::iter::from_fn(|| all.poll()).count(), log.poll()), (MOST, None));
        assert_eq!(closed.poll(), None);
    }
}
