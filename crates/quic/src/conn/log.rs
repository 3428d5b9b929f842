//! What one packet number space has sent and not heard of.

use std::collections::BTreeMap;

use tack_transport::Snapshot;
use tack_units::Instant;

use super::space::Carried;

/// A packet that leaves.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// It asks for an acknowledgment, and counts as in flight.
    pub(crate) eliciting: bool,
    /// Bytes of it.
    pub(crate) bytes: u32,
    pub(crate) carried: Vec<Carried>,
}

/// A packet that left.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) sent: Sent,
    pub(super) at: Instant,
    pub(super) snapshot: Snapshot,
}

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) packets: BTreeMap<u64, Logged>,
    /// The next packet's number.
    pub(super) next: u64,
    pub(super) largest_acked: Option<u64>,
    /// When the oldest packet that was overtaken counts as lost [RFC 9002 §6.1.2].
    pub(super) loss_time: Option<Instant>,
    pub(super) last_eliciting: Option<Instant>,
    /// Packets that ask for an acknowledgment, and their bytes.
    pub(super) eliciting: usize,
    pub(super) in_flight: u64,
    /// The last number that was left out.
    pub(super) skipped: Option<u64>,
}

/// Packets of a space that are remembered; of more, the oldest that asks for nothing is forgotten.
const MOST_PACKETS: usize = 1 << 17;

impl Log {
    pub(super) fn push(&mut self, logged: Logged) {
        let number = self.next;
        self.next += 1;
        if logged.sent.eliciting {
            self.eliciting += 1;
            self.in_flight += u64::from(logged.sent.bytes);
            self.last_eliciting = Some(logged.at);
        } else if logged.sent.carried.is_empty() || self.packets.len() >= MOST_PACKETS {
            return;
        }
        self.packets.insert(number, logged);
    }

    /// The packet is settled one way or the other.
    pub(super) fn remove(&mut self, number: u64) -> Option<Logged> {
        let logged = self.packets.remove(&number)?;
        if logged.sent.eliciting {
            self.eliciting -= 1;
            self.in_flight -= u64::from(logged.sent.bytes);
        }
        Some(logged)
    }

    /// What the oldest packets carried that ask for an acknowledgment.
    pub(super) fn oldest(&self, packets: usize) -> Vec<Carried> {
        let eliciting = self.packets.values().filter(|p| p.sent.eliciting);
        eliciting.take(packets).flat_map(|p| p.sent.carried.iter().cloned()).collect()
    }
}
