//! Was it necessary? Finds out that a loss episode or a timeout was spurious.
//!
//! ```text
//! Eifel   the first acknowledgment of what was retransmitted echoes the timestamp of the
//!         original [RFC 3522 §3.2]
//! F-RTO   after a timeout the acknowledgment advances twice, the second time over data that
//!         was sent before it and never again [RFC 5682 §3.1, §2.1]
//! DSACK   every retransmission of the episode is reported to have arrived twice [RFC 3708 §2]
//! none    the episode ends without a single retransmission
//! ```
//!
//! Deviation: F-RTO only watches. [RFC 5682 §2.1 step 2b] sends new data between the two
//! acknowledgments; here lost segments may be retransmitted meanwhile, so without SACK the test is
//! given up as soon as one is, since a filled hole would look the same.

use core::ops::Range;
use std::collections::VecDeque;

use tack_units::Instant;

use crate::recovery::sent::Delivered;

/// Retransmissions remembered for a DSACK to name.
const MAX_RESENT: usize = 1_024;

/// What is known of the current or the latest episode.
#[derive(Debug, Default)]
pub(super) struct Undo {
    episode: Option<Episode>,
    /// Ranges sent again lately, the latest last; `true` within the episode.
    resent: VecDeque<(Range<u64>, bool)>,
}

#[derive(Debug)]
struct Episode {
    /// SND.NXT when it began.
    high: u64,
    resent: u32,
    needless: u32,
    first_resent_at: Option<Instant>,
    /// No acknowledgment of a retransmitted segment came yet.
    eifel_open: bool,
    frto: Frto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frto {
    Off,
    /// The timeout expired; no acknowledgment came yet.
    Expired,
    /// The first acknowledgment advanced.
    Advanced,
}

/// What one acknowledgment said, as far as it bears on the question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    pub(super) cum_ack: u64,
    /// The cumulative acknowledgment advanced.
    pub(super) advanced: bool,
    /// It advanced over a segment that the episode sent again.
    pub(super) over_resent: bool,
    pub(super) echoes_original: bool,
    /// A segment that was sent once only, before the episode began, is newly acknowledged.
    pub(super) over_original: bool,
}

impl Undo {
    /// An episode begins.
    pub(super) fn begin(&mut self, timeout: bool, high: u64) {
        // A timeout on top of a timeout that nothing came of goes on with the same question,
        // but F-RTO does not apply to it [RFC 5682 §2.1 step 1].
        if timeout
            && let Some(episode) = &mut self.episode
            && episode.eifel_open
            && episode.frto == Frto::Expired
        {
            episode.frto = Frto::Off;
            episode.high = high;
            return;
        }
        for (_, in_episode) in &mut self.resent {
            *in_episode = false;
        }
        self.episode = Some(Episode {
            high,
            resent: 0,
            needless: 0,
            first_resent_at: None,
            eifel_open: true,
            frto: if timeout { Frto::Expired } else { Frto::Off },
        });
    }

    /// An episode ended, and the next one follows it at once: everything below `high` is out, and
    /// retransmissions that may be under way, above `snd_una`, are among those in doubt.
    pub(super) fn follow(&mut self, snd_una: u64, high: u64) {
        let first_resent_at = self.first_resent_at();
        self.begin(false, high);
        let Some(episode) = &mut self.episode else { return };
        for (range, in_episode) in &mut self.resent {
            *in_episode = range.end > snd_una;
            episode.resent += u32::from(*in_episode);
        }
        episode.first_resent_at = first_resent_at.filter(|_| episode.resent > 0);
    }

    /// When the first retransmission of the episode left.
    pub(super) fn first_resent_at(&self) -> Option<Instant> {
        self.episode.as_ref().and_then(|episode| episode.first_resent_at)
    }

    /// The segment was sent before the episode began.
    pub(super) fn is_original(&self, segment: &Delivered) -> bool {
        segment.first_sent.is_none()
            && !segment.was_sacked
            && self.episode.as_ref().is_some_and(|episode| segment.end <= episode.high)
    }

    /// Something leaves again.
    pub(super) fn on_retransmission(
        &mut self,
        range: Range<u64>,
        in_recovery: bool,
        sack: bool,
        now: Instant,
    ) {
        if self.resent.len() >= MAX_RESENT {
            self.resent.pop_front();
        }
        self.resent.push_back((range, in_recovery));
        if let Some(episode) = &mut self.episode
            && in_recovery
        {
            episode.resent = episode.resent.saturating_add(1);
            episode.first_resent_at.get_or_insert(now);
            if episode.frto == Frto::Advanced && !sack {
                episode.frto = Frto::Off;
            }
        }
    }

    /// A DSACK names what arrived twice. Returns how many retransmissions that proves needless
    /// (0 when the network duplicated an original), and whether that was the last one in doubt.
    pub(super) fn on_dsack(&mut self, range: &Range<u64>) -> (u64, bool) {
        let overlaps =
            |(resent, _): &(Range<u64>, bool)| resent.start < range.end && range.start < resent.end;
        let Some(i) = self.resent.iter().position(overlaps) else { return (0, false) };
        let Some((_, in_episode)) = self.resent.remove(i) else { return (0, false) };
        let mut spurious = false;
        if let Some(episode) = &mut self.episode
            && in_episode
        {
            episode.needless += 1;
            spurious = episode.needless >= episode.resent;
        }
        if spurious {
            self.episode = None;
        }
        (1, spurious)
    }

    /// An acknowledgment came; whether it proves the episode spurious.
    pub(super) fn on_ack(&mut self, evidence: Evidence) -> bool {
        let Some(episode) = &mut self.episode else { return false };
        let mut spurious = false;
        if evidence.over_resent && episode.eifel_open && episode.first_resent_at.is_some() {
            episode.eifel_open = false;
            spurious = evidence.echoes_original;
        }
        match episode.frto {
            Frto::Off => {}
            // Advancing over everything, or not at all, says nothing [RFC 5682 §2.1 step 2a].
            Frto::Expired if !evidence.advanced || evidence.cum_ack >= episode.high => {
                if evidence.advanced {
                    episode.frto = Frto::Off;
                }
            }
            Frto::Expired => episode.frto = Frto::Advanced,
            Frto::Advanced => {
                spurious |= evidence.over_original;
                episode.frto = Frto::Off;
            }
        }
        if spurious {
            self.episode = None;
        }
        spurious
    }

    /// The episode is over; whether nothing had been sent again. DSACKs may still prove it
    /// spurious afterwards.
    pub(super) fn on_exit(&mut self) -> bool {
        let Some(episode) = &mut self.episode else { return false };
        episode.frto = Frto::Off;
        episode.eifel_open = false;
        let unneeded = episode.resent == 0;
        if unneeded {
            self.episode = None;
        }
        unneeded
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    /// An episode of everything below 10000 in which the given ranges were sent again.
    fn episode(timeout: bool, resent: &[Range<u64>]) -> Undo {
        let mut undo = Undo::default();
        undo.begin(timeout, 10_000);
        for range in resent {
            undo.on_retransmission(range.clone(), true, true, NOW);
        }
        undo
    }

    fn advance(cum_ack: u64) -> Evidence {
        Evidence { cum_ack, advanced: true, ..Evidence::default() }
    }

    #[test]
    fn the_echo_of_an_original_decides_at_the_first_acknowledgment_only() {
        for echoes_original in [true, false] {
            let mut undo = episode(false, &[0..1_000, 3_000..4_000]);
            let first = Evidence { over_resent: true, echoes_original, ..advance(3_000) };
            assert_eq!(undo.on_ack(first), echoes_original);
            let second = Evidence { over_resent: true, echoes_original: true, ..advance(10_000) };
            assert!(!undo.on_ack(second), "too late to say");
        }
    }

    #[test]
    fn a_timeout_is_spurious_when_the_second_advance_covers_originals() {
        for (over_original, spurious) in [(true, true), (false, false)] {
            let mut undo = episode(true, &[0..1_000]);
            assert!(!undo.on_ack(advance(1_000)));
            assert_eq!(undo.on_ack(Evidence { over_original, ..advance(3_000) }), spurious);
        }
    }

    #[test]
    fn an_advance_over_everything_says_nothing_about_the_timeout() {
        let mut undo = episode(true, &[0..1_000]);
        assert!(!undo.on_ack(Evidence { over_original: true, ..advance(10_000) }));
        assert!(!undo.on_ack(Evidence { over_original: true, ..advance(12_000) }));
    }

    #[test]
    fn without_sack_a_second_retransmission_ends_the_test() {
        let mut undo = episode(true, &[0..1_000]);
        assert!(!undo.on_ack(advance(1_000)));
        undo.on_retransmission(1_000..2_000, true, false, NOW);
        assert!(!undo.on_ack(Evidence { over_original: true, ..advance(3_000) }));
    }

    #[test]
    fn an_episode_is_spurious_when_every_retransmission_arrived_twice() {
        let mut undo = episode(false, &[0..1_000, 3_000..4_000]);
        assert_eq!(undo.on_dsack(&(5_000..6_000)), (0, false), "never sent again");
        assert_eq!(undo.on_dsack(&(0..1_000)), (1, false));
        assert_eq!(undo.on_dsack(&(0..1_000)), (0, false), "counted once");
        assert!(!undo.on_exit());
        assert_eq!(undo.on_dsack(&(3_000..4_000)), (1, true), "after the episode as well");
    }

    #[test]
    fn retransmissions_of_an_earlier_episode_are_needless_but_prove_nothing_about_this_one() {
        let mut undo = episode(false, &[0..1_000]);
        undo.begin(false, 20_000);
        undo.on_retransmission(11_000..12_000, true, true, NOW);
        assert_eq!(undo.on_dsack(&(0..1_000)), (1, false));
        assert_eq!(undo.on_dsack(&(11_000..12_000)), (1, true));
    }

    #[test]
    fn an_episode_that_follows_another_inherits_what_that_sent_again_and_is_not_acknowledged() {
        let mut undo = episode(false, &[0..1_000, 11_000..12_000]);
        undo.follow(10_000, 20_000);
        assert_eq!(undo.first_resent_at(), Some(NOW));
        assert_eq!(undo.on_dsack(&(0..1_000)), (1, false), "below what is acknowledged");
        let mut needed = undo;
        assert!(!needed.on_exit(), "something was sent again");
        assert_eq!(needed.on_dsack(&(11_000..12_000)), (1, true));
    }

    #[test]
    fn an_episode_without_retransmissions_was_not_needed() {
        assert!(episode(false, &[]).on_exit());
    }

    #[test]
    fn the_memory_of_retransmissions_is_bounded() {
        let mut undo = episode(false, &[]);
        for i in 0..10 * MAX_RESENT as u64 {
            undo.on_retransmission(i..i + 1, true, true, NOW);
        }
        assert_eq!(undo.resent.len(), MAX_RESENT);
    }
}
