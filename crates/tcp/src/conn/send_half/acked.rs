//! What an acknowledgment means to the sending half: recovery, congestion control, window.

use core::ops::Range;

use tack::Acked;
use tack_units::Instant;

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::arrives::Arriving;
use crate::conn::paws::{Clock, Stamp};
use crate::conn::recovery_mode::{Heard, News};
use crate::conn::send_half::SendHalf;
use crate::conn::snd::WindowSource;
use crate::wire::body::{self, BodyError, Context};
use crate::wire::{AckType, Flags};
use tack_strategies::AckSeen;

/// What an acknowledgment brought, as far as it concerns more than the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// SND.UNA moved.
    pub(crate) advanced: bool,
    /// Text acknowledged by that, in bytes.
    pub(crate) text_bytes: u64,
    /// It acknowledged our FIN.
    pub(crate) fin_acked: bool,
    /// A waiting writer has room again.
    pub(crate) writable: bool,
    /// The peer took something.
    pub(crate) took: bool,
    /// It refuses what it cannot take.
    pub(crate) refused: bool,
    /// There is more window, and some of it may be used.
    pub(crate) window_opened: bool,
    /// Retransmissions that turned out to be needless.
    pub(crate) needless: u64,
    /// A loss episode began.
    pub(crate) loss_began: bool,
}

impl SendHalf {
    /// The body of a TACK or IACK; [`News::Nothing`] where there is none that we could have asked
    /// for.
    ///
    /// # Errors
    ///
    /// The body cannot be read.
    pub(crate) fn read_body(&self, a: &Arriving<'_>) -> Result<News, BodyError> {
        let (Some((kind, bytes)), Some(latest)) = (a.body, self.recovery.latest_pkt_seq()) else {
            return Ok(News::Nothing);
        };
        let context = Context {
            seq_near: self.snd.una(),
            isn: self.snd.iss(),
            pkt_seq_near: latest,
            counter_near: self.recovery.newest_tack(),
            cum_ack: a.ack,
            window: self.snd.scaled(a.seg.header.window),
        };
        match kind {
            AckType::Tack => body::parse_tack(bytes, &context).map(News::Tack),
            kind => body::parse_iack(kind, bytes, &context)
                .map(|iack| iack.map_or(News::Nothing, News::Iack)),
        }
    }

    /// Applies a believed acknowledgment with what its body said.
    pub(crate) fn on_ack(
        &mut self,
        a: &Arriving<'_>,
        news: News,
        clock: &Clock,
        now: Instant,
    ) -> Progress {
        let window = self.snd.scaled(a.seg.header.window);
        let same_window = a.ack + window == self.snd.una() + self.snd.wnd();
        let was_shut = self.snd.wnd() == 0;
        let window_grew = self.take_window(a, window, clock, now);
        if self.snd.is_untouched() && a.body.is_none() {
            return self.on_nothing_acked(a, window_grew, now);
        }
        let in_recovery = self.recovery.in_recovery();
        let mut acked = self.recover(a, news, same_window, clock, now);
        if acked.spurious {
            self.restore_packet_size();
        }
        self.excuse_probe(&mut acked, now);
        let una_before = self.snd.una();
        let advanced = a.ack > una_before;
        if advanced {
            self.snd.acknowledge(a.ack);
        }
        let una = self.snd.una();
        debug_assert!(
            self.recovery.next_lost(now).is_none_or(|lost| lost.start >= una),
            "what is acknowledged is not repaired"
        );
        self.adapt(&acked, a, una_before, now);
        if advanced {
            self.confirm_packet_size(now);
        }
        self.tell_rule(a, advanced, in_recovery, now);
        let window_opened = window_grew && self.snd.usable() > 0;
        if window_opened {
            self.persist.on_open();
        }
        self.persist.on_answer();
        let refused = self.take_refusal(was_shut, window_grew, now);
        let text_end = self.snd.una().min(self.snd.buffer.end());
        Progress {
            advanced,
            text_bytes: text_end.saturating_sub(una_before.max(FIRST_BYTE)),
            fin_acked: advanced && self.snd.fin_is_acked(),
            // Also behind a hole, where nothing is freed but the buffer may have grown.
            writable: self.snd.buffer.take_writable(),
            took: advanced || acked.acked_bytes > 0,
            refused,
            window_opened,
            needless: acked.needless,
            loss_began: acked.recovery_started,
        }
    }

    /// Nothing of ours was ever sent, as where data goes one way only: each of the peer's segments
    /// acknowledges that, and only its window is news.
    fn on_nothing_acked(&mut self, a: &Arriving<'_>, window_grew: bool, now: Instant) -> Progress {
        let window_opened = window_grew && self.snd.usable() > 0;
        if window_opened {
            self.persist.on_open();
        }
        self.on_silence(a.seg.header.flags.has(Flags::ECE), now);
        Progress { window_opened, ..Progress::default() }
    }

    /// A short header came, which says nothing of what we sent but, perhaps, that marks arrived.
    pub(crate) fn on_silence(&mut self, ece: bool, now: Instant) {
        if ece {
            self.on_mark(now);
        }
        self.persist.on_answer();
    }

    /// The peer says that what we sent arrived with congestion marks.
    pub(crate) fn on_mark(&mut self, now: Instant) {
        if self.ecn.on_echo(self.snd.una(), self.snd.nxt()) {
            self.congestion.on_mark(self.recovery.in_flight(), now);
        }
    }

    /// Whether an acknowledgment of less than is known was overtaken. One that left last contradicts what is known.
    pub(crate) fn is_overtaken(&self, a: &Arriving<'_>, clock: &Clock, now: Instant) -> bool {
        self.snd.is_overtaken(stamp_of(a, clock, now))
    }

    /// SND.WND, as a right edge: SEG.ACK may be ahead of SND.UNA, which follows, or behind it.
    fn take_window(&mut self, a: &Arriving<'_>, window: u64, clock: &Clock, now: Instant) -> bool {
        let stamp = stamp_of(a, clock, now);
        self.snd.offer_window(a.ack + window, WindowSource { seq: a.seq, ack: a.ack, stamp })
    }

    fn recover(
        &mut self,
        a: &Arriving<'_>,
        news: News,
        same_window: bool,
        clock: &Clock,
        now: Instant,
    ) -> Acked {
        let mut blocks: [Range<u64>; 4] = [const { 0..0 }; 4];
        let (count, dsack) = self.sack_blocks(a, &mut blocks);
        let una = self.snd.una();
        let heard = Heard {
            cum_ack: a.ack.max(una),
            snd_nxt: self.snd.nxt(),
            sack: &blocks[..count],
            dsack,
            echo: a.seg.header.options.timestamps.filter(|_| a.ack > una),
            is_pure_ack: same_window && a.text.is_empty() && !a.fin && a.body.is_none(),
            clock,
        };
        self.recovery.on_ack(heard, news, now)
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

    /// Congestion control and the send buffer follow what was acknowledged.
    fn adapt(&mut self, acked: &Acked, a: &Arriving<'_>, una_before: u64, now: Instant) {
        // One that was overtaken may be older than the answer to our CWR.
        let ece = a.seg.header.flags.has(Flags::ECE) && a.ack >= una_before;
        if ece {
            self.congestion.note_echo();
        }
        self.congestion.on_acked(acked, &self.recovery.path_state(acked), now);
        let outstanding = self.snd.nxt().saturating_sub(una_before);
        self.snd.buffer.tune(self.congestion.window(), outstanding, now);
        if ece {
            self.on_mark(now);
        }
    }

    /// The strategy's rule hears of an acknowledgment that was applied; before it we were
    /// `in_recovery`.
    fn tell_rule(&mut self, a: &Arriving<'_>, advanced: bool, in_recovery: bool, now: Instant) {
        let blocks = a.seg.header.options.sack;
        let has_sack = self.agreed.sack
            && blocks.as_slice().iter().any(|&(_, end)| self.snd.ack_offset(end) > a.ack);
        let room = self.congestion.window().saturating_sub(self.recovery.in_flight());
        self.rule.on_ack(&AckSeen { advanced, has_sack, in_recovery, room }, now);
    }

    /// A peer that takes its window back refuses what is outstanding, and each retransmission:
    /// these are then probes [RFC 9293 §3.8.6.1]. Neither it nor the path has failed meanwhile, and
    /// what it refused need not wait for a timer once there is room. True while it refuses.
    fn take_refusal(&mut self, was_shut: bool, window_grew: bool, now: Instant) -> bool {
        if self.snd.is_idle() {
            return false;
        }
        let shut = self.snd.wnd() == 0;
        if !shut && was_shut && window_grew {
            self.recovery.on_reopened(now);
        }
        shut
    }
}

fn stamp_of(a: &Arriving<'_>, clock: &Clock, now: Instant) -> Option<Stamp> {
    a.seg.header.options.timestamps.map(|ts| clock.arrived(ts, now))
}
