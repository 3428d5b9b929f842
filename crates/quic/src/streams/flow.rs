//! Flow control of the connection as a whole [RFC 9000 §4.1].

use core::time::Duration;

use tack_transport::Round;
use tack_units::Instant;

use crate::config::Config;
use crate::error::{Violation, code};

/// What a packet that tells a limit has beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Nothing,
    Ack,
    Data,
}

impl With {
    /// By how much more the limit must allow, bytes of `window`. An acknowledgment, which nobody else would answer,
    /// takes it just before it would need a packet; from a window that the bound keeps short the peer waits for each.
    pub(crate) fn worth(self, window: u64, is_short: bool) -> u64 {
        match self {
            With::Nothing => window / 2,
            With::Ack if !is_short => window / 8 * 3,
            With::Ack | With::Data => window / 8,
        }
    }
}

/// Both directions; bytes of all streams.
#[derive(Debug)]
pub(crate) struct ConnectionFlow {
    /// Sent for the first time, and what the peer allows.
    sent: u64,
    max_data: u64,
    /// The peer was told that this limit is in the way.
    told_blocked_at: Option<u64>,
    /// Known to exist, read (or given up), and what the peer was told.
    received: u64,
    consumed: u64,
    told: u64,
    window: u64,
    max_window: u64,
    round: Round,
    /// The bound keeps the window from being what it is to be: the peer may wait for each limit.
    is_short: bool,
}

impl ConnectionFlow {
    pub(crate) fn new(config: &Config, now: Instant) -> ConnectionFlow {
        ConnectionFlow {
            sent: 0,
            max_data: 0,
            told_blocked_at: None,
            received: 0,
            consumed: 0,
            told: config.initial_connection_window,
            window: config.initial_connection_window,
            max_window: config.max_connection_window,
            round: Round::new(now),
            is_short: false,
        }
    }

    /// Fresh bytes that may leave.
    pub(crate) fn credit(&self) -> u64 {
        self.max_data.saturating_sub(self.sent)
    }

    pub(crate) fn max_data(&self) -> u64 {
        self.max_data
    }

    /// Nothing more may leave, and the peer does not know.
    pub(crate) fn is_blocked_unheard(&self) -> bool {
        self.credit() == 0 && self.told_blocked_at != Some(self.max_data)
    }

    /// The peer is told, or, since it may not have heard, is to be told anew.
    pub(crate) fn note_blocked(&mut self, is_told: bool) {
        self.told_blocked_at = is_told.then_some(self.max_data);
    }

    pub(crate) fn on_sent(&mut self, fresh: u64) {
        self.sent += fresh;
    }

    /// Nothing of what was sent is known to the peer, which allows so many bytes.
    pub(crate) fn begin_anew(&mut self, max_data: u64) {
        (self.sent, self.max_data, self.told_blocked_at) = (0, max_data, None);
    }

    /// The peer allows more; true if that is news.
    pub(crate) fn allow(&mut self, max_data: u64) -> bool {
        let is_news = max_data > self.max_data;
        self.max_data = self.max_data.max(max_data);
        is_news
    }

    /// So many bytes more are known to exist.
    pub(crate) fn on_received(&mut self, bytes: u64) -> Result<(), Violation> {
        self.received += bytes;
        self.round.on_arrived(bytes);
        if self.received > self.told {
            let reason = "all streams exceed their limit";
            return Err(Violation::new(code::FLOW_CONTROL_ERROR, reason));
        }
        Ok(())
    }

    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// The limit that may be told; `None` while it is not worth it.
    pub(crate) fn limit_to_tell(&self, with: With) -> Option<u64> {
        let limit = self.consumed + self.window;
        let worth = with.worth(self.window, self.is_short);
        (limit >= self.told + worth.max(1)).then_some(limit)
    }

    /// The limit was told; returns it.
    pub(crate) fn tell_limit(&mut self) -> u64 {
        self.told = self.told.max(self.consumed + self.window);
        self.told
    }

    /// Data waits for a TACK before its sender hears of it: as much again as it may be is allowed beyond the window.
    pub(crate) fn allow_for_tacks(&mut self, beta: u32) {
        let more = |bytes: u64| bytes.saturating_add(bytes / u64::from(beta.max(2)));
        (self.window, self.max_window) = (more(self.window), more(self.max_window));
    }

    pub(crate) fn tune(&mut self, rtt: Option<Duration>, now: Instant) {
        let wanted = self.round.wanted(rtt, self.received - self.consumed, now);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        self.window = self.window.max(wanted.min(self.max_window));
        self.is_short = self.window < wanted;
    }
}
