//! Tail loss probe: when acknowledgments stop, send something that makes them go on
//! [RFC 8985 §7].
//!
//! ```text
//! PTO = 2 * SRTT + (one segment outstanding: 200 ms), 1 s before the first sample;
//!       never behind the RTO
//! ```

use core::time::Duration;

use tack_units::Instant;

/// The peer may hold its acknowledgment of a lone segment back for so long (`TLP.max_ack_delay`).
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);

/// Before the first RTT sample.
const INITIAL_PTO: Duration = Duration::from_secs(1);

/// A probe under way, and the timer before it.
#[derive(Debug, Default)]
pub(super) struct Tlp {
    /// What the timer is counted from.
    since: Option<Instant>,
    /// A probe was asked for and nothing was sent since: asking again is no use.
    asked: bool,
    probe: Option<Probe>,
}

#[derive(Clone, Debug)]
struct Probe {
    /// SND.NXT when it left.
    end_seq: u64,
    /// Length if it repeated the last segment; `None` if it was new data.
    repeated: Option<u64>,
}

impl Tlp {
    /// New data left: the timer starts over [RFC 8985 §7.2].
    pub(super) fn on_new_data(&mut self, snd_nxt: u64, now: Instant) {
        self.since = Some(now);
        self.note_probe(snd_nxt, None);
    }

    /// Something left again.
    pub(super) fn on_retransmission(&mut self, snd_nxt: u64, bytes: u64) {
        self.note_probe(snd_nxt, Some(bytes));
    }

    /// The cumulative acknowledgment advanced.
    pub(super) fn on_advance(&mut self, now: Instant) {
        self.since = Some(now);
        self.asked = false;
    }

    /// When a probe is due, given that none is forbidden; `None` while one is under way.
    pub(super) fn deadline(&self, srtt: Option<Duration>, segments: usize) -> Option<Instant> {
        if self.asked || self.probe.is_some() {
            return None;
        }
        let pto = match srtt {
            None => INITIAL_PTO,
            Some(srtt) if segments == 1 => srtt * 2 + MAX_ACK_DELAY,
            Some(srtt) => srtt * 2,
        };
        self.since.map(|since| since + pto)
    }

    /// The timer expired: the host is asked to send a probe.
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// A retransmission timeout or recovery makes the episode void.
    pub(super) fn cancel(&mut self) {
        self.probe = None;
        self.asked = false;
    }

    /// An acknowledgment came. Returns the length of the repeated segment when it shows that the
    /// probe repaired a loss nobody else noticed: congestion control must know [RFC 8985 §7.4].
    ///
    /// `dsack_end`: end of its DSACK block. `bare_duplicate`: it repeats the previous
    /// acknowledgment and carries no SACK block at all.
    pub(super) fn on_ack(
        &mut self,
        cum_ack: u64,
        dsack_end: Option<u64>,
        bare_duplicate: bool,
    ) -> Option<u64> {
        let probe = self.probe.clone()?;
        if cum_ack < probe.end_seq {
            return None;
        }
        let Some(bytes) = probe.repeated else {
            self.probe = None;
            return None;
        };
        if dsack_end == Some(probe.end_seq) || (bare_duplicate && cum_ack == probe.end_seq) {
            // Original and probe both arrived.
            self.probe = None;
            return None;
        }
        if cum_ack > probe.end_seq {
            self.probe = None;
            return Some(bytes);
        }
        None
    }

    fn note_probe(&mut self, snd_nxt: u64, repeated: Option<u64>) {
        if self.asked {
            self.asked = false;
            self.probe = Some(Probe { end_seq: snd_nxt, repeated });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_timer_is_two_rtts_and_allows_a_lone_segment_its_delayed_acknowledgment() {
        let mut tlp = Tlp::default();
        assert_eq!(tlp.deadline(Some(50 * MS), 5), None, "nothing was sent");
        tlp.on_new_data(1, Instant::ZERO);
        assert_eq!(tlp.deadline(Some(50 * MS), 5), Some(Instant::from_millis(100)));
        assert_eq!(tlp.deadline(Some(50 * MS), 1), Some(Instant::from_millis(300)));
        assert_eq!(tlp.deadline(None, 1), Some(Instant::from_secs(1)));
    }

    fn probed(repeated: bool) -> Tlp {
        let mut tlp = Tlp::default();
        tlp.on_new_data(10_000, Instant::ZERO);
        tlp.ask();
        assert_eq!(tlp.deadline(Some(50 * MS), 5), None, "one at a time");
        if repeated {
            tlp.on_retransmission(10_000, 1_000);
        } else {
            tlp.on_new_data(11_000, Instant::ZERO);
        }
        assert_eq!(tlp.deadline(Some(50 * MS), 5), None, "one at a time");
        tlp
    }

    #[test]
    fn a_probe_with_new_data_ends_with_its_acknowledgment() {
        let mut tlp = probed(false);
        assert_eq!(tlp.on_ack(10_000, None, false), None);
        assert!(tlp.probe.is_some());
        assert_eq!(tlp.on_ack(11_000, None, false), None);
        assert!(tlp.probe.is_none());
    }

    #[test]
    fn a_repeated_segment_that_both_arrived_is_no_loss() {
        let mut tlp = probed(true);
        assert_eq!(tlp.on_ack(10_000, None, false), None);
        assert_eq!(tlp.on_ack(10_000, Some(10_000), false), None);
        assert_eq!(tlp.on_ack(20_000, None, false), None, "the episode is over");
        let mut without_dsack = probed(true);
        assert_eq!(without_dsack.on_ack(10_000, None, true), None);
        assert_eq!(without_dsack.on_ack(20_000, None, false), None);
    }

    #[test]
    fn a_loss_that_only_the_probe_repaired_is_reported_once() {
        let mut tlp = probed(true);
        assert_eq!(tlp.on_ack(10_000, None, false), None);
        assert_eq!(tlp.on_ack(11_000, None, false), Some(1_000));
        assert_eq!(tlp.on_ack(12_000, None, false), None);
    }
}
