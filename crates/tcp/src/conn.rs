//! One connection after [RFC 9293], without clock or socket: segments and a time go in; segments,
//! events and a deadline come out.
//!
//! This file is the table of contents: the parts, and what is asked of all of them. Each part owns
//! its state. `send_half` has all that is about what we send; `rcv` and `acks` are about what we
//! receive and how we acknowledge it. `arrives`, `acked` and `transmit` hold the control flow
//! between them.

mod acceptable;
mod ack_policy;
mod acked;
mod agenda;
mod arrives;
mod burst;
mod challenge;
mod close;
mod compact;
mod ecn;
mod error;
mod framing;
mod full_size;
mod info;
mod keepalive;
mod mtu;
mod negotiate;
mod open;
mod path;
mod paws;
mod persist;
mod rcv;
mod rcv_path;
mod recovery_mode;
mod sack_gen;
mod send_half;
mod snd;
mod super_packet;
mod timers;
mod transmit;

use core::time::Duration;

use tack_units::{Instant, earliest};

pub use crate::state::State;
pub(crate) use arrives::Carriage;
pub(crate) use burst::{BurstBuilder, BurstLimits};
pub(crate) use close::Reset;
pub use error::{ConnectionError, UseError};
pub(crate) use framing::{Framing, IpFraming};
pub(crate) use mtu::PathLimits;
pub(crate) use negotiate::{Offer, SynBits, default_mss, initial_window};
pub(crate) use path::Verdict;

use crate::config::{ConnConfig, Keepalive};
use crate::seq::SeqNum;
use crate::state::StateCell;
use crate::stats::{Counters, FallbackReason, OwdHistogram};
use crate::wire::Segment;
use ack_policy::Acknowledging;
use agenda::{Agenda, Owed};
use challenge::ChallengeLimit;
use close::Ending;
use compact::Refresh;
use ecn::EcnEcho;
use keepalive::{KeepaliveAction, Liveness};
use open::Opening;
use path::PathNews;
use paws::Clock;
use rcv::Rcv;
use send_half::{Expired, PersistAction, SendHalf};
use tack_strategies::AckStrategy;
use timers::{Timer, Timers};

/// Chance that loss alone makes as many timeouts in a row as tell that the path drops what is TACK's.
const LIKE_A_MIDDLEBOX: f64 = 1e-6;

/// TCP ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) local: u16,
    pub(crate) remote: u16,
}

/// What the host decides for a new connection.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) ports: Ports,
    pub(crate) config: ConnConfig,
    pub(crate) default_mss: u16,
    pub(crate) path: PathLimits,
    /// Short headers may be offered.
    pub(crate) compact: bool,
    /// Series of numbers may be offered: the device cuts and merges segments.
    pub(crate) series: bool,
    /// The headers are in nobody's datagrams: routers may take options away.
    pub(crate) bare: bool,
    /// Initial sequence number.
    pub(crate) iss: SeqNum,
    /// Start of the timestamp clock.
    pub(crate) clock_offset: u32,
    /// Seed of congestion control's random choice.
    pub(crate) seed: u64,
}

/// What the application has not been told yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventSet(u8);

impl EventSet {
    pub(crate) const ESTABLISHED: EventSet = EventSet(1);
    pub(crate) const READABLE: EventSet = EventSet(2);
    pub(crate) const WRITABLE: EventSet = EventSet(4);
    pub(crate) const PEER_CLOSED: EventSet = EventSet(8);
    pub(crate) const CLOSED: EventSet = EventSet(16);

    pub(crate) fn add(&mut self, other: EventSet) {
        self.0 |= other.0;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes `other` out; true if it was there.
    pub(crate) fn take(&mut self, other: EventSet) -> bool {
        let there = self.0 & other.0 != 0;
        self.0 &= !other.0;
        there
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    ports: Ports,
    config: ConnConfig,
    state: StateCell,
    open: Opening,
    send: SendHalf,
    rcv: Rcv,
    clock: Clock,
    refresh: Refresh,
    acks: Acknowledging,
    ecn: EcnEcho,
    timers: Timers,
    path: PathNews,
    liveness: Liveness,
    challenge: ChallengeLimit,
    ending: Ending,
    agenda: Agenda,
    /// The listener has room: a passive handshake may complete.
    may_establish: bool,
    pub(crate) events: EventSet,
    counters: Counters,
    owd: OwdHistogram,
}

impl Connection {
    /// Opens actively: a SYN is due.
    pub(crate) fn active(setup: Setup, now: Instant) -> Connection {
        Connection::new(setup, State::SynSent, false, now)
    }

    /// Opens passively in answer to `syn`: a SYN/ACK is due.
    pub(crate) fn passive(setup: Setup, syn: &Segment<'_>, now: Instant) -> Connection {
        let offered = syn.header.options.tack_permitted;
        let mut conn = Connection::new(setup, State::SynReceived, offered, now);
        conn.on_first_syn(syn, now);
        conn
    }

    /// Continues a handshake whose SYN/ACK was a cookie: nothing is due, its ACK is at hand.
    pub(crate) fn from_cookie(setup: Setup, syn: &Segment<'_>, now: Instant) -> Connection {
        let mut conn = Connection::passive(setup, syn, now);
        conn.syn_was_sent(now);
        conn
    }

    fn new(setup: Setup, state: State, peer_offers_tack: bool, now: Instant) -> Connection {
        let Setup { ports, config, default_mss, path, compact, series, bare, .. } = setup;
        let Setup { iss, clock_offset, seed, .. } = setup;
        let passive = state == State::SynReceived;
        let offer = Offer::new(&config, default_mss).with_compact(compact).with_series(series);
        let micros = offer.tack && (!passive || peer_offers_tack);
        let mss = u32::from(offer.mss());
        let mut agenda = Agenda::default();
        agenda.owe(Owed::Syn);
        Connection {
            ports,
            state: StateCell::new(state),
            send: SendHalf::new(&config, iss, seed, path, offer.mss(), now),
            open: Opening::new(offer, passive),
            rcv: Rcv::new(SeqNum(0), initial_window(&config), config.recv_buffer, now),
            clock: Clock::new(clock_offset, micros),
            refresh: Refresh::default(),
            acks: Acknowledging::plain(AckStrategy::PLAIN.receiver(mss)),
            ecn: EcnEcho::default(),
            timers: Timers::default(),
            path: PathNews::default(),
            liveness: Liveness::new(bare),
            challenge: ChallengeLimit::default(),
            ending: Ending::default(),
            agenda,
            may_establish: true,
            events: EventSet::default(),
            counters: Counters::default(),
            owd: OwdHistogram::default(),
            config,
        }
    }

    /// TACK does not survive this path: plain TCP goes on from what is outstanding.
    fn fall_back(&mut self, reason: FallbackReason, now: Instant) {
        if !self.send.fall_back(&self.config, reason, now) {
            return;
        }
        self.clock.coarsen(now);
        // Plain TCP has all of its own tries.
        self.liveness.on_progress();
        let strategy = self.send.strategy(&self.config);
        self.acks.fall_back(strategy.receiver(self.send.payload_mss()));
        // What is not acknowledged is owed at once.
        self.agenda.owe(Owed::Ack);
    }

    /// An answer that an attacker could provoke.
    fn challenge(&mut self, now: Instant) {
        if self.challenge.admit(now) {
            self.counters.challenge_acks += 1;
            self.agenda.owe(Owed::Ack);
        }
    }

    /// How long what arrives may lie unread.
    pub(crate) fn leeway(&self) -> Duration {
        self.acks.leeway()
    }

    /// When [`Connection::on_deadline`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.state.get() == State::Closed {
            return None;
        }
        let own = self.timers.earliest();
        if !self.state.get().is_synchronized() || self.state.get() == State::TimeWait {
            return own;
        }
        earliest(own, earliest(self.send.deadline(), self.acks.deadline()))
    }

    /// Runs what is due.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            self.on_timer(timer, now);
        }
        let synchronized = self.state.get().is_synchronized();
        if synchronized && self.send.deadline().is_some_and(|at| at <= now) {
            self.on_recovery_timeout(now);
        }
    }

    fn on_timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Handshake => self.on_handshake_timeout(now),
            Timer::Persist => self.on_persist(now),
            Timer::Keepalive => self.on_keepalive(now),
            Timer::User => self.fail(self.path.explain(ConnectionError::TimedOut), now),
            Timer::Pacing => {}
            Timer::Orphan => self.abort(now),
            Timer::Idle => {
                self.send.release();
                self.rcv.buffer.release();
            }
        }
    }

    fn on_persist(&mut self, now: Instant) {
        let orphaned = self.ending.is_orphaned();
        match self.send.on_persist_timer(self.config.max_retransmissions, orphaned) {
            PersistAction::Send => {}
            PersistAction::Probe => self.agenda.owe(Owed::WindowProbe),
            PersistAction::GiveUp if orphaned => self.abort(now),
            PersistAction::GiveUp => self.fail(self.path.explain(ConnectionError::TimedOut), now),
        }
    }

    fn on_keepalive(&mut self, now: Instant) {
        let Some(config) = self.config.keepalive else { return };
        match self.liveness.on_keepalive(&config, now) {
            KeepaliveAction::Wait(at) => self.timers.set(Timer::Keepalive, at),
            KeepaliveAction::Probe(at) => {
                self.agenda.owe(Owed::Keepalive);
                self.timers.set(Timer::Keepalive, at);
            }
            KeepaliveAction::GiveUp => {
                self.fail(self.path.explain(ConnectionError::KeepaliveTimedOut), now);
            }
        }
    }

    fn on_recovery_timeout(&mut self, now: Instant) {
        match self.send.on_deadline(now) {
            None => {}
            Some(Expired::Probe) => self.agenda.owe(Owed::LossProbe),
            Some(Expired::Rto { lost_bytes }) => {
                self.counters.timeouts += 1;
                let in_a_row = self.liveness.on_timeout();
                if in_a_row > self.config.max_retransmissions {
                    return self.fail(self.path.explain(ConnectionError::TimedOut), now);
                }
                let black_hole = self.send.on_rto(lost_bytes, in_a_row, now);
                self.counters.black_holes += u64::from(black_hole);
                let patience =
                    self.liveness.patience(self.send.timeouts_by_chance(LIKE_A_MIDDLEBOX));
                // It may have been the size: options get another chance with shorter segments.
                let again = u32::from(self.send.was_lowered_blindly());
                if in_a_row >= patience.saturating_add(again) {
                    self.fall_back(FallbackReason::Unanswered, now);
                }
            }
        }
    }

    /// Takes what there is room for.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<usize, UseError> {
        self.check_writable()?;
        Ok(self.send.write(data))
    }

    fn check_writable(&self) -> Result<(), UseError> {
        match self.ending.outcome {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) => Err(UseError::SendingEnded),
            None if !self.state.get().may_send() || self.send.fin_is_queued() => {
                Err(UseError::SendingEnded)
            }
            None => Ok(()),
        }
    }

    /// Room in the send buffer.
    pub(crate) fn write_space(&self) -> usize {
        if self.check_writable().is_ok() { self.send.space() } else { 0 }
    }

    /// What was written is acknowledged, our end too if there is one, or nobody is there any more.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.state().is_over()
            || !self.send.fin_is_queued() && self.send.buffered() == 0 && self.send.is_idle()
    }

    /// See [`crate::Host::unsent`].
    pub(crate) fn unsent(&self) -> u64 {
        self.send.unsent()
    }

    /// See [`crate::Host::read`].
    pub(crate) fn read(&mut self, out: &mut [u8], now: Instant) -> Result<Option<usize>, UseError> {
        let (a, b) = self.rcv.buffer.readable();
        let first = a.len().min(out.len());
        out[..first].copy_from_slice(&a[..first]);
        let second = b.len().min(out.len() - first);
        out[first..first + second].copy_from_slice(&b[..second]);
        let n = first + second;
        if n > 0 {
            self.consume(n, now);
            return Ok(Some(n));
        }
        if out.is_empty() && !self.rcv.buffer.is_empty() {
            return Ok(None);
        }
        if self.rcv.buffer.at_end() {
            return Ok(Some(0));
        }
        match self.ending.outcome {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) => Ok(Some(0)),
            None => Ok(None),
        }
    }

    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        self.rcv.buffer.readable()
    }

    pub(crate) fn consume(&mut self, bytes: usize, now: Instant) {
        let read = self.rcv.buffer.consume(bytes) > 0 && self.state.get().may_receive();
        if read && self.acks.on_read(&self.rcv, now) {
            self.agenda.owe(Owed::Ack);
        }
    }

    pub(crate) fn at_end(&self) -> bool {
        self.rcv.buffer.at_end()
    }

    pub(crate) fn set_nodelay(&mut self, nodelay: bool) {
        self.config.nodelay = nodelay;
    }

    pub(crate) fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: Instant) {
        self.config.keepalive = keepalive;
        match keepalive {
            Some(config) => self.timers.set(Timer::Keepalive, now + config.idle),
            None => self.timers.stop(Timer::Keepalive),
        }
    }

    pub(crate) fn set_user_timeout(&mut self, timeout: Option<Duration>, now: Instant) {
        self.config.user_timeout = timeout;
        self.restart_user_timer(now);
    }

    pub(crate) fn dscp(&self) -> u8 {
        self.config.dscp
    }

    /// Nobody reads yet: offers at most `bytes`, and not more for all that arrives.
    pub(crate) fn confine(&mut self, bytes: usize) {
        self.rcv.buffer.offered.confine(bytes as u64);
    }

    /// Somebody does.
    pub(crate) fn release(&mut self) {
        self.rcv.buffer.offered.unconfine();
    }

    /// Whether `ack` is the number that acknowledges our SYN.
    pub(crate) fn acknowledges_syn(&self, ack: SeqNum) -> bool {
        self.send.ack_offset(ack) == acceptable::FIRST_BYTE
    }

    pub(crate) fn set_may_establish(&mut self, may: bool) {
        self.may_establish = may;
    }

    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), ConnectionError>> {
        self.ending.outcome
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    /// What TIME-WAIT must remember: SND.NXT, RCV.NXT, TS.Recent and the clock.
    pub(crate) fn last_words(&self, now: Instant) -> LastWords {
        LastWords {
            snd_nxt: self.send.nxt_num(),
            rcv_nxt: self.rcv.ack_num(),
            ts_recent: self.clock.recent(),
            clock_offset: self.clock.val(now),
            noted: now,
            micros: self.clock.is_fine(),
            tack: self.send.is_tack(),
        }
    }
}

/// What TIME-WAIT must remember of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWords {
    pub(crate) snd_nxt: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    pub(crate) ts_recent: Option<u32>,
    /// TSval at `noted`.
    pub(crate) clock_offset: u32,
    pub(crate) noted: Instant,
    pub(crate) micros: bool,
    /// Acknowledgments carried ACK-Type to the end, so that of TIME-WAIT must.
    pub(crate) tack: bool,
}
