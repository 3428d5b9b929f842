//! Whether a probe repaired a loss that nobody reports [RFC 8985 §7.4].
//!
//! When the last packet before a pause is lost, nothing behind it shows a hole: the probe repairs it,
//! and all is acknowledged. It was congestion all the same, and a sender that does not learn of it
//! loses the end of each response, at one probe's wait every time. Here the receiver's count of
//! duplicates tells: of original and probe both arrived, or one was lost.

use core::ops::Range;

/// A probe that repeated the last segment.
#[derive(Clone, Debug)]
struct Probe {
    pkt_seq: u64,
    seq: Range<u64>,
    /// The peer's count of duplicates before it.
    duplicates: u32,
}

/// Follows the probe under way.
#[derive(Debug, Default)]
pub(super) struct TailProbe {
    /// The next transmission is one.
    asked: bool,
    probe: Option<Probe>,
    /// The peer's count of duplicates, as last told.
    duplicates: u32,
}

impl TailProbe {
    /// The host is asked for a probe.
    pub(super) fn ask(&mut self) {
        (self.asked, self.probe) = (true, None);
    }

    /// All that is outstanding is taken for lost.
    pub(super) fn cancel(&mut self) {
        (self.asked, self.probe) = (false, None);
    }

    /// `seq` leaves, `again` or for the first time.
    pub(super) fn on_sent(&mut self, pkt_seq: u64, seq: Range<u64>, again: bool) {
        if core::mem::take(&mut self.asked) && again {
            self.probe = Some(Probe { pkt_seq, seq, duplicates: self.duplicates });
        }
    }

    /// A TACK came: the bytes that the probe repaired, once it shows that the original was lost.
    pub(super) fn on_tack(&mut self, cum_ack: u64, largest: u64, duplicates: u32) -> Option<u64> {
        self.duplicates = duplicates;
        let arrived = |probe: &mut Probe| largest >= probe.pkt_seq && cum_ack >= probe.seq.end;
        let probe = self.probe.take_if(arrived)?;
        (probe.duplicates == duplicates).then_some(probe.seq.end - probe.seq.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peer has told of three duplicates before PKT.SEQ 20 repeats 900..1000.
    fn probed() -> TailProbe {
        let mut tail = TailProbe::default();
        assert_eq!(tail.on_tack(900, 10, 3), None);
        tail.ask();
        tail.on_sent(20, 900..1_000, true);
        tail.on_sent(21, 1_000..1_100, false);
        tail
    }

    #[test]
    fn a_probe_that_arrives_alone_has_repaired_a_loss() {
        let mut tail = probed();
        assert_eq!(tail.on_tack(900, 19, 3), None, "it is not there yet");
        assert_eq!(tail.on_tack(1_000, 20, 3), Some(100));
        assert_eq!(tail.on_tack(1_000, 20, 3), None, "said once");
    }

    #[test]
    fn original_and_probe_were_no_loss_nor_is_new_data_a_repair() {
        assert_eq!(probed().on_tack(1_000, 20, 4), None);
        let mut tail = probed();
        tail.cancel();
        assert_eq!(tail.on_tack(1_000, 20, 3), None);
        tail.ask();
        tail.on_sent(22, 1_100..1_200, false);
        assert_eq!(tail.on_tack(1_200, 22, 3), None);
    }
}
