//! What an acknowledgment means to the sending side: recovery, congestion control, window, FIN.

use core::ops::Range;

use tack::{Acked, IackReason};
use tack_units::Instant;

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::arrives::Arriving;
use crate::conn::recovery_mode::Recovery;
use crate::conn::snd::WindowSource;
use crate::conn::timers::Timer;
use crate::conn::{Connection, EventSet};
use crate::recovery::PlainAck;
use crate::wire::body::{self, Context};
use crate::wire::{AckType, Flags, Form};

/// What a body said, once read.
enum News {
    Tack(tack::Tack),
    Iack(tack::Iack),
    /// Only what every header says.
    Nothing,
}

impl Connection {
    /// Applies a believed acknowledgment.
    pub(crate) fn take_ack(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.seg.form == Form::Compact {
            return self.take_silence(a, now);
        }
        let window = self.snd.scaled(a.seg.header.window);
        let news = self.read_body(a, window);
        self.count_received(a);
        let same_window = a.ack + window == self.snd.una() + self.snd.wnd();
        let was_shut = self.snd.wnd() == 0;
        let window_grew = self.take_window(a, window);
        let in_recovery = self.recovery.in_recovery(self.snd.una());
        let mut acked = match self.recovery {
            Recovery::Plain(_) => self.apply_plain(a, same_window, now),
            Recovery::Tack(_) => self.apply_tack(a, news, now),
        };
        self.excuse_probe(&mut acked, now);
        let una_before = self.snd.una();
        if a.ack > una_before {
            self.snd.acknowledge(a.ack);
        }
        self.after_ack(&acked, a, una_before, now);
        self.note_ack(a, a.ack > una_before, in_recovery, now);
        if window_grew && self.snd.usable() > 0 {
            self.persist.on_open();
            self.timers.stop(Timer::Persist);
        }
        self.persist.on_answer();
        self.take_refusal(was_shut, window_grew, now);
    }

    /// A peer that takes its window back refuses what is outstanding, and each retransmission:
    /// these are then probes [RFC 9293 §3.8.6.1]. Neither it nor the path has failed meanwhile, and
    /// what it refused need not wait for a timer once there is room.
    fn take_refusal(&mut self, was_shut: bool, window_grew: bool, now: Instant) {
        if self.snd.is_idle() {
            return;
        }
        if self.snd.wnd() == 0 {
            self.liveness.on_progress();
        } else if was_shut && window_grew {
            self.recovery.on_reopened(now);
        }
    }

    /// A short header says that nothing changed but, perhaps, that the path is congested.
    fn take_silence(&mut self, a: &Arriving<'_>, now: Instant) {
        if a.seg.header.flags.has(Flags::ECE) {
            self.react_to_marks(now);
        }
        self.persist.on_answer();
    }

    fn after_ack(&mut self, acked: &Acked, a: &Arriving<'_>, una_before: u64, now: Instant) {
        self.counters.needless += acked.needless;
        self.counters.loss_episodes += u64::from(acked.recovery_started);
        self.recovery.note_episode(acked, self.snd.nxt());
        if a.seg.header.flags.has(Flags::ECE) {
            self.congestion.note_echo();
        }
        self.congestion.on_acked(acked, &self.recovery, self.snd.una(), now);
        let outstanding = self.snd.nxt().saturating_sub(una_before);
        self.snd.buffer.tune(self.congestion.window(), outstanding, now);
        if a.seg.header.flags.has(Flags::ECE) {
            self.react_to_marks(now);
        }
        if self.snd.una() > una_before {
            let text_end = self.snd.una().min(self.snd.buffer.end());
            self.counters.bytes_acked += text_end.saturating_sub(una_before.max(FIRST_BYTE));
            self.liveness.on_progress();
            self.on_path_progress(now);
            self.restart_user_timer(now);
            if self.snd.buffer.take_writable() {
                self.events.add(EventSet::WRITABLE);
            }
            if self.snd.fin_is_acked() {
                self.on_fin_acked(now);
            }
        } else if acked.acked_bytes > 0 {
            self.liveness.on_progress();
        }
    }

    pub(crate) fn restart_user_timer(&mut self, now: Instant) {
        match self.config.user_timeout {
            Some(timeout) if !self.snd.is_idle() => self.timers.set(Timer::User, now + timeout),
            _ => self.timers.stop(Timer::User),
        }
    }

    fn react_to_marks(&mut self, now: Instant) {
        if self.ecn.on_echo(self.snd.una(), self.snd.nxt()) {
            self.congestion.on_mark(self.recovery.in_flight(), now);
        }
    }

    /// SND.WND, as a right edge: SEG.ACK may be ahead of SND.UNA, which follows, or behind it.
    fn take_window(&mut self, a: &Arriving<'_>, window: u64) -> bool {
        let stamp = a.seg.header.options.timestamps.map(|ts| ts.val);
        self.snd.offer_window(a.ack + window, WindowSource { seq: a.seq, ack: a.ack, stamp })
    }

    fn read_body(&mut self, a: &Arriving<'_>, window: u64) -> News {
        let (Some((kind, bytes)), Recovery::Tack(side)) = (a.body, &self.recovery) else {
            return News::Nothing;
        };
        let context = Context {
            seq_near: self.snd.una(),
            isn: self.snd.iss(),
            pkt_seq_near: side.highest_sent,
            cum_ack: a.ack,
            window,
        };
        let read = match kind {
            AckType::Tack => body::parse_tack(bytes, &context).map(News::Tack),
            kind => body::parse_iack(kind, bytes, &context)
                .map(|iack| iack.map_or(News::Nothing, News::Iack)),
        };
        read.unwrap_or_else(|_| {
            self.counters.bad_bodies += 1;
            News::Nothing
        })
    }

    fn count_received(&mut self, a: &Arriving<'_>) {
        let acks = &mut self.counters.acks_received;
        match a.body {
            None if a.text.is_empty() && !a.fin => acks.plain += 1,
            None => {}
            Some((AckType::Tack, _)) => acks.tack += 1,
            Some((AckType::LossIack, _)) => acks.loss += 1,
            Some((AckType::FrequencyIack, _)) => acks.frequency += 1,
            Some((AckType::CeIack, _)) => acks.ce += 1,
            Some(_) => acks.window += 1,
        }
    }

    fn apply_tack(&mut self, a: &Arriving<'_>, news: News, now: Instant) -> Acked {
        if let News::Iack(tack::Iack { reason: IackReason::CongestionExperienced { .. }, .. }) =
            news
        {
            self.react_to_marks(now);
        }
        if let News::Iack(tack::Iack { reason: IackReason::Frequency(frequency), .. }) = &news
            && let Some(side) = self.acks.tack_mut()
        {
            side.receiver.on_frequency(frequency, now);
        }
        let clock_us = self.clock.val(now);
        let Recovery::Tack(side) = &mut self.recovery else { unreachable!("the caller looked") };
        match news {
            News::Tack(mut tack) => {
                clamp_report(&mut tack, self.snd.nxt());
                side.interval = tack.interval;
                side.rho = tack.rho;
                side.sender.on_tack(&tack, clock_us, now)
            }
            News::Iack(iack) if !matches!(iack.reason, IackReason::Frequency(_)) => {
                side.sender.on_iack(&iack, now)
            }
            _ => side.sender.on_cum_ack(a.ack.max(self.snd.una()), None, now),
        }
    }

    fn apply_plain(&mut self, a: &Arriving<'_>, same_window: bool, now: Instant) -> Acked {
        let Recovery::Plain(plain) = &self.recovery else { unreachable!("the caller looked") };
        let first_resent = plain.first_retransmission_at().map(|at| self.clock.val(at));
        let mut blocks: [Range<u64>; 4] = [const { 0..0 }; 4];
        let (count, dsack) = self.sack_blocks(a, &mut blocks);
        let options = &a.seg.header.options;
        let echo = options.timestamps.filter(|_| a.ack > self.snd.una());
        let ack = PlainAck {
            cum_ack: a.ack.max(self.snd.una()),
            sack: &blocks[..count],
            dsack,
            ts_rtt: self.clock.rtt(echo, now).filter(|_| self.clock.is_fine()),
            echoes_original: first_resent.is_some_and(|first| {
                echo.is_some_and(|ts| (ts.ecr.wrapping_sub(first) as i32) < 0)
            }),
            is_pure_ack: same_window && a.text.is_empty() && !a.fin && a.body.is_none(),
        };
        let Recovery::Plain(plain) = &mut self.recovery else { unreachable!("the caller looked") };
        plain.on_ack(&ack, now)
    }

    /// SACK blocks as offsets within what was sent and is not acknowledged; a first block below
    /// SEG.ACK or within the second is a DSACK [RFC 2883 §4].
    fn sack_blocks(
        &self,
        a: &Arriving<'_>,
        out: &mut [Range<u64>; 4],
    ) -> (usize, Option<Range<u64>>) {
        if !self.agreed.sack {
            return (0, None);
        }
        let (mut count, mut dsack) = (0, None);
        let blocks = a.seg.header.options.sack;
        let offsets = |&(l, r): &_| self.snd.ack_offset(l)..self.snd.ack_offset(r);
        let second = blocks.as_slice().get(1).map(offsets);
        for (i, block) in blocks.as_slice().iter().map(offsets).enumerate() {
            if block.start >= block.end || block.end > self.snd.nxt() {
                continue;
            }
            let inside =
                second.as_ref().is_some_and(|s| s.start <= block.start && block.end <= s.end);
            if i == 0 && (block.end <= a.ack || inside) {
                dsack = Some(block);
            } else if block.start >= a.ack.max(self.snd.una()) {
                out[count] = block;
                count += 1;
            }
        }
        (count, dsack)
    }
}

/// What a peer reports beyond what was sent is a lie or an error: cut off.
fn clamp_report(tack: &mut tack::Tack, snd_nxt: u64) {
    tack.rcv_high = tack.rcv_high.min(snd_nxt);
    for hole in &mut tack.holes {
        hole.end = hole.end.min(snd_nxt);
    }
    tack.holes.retain(|hole| hole.start < hole.end);
}
