//! Flow control of the connection as a whole [RFC 9000 §4.1].

use core::time::Duration;

use tack_transport::RecvWindow;
use tack_units::Instant;

use super::limits::{Credit, Offer, With};
use crate::config::Config;
use crate::error::{Violation, code};

/// Both directions; bytes of all streams.
#[derive(Debug)]
pub(crate) struct ConnectionFlow {
    /// Sent for the first time, and what the peer allows.
    sent: u64,
    pub(crate) limit: Credit,
    /// Known to exist, and what the peer was told.
    received: u64,
    offer: Offer,
    window: RecvWindow,
}

impl ConnectionFlow {
    pub(crate) fn new(config: &Config, now: Instant) -> ConnectionFlow {
        let (window, most) = (config.initial_connection_window, config.max_connection_window);
        ConnectionFlow {
            sent: 0,
            limit: Credit::new(0),
            received: 0,
            offer: Offer::new(window),
            window: RecvWindow::new(window, most, now),
        }
    }

    /// Fresh bytes that may leave.
    pub(crate) fn credit(&self) -> u64 {
        self.limit.beyond(self.sent)
    }

    /// Nothing more may leave, and the peer does not know.
    pub(crate) fn is_blocked_unheard(&self) -> bool {
        self.credit() == 0 && self.limit.is_unheard()
    }

    pub(crate) fn on_sent(&mut self, fresh: u64) {
        self.sent += fresh;
    }

    /// Nothing of what was sent is known to the peer, which allows so many bytes.
    pub(crate) fn begin_anew(&mut self, limit: u64) {
        (self.sent, self.limit) = (0, Credit::new(limit));
    }

    /// So many bytes more are known to exist.
    pub(crate) fn on_received(&mut self, bytes: u64) -> Result<(), Violation> {
        self.received += bytes;
        self.window.on_arrived(bytes);
        if self.received > self.offer.told() {
            let reason = "all streams exceed their limit";
            return Err(Violation::new(code::FLOW_CONTROL_ERROR, reason));
        }
        Ok(())
    }

    /// Read, or given up.
    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        self.offer.on_consumed(bytes);
    }

    /// See [`Offer::limit_to_tell`].
    pub(crate) fn limit_to_tell(&self, with: With) -> Option<u64> {
        self.offer.limit_to_tell(&self.window, with)
    }

    /// See [`Offer::tell`].
    pub(crate) fn tell_limit(&mut self) -> u64 {
        self.offer.tell(&self.window)
    }

    /// See [`RecvWindow::allow_for_tacks`].
    pub(crate) fn allow_for_tacks(&mut self, beta: u32) {
        self.window.allow_for_tacks(beta);
    }

    /// The window follows what arrives in a round trip, where the stream that it is of is read. What waits on others
    /// has its room, so that they are not in its way.
    pub(crate) fn tune(&mut self, rtt: Option<Duration>, is_read: bool, now: Instant) {
        self.window.tune(rtt, self.received - self.offer.consumed(), is_read, now);
    }
}
