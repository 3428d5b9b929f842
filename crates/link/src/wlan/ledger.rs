//! The account of packets: none may get lost without a reason.

/// Where every packet that was offered has gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Packets offered.
    pub offered: u64,
    /// Packets that surfaced at their host.
    pub delivered: u64,
    /// Packets inside the model: waiting, in the air, held for order, or on their way to a host.
    pub queued: u64,
    /// Packets refused by full queues.
    pub queue_drops: u64,
    /// Packets given up after too many retries.
    pub retry_drops: u64,
    /// Packets offered where their source is not, for a host that does not exist there, or longer
    /// than IP allows: a driver's mistake.
    pub unroutable: u64,
}

impl Ledger {
    /// Whether every packet is accounted for.
    pub fn balances(&self) -> bool {
        let gone = self.queue_drops + self.retry_drops + self.unroutable;
        self.offered == self.delivered + self.queued + gone
    }
}
