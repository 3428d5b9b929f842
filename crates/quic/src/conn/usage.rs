//! What an application asks of a connection, timers, and what can be seen.

use core::time::Duration;

use rustls::Side;
use tack_cc::Snapshot;
use tack_transport::{Congestion, Figures, SizeSearch};
use tack_units::{Instant, Rate};

use super::mtu::{BASE, Mtu};
use super::recovery::Expired;
use super::space::SpaceId;
use super::transmit::DATAGRAM_HEADER;
use super::{Connection, Counters, State, open};
use crate::error::UseError;
use crate::streams::{Dir, StreamId};
use crate::wire::MAX_VARINT;

/// Datagrams that wait to be sent, bytes with what each costs.
const MAX_DATAGRAMS_OUT: usize = 1 << 20;

/// Everything a connection tells about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// Both ends speak TACK.
    pub is_tack: bool,
    /// Smoothed round trip; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// Least round trip of the last 10 s.
    pub rtt_min: Option<Duration>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// What the controller believes.
    pub congestion: Snapshot,
    /// Frequency Eq. 4 gives for the present bandwidth and RTTmin, acknowledgments per second;
    /// as data sender. `None` while either is unknown, and where not both ends speak TACK.
    pub eq4_frequency: Option<f64>,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Probe and retransmission timeouts.
    pub probes: u64,
    /// Largest datagram that is known to pass, bytes.
    pub mtu: u16,
    /// Packets are marked ECN-capable, and the peer counts the marks.
    pub is_ecn: bool,
    /// ACK_FREQUENCY frames that told a peer without TACK how often to acknowledge.
    pub frequencies: u64,
    /// Acknowledgments of 1-RTT packets in all, and the TACKs among them, modulo 2^32.
    pub acks: u64,
    /// See `acks`.
    pub tacks: u32,
    /// In packets.
    pub counters: Counters,
}

impl Connection {
    /// Opens a stream; before the handshake is done only a client that [remembers](crate::Early::Open) its server.
    ///
    /// # Errors
    /// The peer allows no further one yet ([`StreamEvent::Available`](crate::streams::StreamEvent) tells
    /// when it does), or the connection is ending.
    pub fn open(&mut self, dir: Dir, now: Instant) -> Result<StreamId, UseError> {
        self.check_open()?;
        self.streams.open(dir, now)
    }

    /// Takes as much of `data` as there is room for; less: an event tells when there is more.
    ///
    /// # Errors
    /// There is no such stream, it goes the other way, was finished, or the peer stopped it.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, UseError> {
        self.check_open()?;
        self.streams.write(id, data)
    }

    /// No more is written; what was is delivered.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(&mut self, id: StreamId) -> Result<(), UseError> {
        self.check_open()?;
        self.streams.finish(id)
    }

    /// Gives a stream up, for the reason `code`, of which 2^62 - 1 is the greatest: what was written may
    /// never arrive.
    ///
    /// # Errors
    /// There is no such stream, or it goes the other way.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), UseError> {
        self.check_open()?;
        self.streams.reset(id, code.min(MAX_VARINT))
    }

    /// Streams of greater priority are sent first, those of the same take turns; 0 at first.
    ///
    /// # Errors
    /// There is no such stream, or it goes the other way.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), UseError> {
        self.streams.set_priority(id, priority)
    }

    /// Copies what arrived in order into `out`: how many bytes, 0 if there is nothing yet, `None` at the
    /// end.
    ///
    /// # Errors
    /// There is no such stream, it goes the other way, was stopped, or the peer reset it.
    pub fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, UseError> {
        self.streams.read(id, out)
    }

    /// Wants no more of a stream, for the reason `code`, of which 2^62 - 1 is the greatest; what arrives of
    /// it is dropped.
    ///
    /// # Errors
    /// There is no such stream, or it goes the other way.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), UseError> {
        self.check_open()?;
        self.streams.stop(id, code.min(MAX_VARINT))
    }

    /// The next stream that the peer opened in this direction, in the order of their IDs.
    pub fn accept_stream(&mut self, dir: Dir) -> Option<StreamId> {
        self.streams.accept(dir)
    }

    /// Whether what was written to a stream, and its end, has arrived, or the peer knows that the
    /// stream was reset.
    pub fn is_done(&self, id: StreamId) -> bool {
        self.streams.is_done(id)
    }

    /// The peer wants no more of a stream of ours, for this reason.
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        self.streams.stopped(id)
    }

    /// Nobody will ask any more what became of a stream of ours: that it was stopped need not be remembered.
    pub fn let_go(&mut self, id: StreamId) {
        self.streams.let_go(id);
    }

    /// Bytes of a stream that were written and never sent.
    pub fn unsent(&self, id: StreamId) -> u64 {
        self.streams.unsent(id)
    }

    /// Streams that are not done with.
    pub fn open_streams(&self) -> usize {
        self.streams.open_count()
    }

    /// Sends a DATAGRAM frame, once, if the path lets it through [RFC 9221].
    ///
    /// # Errors
    /// The peer takes none as long, or none; or the connection is ending.
    pub fn send_datagram(&mut self, data: &[u8]) -> Result<(), UseError> {
        self.check_open()?;
        if !self.takes_datagram(data.len()) {
            return Err(UseError::Datagram(data.len()));
        }
        self.datagrams_out.push(data, MAX_DATAGRAMS_OUT);
        Ok(())
    }

    /// Longest datagram that can be sent now, bytes; 0: none.
    pub fn max_datagram(&self) -> usize {
        let known = self.peer.as_ref().or(self.early.remembered());
        let takes = known.map_or(0, |peer| peer.max_datagram);
        let takes = usize::try_from(takes).unwrap_or(usize::MAX);
        takes.min(self.most_room()).saturating_sub(DATAGRAM_HEADER)
    }

    /// One of `len` bytes; where none is taken, not even one of none.
    pub(super) fn takes_datagram(&self, len: usize) -> bool {
        (1..=self.max_datagram()).contains(&len.max(1))
    }

    /// The oldest DATAGRAM frame that arrived.
    pub fn recv_datagram(&mut self) -> Option<Vec<u8>> {
        self.datagrams_in.pop()
    }

    /// Uses another generation of keys from now on [RFC 9001 §6]; false: it is too early for one.
    pub fn update_keys(&mut self) -> bool {
        self.confirmed && self.one_rtt.as_mut().is_some_and(|keys| keys.update())
    }

    /// This side writes from another address from now on, or is about to: the peer is told, under another
    /// connection ID, and of the new path nothing is taken for known [RFC 9000 §9.2, §9.4, §9.5].
    ///
    /// # Errors
    /// [`UseError::Unmovable`]: a server stays where it is, and so does a client whose server forbids it,
    /// has given it no other connection ID, or is still in the handshake. The connection is as it was.
    pub fn migrate(&mut self, now: Instant) -> Result<(), UseError> {
        self.check_open()?;
        if !self.can_migrate() || !self.remote_cids.advance() {
            return Err(UseError::Unmovable);
        }
        let data = self.draw().to_le_bytes();
        self.path.probe(data, self.recovery.pto_interval(), now);
        self.counters.moves += 1;
        self.recovery.on_move(now);
        self.begin_path(now);
        Ok(())
    }

    /// [`Self::migrate`] would do it.
    pub fn can_migrate(&self) -> bool {
        let allowed = self.peer.as_ref().is_some_and(|peer| !peer.disable_active_migration);
        let has_id = self.remote_cids.spare().is_some();
        self.side == Side::Client && self.confirmed && allowed && has_id && !self.is_ending()
    }

    /// Of another path's rate, round trip and size nothing is known.
    pub(super) fn begin_path(&mut self, now: Instant) {
        let takes = self.peer.as_ref().map_or(u64::from(BASE), |peer| peer.max_udp_payload);
        self.mtu = Mtu::new(self.config.max_udp_payload);
        self.mtu.begin(takes, now);
        let mss = u32::from(self.mtu.size());
        let seed = self.secret.word(self.number, self.counters.packets_sent);
        let control = open::control(&self.config, mss, seed, now);
        self.congestion = self.congestion.handed_over(Congestion::new(control, mss, now));
        self.ecn.begin_path(self.config.ecn);
        self.recovery.on_path_change(mss, now);
    }

    /// A peer from which nothing came for so long is asked for a sign of life; `None`: it is not. As
    /// [`Config::keep_alive`](crate::Config::keep_alive) has it, from now on.
    pub fn set_keep_alive(&mut self, after: Option<Duration>) {
        self.config.keep_alive = after;
    }

    fn check_open(&self) -> Result<(), UseError> {
        if self.is_ending() { Err(UseError::Closed) } else { Ok(()) }
    }

    /// Everything it tells about itself.
    pub fn info(&self) -> Info {
        let acks = &self.spaces[SpaceId::Data as usize].acks;
        let congestion = self.congestion.snapshot();
        Info {
            is_tack: self.is_tack(),
            srtt: self.recovery.srtt(),
            rttvar: self.recovery.rttvar(),
            rtt_min: self.recovery.rtt_min(),
            in_flight: self.recovery.in_flight(),
            eq4_frequency: congestion.bandwidth.and_then(|bw| self.eq4_frequency(bw)),
            congestion,
            lost_packets: self.recovery.lost_packets(),
            probes: self.recovery.probes(),
            mtu: self.mtu.size(),
            is_ecn: self.ecn.is_confirmed(),
            frequencies: self.ack_frequency.as_ref().map_or(0, |asks| asks.told()),
            acks: acks.sent(),
            tacks: acks.tacks(),
            counters: Counters {
                key_updates: self.one_rtt.as_ref().map_or(0, |keys| keys.updates()),
                ..self.counters
            },
        }
    }

    fn eq4_frequency(&self, bw: Rate) -> Option<f64> {
        let tack = self.config.tack.filter(|_| self.is_tack())?;
        let (rtt_min, mss) = (self.recovery.rtt_min()?, self.mtu.size().into());
        Some(tack::equations::tack_frequency(bw, rtt_min, tack.beta, tack.segments_per_ack, mss))
    }

    /// What it tells in words that every transport has.
    pub fn figures(&self) -> Figures {
        let [send_buffered, recv_buffered, buffer_memory] = self.streams.held();
        let congestion = self.congestion.snapshot();
        Figures {
            is_tack: self.is_tack(),
            srtt: self.recovery.srtt(),
            rttvar: self.recovery.rttvar(),
            rtt_min: self.recovery.rtt_min(),
            cwnd: congestion.cwnd,
            ssthresh: congestion.ssthresh,
            congestion_state: congestion.state,
            pacing_rate: congestion.pacing_rate,
            in_flight: self.recovery.in_flight(),
            delivery_rate: self.congestion.delivery_rate(),
            retransmissions: self.recovery.lost_packets(),
            send_buffered,
            recv_buffered,
            buffer_memory,
            limited: self.congestion.limited(),
        }
    }

    /// How long what arrives may lie unread. What the handshake exchanges may not.
    pub(crate) fn leeway(&self) -> Duration {
        self.spaces[SpaceId::Data as usize].acks.leeway()
    }

    /// When [`Self::handle_timeout`] is due; `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Over => return None,
            State::Ending(closing) => return Some(closing.until),
            State::Handshaking | State::Established => {}
        }
        let in_time =
            if self.withholds_data() { SpaceId::Data as usize } else { SpaceId::ALL.len() };
        let spaces = self.spaces[..in_time].iter().filter_map(|space| space.acks.deadline());
        let acks = spaces.min().filter(|_| !self.is_blocked());
        let recovery = self.recovery.deadline(self.is_blocked());
        let silence = [self.idle_at(), self.keep_alive_at(), self.leaving];
        let timers = [acks, recovery, self.paced_until, self.path.deadline()];
        timers.into_iter().chain(silence).flatten().min()
    }

    /// When the peer is to be asked for a sign of life; what was asked already is repeated by recovery, whose timer
    /// begins anew with whatever asks: it would never expire beside a keep-alive that is sooner.
    fn keep_alive_at(&self) -> Option<Instant> {
        let asks = self.heard_since_asking && self.recovery.in_flight() == 0;
        // Whoever is blocked says so again: silence would end what the peer's application only lets wait
        // [RFC 9000 §4.1].
        let blocked = self.idle_timeout().filter(|_| asks && self.streams.is_blocked());
        let after = self.config.keep_alive.into_iter().chain(blocked.map(|timeout| timeout / 2));
        let after = after.min().filter(|_| self.confirmed && asks)?;
        (self.spaces[SpaceId::Data as usize].probes == 0).then_some(self.idle_since + after)
    }

    /// When silence has lasted too long [RFC 9000 §10.1]; the lesser of what both ends say.
    ///
    /// A client asks at 1, 3, 7, 15 and 31 s whether anybody is there. On a full path five packets are soon
    /// lost, and the probe timeout that the RFC has three of grows with them.
    fn idle_at(&self) -> Option<Instant> {
        let timeout = self.idle_timeout()?;
        let asks = self.side == Side::Client && self.is_handshaking();
        let least = if asks { 3 * self.recovery.pto_in_force() } else { self.three_pto() };
        Some(self.idle_since + timeout.max(least))
    }

    fn idle_timeout(&self) -> Option<Duration> {
        let theirs = self.peer.as_ref().map_or(0, |peer| peer.max_idle_timeout_ms);
        let theirs = (theirs > 0).then_some(Duration::from_millis(theirs));
        self.config.idle_timeout.into_iter().chain(theirs).min()
    }

    /// Runs every timer that is due. Harmless when none is.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &self.state {
            State::Over => return,
            State::Ending(closing) => {
                if closing.until <= now {
                    self.state = State::Over;
                }
                return;
            }
            State::Handshaking | State::Established => {}
        }
        if self.idle_at().is_some_and(|at| at <= now) {
            return self.time_out();
        }
        if self.paced_until.is_some_and(|at| at <= now) {
            self.paced_until = None;
        }
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            self.spaces[SpaceId::Data as usize].probes = PROBES;
            self.streams.say_what_is_held_back();
        }
        if self.path.deadline().is_some_and(|at| at <= now) {
            self.path.on_timeout(now);
        }
        while self.recovery.deadline(self.is_blocked()).is_some_and(|at| at <= now) {
            let has_keys = self.handshake_keys.is_some();
            let blocked = self.is_blocked();
            let Some(expired) = self.recovery.on_timeout(blocked, has_keys, now) else { break };
            self.on_expired(expired, now);
        }
        self.read_fates(now);
        self.close_if_left(now);
    }

    fn on_expired(&mut self, expired: Expired, now: Instant) {
        self.expire(expired, now);
        self.note_figures(now);
    }

    fn expire(&mut self, expired: Expired, now: Instant) {
        match expired {
            Expired::Lost(None) => {}
            Expired::Lost(Some(acked)) => {
                self.adapt(acked, now);
            }
            Expired::Probe(space) => {
                self.spaces[space as usize].probes = PROBES;
                // A probe of TACK's has new data if there is any, as TCP's [RFC 8985 §7.3].
                if space == SpaceId::Data && self.is_tack() && !self.streams.has_data() {
                    self.recovery.repeat_oldest(space);
                }
                self.probe_beside(space);
                if self.early.has_keys() && self.side == Side::Server {
                    // A client whose window is full of what it said early ends no handshake before it hears
                    // of it, and what it says otherwise cannot be read yet.
                    self.spaces[SpaceId::Data as usize].acks.tell_again(now);
                }
                // TACK's own probe is followed by a timeout if it, too, is lost.
                if space == SpaceId::Data && !self.is_tack() {
                    self.suspect_packet_size(now);
                }
                if space == SpaceId::Data {
                    self.ecn.on_timeout(self.timeouts_in_a_row);
                }
            }
            Expired::Rto { lost_bytes } => {
                self.counters.timeouts += 1;
                let [_, former] = self.recovery.of_former_path();
                if lost_bytes > former {
                    let (lost, in_flight) = (lost_bytes - former, self.recovery.in_flight());
                    self.congestion.on_timeout(lost, in_flight, now);
                }
                self.suspect_packet_size(now);
                self.ecn.on_timeout(self.timeouts_in_a_row);
                self.read_fates(now);
                if !self.streams.has_data() {
                    // Nothing is in flight any more that would be repeated. What was lost may only have asked for a
                    // sign of life, and what is owed beside data may prove needless when it is about to leave: it is
                    // asked for again, or nobody would ever say anything.
                    self.spaces[SpaceId::Data as usize].probes = PROBES;
                }
            }
        }
    }

    /// The peer may have keys of one space only, and a server that is done with the handshake has none of it
    /// any more: where something is in flight in others it goes along [RFC 9002 §6.2.4]. A client that has
    /// finished asks in 1-RTT packets, too, until it knows that the server has.
    fn probe_beside(&mut self, space: SpaceId) {
        let has_finished = self.side == Side::Client && self.is_established();
        for other in SpaceId::ALL {
            let has_keys = match other {
                SpaceId::Initial => self.initial_keys.is_some(),
                SpaceId::Handshake => self.handshake_keys.is_some(),
                SpaceId::Data => self.can_send_data(),
            };
            let asks = self.recovery.is_in_flight(other) || other == SpaceId::Data && has_finished;
            if other != space && has_keys && asks {
                self.spaces[other as usize].probes = PROBES;
                if other != SpaceId::Data {
                    // Half a flight gets nobody further.
                    self.recovery.repeat_oldest(other);
                }
            }
        }
    }

    /// A server has answered, and the client has not said that it heard all of that.
    pub(super) fn has_flight_in_flight(&self) -> bool {
        let is_serving = self.side == Side::Server && matches!(self.state, State::Handshaking);
        is_serving && FLIGHT.into_iter().any(|space| self.recovery.is_in_flight(space))
    }

    /// A client that asks by a probe has not got the server's flight. It is said again before a timer would, which
    /// knows nothing yet of the round trip, but not without end [RFC 9002 §6.2.3].
    pub(super) fn say_flight_again(&mut self, now: Instant) {
        if self.flights_again == MOST_FLIGHTS_AGAIN {
            return;
        }
        self.flights_again += 1;
        for space in FLIGHT {
            if self.recovery.is_in_flight(space) {
                self.spaces[space as usize].probes = PROBES;
                self.recovery.repeat_oldest(space);
            }
        }
        self.read_fates(now);
    }

    /// A timeout: are packets too long for a path that says nothing?
    fn suspect_packet_size(&mut self, now: Instant) {
        self.timeouts_in_a_row += 1;
        let by_chance = self.recovery.timeouts_by_chance(SizeSearch::FALSE_ALARM);
        if self.mtu.on_timeout(self.timeouts_in_a_row, by_chance, now) {
            self.follow_mtu();
        }
    }

    /// Full packets are of another length from now on.
    pub(super) fn follow_mtu(&mut self) {
        let mss = u32::from(self.mtu.size());
        self.congestion.set_mss(mss);
        self.recovery.set_mss(mss);
    }
}

/// Packets that a probe timeout sends [RFC 9002 §6.2.4]. One is enough: a second one would cost the
/// medium as much again.
const PROBES: u8 = 1;
/// Where a server's flight is.
const FLIGHT: [SpaceId; 2] = [SpaceId::Initial, SpaceId::Handshake];
/// A client doubles its time between probes: these reach as far as it would wait.
const MOST_FLIGHTS_AGAIN: u8 = 10;
