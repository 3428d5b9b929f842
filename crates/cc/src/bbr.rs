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
//!    +---- ProbeRtt when RTTmin is 10 s old ([`min_rtt`]): 200 ms of nearly nothing (from any state; back to
//!                   Startup if the pipe was never full, or the path is another: [`longer_path`])
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
//! waits, and by 4 at first, and ends at the bottleneck ([`overshoot`]); a probe that found bandwidth goes on
//! ([`probe_bw`]); a congested round bounds the next ones ([`short_term`], [`few_packets`]), and so does
//! a queue that overflowed ([`overflow`]); `MSS * f` counts
//! only where nothing waits, and a Startup that the application holds down sends its bursts little faster than they
//! arrive ([`pacing`]); a probe allows for longer bursts ([`window`]). `bandwidth/f` covers what
//! waits for the next TACK. The sample says which; a fall-back to plain TCP keeps what was learnt.
//!
//! Constants, each next to its use: [`profile`] (filters and cycles), [`state`] (gains),
//! [`full_pipe`], [`probe_bw`], [`probe_rtt`], [`lt_bw`], [`extra_acked`],
//! [`delivered`](crate::delivered).
//! Loss is no signal of congestion here; see [`conserve`] for what it does to the window all the
//! same. ECN is ignored, as in BBRv1.

mod clock;
mod conserve;
pub(crate) mod extra_acked;
mod few_packets;
pub(crate) mod full_pipe;
mod inspect;
pub(crate) mod longer_path;
mod lt_bw;
pub(crate) mod min_rtt;
mod model;
pub(crate) mod overflow;
pub(crate) mod overshoot;
mod pacing;
mod probe_bw;
pub(crate) mod probe_rtt;
mod profile;
pub(crate) mod round;
pub(crate) mod short_term;
mod state;
mod window;

use core::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use tack_units::{Instant, Rate};

use self::conserve::Conserve;
use self::full_pipe::FullPipe;
use self::longer_path::{LongerPath, Passage};
use self::lt_bw::Verdict;
use self::model::{Model, News, Stance};
use self::overflow::Overflow;
use self::overshoot::{Overshoot, Signs};
use self::probe_bw::{Cycle, Flight};
use self::probe_rtt::ProbeRtt;
use self::profile::Constants;
pub(crate) use self::profile::Profile;
use self::state::State;
use crate::config::Config;
use crate::controller::Controller;
use crate::flight::Peak;
use crate::growth::Growth;
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
    overflow: Overflow,
    overshoot: Overshoot,
    longer_path: LongerPath,
    probe_rtt: ProbeRtt,
    conserve: Conserve,
    peak: Peak,
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
            overflow: Overflow::default(),
            overshoot: Overshoot::default(),
            longer_path: LongerPath::default(),
            probe_rtt: ProbeRtt::by_flight(),
            conserve: Conserve::default(),
            peak: Peak::default(),
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
        let (gain, drained) = (self.pacing_gain(), self.target(1.0));
        // What leaves at once has no gain: a probe that is over before the next of it has probed nothing.
        let quantum = self.pacing_rate.and_then(|rate| rate.time_for(self.send_quantum()));
        let least = rtt_min.max(quantum.unwrap_or(Duration::ZERO));
        let flight = Flight {
            // Told at the end of an interval, a phase must not last one more.
            phase: if by_receiver { intervals.max(least) / 8 * 7 } else { rtt_min },
            in_flight: ack.prior_in_flight,
            lost: ack.lost_bytes > 0,
            // Most phases probe for nothing.
            probed: if gain > 1.0 { self.target(gain) } else { drained },
            drained,
            by_receiver,
            queued: self.model.min_rtt.shows_queue(),
            bandwidth: self.model.greatest_bandwidth().unwrap_or(Rate::MAX),
        };
        if self.cycle.on_ack(&flight, ack.now) {
            let bandwidth = self.model.greatest_bandwidth().unwrap_or(Rate::MAX);
            self.model.short_term.on_probe(bandwidth);
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

    /// What the receiver sees may end Startup before three rounds without growth do.
    fn watch_startup(&mut self, ack: &AckSample) {
        let Some(rtt_min) = self.model.min_rtt.get() else { return };
        if self.state != State::Startup || !self.is_receiver_based() {
            return;
        }
        let signs = Signs::of(ack, rtt_min, self.pacing_rate, self.growth());
        self.longer_path.on_startup_ack(Passage::of(ack), ack.now);
        if self.overshoot.on_ack(&signs, ack.now) {
            self.model.full_pipe.declare();
        }
    }

    /// A wait for which Startup ended may have been the path's.
    fn watch_path(&mut self, ack: &AckSample) {
        if self.state != State::ProbeBw {
            return;
        }
        if let Some(path) = self.longer_path.on_ack(Passage::of(ack), ack.now) {
            self.model.full_pipe = FullPipe::default();
            self.model.min_rtt.replace(path.rtt, ack.now);
            self.overshoot = Overshoot::beyond(path.queued);
            self.enter(State::Startup, ack.now);
        }
    }

    /// How fast Startup's flight grows.
    fn growth(&self) -> Growth {
        if !self.is_receiver_based() || self.state != State::Startup {
            return Growth::Doubling;
        }
        let (initial, rtt_min) = (self.config.initial_window, self.model.min_rtt.get());
        self.overshoot.growth(self.cwnd, initial, rtt_min)
    }

    fn after_startup(&mut self, ack: &AckSample) {
        if self.state == State::Startup && self.model.full_pipe.reached() {
            self.longer_path.on_startup_end(self.overshoot.was_full_for_waits());
            self.enter(State::Drain, ack.now);
        }
        if self.state == State::Drain && ack.in_flight <= self.target(1.0) {
            self.longer_path.on_drained(ack.now);
            self.enter(State::ProbeBw, ack.now);
        }
    }

    fn search_rtt_min(&mut self, ack: &AckSample, news: News) {
        let every = self.constants.probe_rtt_every;
        if ack.lost_bytes > 0 {
            self.model.min_rtt.on_loss(ack.now);
        }
        if self.state != State::ProbeRtt {
            let falls_silent_for_it = self.is_receiver_based() && !self.is_gentle();
            let min_rtt = &self.model.min_rtt;
            let stale = match falls_silent_for_it {
                true => min_rtt.is_unseen(every, ack.now),
                false => min_rtt.is_stale(every, ack.now),
            };
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
}

impl Controller for Bbr {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        if in_flight <= bytes {
            self.model.on_idle_end(now);
            // A window that arrived as a whole leaves nothing in flight either, and nobody paused, beyond hosts.
            if self.app_limited || !self.model.is_beyond_hosts() {
                self.model.on_pause(0);
            }
            if self.app_limited {
                self.idle_restart = true;
                if self.state == State::ProbeRtt && self.probe_rtt.is_over(now) {
                    self.leave_probe_rtt(now);
                }
                self.update_pacing();
            }
        }
        self.app_limited = app_limited;
        if app_limited {
            self.model.on_pause(in_flight);
        }
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
        self.peak.on_ack(ack);
        let news = self.model.on_ack(ack, &stance);
        if news.verdict == Verdict::Released && self.state == State::ProbeBw {
            self.enter(State::ProbeBw, ack.now);
        }
        if let (State::ProbeBw, Some(rtt_min)) = (self.state, self.model.min_rtt.get()) {
            self.advance_cycle(ack, rtt_min);
        }
        self.watch_startup(ack);
        self.after_startup(ack);
        self.watch_path(ack);
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
