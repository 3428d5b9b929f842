//! One connection after [RFC 9293], without clock or socket: segments and a time go in; segments,
//! events and a deadline come out.
//!
//! This file is the table of contents: the parts, and what is asked of all of them. Each part owns
//! its state; `arrives`, `acked` and `transmit` hold the control flow between them.

mod acceptable;
mod ack_policy;
mod acked;
mod arrives;
mod burst;
mod challenge;
mod close;
mod compact;
mod congestion;
mod ecn;
mod error;
mod info;
mod keepalive;
mod mtu;
mod negotiate;
mod open;
mod path;
mod paws;
mod probe;
mod rcv;
mod rcv_path;
mod recovery_mode;
mod recv_buffer;
mod ring;
mod sack_gen;
mod send_buffer;
mod sending;
mod snd;
mod state;
mod super_packet;
mod timers;
mod transmit;

use core::time::Duration;

use tack::Timeout;
use tack_units::Instant;

pub(crate) use arrives::Carriage;
pub(crate) use burst::{BurstBuilder, BurstLimits, Framing, IpFraming};
pub(crate) use close::Reset;
pub use error::{ConnectionError, UseError};
pub(crate) use mtu::PathLimits;
pub(crate) use negotiate::{Offer, SynBits, default_mss};
pub(crate) use path::Verdict;
pub use state::State;

use crate::ack::{AckStrategy, Needs, SenderSide};
use crate::config::{ConnConfig, Keepalive};
use crate::seq::SeqNum;
use crate::stats::{Counters, FallbackReason, Mode, OwdHistogram};
use crate::wire::Segment;
use ack_policy::Acknowledging;
use challenge::ChallengeLimit;
use close::Ending;
use compact::Refresh;
use congestion::Congestion;
use ecn::EcnState;
use keepalive::{KeepaliveAction, Liveness};
use mtu::PathMtu;
use negotiate::Agreed;
use open::Opening;
use path::PathNews;
use paws::Clock;
use probe::Persist;
use rcv::Rcv;
use recovery_mode::Recovery;
use snd::Snd;
use state::StateCell;
use timers::{Timer, Timers};

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
    seed: u64,
    state: StateCell,
    open: Opening,
    agreed: Agreed,
    mode: Mode,
    snd: Snd,
    rcv: Rcv,
    clock: Clock,
    refresh: Refresh,
    recovery: Recovery,
    acks: Acknowledging,
    /// What the strategy changes at us, the sender of data.
    sending: SenderSide,
    congestion: Congestion,
    ecn: EcnState,
    timers: Timers,
    mtu: PathMtu,
    path: PathNews,
    persist: Persist,
    liveness: Liveness,
    challenge: ChallengeLimit,
    ending: Ending,
    /// The third segment of the handshake is owed.
    handshake_ack: bool,
    /// A tail loss probe is owed.
    loss_probe_due: bool,
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
        let Setup { ports, config, default_mss, path, compact, iss, clock_offset, seed } = setup;
        let passive = state == State::SynReceived;
        let offer = Offer::new(&config, default_mss).with_compact(compact);
        let micros = offer.tack && (!passive || peer_offers_tack);
        let offer_mss = offer.mss();
        let mss = u32::from(offer_mss);
        Connection {
            ports,
            seed,
            state: StateCell::new(state),
            agreed: Agreed::nothing(offer_mss),
            open: Opening::new(offer, passive),
            mode: Mode::Plain,
            snd: Snd::new(iss, config.send_buffer),
            rcv: Rcv::new(SeqNum(0), config.initial_recv_buffer, config.recv_buffer, now),
            clock: Clock::new(clock_offset, micros),
            refresh: Refresh::default(),
            recovery: Recovery::plain(mss, acceptable::FIRST_BYTE, false, now),
            acks: Acknowledging::plain(AckStrategy::PLAIN.receiver(mss)),
            sending: SenderSide::default(),
            congestion: Congestion::new(&config, config.window_rules, mss, seed, now),
            ecn: EcnState::default(),
            timers: Timers::default(),
            mtu: PathMtu::new(path, offer_mss, config.probe_mtu),
            path: PathNews::default(),
            persist: Persist::default(),
            liveness: Liveness::default(),
            challenge: ChallengeLimit::default(),
            ending: Ending::default(),
            handshake_ack: false,
            loss_probe_due: false,
            may_establish: true,
            events: EventSet::default(),
            counters: Counters::default(),
            owd: OwdHistogram::default(),
            config,
        }
    }

    fn new_congestion(&self, mss: u32, now: Instant) -> Congestion {
        let rules = self.strategy().sender().window_rules(self.config.window_rules);
        Congestion::new(&self.config, rules, mss, self.seed, now)
    }

    /// The strategy in force.
    fn strategy(&self) -> AckStrategy {
        let agreed = match (self.mode, self.agreed.tack, self.agreed.polls) {
            (Mode::FellBack(_), ..) | (_, false, false) => Needs::Nothing,
            (_, true, _) => Needs::Tack,
            (_, false, true) => Needs::Polls,
        };
        self.config.ack.in_force(agreed)
    }

    /// TACK does not survive this path: plain TCP goes on from what is outstanding.
    fn fall_back(&mut self, reason: FallbackReason, now: Instant) {
        if self.mode != Mode::Tack {
            return;
        }
        self.mode = Mode::FellBack(reason);
        let mss = self.payload_mss();
        self.recovery.fall_back(mss, self.snd.una(), self.agreed.sack, now);
        self.acks.fall_back(self.strategy().receiver(mss));
        self.congestion = self.congestion.handed_over(self.new_congestion(mss, now));
    }

    /// An answer that an attacker could provoke.
    fn challenge(&mut self, now: Instant) {
        if self.challenge.admit(now) {
            self.counters.challenge_acks += 1;
            self.acks.owe();
        }
    }

    /// When [`Connection::on_deadline`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.state.get() == State::Closed {
            return None;
        }
        let own = self.timers.earliest();
        let parts = if self.state.get().is_synchronized() && self.state.get() != State::TimeWait {
            [self.recovery.deadline(), self.acks.deadline()]
        } else {
            [None, None]
        };
        parts.into_iter().flatten().chain(own).min()
    }

    /// Runs what is due.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            self.on_timer(timer, now);
        }
        let synchronized = self.state.get().is_synchronized();
        if synchronized && self.recovery.deadline().is_some_and(|at| at <= now) {
            self.on_recovery_timeout(now);
        }
    }

    fn on_timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Handshake => self.on_handshake_timeout(now),
            Timer::Persist => {
                if self.persist.unanswered() >= self.config.max_retransmissions {
                    return self.fail(self.path.explain(ConnectionError::TimedOut), now);
                }
                self.persist.on_timer(self.snd.usable() > 0);
            }
            Timer::Keepalive => self.on_keepalive(now),
            Timer::User => self.fail(self.path.explain(ConnectionError::TimedOut), now),
            Timer::Pacing => {}
            Timer::Orphan => self.abort(now),
            Timer::Idle => {
                self.snd.buffer.release();
                self.rcv.buffer.release();
            }
        }
    }

    fn on_keepalive(&mut self, now: Instant) {
        let Some(config) = self.config.keepalive else { return };
        match self.liveness.on_keepalive(&config, now) {
            KeepaliveAction::Wait(at) | KeepaliveAction::Probe(at) => {
                self.timers.set(Timer::Keepalive, at);
            }
            KeepaliveAction::GiveUp => {
                self.fail(self.path.explain(ConnectionError::KeepaliveTimedOut), now);
            }
        }
    }

    fn on_recovery_timeout(&mut self, now: Instant) {
        let in_flight = self.recovery.in_flight();
        let timeout = self.recovery.on_timeout(now);
        if timeout.is_some() {
            self.sending.on_timeout();
        }
        match timeout {
            None => {}
            Some(Timeout::Probe) => self.loss_probe_due = true,
            Some(Timeout::Rto) => {
                self.counters.timeouts += 1;
                let in_a_row = self.liveness.on_timeout();
                if in_a_row > self.config.max_retransmissions {
                    return self.fail(self.path.explain(ConnectionError::TimedOut), now);
                }
                self.congestion.on_timeout(in_flight, self.recovery.in_flight(), now);
                self.suspect_packet_size(in_a_row, now);
                let patience = if self.liveness.confirmed_tack { 6 } else { 2 };
                // It may have been the size: options get another chance with shorter segments.
                let patience = patience + u32::from(self.mtu.was_lowered_blindly());
                if in_a_row >= patience {
                    self.fall_back(FallbackReason::Unanswered, now);
                }
            }
        }
    }

    /// Takes what there is room for.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<usize, UseError> {
        self.check_writable()?;
        Ok(self.snd.buffer.write(data))
    }

    fn check_writable(&self) -> Result<(), UseError> {
        match self.ending.outcome {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) => Err(UseError::SendingEnded),
            None if !self.state.get().may_send() || self.snd.fin_is_queued() => {
                Err(UseError::SendingEnded)
            }
            None => Ok(()),
        }
    }

    /// Room in the send buffer.
    pub(crate) fn write_space(&self) -> usize {
        if self.check_writable().is_ok() { self.snd.buffer.space() } else { 0 }
    }

    /// See [`crate::Host::unsent`].
    pub(crate) fn unsent(&self) -> u64 {
        self.snd.unsent()
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
        if out.is_empty() && self.rcv.buffer.len() > 0 {
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
        if self.rcv.buffer.consume(bytes) > 0 && self.state.get().may_receive() {
            self.acks.on_read(&self.rcv, now);
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
            snd_nxt: self.snd.seq_num(self.snd.nxt()),
            rcv_nxt: self.rcv.ack_num(),
            ts_recent: self.clock.recent(),
            clock_offset: self.clock.val(now),
            noted: now,
            micros: self.clock.is_fine(),
            tack: self.acks.is_tack(),
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
