//! Flow control [RFC 9000 §4.1]: what either end knows of a limit, be it of a stream or of all of them together.

use tack_transport::RecvWindow;

/// What the peer lets this side send.
#[derive(Debug)]
pub(crate) struct Credit {
    limit: u64,
    /// The peer was told that this limit is in the way.
    told_blocked_at: Option<u64>,
}

impl Credit {
    pub(crate) fn new(limit: u64) -> Credit {
        Credit { limit, told_blocked_at: None }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that may leave beyond the first `sent`.
    pub(crate) fn beyond(&self, sent: u64) -> u64 {
        self.limit.saturating_sub(sent)
    }

    /// The peer allows more; true if that is news.
    pub(crate) fn allow(&mut self, limit: u64) -> bool {
        let is_news = limit > self.limit;
        self.limit = self.limit.max(limit);
        is_news
    }

    /// The peer does not know that this limit is in the way, if it is.
    pub(crate) fn is_unheard(&self) -> bool {
        self.told_blocked_at != Some(self.limit)
    }

    /// The peer is told, or, since it may not have heard, is to be told anew.
    pub(crate) fn note_blocked(&mut self, is_told: bool) {
        self.told_blocked_at = is_told.then_some(self.limit);
    }
}

/// What a packet that tells a limit has beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Nothing,
    Ack,
    Data,
}

impl With {
    /// By how much more the limit must allow, bytes. An acknowledgment, which nobody else would answer, takes it just
    /// before it would need a packet; from a window that the bound keeps short the peer waits for each.
    fn worth(self, window: &RecvWindow) -> u64 {
        let worth = match self {
            With::Nothing => window.size() / 2,
            With::Ack if !window.is_short() => window.size() / 8 * 3,
            With::Ack | With::Data => window.size() / 8,
        };
        worth.max(1)
    }
}

/// What this side lets the peer send: a window beyond what was consumed, of which the peer is told.
#[derive(Debug)]
pub(crate) struct Offer {
    told: u64,
    /// Read, or given up.
    consumed: u64,
}

impl Offer {
    pub(crate) fn new(told: u64) -> Offer {
        Offer { told, consumed: 0 }
    }

    /// What the peer was told.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// The limit that may be told; `None` while it is not worth it.
    pub(crate) fn limit_to_tell(&self, window: &RecvWindow, with: With) -> Option<u64> {
        let limit = self.consumed + window.size();
        (limit >= self.told + with.worth(window)).then_some(limit)
    }

    /// The limit was told; returns it.
    pub(crate) fn tell(&mut self, window: &RecvWindow) -> u64 {
        self.told = self.told.max(self.consumed + window.size());
        self.told
    }
}

#[cfg(test)]
mod tests {
    use tack_units::Instant;

    use super::*;

    #[test]
    fn the_peer_hears_of_each_limit_in_the_way_once_and_again_where_it_may_not_have() {
        let mut credit = Credit::new(1_000);
        assert_eq!((credit.beyond(400), credit.beyond(1_000), credit.beyond(1_001)), (600, 0, 0));
        assert!(credit.is_unheard());
        credit.note_blocked(true);
        assert!(!credit.is_unheard());
        assert!(!credit.allow(1_000) && !credit.allow(900), "no limit goes back [RFC 9000 §4.1]");
        assert_eq!((credit.limit(), credit.is_unheard()), (1_000, false));
        credit.note_blocked(false);
        assert!(credit.is_unheard());
        credit.note_blocked(true);
        assert!(credit.allow(1_001) && credit.is_unheard());
    }

    #[test]
    fn a_limit_is_told_at_half_a_window_and_earlier_with_what_leaves_anyway() {
        let mut window = RecvWindow::new(8_000, 8_000, Instant::ZERO);
        // What the peer waits for behind a bound goes with each acknowledgment.
        for (ack, is_short) in [(3_000, false), (1_000, true)] {
            assert_eq!(window.is_short(), is_short);
            for (with, worth) in [(With::Nothing, 4_000), (With::Ack, ack), (With::Data, 1_000)] {
                let mut offer = Offer::new(8_000);
                offer.on_consumed(worth - 1);
                assert_eq!(offer.limit_to_tell(&window, with), None);
                offer.on_consumed(1);
                assert_eq!(offer.limit_to_tell(&window, with), Some(8_000 + worth));
                assert_eq!((offer.tell(&window), offer.told()), (8_000 + worth, 8_000 + worth));
                assert_eq!(offer.limit_to_tell(&window, With::Data), None);
            }
            window.on_arrived(4_000);
            window.tune(None, 0, true, Instant::ZERO);
        }
    }

    #[test]
    fn a_window_of_nothing_has_no_limit_to_tell() {
        let window = RecvWindow::new(0, 0, Instant::ZERO);
        assert_eq!(Offer::new(0).limit_to_tell(&window, With::Data), None);
    }
}
