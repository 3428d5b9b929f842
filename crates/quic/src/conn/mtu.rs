//! How large a datagram may be: a search that needs no ICMP [RFC 8899].
//!
//! One packet of nothing but PING and PADDING is longer than those before; if it arrives, all may be.
//! The largest size is tried first, then the middle between what passes and what does not.

use core::time::Duration;

use tack_units::Instant;

/// What every path takes [RFC 9000 §14].
pub(crate) const BASE: u16 = 1_200;
/// Losses of one size that say that it does not pass.
const MAX_LOSSES: u8 = 3;
/// A finer answer is not worth a probe.
const RESOLUTION: u16 = 16;
/// A path that has a bound is searched again after so long [RFC 8899 §5.3.3].
const SEARCH_AGAIN: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u64,
    size: u16,
    sent_at: Instant,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Mtu {
    passes: u16,
    /// The largest that is tried.
    most: u16,
    /// Least size that does not pass.
    high: u16,
    probe: Option<Probe>,
    losses: u8,
    /// Not before this time.
    from: Option<Instant>,
}

impl Mtu {
    /// `most`: what is configured.
    pub(crate) fn new(most: u16) -> Mtu {
        let most = most.max(BASE);
        Mtu { passes: BASE, most, high: most + 1, probe: None, losses: 0, from: None }
    }

    /// Bytes of a datagram that pass.
    pub(crate) fn size(&self) -> u16 {
        self.passes
    }

    /// The handshake is done, and the peer takes so much: the search begins.
    pub(crate) fn begin(&mut self, peer_takes: u64, now: Instant) {
        self.most = self.most.min(u16::try_from(peer_takes).unwrap_or(u16::MAX)).max(BASE);
        self.high = self.most + 1;
        self.from = Some(now);
    }

    /// The size to probe for now, if any.
    pub(crate) fn wanted(&self, now: Instant) -> Option<u16> {
        if self.probe.is_some() || self.from.is_none_or(|from| now < from) {
            return None;
        }
        if self.high > self.most {
            return (self.passes < self.most).then_some(self.most);
        }
        (self.high - self.passes > RESOLUTION).then(|| self.passes.midpoint(self.high))
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
            (self.probe, self.losses) = (None, 0);
            self.passes = self.passes.max(probe.size);
            return true;
        }
        let overtaken = largest > probe.number + 2;
        if overtaken && now.saturating_since(probe.sent_at) > pto {
            self.probe = None;
            self.losses += 1;
            if self.losses >= MAX_LOSSES {
                (self.high, self.losses) = (probe.size, 0);
                if self.high - self.passes <= RESOLUTION {
                    self.high = self.most + 1;
                    self.from = Some(now + SEARCH_AGAIN);
                }
            }
        }
        false
    }

    /// Timeouts in a row: what passed does not any more.
    pub(crate) fn on_black_hole(&mut self, now: Instant) -> bool {
        let fell = self.passes > BASE;
        if fell {
            *self = Mtu { from: Some(now + SEARCH_AGAIN), ..Mtu::new(self.most) };
        }
        fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that takes `path` bytes; the sizes tried.
    fn search(path: u16) -> (u16, Vec<u16>) {
        let (mut mtu, mut tried, mut now) = (Mtu::new(1_452), Vec::new(), Instant::ZERO);
        mtu.begin(65_527, now);
        for number in 0..1_000 {
            now += Duration::from_secs(1);
            if let Some(size) = mtu.wanted(now).filter(|_| now < Instant::from_secs(500)) {
                tried.push(size);
                mtu.on_sent(number * 10, size, now);
                let passes = size <= path;
                now += Duration::from_secs(1);
                mtu.on_ack(|_| passes, number * 10 + 9, Duration::from_millis(1), now);
            }
        }
        (mtu.size(), tried)
    }

    #[test]
    fn the_largest_size_is_tried_first_and_a_bound_is_found() {
        assert_eq!(search(1_500), (1_452, vec![1_452]));
        let (found, tried) = search(1_300);
        assert!((1_300 - RESOLUTION..=1_300).contains(&found), "{found} by {tried:?}");
        assert_eq!(search(1_200).0, 1_200);
    }
}
