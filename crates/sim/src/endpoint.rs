//! What a world asks of the hosts in it.

use tack_link::{HostId, Packet, PacketKind};
use tack_units::Instant;

/// A packet that a host wants on its way; the world adds number, source and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Whom it is for.
    pub dst: HostId,
    /// Size on the IP level.
    pub ip_bytes: u32,
    /// What it is for, for accounting.
    pub kind: PacketKind,
    /// The bytes from the IP header on; empty for open-loop traffic.
    pub bytes: Vec<u8>,
    /// ECN field of the IP header.
    pub ecn: u8,
}

/// Memory of packets that arrived, for those to come: a packet of 1500 bytes is more than allocators
/// have at hand.
#[derive(Debug, Default)]
pub struct Spare(Vec<Vec<u8>>);

/// Packets whose memory is kept.
const MOST_SPARE: usize = 1_024;

impl Spare {
    /// Empty, and as large as some packet was.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < MOST_SPARE && bytes.capacity() > 0 {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}

/// A host without a clock. After each packet and each timeout the world calls
/// [`Endpoint::poll_transmit`] until `None`, and then asks for the deadline.
pub trait Endpoint {
    /// Takes a packet that arrived.
    fn handle(&mut self, packet: &Packet, now: Instant);

    /// The next packet to send at `now`. Its bytes may lie in `spare` memory.
    fn poll_transmit(&mut self, spare: &mut Spare, now: Instant) -> Option<Outgoing>;

    /// When [`Endpoint::handle_timeout`] is next due; `None` is never. Asked once before the
    /// first event as well.
    fn deadline(&self) -> Option<Instant>;

    /// Runs every timer that is due. Harmless when none is.
    fn handle_timeout(&mut self, now: Instant);
}
