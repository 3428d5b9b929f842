//! How large a datagram may be, without ICMP [RFC 8899].
//!
//! A probe is one packet that is longer than those before; if it arrives, all may be. By how much longer
//! [`SizeSearch`] says. It carries what waits to be sent, and after one was lost, PING and PADDING alone: where
//! packets are short, no second one holds up a stream.

use tack::Acked;
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
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Mtu {
    search: SizeSearch,
    probe: Option<Probe>,
    /// A probe was lost.
    doubtful: bool,
    /// A probe's loss, or one of another path, began an episode of which congestion control has not heard.
    withheld: bool,
    /// Round trips in which datagrams longer than [`BASE`] were lost, since one arrived. What is short may pass
    /// all the while: no timeout tells of such a path.
    lost_rounds: u32,
    /// The first packet that left in another of these round trips.
    round_from: u64,
}

impl Mtu {
    /// `most`: what is configured.
    pub(crate) fn new(most: u16) -> Mtu {
        let search = SizeSearch::new(BASE, most.max(BASE), MAX_LOSSES);
        let (probe, doubtful, withheld) = (None, false, false);
        Mtu { search, probe, doubtful, withheld, lost_rounds: 0, round_from: 0 }
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

    /// The next probe may well be lost, for its size.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// A probe of `size` leaves as packet `number`.
    pub(crate) fn on_sent(&mut self, number: u64, size: u16) {
        self.probe = Some(Probe { number, size });
    }

    /// An acknowledgment came; `has`: of this packet. True: larger ones pass.
    pub(crate) fn on_ack(&mut self, has: impl Fn(u64) -> bool, now: Instant) -> bool {
        let Some(probe) = self.probe.take_if(|probe| has(probe.number)) else { return false };
        self.doubtful = false;
        self.search.on_passed(probe.size, now);
        true
    }

    /// Packets were declared lost, `is_lost` of this number. Where that is a probe and nothing else, it says
    /// nothing of congestion [RFC 9000 §14.4], and `acked` tells of none; the next loss begins the episode then.
    /// What is lost in company may have met a full queue and is tried again.
    pub(crate) fn excuse(
        &mut self,
        acked: &mut Acked,
        is_lost: impl Fn(u64) -> bool,
        in_recovery: bool,
        now: Instant,
    ) {
        self.withheld &= in_recovery && !acked.recovery_started;
        if acked.lost_bytes == 0 && !acked.recovery_started {
            return;
        }
        let probe = self.probe.take_if(|probe| is_lost(probe.number));
        self.doubtful |= probe.is_some();
        match probe {
            Some(probe) if acked.lost_bytes == u64::from(probe.size) => {
                self.search.on_loss(now);
                acked.lost_bytes = 0;
            }
            Some(probe) => self.search.try_again(probe.size, now),
            None => {}
        }
        if acked.lost_bytes > 0 {
            acked.recovery_started |= core::mem::take(&mut self.withheld);
        } else {
            self.withheld |= core::mem::take(&mut acked.recovery_started);
        }
    }

    /// Everything in flight is taken for lost, after timeouts `in_a_row`; the loss of the path makes as many
    /// `by_chance`. What passed may not do so any more, or the path is dark, which the search finds out. True
    /// if datagrams are shorter from now on.
    pub(crate) fn on_timeout(&mut self, in_a_row: u32, by_chance: u32, now: Instant) -> bool {
        if self.probe.take().is_some() {
            self.search.on_timeout(now);
        }
        self.fall_if_black_hole(in_a_row, by_chance, now)
    }

    /// A packet of so many bytes has arrived.
    pub(crate) fn on_arrived(&mut self, bytes: u32) {
        if bytes > u32::from(BASE) {
            self.lost_rounds = 0;
        }
    }

    /// Packet `number`, of so many bytes, is lost; `next` leaves next.
    pub(crate) fn on_lost(&mut self, number: u64, bytes: u32, next: u64) {
        // A probe is longer than what passes.
        let is_long = bytes > u32::from(BASE) && bytes <= u32::from(self.size());
        if is_long && number >= self.round_from {
            self.lost_rounds += 1;
            self.round_from = next;
        }
    }

    /// What became of packets was told. `by_chance`, and what it returns, as of [`Self::on_timeout`].
    pub(crate) fn on_fates(&mut self, by_chance: u32, now: Instant) -> bool {
        self.fall_if_black_hole(self.lost_rounds, by_chance, now)
    }

    fn fall_if_black_hole(&mut self, in_a_row: u32, by_chance: u32, now: Instant) -> bool {
        let falls = SizeSearch::is_black_hole(in_a_row, by_chance) && self.size() > BASE;
        if falls {
            self.search.set(BASE);
            self.search.begin(now);
            self.doubtful = true;
            self.lost_rounds = 0;
        }
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of the loss of `bytes`, the first of an episode, with the probe `number` among them if `is`.
    fn excused(mtu: &mut Mtu, number: u64, is: bool, bytes: u64) -> (u64, bool) {
        let mut acked = Acked { lost_bytes: bytes, recovery_started: true, ..Acked::default() };
        mtu.excuse(&mut acked, |lost| is && lost == number, true, Instant::from_secs(1));
        (acked.lost_bytes, acked.recovery_started)
    }

    #[test]
    fn a_probe_that_is_lost_alone_three_times_does_not_pass_and_in_company_is_tried_again() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        mtu.begin(65_527, now);
        assert!(!mtu.is_doubtful());
        for number in [10, 20, 30, 40] {
            assert_eq!(mtu.wanted(now), Some(1_452));
            mtu.on_sent(number, 1_452);
            assert_eq!(mtu.wanted(now), None, "one at a time");
            assert_eq!(excused(&mut mtu, number, false, 1_452), (1_452, true), "others");
            let (bytes, left) =
                if number > 10 { (1_452, (0, false)) } else { (2_652, (2_652, true)) };
            assert_eq!(excused(&mut mtu, number, true, bytes), left);
            assert!(mtu.is_doubtful());
        }
        assert_eq!(mtu.wanted(now), Some(1_326), "the middle, after three");
        mtu.on_sent(50, 1_326);
        assert!(mtu.on_ack(|number| number == 50, now) && !mtu.is_doubtful());
        assert_eq!(mtu.size(), 1_326);
    }

    #[test]
    fn a_loss_in_the_episode_that_a_probe_began_begins_it_for_congestion_control() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        mtu.begin(65_527, now);
        for in_recovery in [true, false] {
            mtu.on_sent(1, 1_452);
            assert_eq!(excused(&mut mtu, 1, true, 1_452), (0, false));
            let mut later = |lost_bytes, in_recovery| {
                let mut acked = Acked { lost_bytes, ..Acked::default() };
                mtu.excuse(&mut acked, |_| false, in_recovery, now);
                acked.recovery_started
            };
            assert!(!later(0, in_recovery));
            assert_eq!(later(1_200, true), in_recovery, "unless it has ended");
            assert!(!later(1_200, true), "said once");
        }
    }

    #[test]
    fn after_a_black_hole_one_probe_finds_out_whether_the_path_was_only_dark() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        assert!(!mtu.on_timeout(3, 0, now), "there is nothing to fall from");
        mtu.begin(65_527, now);
        mtu.on_sent(3, 1_452);
        mtu.on_ack(|_| true, now);
        assert!(!mtu.on_timeout(3, 4, now), "loss makes as many");
        assert!(mtu.on_timeout(4, 4, now));
        assert_eq!((mtu.size(), mtu.wanted(now)), (BASE, Some(1_452)));
    }

    #[test]
    fn a_probe_that_a_timeout_took_waits() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        mtu.begin(65_527, now);
        mtu.on_sent(3, 1_452);
        assert!(!mtu.on_timeout(1, 0, now));
        assert_eq!(mtu.wanted(now), None);
        assert_eq!(mtu.wanted(Instant::from_secs(2)), Some(1_452));
    }

    #[test]
    fn datagrams_that_are_lost_round_after_round_are_too_long_unless_one_arrives() {
        let (mut mtu, now) = (Mtu::new(1_452), Instant::from_secs(1));
        mtu.begin(65_527, now);
        mtu.on_sent(0, 1_452);
        assert!(mtu.on_ack(|_| true, now));
        for (arrives, falls) in [(true, false), (false, true)] {
            for round in 1..4 {
                // Those of one round trip count once, and what is short or a probe does not.
                for number in [10 * round, 10 * round + 1] {
                    mtu.on_lost(number, 1_400, 10 * round + 5);
                }
                mtu.on_lost(10 * round + 6, 1_200, 10 * round + 7);
                mtu.on_lost(10 * round + 8, 2_000, 10 * round + 9);
                mtu.on_arrived(if arrives && round == 3 { 1_400 } else { 40 });
                assert_eq!(mtu.on_fates(0, now), falls && round == 3, "round {round}");
            }
            mtu.round_from = 0;
        }
        assert_eq!((mtu.size(), mtu.wanted(now)), (BASE, Some(1_452)));
    }
}
