//! How much may leave on each acknowledgment of a loss recovery: Proportional Rate Reduction
//! [RFC 9937].
//!
//! A window cut at once silences the sender for half a round trip and then lets it burst. PRR
//! spreads the cut over the round: while more than `ssthresh` is in flight,
//!
//! ```text
//! prr_out <= prr_delivered * ssthresh / recover_fs
//! ```
//!
//! that is, for every byte that arrived, `ssthresh/recover_fs` bytes leave, and after one round
//! trip exactly `ssthresh` is in flight. When losses took more than the cut asked for, the window
//! is rebuilt: by what was delivered, and by one MSS more per acknowledgment that tells of no
//! further loss (reduction bounds PRR-CRB and PRR-SSRB).
//!
//! Deviation: by one MSS whatever it covers in [RFC 9937 §6.2]. Plain TCP acknowledges each segment then; a TACK
//! counts for all that it covers, or a window that was lost whole would come back by a segment per TACK.

/// The reduction of one recovery episode. All quantities in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    /// Window to end with.
    ssthresh: u64,
    /// In flight when recovery began, what the first acknowledgment delivers included.
    recover_fs: u64,
    /// Delivered during recovery.
    delivered: u64,
    /// Sent during recovery.
    out: u64,
}

impl Prr {
    /// Begins with `flight` bytes outstanding, lost ones included.
    pub(crate) fn new(ssthresh: u64, flight: u64) -> Self {
        Self { ssthresh, recover_fs: flight.max(1), delivered: 0, out: 0 }
    }

    /// Ends with this window instead.
    pub(crate) fn end_with(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
    }

    /// Bytes that the acknowledgment which began recovery had delivered, if told afterwards: they
    /// were in flight when it arrived [RFC 9937 §6].
    pub(crate) fn count_into_flight(&mut self, bytes: u64) {
        self.recover_fs = self.recover_fs.saturating_add(bytes);
    }

    /// In flight when recovery began.
    pub(crate) fn flight(&self) -> u64 {
        self.recover_fs
    }

    /// The lost bytes left in a flight of `bytes`, of which the rest was delivered before recovery began, and
    /// nothing came after it: as if recovery had begun as soon as they were lost.
    pub(crate) fn count_from(&mut self, bytes: u64) {
        let gone = bytes.saturating_sub(self.recover_fs);
        self.count_into_flight(gone);
        self.delivered = self.delivered.saturating_add(gone);
    }

    /// Window after an acknowledgment that left `in_flight` bytes outstanding. `more`: by which the window may be rebuilt
    /// beyond what it delivered; none unless it told of progress and of no further loss.
    pub(crate) fn on_ack(&mut self, delivered: u64, in_flight: u64, more: u64, mss: u64) -> u64 {
        self.delivered = self.delivered.saturating_add(delivered);
        let mut send = if in_flight > self.ssthresh {
            let due = u128::from(self.delivered) * u128::from(self.ssthresh);
            let due = due.div_ceil(u128::from(self.recover_fs));
            u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let rebuilt = self.delivered.saturating_sub(self.out).max(delivered);
            rebuilt.saturating_add(more).min(self.ssthresh - in_flight)
        };
        // The first retransmission leaves at once. Less than a segment would not leave at all and
        // wait for the next acknowledgment, so "nothing to send" [RFC 9937 §6.2] is "not a segment".
        if self.out == 0 {
            send = send.max(mss);
        }
        in_flight.saturating_add(send)
    }

    /// `bytes` left.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.out = self.out.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// One loss out of 100 segments, an ACK per segment; returns what left on each ACK.
    fn recover(ssthresh: u64, flight: u64, lost: u64) -> (Vec<u64>, u64) {
        let mut prr = Prr::new(ssthresh, flight);
        let mut in_flight = flight - lost;
        let mut sent = Vec::new();
        for _ in 0..(flight - lost) / MSS {
            in_flight -= MSS;
            let window = prr.on_ack(MSS, in_flight, MSS, MSS);
            let burst = (window.saturating_sub(in_flight)) / MSS * MSS;
            prr.on_sent(burst);
            in_flight += burst;
            sent.push(burst);
        }
        (sent, in_flight)
    }

    #[test]
    fn one_loss_sends_at_the_reduced_rate_and_ends_at_ssthresh() {
        let (sent, in_flight) = recover(70 * MSS, 100 * MSS, MSS);
        assert_eq!(in_flight, 70 * MSS);
        // Never silent for long, never a burst.
        assert!(sent.iter().all(|b| *b <= 2 * MSS), "{sent:?}");
        let longest_pause = sent.split(|b| *b > 0).map(<[u64]>::len).max();
        assert!(longest_pause <= Some(3), "{sent:?}");
    }

    #[test]
    fn heavy_loss_rebuilds_the_window_without_exceeding_ssthresh() {
        let (sent, in_flight) = recover(70 * MSS, 100 * MSS, 60 * MSS);
        assert!(in_flight <= 70 * MSS);
        assert_eq!(in_flight, 70 * MSS, "slow start back to ssthresh within the round");
        assert!(sent.iter().all(|b| *b <= 2 * MSS), "{sent:?}");
    }

    #[test]
    fn further_loss_withholds_the_extra_segment() {
        let mut prr = Prr::new(50 * MSS, 100 * MSS);
        prr.on_sent(MSS);
        assert_eq!(prr.on_ack(MSS, 20 * MSS, 0, MSS), 21 * MSS);
        prr.on_sent(MSS);
        assert_eq!(prr.on_ack(MSS, 20 * MSS, MSS, MSS), 22 * MSS);
    }

    #[test]
    fn the_first_retransmission_leaves_on_the_acknowledgment_that_began_recovery() {
        let mut prr = Prr::new(5 * MSS, 10 * MSS);
        assert_eq!(prr.on_ack(MSS, 8 * MSS, MSS, MSS), 9 * MSS, "half a segment is due");
        prr.on_sent(MSS);
        assert_eq!(prr.on_ack(MSS, 8 * MSS, MSS, MSS), 8 * MSS, "one of two delivered has left");
    }

    #[test]
    fn a_window_of_which_all_was_lost_doubles_with_each_round_trip_that_delivers_it() {
        let mut prr = Prr::new(70 * MSS, 100 * MSS);
        prr.on_sent(MSS);
        for doubled in [2, 4, 8, 16, 32, 64, 70] {
            let delivered = doubled / 2 * MSS;
            let window = prr.on_ack(delivered, 0, delivered, MSS);
            assert_eq!(window, doubled * MSS);
            prr.on_sent(window);
        }
    }

    #[test]
    fn what_arrived_before_a_late_loss_was_told_lets_its_repairs_leave_at_once() {
        // Of 100 segments 20 are lost, and 79 acknowledged before that is told.
        let mut prr = Prr::new(70 * MSS, 20 * MSS);
        prr.count_into_flight(MSS);
        prr.count_from(100 * MSS);
        assert_eq!(prr.on_ack(MSS, 0, MSS, MSS), 70 * MSS);
    }

    #[test]
    fn an_empty_or_enormous_flight_is_no_trouble() {
        assert_eq!(Prr::new(0, 0).on_ack(0, 0, MSS, MSS), MSS);
        let mut prr = Prr::new(u64::MAX, u64::MAX);
        prr.count_into_flight(u64::MAX);
        prr.on_sent(u64::MAX);
        assert_eq!(prr.on_ack(u64::MAX, u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
}
