//! What loss teaches: how much may be in flight, and what the last lossy round left
//! [draft-ietf-ccwg-bbr §5.5].
//!
//! ```text
//! short term   a round with loss, while not probing:     gone with the next probe
//!     bw       <- max(bw of the round,        0.7 bw before)
//!     inflight <- max(delivered in the round, 0.7 inflight before)
//!
//! long term    a packet of a probe, and when it comes back lost > 2 % of tx_in_flight:
//!     inflight <- max(tx_in_flight, 0.7 target)
//!              a packet that came back with less lost, from a fuller flight: that flight;
//!              in Up, a segment more, then two, four ... per round
//! ```

use tack_units::Rate;

/// Part of a flight that may be lost.
const LOSS_THRESHOLD: f64 = 0.02;
/// What a bound keeps of itself at least.
const BETA: f64 = 0.7;
/// Left free below the long-term bound for others.
const HEADROOM: f64 = 0.15;
/// Bursts of loss in a round that end Startup, if they are 2 % of it.
const STARTUP_LOSSES: u32 = 6;
/// Rounds in Up after which growth does not double any more.
const MAX_UP_ROUNDS: u32 = 30;

/// The bounds, and the round under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    bw_shortterm: Option<Rate>,
    inflight_shortterm: Option<u64>,
    inflight_longterm: Option<u64>,
    /// Of the round under way: the best rate, the most delivered in a sample, what was lost.
    bw_latest: Rate,
    inflight_latest: u64,
    lost: u64,
    delivered: u64,
    loss_bursts: u32,
    /// The last round lost more than it may.
    lossy: bool,
    /// And in bursts enough to end Startup.
    lossy_startup: bool,
    /// Bytes acknowledged in Up that have not raised the bound, and how many raise it by one MSS.
    up_acked: u64,
    up_per_mss: u64,
    up_rounds: u32,
}

/// What an acknowledgment adds to the round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) rate: Option<Rate>,
    /// Delivered since the newest acknowledged packet left, in bytes.
    pub(super) brought: u64,
    /// A new round begins with it.
    pub(super) ended: bool,
    pub(super) lost: u64,
    /// In so many bursts.
    pub(super) bursts: u32,
}

/// A packet that came back, or was lost, and the flight it left in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flown {
    pub(super) tx_in_flight: u64,
    /// Lost since it left, itself included.
    pub(super) lost: u64,
    /// Its own length if it was lost.
    pub(super) packet: u64,
    pub(super) app_limited: bool,
}

impl Flown {
    pub(super) fn is_too_high(&self) -> bool {
        self.lost as f64 > self.tx_in_flight as f64 * LOSS_THRESHOLD
    }

    /// Where within the lost packets the threshold was passed.
    pub(super) fn inflight_at_loss(&self) -> u64 {
        let before = self.tx_in_flight.saturating_sub(self.packet) as f64;
        let lost_before = self.lost.saturating_sub(self.packet) as f64;
        let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
        (before + prefix.max(0.0)) as u64
    }
}

impl Bounds {
    /// `before`: bandwidth and window that a first bound starts from. `lowering`: the sender does
    /// not probe, so loss says that what it has is too much.
    pub(super) fn on_ack(
        &mut self,
        round: &Round,
        acked: u64,
        before: (Rate, u64),
        lowering: bool,
    ) {
        self.bw_latest = self.bw_latest.max(round.rate.unwrap_or(Rate::ZERO));
        self.inflight_latest = self.inflight_latest.max(round.brought);
        self.lost = self.lost.saturating_add(round.lost);
        self.delivered = self.delivered.saturating_add(acked);
        self.loss_bursts = self.loss_bursts.saturating_add(round.bursts);
        if !round.ended {
            return;
        }
        let all = self.delivered.saturating_add(self.lost);
        self.lossy = self.lost as f64 > all as f64 * LOSS_THRESHOLD;
        self.lossy_startup = self.lossy && self.loss_bursts >= STARTUP_LOSSES;
        if lowering && self.lost > 0 {
            let bw = self.bw_shortterm.unwrap_or(before.0);
            self.bw_shortterm = Some(self.bw_latest.max(bw.mul_f64(BETA)));
            let inflight = self.inflight_shortterm.unwrap_or(before.1);
            self.inflight_shortterm =
                Some(self.inflight_latest.max((inflight as f64 * BETA) as u64));
        }
    }

    /// The acknowledgment is dealt with: if a round ended, the next one's account is empty.
    pub(super) fn end_ack(&mut self, round_ended: bool) {
        if round_ended {
            (self.bw_latest, self.inflight_latest) = (Rate::ZERO, 0);
            (self.lost, self.delivered, self.loss_bursts) = (0, 0, 0);
        }
    }

    /// The last round lost more than it may, in however many bursts.
    pub(super) fn is_lossy(&self) -> bool {
        self.lossy
    }

    pub(super) fn startup_is_lossy(&self) -> bool {
        self.lossy_startup
    }

    /// Startup ended by loss, on a path of `bdp` bytes.
    pub(super) fn bound_startup(&mut self, bdp: u64) {
        self.inflight_longterm = Some(bdp.max(self.inflight_latest));
    }

    /// A probe lost too much from a flight like this; `target` is what was wanted.
    pub(super) fn on_too_high(&mut self, flown: &Flown, target: u64) {
        if !flown.app_limited {
            let least = (target as f64 * BETA) as u64;
            self.inflight_longterm = Some(flown.tx_in_flight.max(least));
        }
    }

    /// A packet came back from a flight of `tx_in_flight` with little lost. `probed`: in Up, bytes
    /// acknowledged, whether a round began, and whether the window was used.
    pub(super) fn raise(
        &mut self,
        tx_in_flight: u64,
        probed: Option<(u64, bool, bool)>,
        cwnd: u64,
        mss: u64,
    ) {
        let Some(bound) = self.inflight_longterm else { return };
        let mut bound = bound.max(tx_in_flight);
        if let Some((acked, round_started, used)) = probed
            && used
            && cwnd >= bound
        {
            self.up_acked = self.up_acked.saturating_add(acked);
            let steps = self.up_acked / self.up_per_mss.max(1);
            self.up_acked -= steps * self.up_per_mss.max(1);
            bound = bound.saturating_add(steps.saturating_mul(mss));
            if round_started {
                self.raise_slope(cwnd, mss);
            }
        }
        self.inflight_longterm = Some(bound);
    }

    /// Twice the growth per round from here on.
    pub(super) fn raise_slope(&mut self, cwnd: u64, mss: u64) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.up_per_mss = (cwnd / growth).max(mss);
    }

    /// Up is over, or Down begins.
    pub(super) fn on_probe_end(&mut self) {
        (self.up_acked, self.up_per_mss, self.up_rounds) = (0, u64::MAX, 0);
        (self.bw_latest, self.inflight_latest) = (Rate::ZERO, 0);
        (self.lost, self.delivered, self.loss_bursts) = (0, 0, 0);
    }

    pub(super) fn forget_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (None, None);
    }

    /// `None`: unbounded.
    pub(super) fn bw_shortterm(&self) -> Option<Rate> {
        self.bw_shortterm
    }

    /// `u64::MAX`: unbounded.
    pub(super) fn inflight_shortterm(&self) -> u64 {
        self.inflight_shortterm.unwrap_or(u64::MAX)
    }

    /// `u64::MAX`: unbounded.
    pub(super) fn inflight_longterm(&self) -> u64 {
        self.inflight_longterm.unwrap_or(u64::MAX)
    }

    /// The window is what the long-term bound allows.
    pub(super) fn holds(&self, cwnd: u64) -> bool {
        self.inflight_longterm.is_some_and(|bound| cwnd >= bound)
    }

    /// The long-term bound, with room below it for others.
    pub(super) fn with_headroom(&self, mss: u64, least: u64) -> u64 {
        let Some(bound) = self.inflight_longterm else { return u64::MAX };
        let headroom = ((bound as f64 * HEADROOM) as u64).max(mss);
        bound.saturating_sub(headroom).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    #[test]
    fn a_lossy_round_leaves_what_it_brought_and_seven_tenths_at_least() {
        let mut bounds = Bounds::default();
        let rate = Some(Rate::from_mbps(5));
        let round = Round { rate, brought: 80_000, ended: true, lost: MSS, bursts: 1 };
        bounds.on_ack(&round, 80_000, (Rate::from_mbps(10), 100_000), true);
        assert_eq!(bounds.bw_shortterm(), Some(Rate::from_mbps(7)));
        assert_eq!(bounds.inflight_shortterm(), 80_000);
        bounds.end_ack(true);
        bounds.on_ack(
            &Round { lost: 0, bursts: 0, ..round },
            80_000,
            (Rate::from_mbps(10), 100_000),
            true,
        );
        assert_eq!(bounds.inflight_shortterm(), 80_000, "no loss, no change");
        bounds.forget_shortterm();
        assert_eq!((bounds.bw_shortterm(), bounds.inflight_shortterm()), (None, u64::MAX));
    }

    #[test]
    fn two_percent_of_a_flight_may_be_lost_and_where_it_was_more_is_found() {
        let flown =
            |lost, packet| Flown { tx_in_flight: 100_000, lost, packet, app_limited: false };
        assert!(!flown(2_000, 0).is_too_high());
        assert!(flown(3_000, 0).is_too_high());
        // Ten segments at once: the first two per cent of what preceded them were allowed.
        assert_eq!(flown(10_000, 10_000).inflight_at_loss(), 91_836);
        assert_eq!(flown(12_000, 1_000).inflight_at_loss(), 99_000, "it was too much before");
    }

    #[test]
    fn growth_of_the_bound_doubles_every_round_of_a_probe() {
        let mut bounds = Bounds { inflight_longterm: Some(100 * MSS), ..Bounds::default() };
        bounds.raise_slope(100 * MSS, MSS);
        let mut bound = 100 * MSS;
        let mut growth = Vec::new();
        for _ in 0..4 {
            let cwnd = bounds.inflight_longterm();
            bounds.raise(0, Some((cwnd, true, true)), cwnd, MSS);
            growth.push((bounds.inflight_longterm() - bound) / MSS);
            bound = bounds.inflight_longterm();
        }
        assert_eq!(growth, [1, 2, 4, 8]);
        bounds.raise(0, Some((bound, true, false)), bound, MSS);
        assert_eq!(bounds.inflight_longterm(), bound, "an unused window proves nothing");
    }

    #[test]
    fn fifteen_percent_stay_free_for_others() {
        let bounds = Bounds { inflight_longterm: Some(100 * MSS), ..Bounds::default() };
        assert_eq!(bounds.with_headroom(MSS, 4 * MSS), 85 * MSS);
        assert_eq!(Bounds::default().with_headroom(MSS, 4 * MSS), u64::MAX);
    }
}
