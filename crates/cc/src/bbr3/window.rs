//! How much may be in flight.

use super::cycle::Phase;
use super::{Bbr3, PROBE_RTT_CWND_GAIN, State};
use crate::sample::AckSample;

impl Bbr3 {
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        let half = self.bdp(self.bandwidth(), PROBE_RTT_CWND_GAIN);
        half.unwrap_or(0).max(self.min_cwnd())
    }

    pub(super) fn update_window(&mut self, ack: &AckSample) {
        self.cwnd = self.cwnd.saturating_sub(ack.lost_bytes).max(self.mss());
        if ack.acked_bytes > 0 {
            let most = self
                .inflight(self.cwnd_gain())
                .min(self.startup_flight().unwrap_or(u64::MAX))
                .saturating_add(self.max_bw.get().map_or(0, |bw| self.extra_acked.allowance(bw)))
                .saturating_add(self.withheld());
            let growth = (ack.acked_bytes as f64 * (self.growth().per_round() - 1.0)) as u64;
            let grown = self.cwnd.saturating_add(growth);
            self.cwnd = if self.full_pipe.reached() {
                grown.min(most)
            } else if self.cwnd < most
                || self.delivered < self.config.initial_window.saturating_mul(2)
            {
                grown
            } else {
                self.cwnd
            };
            self.cwnd = self.overflow.bound(self.cwnd).max(self.min_cwnd());
        }
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cruising = self.state == State::ProbeRtt
            || (self.state == State::ProbeBw && self.cycle.phase() == Phase::Cruise);
        let longterm = match self.state {
            _ if cruising => self.bounds.with_headroom(self.mss(), self.min_cwnd()),
            State::ProbeBw => self.bounds.inflight_longterm(),
            _ => u64::MAX,
        };
        // A flight holds half of what waits when a packet leaves, in the mean, and what was delivered holds none of it.
        let longterm = longterm.saturating_add(self.withheld() / 2);
        let shortterm = self.bounds.inflight_shortterm().saturating_add(self.withheld());
        self.cwnd = self.cwnd.min(longterm.min(shortterm).max(self.min_cwnd()));
    }

    /// What Startup may have in flight by what arrives.
    fn startup_flight(&self) -> Option<u64> {
        let rtt_min =
            self.min_rtt.get().filter(|_| self.by_receiver && !self.full_pipe.reached())?;
        self.overshoot.flight(self.growth(), rtt_min, self.config.initial_window)
    }

    /// What a receiver that measures rates has, in bytes, before it tells of it.
    fn withheld(&self) -> u64 {
        // Of the round trip as it is: intervals grow with it.
        let part = self
            .srtt
            .filter(|_| self.by_receiver)
            .map_or(0.0, |srtt| self.ack_interval.as_secs_f64() / srtt.as_secs_f64().max(1e-9));
        self.bdp(self.bandwidth(), part).unwrap_or(0)
    }
}
