//! How many retransmissions were needless.

/// Needless retransmissions, counted by two witnesses that see mostly the same ones.
#[derive(Debug, Default)]
pub(super) struct Needless {
    /// Proved by PKT.SEQ here.
    seen: u64,
    /// Duplicate arrivals at the peer, as far as retransmissions can explain them.
    peer: u64,
    last_peer_count: u32,
    total: u64,
}

impl Needless {
    /// The peer has counted so many duplicates, of which retransmissions explain this many.
    pub(super) fn on_peer_count(&mut self, count: u32, retransmissions: u64) {
        let more = count.wrapping_sub(self.last_peer_count);
        if more < 1 << 31 {
            self.last_peer_count = count;
            self.peer = (self.peer + u64::from(more)).min(retransmissions);
        }
    }

    /// `seen` more were proved; returns how many are new by either witness.
    pub(super) fn on_seen(&mut self, seen: u64) -> u64 {
        self.seen += seen;
        let total = self.seen.max(self.peer);
        let new = total.saturating_sub(self.total);
        self.total = total.max(self.total);
        new
    }

    /// By either witness.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}
