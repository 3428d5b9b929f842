//! Loss episodes: when one opens and closes, and whether it was needless.
//!
//! An episode opens with the first loss and closes when all that was outstanding then has been
//! acknowledged. PKT.SEQ tells a needless retransmission for certain: its data is acknowledged by a
//! TACK whose largest PKT.SEQ is below the retransmission's, so an earlier transmission arrived.
//! An episode whose retransmissions were all needless was spurious, also when the last proof comes after
//! its end: a packet may be late by many round trips of a short path. So was a timeout when the first
//! news after it is of what was sent before it and not since, or shows that nothing sent since has arrived
//! (the idea of F-RTO [RFC 5682] and Eifel [RFC 3522]): the path of the data was not silent, its feedback
//! was. What is still missing when something sent since has arrived is lost as anything else is, listed or not, and
//! opens an episode of its own: of a thousand holes a TACK lists some, and the others would fill the window until the
//! timer fires again. Where a path is gone for a second, half of the flight may have arrived before, as no TACK could tell.
//!
//! Deviation: [RFC 5682 §3.1] waits for a second acknowledgment, since the first may be of the repair; PKT.SEQ tells
//! them apart.
//!
//! Deviation: an episode also closes when nothing more was lost for six round trips. TCP's lasts until all is
//! repaired, which takes one or two of them as a rule; after a fade of seconds there may be more to repair than a
//! fallen window sends in a thousand, and no controller lets its window grow meanwhile.
//!
//! Where packets are retired, what is lost goes on in packets behind all that was outstanding, and the episode
//! lasts until those are settled, too: as a hole of bytes lasts until it is filled. The repair that leaves as
//! soon as a loss is told often finds the same queue full, and its loss is no second sign of congestion. What
//! leaves between repairs for the first time is not the episode's, or there would be but one for ever where each
//! window loses a packet. Nor is what repairs a repair: by then the window has fallen, and one that is still too large
//! for the path has to hear of it once more.

use core::time::Duration;

use tack_units::Instant;

use crate::Ranges;

/// What to restore when a timeout proves needless.
#[derive(Debug)]
struct Undo {
    /// First PKT.SEQ after the timeout.
    next_pkt_seq: u64,
    lost_before: Ranges,
    /// When so many bytes are delivered, nothing is missing that was outstanding.
    whole: u64,
}

/// A timeout that proved needless.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undone {
    pub(super) lost_before: Ranges,
    /// What it sent has not arrived yet: the silence would have ended without it.
    pub(super) in_vain: bool,
    /// Bytes outstanding then that have not arrived.
    pub(super) missing: u64,
}

/// What feedback that brought news says about a timeout before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// Largest PKT.SEQ that the peer has received; `None`: it does not say.
    pub(super) largest: Option<u64>,
    /// Oldest PKT.SEQ among what is newly known to have arrived.
    pub(super) oldest: Option<u64>,
    /// Bytes delivered so far.
    pub(super) delivered: u64,
}

/// Round trips without a loss after which an episode is over, repaired or not.
const QUIET_ROUNDS: u32 = 6;

/// Follows loss episodes.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// The episode lasts until this SEQ is acknowledged.
    until: Option<u64>,
    /// When something of it was last declared lost.
    lost_at: Instant,
    /// Retransmissions in this episode or the last one, and how many of them were needless.
    retransmissions: u64,
    needless: u64,
    undo: Option<Undo>,
    /// What has a PKT.SEQ below this left before a timeout that is undone.
    undone_below: Option<u64>,
    /// Bytes of the episode's packets that were lost and have not left again.
    unrepaired: u64,
    /// The episode's packets: all below this PKT.SEQ, and the repairs beyond.
    began_at: u64,
    repairs: Ranges,
}

impl Recovery {
    pub(super) fn is_active(&self) -> bool {
        self.until.is_some()
    }

    /// Bytes were declared lost. Returns whether that opens an episode.
    pub(super) fn on_lost(&mut self, nxt: u64, now: Instant) -> bool {
        if self.until.is_some() {
            self.lost_at = now;
            return false;
        }
        let undone_below = self.undone_below;
        let (until, began_at, lost_at) = (Some(nxt), nxt, now);
        *self = Recovery { until, began_at, lost_at, undone_below, ..Default::default() };
        true
    }

    /// Feedback was taken in that tells of no loss. A loss is told within a `round`.
    pub(super) fn on_nothing_lost(&mut self, round: Duration, now: Instant) {
        if now.saturating_since(self.lost_at) > round.saturating_mul(QUIET_ROUNDS) {
            (self.until, self.unrepaired) = (None, 0);
        }
    }

    /// The retransmission timer expired; `lost_before` was lost already, and with `whole` bytes delivered nothing is
    /// missing any more. Without news since the last time it is that silence which goes on, and what would be undone is
    /// all of it.
    pub(super) fn on_timeout(
        &mut self,
        nxt: u64,
        next_pkt_seq: u64,
        lost_before: Ranges,
        whole: u64,
        now: Instant,
    ) {
        let first = || Undo { next_pkt_seq, lost_before, whole };
        let undo = Some(self.undo.take().unwrap_or_else(first));
        *self =
            Recovery { until: Some(nxt), began_at: nxt, lost_at: now, undo, ..Default::default() };
    }

    pub(super) fn on_retransmitted(&mut self) {
        self.retransmissions += u64::from(self.until.is_some());
    }

    /// What these packets carried, with the bytes of each, is to leave again in others.
    pub(super) fn on_repacked(&mut self, packets: &[(u64, u32)]) {
        if self.until.is_none() {
            return;
        }
        self.retransmissions += packets.len() as u64;
        let firsts = packets.iter().filter(|(n, _)| *n < self.began_at);
        self.unrepaired += firsts.map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
    }

    /// Packet `pkt_seq` leaves with `bytes`. What was lost goes first, so the next ones are the repairs.
    pub(super) fn on_packet(&mut self, pkt_seq: u64, bytes: u32) {
        if self.unrepaired > 0 && self.until.is_some() {
            self.unrepaired = self.unrepaired.saturating_sub(u64::from(bytes));
            self.until = self.until.max(Some(pkt_seq + 1));
            self.repairs.insert(pkt_seq..pkt_seq + 1);
        }
    }

    /// `needless` retransmissions proved needless. Returns whether the episode did, as a whole.
    pub(super) fn on_needless(&mut self, needless: u64) -> bool {
        self.needless += needless;
        let spurious = needless > 0
            && self.retransmissions > 0
            && self.needless >= self.retransmissions
            && self.undo.is_none();
        if spurious {
            *self = Recovery::default();
        }
        spurious
    }

    /// Feedback brought news. Returns what it undoes of a timeout that this proves needless.
    pub(super) fn on_news(&mut self, news: News) -> Option<Undone> {
        let undo = self.undo.take()?;
        let since = undo.next_pkt_seq;
        let in_vain = news.largest.is_some_and(|largest| largest < since);
        let before = news.oldest.is_some_and(|p| p < since);
        (in_vain || before).then(|| {
            (self.until, self.unrepaired) = (None, 0);
            self.undone_below = Some(since);
            let missing = undo.whole.saturating_sub(news.delivered);
            Undone { lost_before: undo.lost_before, in_vain, missing }
        })
    }

    /// The peer has packet `largest`. What has a PKT.SEQ below the one returned left before an undone timeout, and
    /// `largest` since: if it is still missing it is lost.
    pub(super) fn lost_below(&mut self, largest: u64) -> Option<u64> {
        self.undone_below.take_if(|since| largest >= *since)
    }

    /// As [`Self::on_acknowledged`], with these packets `lost`: where all are the episode's own, it is not over before
    /// their loss is answered, or that would open another.
    pub(super) fn on_acknowledged_but(&mut self, lost: &[(u64, u32)], una: u64) {
        let is_own = |n: u64| n < self.began_at || self.repairs.contains(&(n..n + 1));
        if lost.is_empty() || !lost.iter().all(|(n, _)| is_own(*n)) {
            self.on_acknowledged(una);
        }
    }

    /// Everything below `una` is acknowledged, or settled.
    pub(super) fn on_acknowledged(&mut self, una: u64) {
        self.repairs.remove_below(una);
        if self.unrepaired == 0 && self.until.is_some_and(|until| una >= until) {
            self.until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn an_episode_lasts_until_what_was_outstanding_is_acknowledged() {
        let mut r = Recovery::default();
        assert!(r.on_lost(1_000, NOW));
        assert!(!r.on_lost(2_000, NOW));
        r.on_acknowledged(999);
        assert!(r.is_active());
        r.on_acknowledged(1_000);
        assert!(!r.is_active());
        assert!(r.on_lost(2_000, NOW));
    }

    #[test]
    fn repairs_belong_to_an_episode_and_neither_what_leaves_between_them_nor_what_repairs_them() {
        let mut r = Recovery::default();
        // Of ten packets, 3 and 5 are lost. 3 leaves again as 10, behind it 11 and 12; then 5 as 13.
        assert!(r.on_lost(10, NOW));
        r.on_repacked(&[(3, 100)]);
        (10..13).for_each(|n| r.on_packet(n, 100));
        assert!(!r.on_lost(13, NOW));
        r.on_repacked(&[(5, 100)]);
        r.on_packet(13, 100);
        r.on_acknowledged(10);
        assert!(r.is_active(), "repairs are on their way");
        // Both repairs are lost, and 12 with them.
        let lost = [(10, 100), (13, 100)];
        r.on_repacked(&lost);
        r.on_acknowledged_but(&lost, 14);
        assert!(r.is_active());
        (14..18).for_each(|n| r.on_packet(n, 100));
        r.on_acknowledged(13);
        assert!(r.is_active());
        r.on_acknowledged(14);
        assert!(!r.is_active(), "14 and 15 left after the window fell");
    }

    #[test]
    fn an_episode_is_spurious_when_every_retransmission_was_needless() {
        let mut r = Recovery::default();
        r.on_lost(1_000, NOW);
        r.on_retransmitted();
        r.on_retransmitted();
        assert!(!r.on_needless(1));
        assert!(r.on_needless(1));
        assert!(!r.on_needless(1), "said once");
    }

    #[test]
    fn an_episode_that_has_ended_may_still_prove_spurious_until_the_next_one() {
        let mut r = Recovery::default();
        for proved_in_time in [true, false] {
            assert!(r.on_lost(1_000, NOW));
            r.on_retransmitted();
            r.on_acknowledged(1_000);
            r.on_retransmitted();
            if !proved_in_time {
                assert!(r.on_lost(2_000, NOW));
            }
            assert_eq!(r.on_needless(1), proved_in_time);
        }
    }

    #[test]
    fn a_timeout_is_undone_only_by_news_from_before_it() {
        let lost: Ranges = {
            let mut l = Ranges::new();
            l.insert(3..4);
            l
        };
        let news = |largest, oldest| News { largest: Some(largest), oldest, delivered: 400 };
        let mut r = Recovery::default();
        let mut after_timeout = |news| {
            r.on_timeout(1_000, 50, lost.clone(), 1_000, NOW);
            let undone = r.on_news(news);
            assert_eq!(r.is_active(), undone.is_none(), "an undone timeout leaves no episode");
            assert_eq!(r.on_news(news), None, "decided once");
            undone
        };
        let undone = |in_vain| Some(Undone { lost_before: lost.clone(), in_vain, missing: 600 });
        assert_eq!(after_timeout(news(49, None)), undone(true));
        assert_eq!(after_timeout(news(50, Some(49))), undone(false));
        assert_eq!(after_timeout(news(50, Some(50))), None);
        assert_eq!(after_timeout(news(50, None)), None);
        let cumulative = |oldest| News { largest: None, oldest: Some(oldest), delivered: 400 };
        assert_eq!(after_timeout(cumulative(40)), undone(false));
        assert_eq!(after_timeout(cumulative(50)), None, "the repair has arrived");
    }

    #[test]
    fn a_silence_of_several_timeouts_is_undone_as_one() {
        let mut r = Recovery::default();
        r.on_timeout(1_000, 50, Ranges::new(), 1_000, NOW);
        let mut all = Ranges::new();
        all.insert(0..1_000);
        r.on_timeout(1_000, 51, all, 1_000, NOW);
        let of_the_probe = News { largest: None, oldest: Some(50), delivered: 1 };
        assert_eq!(r.on_news(of_the_probe), None, "sent since, and nothing before has arrived");
        let of_before = News { oldest: Some(49), ..of_the_probe };
        assert_eq!(r.on_news(of_before), None, "decided once");
        let mut r = Recovery::default();
        r.on_timeout(1_000, 50, Ranges::new(), 1_000, NOW);
        r.on_timeout(1_000, 51, Ranges::new(), 1_000, NOW);
        assert_eq!(r.on_news(of_before).map(|undone| undone.lost_before), Some(Ranges::new()));
    }

    #[test]
    fn what_left_before_an_undone_timeout_is_lost_once_something_sent_since_has_arrived() {
        let mut r = Recovery::default();
        r.on_timeout(1_000, 50, Ranges::new(), 1_000, NOW);
        assert_eq!(r.lost_below(50), None, "it is not undone");
        assert!(r.on_news(News { largest: Some(49), oldest: None, delivered: 1 }).is_some());
        assert!(r.on_lost(1_000, NOW), "a hole is told meanwhile");
        assert_eq!([49, 50, 51].map(|largest| r.lost_below(largest)), [None, Some(50), None]);
    }
}
