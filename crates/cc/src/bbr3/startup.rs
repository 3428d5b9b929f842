//! Startup: how it grows, what ends it, and when it goes on.

use tack_units::Rate;

use super::{Bbr3, News, Phase, State};
use crate::bbr::full_pipe::FullPipe;
use crate::bbr::longer_path::Passage;
use crate::bbr::overshoot::{Overshoot, Signs};
use crate::growth::Growth;
use crate::sample::AckSample;

impl Bbr3 {
    /// How fast Startup's flight grows.
    pub(super) fn growth(&self) -> Growth {
        if !self.by_receiver || self.state != State::Startup {
            return Growth::Doubling;
        }
        self.overshoot.growth(self.cwnd, self.config.initial_window, self.min_rtt.get())
    }

    /// What a receiver sees ends Startup sooner than three rounds without growth, or one with loss.
    fn watch_startup(&mut self, ack: &AckSample) {
        let Some(rtt_min) = self.min_rtt.get().filter(|_| self.by_receiver) else { return };
        let signs = Signs::of(ack, rtt_min, self.pacing_rate, self.growth());
        self.longer_path.on_startup_ack(Passage::of(ack), ack.now);
        if self.overshoot.on_ack(&signs, ack.now) {
            self.full_pipe.declare();
        }
    }

    /// As rounds and losses say, or the receiver.
    pub(super) fn check_startup(&mut self, news: News<'_>) {
        let lossy = self.by_receiver && self.bounds.is_lossy();
        let sampled = news.rate.filter(|rate| !rate.app_limited || lossy).is_some();
        if news.round_started && sampled {
            self.full_pipe.on_round(self.max_bw.get().unwrap_or(Rate::ZERO));
        }
        if self.state == State::Startup {
            self.watch_startup(news.ack);
            if self.bounds.startup_is_lossy() && news.round_started {
                self.full_pipe.declare();
                let bdp = self.bdp(self.max_bw.get(), 1.0).unwrap_or(0);
                self.bounds.bound_startup(bdp);
            }
            if self.full_pipe.reached() {
                self.longer_path.on_startup_end(self.overshoot.was_full_for_waits());
                self.state = State::Drain;
            }
        }
        if self.state == State::Drain && news.ack.in_flight <= self.drained() {
            self.longer_path.on_drained(news.ack.now);
            self.enter_phase(Phase::Down, news.ack.now);
        }
        self.watch_path(news.ack);
    }

    /// A wait for which Startup ended may have been the path's.
    fn watch_path(&mut self, ack: &AckSample) {
        if self.state != State::ProbeBw {
            return;
        }
        if let Some(path) = self.longer_path.on_ack(Passage::of(ack), ack.now) {
            self.full_pipe = FullPipe::default();
            self.min_rtt.replace(path.rtt, ack.now);
            self.overshoot = Overshoot::beyond(path.queued);
            self.leave_phase();
            self.state = State::Startup;
        }
    }
}
