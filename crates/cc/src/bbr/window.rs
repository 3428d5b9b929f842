//! How much may be in flight.

use core::time::Duration;

use tack_units::Rate;

use super::Bbr;
use super::model::News;
use super::state::State;
use crate::sample::AckSample;

/// A probe allows for half as much again as bursts have shown: the bandwidth of a path that delivers in
/// bursts grows with them.
const BURST_PROBE_GAIN: f64 = 1.5;

impl Bbr {
    /// Flight for `gain`, in bytes. Linux adds room for what offload holds back at either end.
    pub(super) fn target(&self, gain: f64) -> u64 {
        let Some(bdp) = self.model.bdp(gain) else { return self.config.initial_window };
        let mss = self.mss();
        let held_back = self.send_quantum().saturating_mul(3);
        if self.is_receiver_based() {
            // Deviation: [TON §VI-D] has no such room. On a path of microseconds the product is
            // less than one offloaded send, and a wait for the processor stops the flow.
            // Startup must not have it: the rate it would still find is what ends Startup.
            let room = if self.model.full_pipe.reached() { held_back } else { 0 };
            return bdp.saturating_add(room);
        }
        // An even number of segments, so that a delayed ACK never waits for the last one.
        let even = bdp.saturating_add(held_back).div_ceil(2 * mss).saturating_mul(2 * mss);
        let probing = self.state == State::ProbeBw && self.pacing_gain() > 1.0;
        even.saturating_add(if probing { 2 * mss } else { 0 })
    }

    /// What one offloaded send carries: 1 ms of data, up to 64 KiB.
    pub(super) fn send_quantum(&self) -> u64 {
        const SLOW: Rate = Rate::from_kbps(1_200);
        let rate = self.pacing_rate.unwrap_or(Rate::ZERO);
        let least = if rate < SLOW { self.mss() } else { 2 * self.mss() };
        rate.bytes_in(Duration::from_millis(1)).clamp(least, least.max(65_535))
    }

    /// Flight allowed in this state, in bytes.
    pub(super) fn inflight_cap(&self) -> u64 {
        let mut gain = self.state.cwnd_gain();
        if let (true, Some(rtt_min)) = (self.is_receiver_based(), self.model.min_rtt.get()) {
            // 1/(RTTmin * f) [TON §VI-D].
            // Of the round trip as it is: intervals grow with it.
            let rtt = self.model.srtt().unwrap_or(rtt_min).max(rtt_min).as_secs_f64();
            gain += self.model.clock.interval().as_secs_f64() / rtt.max(1e-9);
        }
        let extra = self.model.extra_acked() as f64 * self.burst_gain();
        self.target(gain).saturating_add(extra as u64)
    }

    /// A window that arrives as one burst is no larger than the window: where a channel that others keep
    /// busy is won a few times a second, and RTTmin is one lucky access, it would never grow.
    fn burst_gain(&self) -> f64 {
        let probing = self.state == State::ProbeBw && self.cycle.gain() > 1.0;
        if probing && self.is_receiver_based() { BURST_PROBE_GAIN } else { 1.0 }
    }

    /// Flight allowed in Startup, in bytes.
    fn startup_cap(&self) -> u64 {
        let rtt_min = self.model.min_rtt.get().filter(|_| self.is_receiver_based());
        let (growth, initial) = (self.growth(), self.config.initial_window);
        let seen = rtt_min.and_then(|rtt_min| self.overshoot.flight(growth, rtt_min, initial));
        seen.unwrap_or(u64::MAX).min(self.inflight_cap())
    }

    fn grown(&self, cwnd: u64, acked: u64) -> u64 {
        let full = self.model.full_pipe.reached();
        let cap = if full { self.inflight_cap() } else { self.startup_cap() };
        // A receiver tells the first rate with its second interval: of nothing known no window is a multiple.
        let known = self.model.bandwidth().is_some() || !self.model.is_beyond_hosts();
        let enough = self.config.initial_window.saturating_mul(2);
        let started = known && self.model.delivered() >= enough;
        let grown = cwnd.saturating_add(acked);
        if self.model.full_pipe.reached() {
            grown.min(cap)
        } else if cwnd < cap || !started {
            grown
        } else {
            cwnd
        }
    }

    /// As Linux: conservation, then growth by what was acknowledged.
    pub(super) fn update_window_as_sender(&mut self, ack: &AckSample, news: News) {
        if news.round_started {
            self.conserve.on_round();
        }
        if self.conserve.in_recovery() && !ack.in_recovery {
            self.cwnd = self.cwnd.max(self.conserve.end());
        }
        if ack.acked_bytes == 0 || (self.state == State::ProbeRtt && !self.is_gentle()) {
            return;
        }
        let cwnd = self.cwnd.saturating_sub(ack.lost_bytes).max(self.mss());
        self.cwnd = if self.conserve.is_conserving() {
            cwnd.max(ack.in_flight.saturating_add(ack.acked_bytes))
        } else {
            self.grown(cwnd, ack.acked_bytes).max(self.min_cwnd())
        };
    }

    /// A third of the flight lost at once is an overflow, and its repairs, sent as freely, would be the next
    /// one: as much leaves as has arrived, and Startup grows from there. One packet is none: the end of a response was all
    /// that was in flight.
    fn conserve_in_startup(&mut self, ack: &AckSample) {
        let overflown = ack.lost_bytes.saturating_mul(3) > self.peak.behind(ack.prior_in_flight);
        if overflown && ack.lost_bytes > self.mss() && !self.model.full_pipe.reached() {
            let arrived = ack.in_flight.saturating_add(ack.acked_bytes);
            self.cwnd = self.cwnd.min(arrived.max(self.min_cwnd()));
        }
    }

    /// See [`overflow`](super::overflow).
    fn conserve_after_overflow(&mut self, ack: &AckSample) {
        let Some(standing) = self.model.standing().filter(|_| self.model.full_pipe.reached())
        else {
            return;
        };
        let waiting = self.model.short_term.waiting(ack, &standing);
        self.overflow.on_ack(ack, waiting, self.cwnd, self.mss());
        let bound = self.overflow.flight().unwrap_or(u64::MAX);
        self.cwnd = self.cwnd.min(bound).max(self.min_cwnd());
    }

    /// The inflight cap itself once the pipe is full: random loss keeps a TACK sender in recovery
    /// for most of its life, and the rate is what protects the path [TON §VI-D].
    pub(super) fn update_window_as_receiver(&mut self, ack: &AckSample) {
        self.conserve_in_startup(ack);
        self.conserve_after_overflow(ack);
        if ack.acked_bytes == 0 {
            return;
        }
        if self.conserve.in_recovery() {
            self.cwnd = self.cwnd.max(self.conserve.end());
        }
        let wanted = if self.model.full_pipe.reached() {
            self.inflight_cap()
        } else {
            let growth = (ack.acked_bytes as f64 * (self.growth().per_round() - 1.0)) as u64;
            if self.model.runs_dry(ack) {
                self.cwnd.saturating_add(growth)
            } else {
                self.grown(self.cwnd, growth)
            }
        };
        let few = self.model.few_packets.flight().unwrap_or(u64::MAX);
        self.cwnd = self.overflow.bound(wanted).max(self.min_cwnd()).min(few);
    }
}
