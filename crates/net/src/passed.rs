//! What passed a socket or device.

/// What passed an endpoint's socket, or its device, where packets take the place of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounters {
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bursts they left in, a system call each where there is segmentation offload.
    pub bursts_sent: u64,
    /// Times the socket's buffer was full.
    pub sends_blocked: u64,
    /// Datagrams the kernel would not send: too big for the path, or no route.
    pub datagrams_refused: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Messages they came in, many datagrams each where the kernel coalesces.
    pub messages_received: u64,
    /// Errors the socket reported on receiving.
    pub receive_errors: u64,
}

#[cfg(all(target_os = "linux", feature = "tun"))]
impl IoCounters {
    pub(crate) fn add(&mut self, other: &IoCounters) {
        self.datagrams_sent += other.datagrams_sent;
        self.bursts_sent += other.bursts_sent;
        self.sends_blocked += other.sends_blocked;
        self.datagrams_refused += other.datagrams_refused;
        self.datagrams_received += other.datagrams_received;
        self.messages_received += other.messages_received;
        self.receive_errors += other.receive_errors;
    }
}

/// How reading the socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// More may be waiting.
    More,
    /// Nothing is left.
    Drained,
}
