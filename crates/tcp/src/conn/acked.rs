//! What an acknowledgment means beyond the sending half: timers, states, counters, the application.

use tack::IackReason;
use tack_units::Instant;

use crate::conn::agenda::Owed;
use crate::conn::arrives::Arriving;
use crate::conn::recovery_mode::News;
use crate::conn::send_half::Progress;
use crate::conn::timers::Timer;
use crate::conn::{Connection, EventSet};
use crate::wire::{AckType, Flags, Form};

impl Connection {
    /// Applies a believed acknowledgment.
    pub(crate) fn take_ack(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.seg.form == Form::Compact || a.carriage.repeats {
            return self.send.on_silence(a.seg.header.flags.has(Flags::ECE), now);
        }
        // Text has no body, and what bodies say is long.
        let news = match a.body.map(|_| self.send.read_body(a)) {
            None => News::Nothing,
            Some(news) => news.unwrap_or_else(|_| {
                self.counters.bad_bodies += 1;
                News::Nothing
            }),
        };
        self.count_received(a, &news);
        self.heed_iack(&news, now);
        let progress = self.send.on_ack(a, news, &self.clock, now);
        self.follow(&progress, now);
    }

    /// Draws the conclusions from an acknowledgment that was applied.
    fn follow(&mut self, progress: &Progress, now: Instant) {
        self.counters.needless += progress.needless;
        self.counters.loss_episodes += u64::from(progress.loss_began);
        self.counters.bytes_acked += progress.text_bytes;
        // As long as the peer likes to refuse would be for ever, where nobody waits.
        if progress.took || progress.refused && !self.ending.is_orphaned() {
            self.liveness.on_progress();
        }
        if progress.advanced {
            self.path.on_progress();
            self.restart_user_timer(now);
        }
        if progress.writable {
            self.events.add(EventSet::WRITABLE);
        }
        if progress.fin_acked {
            self.on_fin_acked(now);
        }
        if progress.window_opened {
            self.agenda.strike(Owed::WindowProbe);
            self.timers.stop(Timer::Persist);
        }
    }

    pub(crate) fn restart_user_timer(&mut self, now: Instant) {
        self.timers.stop(Timer::User);
        if !self.send.is_idle() {
            self.set_user_timer(now);
        }
    }

    pub(crate) fn set_user_timer(&mut self, now: Instant) {
        if let Some(timeout) = self.config.user_timeout {
            self.timers.set(Timer::User, now + timeout);
        }
    }

    fn count_received(&mut self, a: &Arriving<'_>, news: &News) {
        let acks = &mut self.counters.acks_received;
        match a.body {
            None if a.text.is_empty() && !a.fin => acks.plain += 1,
            None => {}
            Some((AckType::Tack, _)) => match news {
                News::Tack(tack) => acks.count_tack(tack),
                _ => acks.tack += 1,
            },
            Some((AckType::LossIack, _)) => acks.loss += 1,
            Some((AckType::FrequencyIack, _)) => acks.frequency += 1,
            Some((AckType::CeIack, _)) => acks.ce += 1,
            Some(_) => acks.window += 1,
        }
    }

    /// What does not concern loss recovery: marks, and how often we are to acknowledge.
    fn heed_iack(&mut self, news: &News, now: Instant) {
        let News::Iack(iack) = news else { return };
        match &iack.reason {
            IackReason::CongestionExperienced { .. } => self.send.on_mark(now),
            IackReason::Frequency(frequency) => self.acks.on_frequency(frequency, now),
            _ => {}
        }
    }
}
