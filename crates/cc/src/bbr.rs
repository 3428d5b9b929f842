//! BBR: send at the rate the path delivers, with just enough in flight.
//!
//! The path is two numbers, each a windowed extreme of what acknowledgments tell:
//!
//! ```text
//! bandwidth   = max(delivery_rate)    over 10 rounds, or 40 TACK intervals      [bit/s]
//! RTTmin      = min(RTT)              over 10 s                                  [time]
//!
//! pacing_rate = pacing_gain * bandwidth * 0.99
//! cwnd        = cwnd_gain * bandwidth * RTTmin + allowances                      [bytes]
//! ```
//!
//! The two cannot be measured at once: bandwidth shows only with the pipe full, RTTmin only with
//! the queue empty. So the sender does one after the other:
//!
//! ```text
//!          Startup  gain 2.89: twice the rate every round, until three bring no quarter more
//!             |
//!           Drain   gain 0.35: until what is in flight is one bdp
//!             |
//!    +---> ProbeBw  gain 1.25, 0.75, then 1: look for more, drain, cruise; repeat
//!    |        |
//!    +---- ProbeRtt when RTTmin is 10 s old: 200 ms of nearly nothing (from any state; back to
//!                   Startup if the pipe was never full)
//! ```
//!
//! One BBR, two ways to measure. With [`RateSource::Sender`] it is BBRv1 as Linux has it: time is
//! rounds ([`round`]). With [`RateSource::Receiver`] it is the receiver-based BBR of TACK
//! [TON §VI-D]: time is TACK intervals ([`clock`]), and
//!
//! ```text
//! pacing_rate = max(pacing_gain * bandwidth * 0.99, MSS * f)
//! cwnd        = (2 + 1/(RTT * f)) * bandwidth * RTTmin + allowances
//! ```
//!
//! where what the receiver sees does more than measure: Startup grows by 2.89 a round while nothing
//! waits, and ends at the bottleneck ([`overshoot`]); a probe that found bandwidth goes on
//! ([`probe_bw`]); a congested round bounds the next ones ([`short_term`], [`few_packets`]). `bandwidth/f` covers what
//! waits for the next TACK. The sample says which; a fall-back to plain TCP keeps what was learnt.
//!
//! Constants, each next to its use: [`profile`] (filters and cycles), [`state`] (gains),
//! [`full_pipe`], [`probe_bw`], [`probe_rtt`], [`lt_bw`], [`extra_acked`], [`delivered`].
//! Loss is no signal of congestion here; see [`conserve`] for what it does to the window all the
//! same. ECN is ignored, as in BBRv1.

mod clock;
mod conserve;
mod delivered;
pub(crate) mod extra_acked;
mod few_packets;
pub(crate) mod full_pipe;
mod inspect;
mod lt_bw;
pub(crate) mod min_rtt;
mod model;
mod overshoot;
mod probe_bw;
pub(crate) mod probe_rtt;
mod profile;
pub(crate) mod round;
mod short_term;
mod state;

use core::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use tack_units::{Instant, Rate};

use self::conserve::Conserve;
use self::lt_bw::Verdict;
use self::model::{Model, News, Stance};
use self::overshoot::{Overshoot, Signs};
use self::probe_bw::{Cycle, Flight};
use self::probe_rtt::ProbeRtt;
use self::profile::Constants;
pub(crate) use self::profile::Profile;
use self::state::{CLEAR_GAIN, DRAIN_GAIN, HIGH_GAIN, State};
use crate::config::Config;
use crate::controller::Controller;
use crate::sample::{AckSample, LossKind, LossSample, RateSource};

/// BBR: a model of the path, and the state machine that measures it.
#[derive(Clone, Debug)]
pub struct Bbr {
    config: Config,
    profile: Profile,
    constants: Constants,
    random: Pcg32,
    model: Model,
    state: State,
    cycle: Cycle,
    overshoot: Overshoot,
    probe_rtt: ProbeRtt,
    conserve: Conserve,
    /// Bytes; what ProbeRTT takes away comes on top.
    cwnd: u64,
    pacing_rate: Option<Rate>,
    /// The last transmission left nothing to send.
    app_limited: bool,
    /// Sending resumed after an idle time and nothing sent since was acknowledged.
    idle_restart: bool,
}

/// Keeps the ACK clock running with delayed acknowledgments at both ends of the path.
const MIN_CWND_MSS: u64 = 4;
/// Stream of the seed's generator that is ours.
const BBR_STREAM: u64 = 0x0bb7;
/// TACK intervals in a phase of the cycle, a round trip [TON §VI-D].
const INTERVALS_PER_PHASE: u32 = 4;
/// Sending 1 % slower than the path delivers lets a queue made by an overestimate go.
const PACING_MARGIN: f64 = 0.99;

impl Bbr {
    /// In Startup, with the initial window.
    pub(crate) fn new(config: &Config, profile: Profile, now: Instant) -> Self {
        let constants = profile.constants(RateSource::Sender);
        Self {
            config: *config,
            profile,
            constants,
            random: Pcg32::new(config.seed, BBR_STREAM),
            model: Model::new(constants.filter, now),
            state: State::Startup,
            cycle: Cycle::new(constants.cycle, 0, Rate::MAX, now),
            overshoot: Overshoot::default(),
            probe_rtt: ProbeRtt::by_flight(),
            conserve: Conserve::default(),
            cwnd: config.initial_window,
            pacing_rate: None,
            app_limited: false,
            idle_restart: false,
        }
    }

    fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    fn min_cwnd(&self) -> u64 {
        MIN_CWND_MSS.saturating_mul(self.mss())
    }

    fn is_receiver_based(&self) -> bool {
        self.model.source == RateSource::Receiver
    }

    /// The only place `state` is written.
    fn enter(&mut self, next: State, now: Instant) {
        assert!(self.state.allows(next), "{:?} -> {next:?} is not an edge", self.state);
        self.state = next;
        match next {
            State::Startup | State::Drain => {}
            State::ProbeBw => self.restart_cycle(now),
            State::ProbeRtt => {
                self.model.round.restart(self.model.delivered());
                let by_flight = !self.is_receiver_based() && !self.is_gentle();
                self.probe_rtt = if by_flight {
                    ProbeRtt::by_flight()
                } else {
                    ProbeRtt::by_time(self.model.srtt(), now)
                };
            }
        }
    }

    fn restart_cycle(&mut self, now: Instant) {
        let (random, phases) = (self.random.next_u32(), self.constants.cycle);
        let bandwidth = self.model.greatest_bandwidth().unwrap_or(Rate::MAX);
        self.cycle = Cycle::new(phases, random, bandwidth, now);
    }

    fn advance_cycle(&mut self, ack: &AckSample, rtt_min: Duration) {
        let by_receiver = self.is_receiver_based();
        let intervals = self.model.clock.interval().saturating_mul(INTERVALS_PER_PHASE);
        let flight = Flight {
            // Told at the end of an interval, a phase must not last one more.
            phase: if by_receiver { intervals.max(rtt_min) / 8 * 7 } else { rtt_min },
            in_flight: ack.prior_in_flight,
            lost: ack.lost_bytes > 0,
            probed: self.target(self.pacing_gain().max(1.0)),
            drained: self.target(1.0),
            by_receiver,
            queued: ack.rtt.is_some_and(|rtt| rtt >= rtt_min.saturating_add(rtt_min / 4)),
            bandwidth: self.model.greatest_bandwidth().unwrap_or(Rate::MAX),
        };
        if self.cycle.on_ack(&flight, ack.now) {
            let bandwidth = self.model.greatest_bandwidth().unwrap_or(Rate::MAX);
            let cap = self.inflight_cap();
            self.model.short_term.on_probe(bandwidth, cap);
        }
    }

    /// ProbeRTT lowers the rate a little instead of falling silent.
    fn is_gentle(&self) -> bool {
        self.constants.probe_rtt_gain.is_some()
    }

    fn adopt(&mut self, source: RateSource, now: Instant) {
        if source == self.model.source {
            return;
        }
        self.constants = self.profile.constants(source);
        self.model.adopt(source, self.constants.filter, now);
        self.restart_cycle(now);
        if self.state == State::ProbeRtt {
            // The rules of ProbeRTT differ too; the other kind begins when RTTmin is stale again.
            self.leave_probe_rtt(now);
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup if self.grows_fast() => CLEAR_GAIN,
            State::Startup => HIGH_GAIN,
            State::Drain => DRAIN_GAIN,
            State::ProbeBw if self.idle_restart => 1.0,
            State::ProbeBw if self.model.long_term.bandwidth().is_some() => 1.0,
            State::ProbeBw => self.cycle.gain(),
            State::ProbeRtt => self.constants.probe_rtt_gain.unwrap_or(1.0),
        }
    }

    /// What the receiver sees may end Startup before three rounds without growth do.
    fn watch_startup(&mut self, ack: &AckSample) {
        let Some(rtt_min) = self.model.min_rtt.get() else { return };
        if self.state != State::Startup || !self.is_receiver_based() {
            return;
        }
        let signs = Signs {
            rtt: ack.rtt,
            queued: ack.queue(),
            rtt_min,
            rate: ack.rate.and_then(|rate| rate.delivery_rate),
            pacing_rate: self.pacing_rate,
            app_limited: ack.rate.is_some_and(|rate| rate.app_limited),
        };
        if self.overshoot.on_ack(&signs, ack.now) {
            self.model.full_pipe.declare();
        }
    }

    /// Startup's flight grows by [`HIGH_GAIN`] per round, not by two.
    fn grows_fast(&self) -> bool {
        self.is_receiver_based() && self.state == State::Startup && self.overshoot.is_clear()
    }

    fn after_startup(&mut self, ack: &AckSample) {
        if self.state == State::Startup && self.model.full_pipe.reached() {
            self.enter(State::Drain, ack.now);
        }
        if self.state == State::Drain && ack.in_flight <= self.target(1.0) {
            self.enter(State::ProbeBw, ack.now);
        }
    }

    fn search_rtt_min(&mut self, ack: &AckSample, news: News) {
        let every = self.constants.probe_rtt_every;
        if self.state != State::ProbeRtt {
            let stale = self.model.min_rtt.is_stale(every, ack.now);
            // Slowing down a little shows nothing while Startup doubles the rate every round.
            let vain = self.is_gentle() && !self.model.full_pipe.reached();
            if stale && self.config.probe_rtt && !self.idle_restart && !vain {
                self.enter(State::ProbeRtt, ack.now);
            }
            return;
        }
        if news.round_started {
            self.probe_rtt.on_round();
        }
        let small = ack.in_flight <= self.min_cwnd();
        if self.probe_rtt.on_ack(small, ack.newest_sent_at, ack.now) {
            self.model.round.restart(self.model.delivered());
        }
        if self.probe_rtt.is_over(ack.now) {
            self.leave_probe_rtt(ack.now);
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.model.min_rtt.confirm(now);
        // As Linux. Grown back from a probe's few packets, it would hold the rate down for long.
        self.cwnd = self.cwnd.max(self.conserve.window_before().unwrap_or(0));
        let full = self.model.full_pipe.reached();
        self.enter(if full { State::ProbeBw } else { State::Startup }, now);
    }

    /// Flight for `gain`, in bytes. Linux adds room for what offload holds back at either end.
    fn target(&self, gain: f64) -> u64 {
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
    fn send_quantum(&self) -> u64 {
        const SLOW: Rate = Rate::from_kbps(1_200);
        let rate = self.pacing_rate.unwrap_or(Rate::ZERO);
        let least = if rate < SLOW { self.mss() } else { 2 * self.mss() };
        rate.bytes_in(Duration::from_millis(1)).clamp(least, least.max(65_535))
    }

    /// Flight allowed in this state, in bytes.
    fn inflight_cap(&self) -> u64 {
        let mut gain = self.state.cwnd_gain();
        if let (true, Some(rtt_min)) = (self.is_receiver_based(), self.model.min_rtt.get()) {
            // 1/(RTTmin * f) [TON §VI-D].
            // Of the round trip as it is: intervals grow with it.
            let rtt = self.model.srtt().unwrap_or(rtt_min).max(rtt_min).as_secs_f64();
            gain += self.model.clock.interval().as_secs_f64() / rtt.max(1e-9);
        }
        self.target(gain).saturating_add(self.model.extra_acked())
    }

    /// Flight allowed in Startup, in bytes.
    fn startup_cap(&self) -> u64 {
        let rtt_min = self.model.min_rtt.get().filter(|_| self.is_receiver_based());
        let seen = rtt_min.and_then(|rtt_min| self.overshoot.flight(rtt_min));
        seen.map_or(u64::MAX, |flight| flight.max(self.config.initial_window))
            .min(self.inflight_cap())
    }

    fn grown(&self, cwnd: u64, acked: u64) -> u64 {
        let full = self.model.full_pipe.reached();
        let cap = if full { self.inflight_cap() } else { self.startup_cap() };
        let started = self.model.delivered() >= self.config.initial_window.saturating_mul(2);
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
    fn update_window_as_sender(&mut self, ack: &AckSample, news: News) {
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

    /// The inflight cap itself once the pipe is full: random loss keeps a TACK sender in recovery
    /// for most of its life, and the rate is what protects the path [TON §VI-D].
    fn update_window_as_receiver(&mut self, ack: &AckSample) {
        if ack.acked_bytes == 0 {
            return;
        }
        if self.conserve.in_recovery() {
            self.cwnd = self.cwnd.max(self.conserve.end());
        }
        let wanted = if self.model.full_pipe.reached() {
            self.inflight_cap()
        } else {
            let growth = if self.grows_fast() { HIGH_GAIN - 1.0 } else { 1.0 };
            self.grown(self.cwnd, (ack.acked_bytes as f64 * growth) as u64)
        };
        let bound = self.model.short_term.flight().unwrap_or(u64::MAX);
        let few = self.model.few_packets.flight().unwrap_or(u64::MAX);
        self.cwnd = wanted.min(bound).max(self.min_cwnd()).min(few);
    }

    /// `MSS * f` [TON §VI-D]; zero for plain TCP.
    ///
    /// Deviation: of `f` by the round trip as it is, as if four segments were the least window. On a
    /// slow path a segment per RTTmin/4 is a multiple of the bandwidth, and fills any buffer.
    fn least_rate(&self) -> Rate {
        let rate = Rate::from_bytes_over(self.mss(), self.model.clock.unit());
        rate.filter(|_| self.is_receiver_based()).unwrap_or(Rate::ZERO)
    }

    /// A segment per second, whatever the estimate: or no acknowledgment could ever correct it.
    fn crawl(&self) -> Rate {
        Rate::from_bps(self.mss() * 8)
    }

    fn update_pacing(&mut self) {
        let Some(bandwidth) = self.model.bandwidth() else {
            // No rate sample yet: the window over the first RTT stands in for one.
            let rate = self.model.srtt().and_then(|srtt| Rate::from_bytes_over(self.cwnd, srtt));
            let rate = rate.map(|r| r.mul_f64(HIGH_GAIN * PACING_MARGIN));
            self.pacing_rate = rate.map(|r| r.max(self.crawl()));
            return;
        };
        let silent = self.state == State::ProbeRtt && self.is_receiver_based() && !self.is_gentle();
        let rate = if silent {
            self.least_rate()
        } else {
            bandwidth.mul_f64(self.pacing_gain() * PACING_MARGIN).max(self.least_rate())
        };
        let rate = rate.max(self.crawl());
        let may_fall = self.model.full_pipe.reached() || self.state == State::ProbeRtt;
        if may_fall || self.pacing_rate.is_none_or(|current| rate > current) {
            self.pacing_rate = Some(rate);
        }
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        if in_flight <= bytes {
            self.model.on_idle_end(now);
            if self.app_limited {
                self.idle_restart = true;
                if self.state == State::ProbeRtt && self.probe_rtt.is_over(now) {
                    self.leave_probe_rtt(now);
                }
                self.update_pacing();
            }
        }
        self.app_limited = app_limited;
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rate) = &ack.rate {
            self.adopt(rate.source, ack.now);
        }
        let stance = Stance {
            probing_bw: self.state == State::ProbeBw,
            cruising: self.state == State::ProbeBw && self.pacing_gain() <= 1.0,
            probing_rtt: self.state == State::ProbeRtt,
            cwnd: self.cwnd,
            mss: self.mss(),
        };
        let news = self.model.on_ack(ack, &stance);
        if news.verdict == Verdict::Released && self.state == State::ProbeBw {
            self.enter(State::ProbeBw, ack.now);
        }
        if let (State::ProbeBw, Some(rtt_min)) = (self.state, self.model.min_rtt.get()) {
            self.advance_cycle(ack, rtt_min);
        }
        self.watch_startup(ack);
        self.after_startup(ack);
        self.search_rtt_min(ack, news);
        if ack.acked_bytes > 0 {
            self.idle_restart = false;
        }
        match self.model.source {
            RateSource::Sender => self.update_window_as_sender(ack, news),
            RateSource::Receiver => self.update_window_as_receiver(ack),
        }
        self.update_pacing();
    }

    fn on_loss(&mut self, loss: &LossSample) {
        let flight = loss.in_flight.saturating_add(self.mss());
        match loss.kind {
            LossKind::Recovery if self.is_receiver_based() || self.conserve.in_recovery() => {}
            LossKind::Recovery => {
                self.conserve.begin(self.cwnd);
                self.model.round.restart(self.model.delivered());
                self.cwnd = flight;
            }
            LossKind::Timeout => {
                self.conserve.time_out(self.cwnd);
                self.model.full_pipe.forget_plateau();
                self.cwnd = flight.min(self.cwnd);
            }
            LossKind::CongestionExperienced => {}
            LossKind::Spurious => {
                self.model.full_pipe.forget_plateau();
                self.model.long_term.reset();
                if self.conserve.in_recovery() {
                    self.cwnd = self.cwnd.max(self.conserve.end());
                }
            }
        }
    }

    fn window(&self) -> u64 {
        let silent = self.state == State::ProbeRtt && !self.is_receiver_based();
        let most = if silent && !self.is_gentle() { self.min_cwnd() } else { u64::MAX };
        self.cwnd.min(most).min(self.config.max_window).max(self.mss())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }
}
