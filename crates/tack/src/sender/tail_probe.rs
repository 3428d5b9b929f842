//! Whether a probe repaired a loss that nobody reports [RFC 8985 §7.4].
//!
//! When the last packet before a pause is lost, nothing behind it shows a hole: the probe repairs it,
//! and all is acknowledged. It was congestion all the same, and a sender that does not learn of it
//! loses the end of each response, at one probe's wait every time. Here the receiver's count of
//! duplicates tells: of original and probe both arrived, or one was lost. A loss that somebody reports is
//! answered by that: where a flight was lost, the probe's arrival is what shows it, and is no second loss.

use core::ops::Range;

use super::ack_loss::AckLoss;

/// A probe that repeated the last segment.
#[derive(Clone, Debug)]
struct Probe {
    pkt_seq: u64,
    seq: Range<u64>,
    /// The peer's count of duplicates before it.
    duplicates: u32,
    /// The newest TACK before it.
    tack: u32,
}

/// What a probe has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probed {
    /// It repaired the loss of so many bytes.
    Loss(u64),
    /// The original had arrived, too, and no TACK has been lost that said so.
    InVain,
}

/// Follows the probe under way.
#[derive(Debug, Default)]
pub(super) struct TailProbe {
    /// The next transmission is one; the newest TACK before it.
    asked: Option<u32>,
    probe: Option<Probe>,
    /// The peer's count of duplicates, as last told.
    duplicates: u32,
}

impl TailProbe {
    /// The host is asked for a probe; `tack`: the newest heard.
    pub(super) fn ask(&mut self, tack: u32) {
        (self.asked, self.probe) = (Some(tack), None);
    }

    /// All that is outstanding is taken for lost, or something of it is reported to be.
    pub(super) fn cancel(&mut self) {
        (self.asked, self.probe) = (None, None);
    }

    /// `seq` leaves, `again` or for the first time.
    pub(super) fn on_sent(&mut self, pkt_seq: u64, seq: Range<u64>, again: bool) {
        if let Some(tack) = self.asked.take().filter(|_| again) {
            self.probe = Some(Probe { pkt_seq, seq, duplicates: self.duplicates, tack });
        }
    }

    /// A TACK came: what the probe has done, once it shows.
    pub(super) fn on_tack(
        &mut self,
        cum_ack: u64,
        largest: u64,
        duplicates: u32,
        tacks: &AckLoss,
    ) -> Option<Probed> {
        self.duplicates = duplicates;
        let arrived = |probe: &mut Probe| largest >= probe.pkt_seq && cum_ack >= probe.seq.end;
        let probe = self.probe.take_if(arrived)?;
        if probe.duplicates == duplicates {
            return Some(Probed::Loss(probe.seq.end - probe.seq.start));
        }
        // One more is the original; what others there are says nothing of the path's time.
        let alone = duplicates.wrapping_sub(probe.duplicates) == 1;
        (alone && tacks.none_since(probe.tack)).then_some(Probed::InVain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TACKs 1 to 7 have come, and of those after it these.
    fn tacks(after: &[u32]) -> AckLoss {
        let mut tacks = AckLoss::default();
        (1..=7).chain(after.iter().copied()).for_each(|counter| {
            tacks.on_tack(counter);
        });
        tacks
    }

    /// The peer has told of three duplicates before PKT.SEQ 20 repeats 900..1000.
    fn probed() -> TailProbe {
        let mut tail = TailProbe::default();
        assert_eq!(tail.on_tack(900, 10, 3, &tacks(&[])), None);
        tail.ask(7);
        tail.on_sent(20, 900..1_000, true);
        tail.on_sent(21, 1_000..1_100, false);
        tail
    }

    #[test]
    fn a_probe_that_arrives_alone_has_repaired_a_loss() {
        let mut tail = probed();
        let heard = tacks(&[8]);
        assert_eq!(tail.on_tack(900, 19, 3, &heard), None, "it is not there yet");
        assert_eq!(tail.on_tack(1_000, 20, 3, &heard), Some(Probed::Loss(100)));
        assert_eq!(tail.on_tack(1_000, 20, 3, &heard), None, "said once");
    }

    #[test]
    fn original_and_probe_were_no_loss_nor_is_new_data_a_repair() {
        assert_eq!(probed().on_tack(1_000, 20, 4, &tacks(&[8, 9])), Some(Probed::InVain));
        let mut tail = probed();
        tail.cancel();
        assert_eq!(tail.on_tack(1_000, 20, 3, &tacks(&[8])), None);
        tail.ask(7);
        tail.on_sent(22, 1_100..1_200, false);
        assert_eq!(tail.on_tack(1_200, 22, 3, &tacks(&[8])), None);
    }

    #[test]
    fn a_probe_that_fetched_a_lost_tack_was_not_in_vain() {
        for after in [&[9][..], &[8, 10]] {
            assert_eq!(probed().on_tack(1_000, 20, 4, &tacks(after)), None);
        }
    }
}
