//! What passed the two ends of a path.

use tack_link::{End, Packet, PacketKind};

/// Packets by kind, and bytes of all, on the IP level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets with application bytes.
    pub data: u64,
    /// Packets that acknowledge only; TCP's handshake and teardown count here.
    pub acks: u64,
    /// Bytes of both.
    pub ip_bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, packet: &Packet) {
        match packet.kind {
            PacketKind::Data => self.data += 1,
            PacketKind::Ack => self.acks += 1,
        }
        self.ip_bytes += u64::from(packet.ip_bytes);
    }

    /// What came after `earlier`.
    pub fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            data: self.data - earlier.data,
            acks: self.acks - earlier.acks,
            ip_bytes: self.ip_bytes - earlier.ip_bytes,
        }
    }
}

/// What entered and what left the path, counted at the moment it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    entered: [Tally; 2],
    left: [Tally; 2],
}

impl Passed {
    /// What the host at `end` sent into the path.
    pub fn entered(&self, end: End) -> Tally {
        self.entered[index(end)]
    }

    /// What the host at `end` got out of it.
    pub fn left(&self, end: End) -> Tally {
        self.left[index(end)]
    }

    /// What came after `earlier`.
    pub fn since(&self, earlier: &Passed) -> Passed {
        let each =
            |now: &[Tally; 2], then: &[Tally; 2]| [now[0].since(&then[0]), now[1].since(&then[1])];
        Passed {
            entered: each(&self.entered, &earlier.entered),
            left: each(&self.left, &earlier.left),
        }
    }

    pub(crate) fn enter(&mut self, end: End, packet: &Packet) {
        self.entered[index(end)].add(packet);
    }

    pub(crate) fn leave(&mut self, end: End, packet: &Packet) {
        self.left[index(end)].add(packet);
    }
}

/// Where an end's things are kept.
pub(crate) const fn index(end: End) -> usize {
    match end {
        End::A => 0,
        End::B => 1,
    }
}
