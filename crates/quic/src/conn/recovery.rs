//! What became of packets: loss, round trips, and when to probe.
//!
//! Initial and Handshake packets, and 1-RTT packets to a plain peer, go by [RFC 9002]: acknowledged by
//! ranges, lost by count or time, probed by a timer (`plain.rs`). 1-RTT packets to a peer with TACK go
//! by [`tack::Sender`] (`tack.rs`). Both answer in the same words: [`Acked`] for congestion control,
//! and a [`Fate`] for each packet.
//!
//! Deviation: [RFC 9002 §7] has one controller for all spaces. What the handshake sends counts as in
//! flight, but its acknowledgments and losses say nothing to the controller: of a handful of packets,
//! half of them held up by cryptography, there is no rate to be learned.

mod former;
mod plain;
mod reordering;
mod tack_mode;

use core::time::Duration;
use std::collections::VecDeque;

use tack::{Acked, Packets};
use tack_transport::{PathState, RateEstimator, RttEstimator};
use tack_units::Instant;

use former::Former;
use reordering::Reordering;

pub(crate) use super::log::Sent;
use super::log::{Log, Logged};
use super::space::{Load, SpaceId};
use crate::error::Violation;
use crate::seen::LossReason;
use crate::wire::{Ack, Loss, Report};

/// Before a sample [RFC 9002 §6.2.2].
const INITIAL_RTT: Duration = Duration::from_millis(333);
/// kGranularity [RFC 9002 §6.1.2].
const GRANULARITY: Duration = Duration::from_millis(1);
/// A probe timeout is no longer.
const MAX_PTO: Duration = Duration::from_secs(60);
/// Doublings that reach it from anywhere.
const MAX_BACKOFF: u32 = 16;
/// Packets whose content a probe repeats.
const REPEATED: usize = 2;

/// What became of a packet.
#[derive(Debug)]
pub(crate) struct Fate {
    pub(crate) space: SpaceId,
    pub(crate) became: Became,
    /// Bytes of the packet; 0: not of one.
    pub(crate) bytes: u32,
    pub(crate) carried: Load,
}

/// Which fate that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    /// The packet of this number has.
    Arrived(u64),
    /// So is the packet of this number.
    Lost(u64, LossReason),
    /// What it carried goes once more, whatever becomes of the packet.
    Repeated,
}

/// What a timer did.
#[derive(Debug)]
pub(crate) enum Expired {
    /// Packets that were overtaken are lost.
    Lost(Option<Acked>),
    /// Something is to leave in this space that asks for an acknowledgment.
    Probe(SpaceId),
    /// Everything is taken for lost; so many bytes were in flight.
    Rto { lost_bytes: u64 },
}

/// An acknowledgment as it came.
#[derive(Debug)]
pub(crate) struct Heard<'a> {
    pub(crate) ack: &'a Ack,
    /// How long the peer waited.
    pub(crate) delay: Duration,
    pub(crate) report: Option<&'a Report>,
    pub(crate) loss: Option<Loss>,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Recovery {
    logs: [Log; 3],
    rtt: RttEstimator,
    latest: Duration,
    rate: RateEstimator,
    pto_count: u32,
    /// Since when a client that hears nothing waits, to keep a server from a deadlock.
    waiting_since: Instant,
    /// When the last loss episode began: what left before is of it [RFC 9002 §7.3.2].
    episode: Option<Instant>,
    /// When something was last declared lost; `None` once something that left since has arrived.
    lost_at: Option<Instant>,
    /// Packets that were lost in it or the last one, and how many of them have arrived.
    episode_lost: u64,
    episode_needless: u64,
    reordering: Reordering,
    /// When the first round trip of this path was known.
    timed_since: Option<Instant>,
    /// See [`Self::take_handshake`].
    handshake_taken: bool,
    /// See [`Self::take_persistent`].
    persistent: bool,
    tack: Option<Box<tack::Sender<Packets>>>,
    fates: VecDeque<Fate>,
    /// The handshake is confirmed [RFC 9001 §4.1.2].
    confirmed: bool,
    /// The first 1-RTT packet that left since.
    confirmed_from: u64,
    /// The peer is a server that may yet be held back by its limit before an address is validated.
    peer_may_be_blocked: bool,
    /// What 1-RTT acknowledgments may wait, as the peer says.
    pub(crate) max_ack_delay: Duration,
    lost_packets: u64,
    probes: u64,
    /// Packets with an ECN mark that arrived since [`Self::take_marked`], of those from a number on.
    marked: u64,
    marked_from: u64,
    /// The path before the one that there is, and the one that 1-RTT packets left last.
    former: Former,
    moved: Former,
}

impl Recovery {
    pub(crate) fn new(is_client: bool, now: Instant) -> Recovery {
        Recovery {
            logs: Default::default(),
            rtt: RttEstimator::default(),
            latest: Duration::ZERO,
            rate: RateEstimator::new(now),
            pto_count: 0,
            waiting_since: now,
            episode: None,
            lost_at: None,
            episode_lost: 0,
            episode_needless: 0,
            reordering: Reordering::default(),
            timed_since: None,
            handshake_taken: false,
            persistent: false,
            tack: None,
            fates: VecDeque::new(),
            confirmed: false,
            confirmed_from: 0,
            peer_may_be_blocked: is_client,
            max_ack_delay: Duration::from_millis(25),
            lost_packets: 0,
            probes: 0,
            marked: 0,
            marked_from: 0,
            former: Former::default(),
            moved: Former::default(),
        }
    }

    /// The number of the next packet, and the largest that the peer has acknowledged.
    pub(crate) fn next_number(&self, space: SpaceId) -> (u64, Option<u64>) {
        let log = &self.logs[space as usize];
        (log.next, log.largest_acked)
    }

    /// A packet with the next number leaves.
    pub(crate) fn on_sent(&mut self, space: SpaceId, sent: Sent, now: Instant) {
        let in_flight = self.in_flight();
        let log = &mut self.logs[space as usize];
        if let Some(tack) = self.tack.as_mut().filter(|_| space == SpaceId::Data) {
            let pkt_seq = match sent.eliciting {
                true => tack.on_packet(sent.bytes, now),
                false => tack.on_uncounted(now),
            };
            assert_eq!(pkt_seq, log.next + 1, "both count alike");
        }
        let snapshot = self.rate.on_sent(in_flight, now);
        log.push(Logged { sent, at: now, snapshot, lost: false, former: false });
        if space != SpaceId::Data {
            self.waiting_since = now;
        }
    }

    /// Leaves out one number of 1-RTT packets, to find out a peer that acknowledges what it has not
    /// seen [RFC 9000 §21.4].
    pub(crate) fn skip(&mut self, now: Instant) {
        if let Some(tack) = &mut self.tack {
            tack.skip(now);
        }
        let log = &mut self.logs[SpaceId::Data as usize];
        log.skipped = Some(log.next);
        log.next += 1;
    }

    /// An acknowledgment came. What it returns is for congestion control.
    pub(crate) fn on_ack(
        &mut self,
        space: SpaceId,
        heard: &Heard<'_>,
        now: Instant,
    ) -> Result<Option<Acked>, Violation> {
        let log = &mut self.logs[space as usize];
        let largest = heard.ack.largest();
        let covers = |number| heard.ack.ranges.iter().any(|range| range.contains(&number));
        if largest >= log.next || log.skipped.is_some_and(covers) {
            return Err(Violation::of_protocol("a packet is acknowledged that was never sent"));
        }
        let before = log.largest_acked;
        log.largest_acked = before.max(Some(largest));
        if space != SpaceId::Initial {
            // A server acknowledges Handshake packets once it knows the client's address.
            self.peer_may_be_blocked = false;
        }
        if space == SpaceId::Data && self.tack.is_some() {
            return self.on_tack_ack(heard, now).map(Some);
        }
        let acked = self.on_plain_ack(space, heard, before, now);
        Ok(Some(acked).filter(|_| space == SpaceId::Data))
    }

    /// What became of packets, in the order it became known; to be read after every input.
    pub(crate) fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.pop_front()
    }

    /// It is about to be told that 1-RTT packet `number` is lost.
    pub(crate) fn tells_lost(&self, number: u64) -> bool {
        let is = |fate: &Fate| matches!(fate.became, Became::Lost(lost, _) if lost == number);
        self.fates.iter().any(|fate| fate.space == SpaceId::Data && is(fate))
    }

    /// Nothing is sent in `space` any more.
    pub(crate) fn discard(&mut self, space: SpaceId, now: Instant) {
        self.forget_all(space);
        self.pto_count = 0;
        self.waiting_since = now;
    }

    /// All of `space` goes again, as after a Retry.
    pub(crate) fn repeat_all(&mut self, space: SpaceId) {
        let log = &mut self.logs[space as usize];
        let numbers: Vec<u64> = log.packets.range(0..log.next).map(|(number, _)| number).collect();
        for number in numbers {
            if let Some(logged) = log.remove(number) {
                let carried = logged.sent.carried;
                self.fates.push_back(Fate { space, became: Became::Repeated, bytes: 0, carried });
            }
        }
    }

    /// What was sent in `space` is nobody's any more, and its numbers stay used.
    pub(crate) fn forget_all(&mut self, space: SpaceId) {
        let next = self.logs[space as usize].next;
        self.logs[space as usize] = Log { next, ..Log::default() };
    }

    /// The handshake is confirmed: 1-RTT packets are probed for from now on.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
        (self.confirmed_from, _) = self.next_number(SpaceId::Data);
        self.peer_may_be_blocked = false;
    }

    /// The round trip that the handshake took, once; `None` before it is known. 1-RTT keys are there.
    pub(crate) fn take_handshake(&mut self, now: Instant) -> Option<(Duration, Acked)> {
        let rtt = self.rtt.min().filter(|_| !self.handshake_taken)?;
        self.handshake_taken = true;
        let acked = match &mut self.tack {
            Some(tack) => tack.on_cum_ack(0, Some(rtt), now),
            None => Acked { rtt: Some(rtt), delivered: self.rate.delivered(), ..Acked::default() },
        };
        let in_flight = self.in_flight();
        Some((rtt, Acked { prior_in_flight: in_flight, in_flight, ..acked }))
    }

    /// When a timer fires. `blocked`: nothing may leave before the peer has shown its address;
    /// `has_handshake_keys`: in which space a client asks when it hears nothing.
    pub(crate) fn deadline(&self, blocked: bool) -> Option<Instant> {
        let loss = self.logs.iter().filter_map(|log| log.loss_time).min();
        let tack = self.tack.as_ref().filter(|_| self.confirmed).and_then(|t| t.deadline());
        let own = loss.or_else(|| if blocked { None } else { self.pto().map(|(at, _)| at) });
        [own, tack].into_iter().flatten().min()
    }

    /// Runs a timer that is due.
    pub(crate) fn on_timeout(
        &mut self,
        blocked: bool,
        has_handshake_keys: bool,
        now: Instant,
    ) -> Option<Expired> {
        for space in SpaceId::ALL {
            if self.logs[space as usize].loss_time.is_some_and(|at| at <= now) {
                let acked = self.on_loss_time(space, now);
                return Some(Expired::Lost(Some(acked).filter(|_| space == SpaceId::Data)));
            }
        }
        if let Some(expired) = self.on_tack_timeout(now) {
            return Some(expired);
        }
        let (_, space) = self.pto().filter(|(at, _)| !blocked && *at <= now)?;
        self.pto_count = (self.pto_count + 1).min(MAX_BACKOFF);
        self.waiting_since = now;
        self.probes += 1;
        let space = match space {
            SpaceId::Initial if has_handshake_keys && self.logs[0].eliciting == 0 => {
                SpaceId::Handshake
            }
            space => space,
        };
        self.logs[space as usize].last_eliciting = Some(now);
        self.repeat_oldest(space);
        Some(Expired::Probe(space))
    }

    /// What the oldest packets in flight carried goes once more, with a probe. A TACK answers it, which tells all
    /// that is missing: of many one is enough. Of two the second may be what is missing, and need not be told first.
    pub(crate) fn repeat_oldest(&mut self, space: SpaceId) {
        let by_tack = space == SpaceId::Data && self.is_tack();
        let log = &self.logs[space as usize];
        let one = by_tack && log.has_more_than(REPEATED);
        let carried = log.oldest(if one { 1 } else { REPEATED });
        if !carried.is_empty() {
            self.fates.push_back(Fate { space, became: Became::Repeated, bytes: 0, carried });
        }
    }

    /// Something in `space` waits for an acknowledgment.
    pub(crate) fn is_in_flight(&self, space: SpaceId) -> bool {
        self.logs[space as usize].eliciting > 0
    }

    /// Bytes in flight on this path, of all spaces.
    pub(crate) fn in_flight(&self) -> u64 {
        let log = &self.logs[SpaceId::Data as usize];
        let data = self.tack.as_ref().map_or(log.in_flight, |tack| tack.in_flight());
        self.handshake_in_flight() + data.saturating_sub(log.former)
    }

    /// Those of the handshake.
    pub(crate) fn handshake_in_flight(&self) -> u64 {
        self.logs[..SpaceId::Data as usize].iter().map(|log| log.in_flight).sum()
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.tack.as_ref().and_then(|tack| tack.srtt()).or(self.rtt.srtt())
    }

    pub(crate) fn rttvar(&self) -> Option<Duration> {
        self.tack.as_ref().and_then(|tack| tack.rttvar()).or(self.rtt.rttvar())
    }

    pub(crate) fn rtt_min(&self) -> Option<Duration> {
        self.tack.as_ref().and_then(|tack| tack.rtt_min()).or(self.rtt.min())
    }

    /// The probe timeout without backoff, what a peer may wait included [RFC 9002 §6.2.1].
    pub(crate) fn pto_interval(&self) -> Duration {
        self.pto_base() + self.max_ack_delay
    }

    /// The probe timeout of the handshake as it is now, doubled for each that expired.
    pub(crate) fn pto_in_force(&self) -> Duration {
        (self.pto_base() * (1 << self.pto_count.min(MAX_BACKOFF))).min(MAX_PTO)
    }

    /// Probe timeouts since an acknowledgment; those of TACK are its own.
    pub(crate) fn probes_in_vain(&self) -> u32 {
        self.pto_count
    }

    /// Packets that were marked on this path and are known to have arrived since it was last asked.
    pub(crate) fn take_marked(&mut self) -> u64 {
        core::mem::take(&mut self.marked)
    }

    /// Timeouts in a row that the loss of both ways explains, unless with this chance.
    pub(crate) fn timeouts_by_chance(&self, chance: f64) -> u32 {
        self.tack.as_ref().map_or(0, |tack| tack.timeouts_by_chance(chance))
    }

    /// Everything was lost for so long that the path has to be tried anew [RFC 9002 §7.6], since it was last
    /// asked. TACK has its timeouts for that.
    pub(crate) fn take_persistent(&mut self) -> bool {
        core::mem::take(&mut self.persistent)
    }

    /// Packets declared lost.
    pub(crate) fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    /// Probe timeouts.
    pub(crate) fn probes(&self) -> u64 {
        self.probes
    }

    /// What congestion control is to know, `acked` having been applied.
    pub(crate) fn path_state(&self, acked: &Acked) -> PathState {
        PathState {
            srtt: self.srtt(),
            rtt_min: self.rtt_min(),
            rate: self.rate_sample(acked),
            ack_interval: self.tack.as_ref().map_or(Duration::ZERO, |tack| tack.interval()),
            in_recovery: match &self.tack {
                Some(tack) => tack.in_recovery(),
                None => self.lost_at.is_some(),
            },
        }
    }

    /// There is nothing to send although it were allowed.
    pub(crate) fn on_app_limited(&mut self) {
        let in_flight = self.in_flight();
        match &mut self.tack {
            Some(tack) => tack.on_app_limited(),
            None => self.rate.on_app_limited(in_flight),
        }
    }

    /// The peer is reached another way: its round trip is not known. Full packets are of `mss` bytes.
    pub(crate) fn on_path_change(&mut self, mss: u32, now: Instant) {
        self.rtt = RttEstimator::default();
        self.latest = Duration::ZERO;
        (self.pto_count, self.episode, self.lost_at, self.timed_since) = (0, None, None, None);
        self.reordering = Reordering::default();
        self.leave_former_path();
        (self.marked, self.marked_from) = (0, self.logs[SpaceId::Data as usize].next);
        if let Some(tack) = &mut self.tack {
            tack.on_path_change(now);
        }
        self.set_mss(mss);
    }

    /// Full packets are of another length from now on, in bytes.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        if let Some(tack) = &mut self.tack {
            tack.set_mss(mss);
        }
    }
}
