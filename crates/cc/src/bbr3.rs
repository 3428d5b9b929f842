//! BBRv3: BBR with two more bounds, learnt from loss [draft-ietf-ccwg-bbr].
//!
//! ```text
//! bw          = min(max_bw, bw_shortterm)          max_bw over the last two cycles      [bit/s]
//! RTTmin      = min(RTT) over 10 s, measured anew where 5 s have brought none lower
//!
//! pacing_rate = pacing_gain * bw * 0.99
//! cwnd        = cwnd_gain * bw * RTTmin + extra_acked, and no more than         [bytes]
//!               inflight_longterm   what was in flight when more than 2 % were lost
//!               inflight_shortterm  what the last lossy round delivered
//! ```
//!
//! ```text
//!          Startup  2.77: until three rounds bring no quarter more, or one loses 2 % in 6 bursts
//!             |
//!           Drain   0.35: until what is in flight is one bdp
//!             |
//!    +---> ProbeBw  Down 0.90, Cruise 1, Refill 1, Up 1.25  ([`cycle`]): probes every 2 to 3 s,
//!    |        |     or as often as Reno would fill the same queue
//!    +---- ProbeRtt every 5 s: half a bdp for 200 ms
//! ```
//!
//! [`bounds`] learns; rounds, excess, plateau and probe for RTTmin are those of [`bbr`](crate::bbr).
//! `tx_in_flight`, what was in flight when a packet left, is found by the time it left.
//!
//! Deviation: all that one acknowledgment declares lost counts as one packet that left when the
//! newest of it did. ECN, which the draft leaves open, is ignored. With a receiver that measures
//! rates (TACK) Startup is BBR's, which grows as fast as the path is seen to bear and ends where less arrives than is
//! sent ([`overshoot`](crate::bbr::overshoot)), within the excess that bursts have shown: the loss of 2 % in six bursts comes
//! when a flight has doubled again. `bdp / (RTT * f)` comes on top of `cwnd`, for what waits for the next TACK [TON §VI-D], on top of
//! `inflight_shortterm`, and half of it on top of `inflight_longterm`; a rate is no more
//! than what a round trip [`delivered`](crate::delivered), or each of several flows takes the burst in which its packets
//! leave a queue for the path's rate, and they fill it; and a round that loses 2 % shows whether Startup has filled the pipe
//! also where the application holds rates down: responses of twenty packets have no six bursts of loss. Of a path that turns
//! slower as much is sent as arrives once the queue has overflowed ([`overflow`](crate::bbr::overflow)): the bounds fall by
//! three tenths a round, and each round of a window that is three times too large loses half of what it sends.
//!
//! Deviation: of the cwnd in loss recovery only the draft's subtraction of what was lost is here, and the return to
//! what it was before a timeout that proves needless; PRR and the restoring of what it took are for windows that fall by
//! loss, and this one does not.

mod bounds;
mod cycle;
mod learn;
mod startup;
mod window;

use core::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use tack_units::{Instant, Rate, WindowedMax};

use self::bounds::Bounds;
use self::cycle::{Cycle, Phase};
use crate::bbr::extra_acked::ExtraAcked;
use crate::bbr::full_pipe::FullPipe;
use crate::bbr::longer_path::LongerPath;
use crate::bbr::min_rtt::MinRtt;
use crate::bbr::overflow::Overflow;
use crate::bbr::overshoot::Overshoot;
use crate::bbr::probe_rtt::ProbeRtt;
use crate::bbr::round::Round;
use crate::bbr::short_term::ShortTerm;
use crate::config::Config;
use crate::controller::Controller;
use crate::delivered::Delivered;
use crate::flight::Departures;
use crate::growth::HIGH_GAIN;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample, RateSample};

/// BBRv3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    config: Config,
    random: Pcg32,
    state: State,
    cycle: Cycle,
    bounds: Bounds,
    departures: Departures,
    round: Round,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    overshoot: Overshoot,
    longer_path: LongerPath,
    short_term: ShortTerm,
    overflow: Overflow,
    extra_acked: ExtraAcked,
    probe_rtt: ProbeRtt,
    /// By cycles.
    max_bw: WindowedMax<Rate>,
    cwnd: u64,
    /// To return to after ProbeRTT.
    saved_cwnd: u64,
    /// The window at the first timeout of the recovery under way, in bytes; zero if there was none.
    before_timeout: u64,
    pacing_rate: Option<Rate>,
    srtt: Option<Duration>,
    by_receiver: bool,
    ack_interval: Duration,
    delivered: u64,
    delivered_marks: Delivered,
    lost: u64,
    app_limited: bool,
    idle_restart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Least pacing gain that doubles the rate every round with a cwnd gain of two: `4 ln 2`.
const STARTUP_GAIN: f64 = 2.77;
const STARTUP_CWND_GAIN: f64 = 2.0;
const DRAIN_GAIN: f64 = 0.35;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
const PACING_MARGIN: f64 = 0.99;
const PROBE_RTT_EVERY: Duration = Duration::from_secs(5);
const MIN_CWND_MSS: u64 = 4;
/// Cycles that the bandwidth filter remembers.
const FILTER_CYCLES: u64 = 2;
const BBR3_STREAM: u64 = 0x0bb3;

impl Bbr3 {
    /// In Startup, with the initial window.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Bbr3 {
            config: *config,
            random: Pcg32::new(config.seed, BBR3_STREAM),
            state: State::Startup,
            cycle: Cycle::new(now),
            bounds: Bounds::default(),
            departures: Departures::default(),
            round: Round::default(),
            min_rtt: MinRtt::new(now),
            full_pipe: FullPipe::default(),
            overshoot: Overshoot::default(),
            longer_path: LongerPath::default(),
            short_term: ShortTerm::new(now),
            overflow: Overflow::default(),
            extra_acked: ExtraAcked::new(now),
            probe_rtt: ProbeRtt::by_flight(),
            max_bw: WindowedMax::new(FILTER_CYCLES),
            cwnd: config.initial_window,
            saved_cwnd: 0,
            before_timeout: 0,
            pacing_rate: None,
            srtt: None,
            by_receiver: false,
            ack_interval: Duration::ZERO,
            delivered: 0,
            delivered_marks: Delivered::default(),
            lost: 0,
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

    fn bandwidth(&self) -> Option<Rate> {
        let max_bw = self.max_bw.get()?;
        Some(self.bounds.bw_shortterm().map_or(max_bw, |bound| bound.min(max_bw)))
    }

    /// `gain` bdps of this bandwidth, in bytes.
    fn bdp(&self, bandwidth: Option<Rate>, gain: f64) -> Option<u64> {
        Some(bandwidth?.mul_f64(gain).bytes_in(self.min_rtt.get()?))
    }

    /// What should be in flight for `gain`, offload and TACKs allowed for.
    fn inflight(&self, gain: f64) -> u64 {
        let bandwidth = self.bandwidth();
        let Some(bdp) = self.bdp(bandwidth, gain) else { return self.config.initial_window };
        let quantum = self.pacing_rate.unwrap_or(Rate::ZERO).bytes_in(Duration::from_millis(1));
        let quantum = quantum.clamp(2 * self.mss(), (2 * self.mss()).max(65_535));
        let room = bdp.max(quantum.saturating_mul(3)).max(self.min_cwnd());
        let probing = self.state == State::ProbeBw && self.cycle.phase() == Phase::Up;
        room.saturating_add(if probing { 2 * self.mss() } else { 0 })
    }

    /// One bdp of the greatest bandwidth: what Drain and Down go down to.
    fn drained(&self) -> u64 {
        self.bdp(self.max_bw.get(), 1.0).unwrap_or(self.config.initial_window).max(self.min_cwnd())
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup if self.by_receiver => self.growth().pacing_gain(),
            State::Startup => STARTUP_GAIN,
            State::Drain => DRAIN_GAIN,
            State::ProbeBw => self.cycle.phase().pacing_gain(),
            State::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::Startup if self.by_receiver => HIGH_GAIN,
            State::Startup | State::Drain => STARTUP_CWND_GAIN,
            State::ProbeBw => self.cycle.phase().cwnd_gain(),
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
        }
    }

    /// Bounds are not lowered while the sender tries to exceed them.
    fn is_probing(&self) -> bool {
        match self.state {
            State::Startup => true,
            State::ProbeBw => matches!(self.cycle.phase(), Phase::Refill | Phase::Up),
            State::Drain | State::ProbeRtt => false,
        }
    }

    fn enter_phase(&mut self, phase: Phase, now: Instant) {
        if self.state == State::ProbeBw {
            self.leave_phase();
        }
        self.state = State::ProbeBw;
        let dice = self.random.next_u32();
        self.cycle.enter(phase, dice, self.max_bw.get().unwrap_or(Rate::ZERO), now);
        match phase {
            Phase::Down => {
                self.bounds.on_probe_end();
                self.round.restart(self.delivered);
            }
            Phase::Cruise => {}
            Phase::Refill => {
                self.bounds.forget_shortterm();
                self.round.restart(self.delivered);
            }
            Phase::Up => {
                self.bounds.raise_slope(self.cwnd, self.mss());
                self.round.restart(self.delivered);
            }
        }
    }

    fn leave_phase(&mut self) {
        if self.cycle.phase() == Phase::Up {
            self.bounds.on_probe_end();
        }
    }
}

/// What an acknowledgment is about, gathered once.
#[derive(Clone, Copy, Debug)]
struct News<'a> {
    ack: &'a AckSample,
    rate: Option<RateSample>,
    round_started: bool,
}

impl Bbr3 {
    /// What the newest acknowledged packet says of the flight it left in.
    fn advance_cycle(&mut self, news: News<'_>) {
        if !self.full_pipe.reached() {
            return;
        }
        self.learn_inflight(news);
        if self.state != State::ProbeBw {
            return;
        }
        let now = news.ack.now;
        if news.round_started {
            self.cycle.on_round();
        }
        let segments = self.drained().min(self.cwnd) / self.mss();
        match self.cycle.phase() {
            Phase::Down | Phase::Cruise if self.cycle.is_time_to_probe(segments, now) => {
                self.enter_phase(Phase::Refill, now);
            }
            Phase::Down => {
                let headroom = self.bounds.with_headroom(self.mss(), self.min_cwnd());
                let flight = news.ack.in_flight;
                if flight <= headroom && flight <= self.drained() {
                    self.enter_phase(Phase::Cruise, now);
                }
            }
            Phase::Cruise => {}
            Phase::Refill if news.round_started => {
                self.enter_phase(Phase::Up, now);
            }
            Phase::Refill => {}
            Phase::Up => {
                let rate = news.rate.and_then(|rate| rate.delivery_rate);
                let bounded = news.ack.cwnd_limited && self.bounds.holds(self.cwnd);
                let sampled = rate.filter(|_| news.round_started);
                if self.cycle.is_time_to_go_down(rate, sampled, bounded) {
                    self.enter_phase(Phase::Down, now);
                }
            }
        }
    }

    fn search_rtt_min(&mut self, news: News<'_>) {
        let now = news.ack.now;
        if self.state != State::ProbeRtt {
            let stale = self.min_rtt.is_stale(PROBE_RTT_EVERY, now);
            if stale && self.config.probe_rtt && !self.idle_restart {
                self.saved_cwnd = self.cwnd.max(self.saved_cwnd);
                self.leave_phase();
                self.state = State::ProbeRtt;
                self.cycle.stop_samples();
                self.probe_rtt = ProbeRtt::by_flight();
                self.round.restart(self.delivered);
            }
            return;
        }
        if news.round_started {
            self.probe_rtt.on_round();
        }
        let small = news.ack.in_flight <= self.probe_rtt_cwnd();
        if self.probe_rtt.on_ack(small, news.ack.newest_sent_at, now) {
            self.round.restart(self.delivered);
        }
        if self.probe_rtt.is_over(now) {
            self.leave_probe_rtt(now);
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.min_rtt.confirm(now);
        self.cwnd = self.cwnd.max(core::mem::take(&mut self.saved_cwnd));
        self.bounds.forget_shortterm();
        if self.full_pipe.reached() {
            self.enter_phase(Phase::Down, now);
            self.enter_phase(Phase::Cruise, now);
        } else {
            self.state = State::Startup;
        }
    }

    fn update_pacing(&mut self) {
        let crawl = Rate::from_bps(self.mss() * 8);
        let rate = match self.bandwidth() {
            Some(bandwidth) => Some(bandwidth.mul_f64(self.pacing_gain() * PACING_MARGIN)),
            None => self
                .srtt
                .and_then(|srtt| Rate::from_bytes_over(self.cwnd, srtt))
                .map(|rate| rate.mul_f64(STARTUP_GAIN * PACING_MARGIN)),
        };
        let Some(rate) = rate.map(|rate| rate.max(crawl)) else { return };
        if self.full_pipe.reached() || self.pacing_rate.is_none_or(|current| rate > current) {
            self.pacing_rate = Some(rate);
        }
    }
}

impl Controller for Bbr3 {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        if in_flight <= bytes && self.app_limited {
            self.idle_restart = true;
            self.extra_acked.restart(now);
            self.delivered_marks.restart(self.delivered, now);
            if self.state == State::ProbeRtt && self.probe_rtt.is_over(now) {
                self.leave_probe_rtt(now);
            }
        }
        self.app_limited = app_limited;
        self.departures.on_sent(bytes, in_flight, self.lost, now);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.srtt = ack.srtt.or(self.srtt);
        self.ack_interval = ack.ack_interval;
        self.delivered = self.delivered.max(ack.delivered);
        self.lost = self.lost.saturating_add(ack.lost_bytes);
        let rate = self.delivered_marks.bounded(ack);
        self.delivered_marks.on_ack(self.delivered, self.srtt, ack.now);
        let prior = rate.map(|rate| rate.prior_delivered);
        let round_started = prior.is_some_and(|prior| self.round.on_ack(prior, self.delivered));
        let news = News { ack, rate, round_started };
        self.update_model(news);
        self.learn_loss(news);
        self.learn_overflow(news);
        self.check_startup(news);
        self.advance_cycle(news);
        self.search_rtt_min(news);
        if ack.acked_bytes > 0 {
            self.idle_restart = false;
        }
        self.bounds.end_ack(news.round_started);
        if !ack.in_recovery {
            self.before_timeout = 0;
        }
        self.update_window(ack);
        self.update_pacing();
    }

    fn on_loss(&mut self, loss: &LossSample) {
        match loss.kind {
            LossKind::Timeout => {
                self.full_pipe.forget_plateau();
                self.before_timeout = self.before_timeout.max(self.cwnd);
                let flight = loss.in_flight.saturating_add(self.mss());
                self.cwnd = flight.min(self.cwnd);
            }
            LossKind::Spurious => {
                self.full_pipe.forget_plateau();
                self.bounds.forget_shortterm();
                self.cwnd = self.cwnd.max(core::mem::take(&mut self.before_timeout));
            }
            LossKind::Recovery | LossKind::CongestionExperienced => {}
        }
    }

    fn window(&self) -> u64 {
        self.cwnd.min(self.config.max_window).max(self.mss())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }
}

impl Inspect for Bbr3 {
    fn set_mss(&mut self, mss: u32) {
        self.config.mss = mss.max(1);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let state = match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBw => self.cycle.phase().name(),
            State::ProbeRtt => "probe_rtt",
        };
        Snapshot {
            startup: !self.full_pipe.reached(),
            pacing_gain: self.pacing_gain(),
            bandwidth: self.bandwidth(),
            rtt_min: self.min_rtt.get(),
            ..Snapshot::new(name, state, self.window(), self.pacing_rate)
        }
    }
}

#[cfg(test)]
#[path = "bbr3/tests.rs"]
mod tests;
