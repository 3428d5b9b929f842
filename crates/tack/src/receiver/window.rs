//! Abrupt changes of the receive window, which are told at once [TON §V-C].
//!
//! ```text
//! shut       the window falls below an MSS                      once, until it opens
//! nearly     the window falls below 1/8 of the buffer           once, until it is over 1/4
//! open       the window is back over min(2 MSS, buffer/2)       once, after shut
//! grew       the right edge moved by 2 MSS past one the sender has used up, or by half the buffer
//! ```
//!
//! "Grew" is measured from the edge last told, so a slow reader causes at most one IACK per 2 MSS
//! while the sender is blocked, and two per buffer otherwise.
//!
//! Deviation: the paper speaks of an abrupt change only; the thresholds are ours.
//!
//! Deviation: where packets wait for a TACK and none is missing, that tells of the window, and not an IACK beside it. At
//! windows of two or three segments, which each TACK finds used up, there were twice as many acknowledgments as TCP
//! sends. A TACK with holes is longer: on 50 kbit/s back its round trips were a quarter longer, too.

/// The window as the host offers it now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Next byte expected.
    pub(super) rcv_nxt: u64,
    /// One past the highest byte received.
    pub(super) rcv_high: u64,
    /// Bytes from `rcv_nxt`.
    pub(super) window: u64,
    /// Size of the buffer.
    pub(super) capacity: u64,
}

/// Watches the receive window.
#[derive(Debug)]
pub(super) struct WindowWatch {
    mss: u64,
    /// Right edge last told to the peer; `None` before the first feedback.
    told_edge: Option<u64>,
    /// The window last told was below an MSS.
    told_shut: bool,
    /// The window was told to be nearly used up, and has not recovered since.
    told_nearly: bool,
    wanted: bool,
}

impl WindowWatch {
    pub(super) fn new(mss: u32) -> Self {
        WindowWatch {
            mss: u64::from(mss.max(1)),
            told_edge: None,
            told_shut: false,
            told_nearly: false,
            wanted: false,
        }
    }

    /// The window or the buffer changed.
    pub(super) fn update(&mut self, offer: Offer) {
        if offer.window >= offer.capacity / 4 {
            self.told_nearly = false;
        }
        if self.changed_abruptly(offer) {
            self.wanted = true;
        }
    }

    fn changed_abruptly(&self, offer: Offer) -> bool {
        let shut = offer.window < self.mss.min(offer.capacity / 2);
        let nearly = offer.window < offer.capacity / 8;
        if (shut && !self.told_shut) || (nearly && !self.told_nearly) {
            return true;
        }
        let step = (2 * self.mss).min(offer.capacity / 2).max(1);
        if self.told_shut && offer.window >= step {
            return true;
        }
        let Some(told) = self.told_edge else { return false };
        let grown = offer.rcv_nxt.saturating_add(offer.window).saturating_sub(told);
        let blocked = told.saturating_sub(offer.rcv_high) < self.mss;
        grown >= (offer.capacity / 2).max(1) || (blocked && grown >= step)
    }

    /// Whether an IACK should tell the window now.
    pub(super) fn wanted(&self) -> bool {
        self.wanted
    }

    /// Feedback with this window leaves.
    pub(super) fn on_told(&mut self, offer: Offer) {
        let edge = offer.rcv_nxt.saturating_add(offer.window);
        self.told_edge = Some(edge);
        self.told_shut = offer.window < self.mss.min(offer.capacity / 2);
        self.told_nearly |= offer.window < offer.capacity / 8;
        self.wanted = false;
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
