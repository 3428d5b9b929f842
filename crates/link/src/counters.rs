//! What became of every packet: the conservation law of a wired direction.
//!
//! ```text
//! offered + duplicated = delivered + resident + dropped
//! ```

/// Packets and IP-level bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes on the IP level.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, ip_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(ip_bytes);
    }
}

/// The fate of all packets of one direction since the start. Counts are packets unless they say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken in.
    pub offered: Tally,
    /// Handed out, copies and damaged packets included.
    pub delivered: Tally,
    /// Extra copies that the medium made.
    pub duplicated: u64,
    /// Waiting now: in the queue, in service or in flight.
    pub resident: u64,
    /// Refused, or dropped from the longest of its flows, because the queue was full.
    pub tail_dropped: u64,
    /// Dropped by active queue management before the queue was full.
    pub aqm_dropped: u64,
    /// Queued acknowledgments that a newer one replaced.
    pub acks_replaced: u64,
    /// Lost on the medium.
    pub lost: u64,
    /// Lost because the medium was cut.
    pub blacked_out: u64,
    /// Damaged packets without bytes, dropped as the receiver's checksum would.
    pub corrupt_dropped: u64,
    /// Packets delivered with flipped bits. Not a loss.
    pub corrupted: u64,
    /// Packets held back so that later ones overtake them. Not a loss.
    pub reordered: u64,
    /// Packets marked Congestion Experienced instead of being dropped. Not a loss.
    pub ce_marked: u64,
    /// Greatest number of bytes that waited in the queue at once.
    pub peak_queue_bytes: u64,
}

impl Counters {
    /// Packets that will never come out.
    pub const fn dropped(&self) -> u64 {
        self.tail_dropped
            + self.aqm_dropped
            + self.acks_replaced
            + self.lost
            + self.blacked_out
            + self.corrupt_dropped
    }

    /// Whether no packet vanished or appeared unaccounted for.
    pub(crate) const fn are_conserved(&self) -> bool {
        self.offered.packets + self.duplicated
            == self.delivered.packets + self.resident + self.dropped()
    }
}
