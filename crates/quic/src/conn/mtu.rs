//! How large a datagram may be, without ICMP [RFC 8899].
//!
//! A probe is one packet of nothing but PING and PADDING that is longer than those before; if it arrives,
//! all may be. By how much longer [`SizeSearch`] says.

use core::time::Duration;

use tack_transport::SizeSearch;
use tack_units::Instant;

/// What every path takes [RFC 9000 §14].
pub(crate) const BASE: u16 = 1_200;
/// Losses of one size that say that it does not pass [RFC 8899 §5.1.2].
const MAX_LOSSES: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u64,
    size: u16,
    sent_at: Instant,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Mtu {
    search: SizeSearch,
    probe: Option<Probe>,
}

impl Mtu {
    /// `most`: what is configured.
    pub(crate) fn new(most: u16) -> Mtu {
        Mtu { search: SizeSearch::new(BASE, most.max(BASE), MAX_LOSSES), probe: None }
    }

    /// Bytes of a datagram that pass.
    pub(crate) fn size(&self) -> u16 {
        self.search.size()
    }

    /// The handshake is done, and the peer takes so much: the search begins.
    pub(crate) fn begin(&mut self, peer_takes: u64, now: Instant) {
        let takes = u16::try_from(peer_takes).unwrap_or(u16::MAX).max(BASE);
        self.search.limit(self.search.most().min(takes));
        self.search.begin(now);
    }

    /// The size to probe for now, if any.
    pub(crate) fn wanted(&self, now: Instant) -> Option<u16> {
        self.search.wanted(now).filter(|_| self.probe.is_none())
    }

    /// A probe of `size` leaves as packet `number`.
    pub(crate) fn on_sent(&mut self, number: u64, size: u16, now: Instant) {
        self.probe = Some(Probe { number, size, sent_at: now });
    }

    /// An acknowledgment came; `has`: of this packet, and `largest` of all. True: larger ones pass.
    pub(crate) fn on_ack(
        &mut self,
        has: impl Fn(u64) -> bool,
        largest: u64,
        pto: Duration,
        now: Instant,
    ) -> bool {
        let Some(probe) = self.probe else { return false };
        if has(probe.number) {
            self.probe = None;
            self.search.on_passed(probe.size, now);
            return true;
        }
        let overtaken = largest > probe.number + 2;
        if overtaken && now.saturating_since(probe.sent_at) > pto {
            self.probe = None;
            self.search.on_loss(now);
        }
        false
    }

    /// Timeouts in a row: what passed does not any more, or the path is dark, which the search finds
    /// out. True if datagrams are shorter from now on.
    pub(crate) fn on_black_hole(&mut self, now: Instant) -> bool {
        let fell = self.size() > BASE;
        if fell {
            self.probe = None;
            self.search.set(BASE);
            self.search.begin(now);
        }
        fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_lost_when_others_that_left_after_it_have_arrived_long_since() {
        let (mut mtu, at, pto) = (Mtu::new(1_452), Instant::from_secs, Duration::from_secs(1));
        mtu.begin(65_527, at(1));
        for number in [10, 20, 30] {
            assert_eq!(mtu.wanted(at(1)), Some(1_452));
            mtu.on_sent(number, 1_452, at(1));
            assert!(!mtu.on_ack(|_| false, number + 2, pto, at(9)), "not overtaken far enough");
            assert!(!mtu.on_ack(|_| false, number + 3, pto, at(2)), "too soon");
            assert_eq!(mtu.wanted(at(9)), None, "one at a time");
            assert!(!mtu.on_ack(|_| false, number + 3, pto, at(3)));
        }
        assert_eq!(mtu.wanted(at(3)), Some(1_326), "the middle, after three");
        mtu.on_sent(40, 1_326, at(3));
        assert!(mtu.on_ack(|number| number == 40, 41, pto, at(4)));
        assert_eq!(mtu.size(), 1_326);
    }

    #[test]
    fn after_a_black_hole_one_probe_finds_out_whether_the_path_was_only_dark() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        assert!(!mtu.on_black_hole(now), "there is nothing to fall from");
        mtu.begin(65_527, now);
        mtu.on_sent(3, 1_452, now);
        mtu.on_ack(|_| true, 3, Duration::ZERO, now);
        assert!(mtu.on_black_hole(now));
        assert_eq!((mtu.size(), mtu.wanted(now)), (BASE, Some(1_452)));
    }
}
