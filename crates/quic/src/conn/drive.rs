//! TLS, and what follows from its progress: keys, transport parameters, who governs 1-RTT packets.

use rustls::Side;
use rustls::quic::KeyChange;
use tack_units::Instant;

use super::acks::Acks;
use super::keys::OneRtt;
use super::mtu::BASE;
use super::space::SpaceId;
use super::{Connection, Event, State};
use crate::ack_frequency::AckFrequency;
use crate::error::{Violation, code};
use crate::wire::{Parameters, Sender};

/// What stock peers call a packet lost after, so what they are asked to tell at once.
const PACKET_THRESHOLD: u64 = 3;

impl Connection {
    /// Handshake bytes came in `space`.
    pub(super) fn on_crypto(
        &mut self,
        space: SpaceId,
        offset: u64,
        data: &[u8],
        now: Instant,
    ) -> Result<(), Violation> {
        let receiving = &mut self.spaces[space as usize].receiving;
        if receiving.insert(offset, data, false).refused {
            let reason = "more of the handshake than is kept";
            return Err(Violation::new(code::CRYPTO_BUFFER_EXCEEDED, reason));
        }
        let (a, b) = receiving.readable();
        let bytes = [a, b].concat();
        if bytes.is_empty() {
            return Ok(());
        }
        // What is protected less well than TLS has got to must not be taken for it [RFC 9001 §4.1.3].
        if space != self.reading_level() {
            let reason = "more of the handshake at a level that is over";
            return Err(Violation::of_protocol(reason));
        }
        self.spaces[space as usize].receiving.consume(bytes.len());
        let bytes = self.settle_version(bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.tls.read(&bytes)?;
        self.learn_parameters()?;
        self.drive_tls(now);
        self.begin_early_as_server();
        Ok(())
    }

    /// Takes what TLS wants to say, and its keys.
    pub(super) fn drive_tls(&mut self, now: Instant) {
        loop {
            let mut bytes = Vec::new();
            let level = self.level();
            let change = self.tls.write(&mut bytes);
            if !bytes.is_empty() {
                let taken = self.spaces[level as usize].sending.write(&bytes);
                assert_eq!(taken, bytes.len(), "a handshake is shorter than its buffer");
            }
            match change {
                Some(KeyChange::Handshake { keys }) => self.handshake_keys = Some(keys),
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(OneRtt::new(keys, next));
                    self.begin_data(now);
                }
                None => break,
            }
        }
        if matches!(self.state, State::Handshaking) && !self.tls.is_handshaking() {
            self.on_handshake_done(now);
        }
    }

    /// The space that TLS writes in.
    fn level(&self) -> SpaceId {
        match (&self.handshake_keys, &self.one_rtt) {
            (_, Some(_)) => SpaceId::Data,
            (Some(_), None) => SpaceId::Handshake,
            (None, None) => SpaceId::Initial,
        }
    }

    /// The space that TLS reads.
    fn reading_level(&self) -> SpaceId {
        match (&self.state, &self.handshake_keys) {
            (State::Handshaking, None) => SpaceId::Initial,
            (State::Handshaking, Some(_)) => SpaceId::Handshake,
            _ => SpaceId::Data,
        }
    }

    fn learn_parameters(&mut self) -> Result<(), Violation> {
        let (sender, is_client) = match self.side {
            Side::Client => (Sender::Server, true),
            Side::Server => (Sender::Client, false),
        };
        // Until it has the server's, rustls gives a client those of the session that it resumes.
        if self.peer.is_some() || is_client && self.tls.is_handshaking() {
            return Ok(());
        }
        let Some(peer) = self.tls.peer_parameters(sender)? else { return Ok(()) };
        let is_sound = peer.initial_scid == Some(self.remote_cids.current())
            && (!is_client || peer.original_dcid == Some(self.original_dcid))
            && (!is_client || peer.retry_scid == self.retry_scid);
        if !is_sound {
            let reason = "connection IDs of the handshake differ";
            return Err(Violation::new(code::TRANSPORT_PARAMETER_ERROR, reason));
        }
        // Who names no versions knows nothing of their negotiation. One that names another than it speaks was
        // talked to by somebody on the way [RFC 9368 §4].
        let first = self.first_keys.as_ref().map_or(self.version, |(first, _)| *first);
        if peer.version_information.as_ref().is_some_and(|it| it.chosen != first.number()) {
            let reason = "the handshake is not spoken in the version that it names";
            return Err(Violation::new(code::VERSION_NEGOTIATION_ERROR, reason));
        }
        if let Some(token) = peer.reset_token {
            self.remote_cids.set_token(token);
        }
        self.recovery.max_ack_delay = peer.max_ack_delay;
        self.settle_early(&peer)?;
        self.streams.on_parameters(&peer);
        self.peer = Some(peer);
        Ok(())
    }

    /// 1-RTT keys are there: who governs the packets that they protect?
    fn begin_data(&mut self, now: Instant) {
        let peer = self.peer.clone().unwrap_or_default();
        let params = |params: tack::Params| tack::Params { mss: BASE.into(), ..params };
        let acks = match (self.config.tack, peer.tack) {
            (Some(ours), Some(_)) => {
                self.recovery.begin_tack(params(ours), now);
                self.streams.allow_for_tacks(ours.beta);
                Acks::tack(params(ours), now)
            }
            _ => {
                let (config, min) = (&self.config, peer.min_ack_delay);
                if let Some(min_ack_delay) = min.filter(|_| config.ask_frequency) {
                    let params = params(config.tack.unwrap_or_default());
                    let delay = peer.max_ack_delay;
                    let asks = AckFrequency::new(params, delay, min_ack_delay, PACKET_THRESHOLD);
                    self.ack_frequency = Some(asks);
                }
                Acks::plain(self.ours.max_ack_delay, now)
            }
        };
        self.spaces[SpaceId::Data as usize].acks = acks;
        self.learn_round_trip(now);
    }

    /// What the handshake took is the first that is known of the path: how fast the first window leaves and
    /// how often it is acknowledged. A server has the keys of 1-RTT packets before it knows.
    pub(super) fn learn_round_trip(&mut self, now: Instant) {
        if self.one_rtt.is_none() {
            return;
        }
        let Some((rtt, acked)) = self.recovery.take_handshake(now) else { return };
        self.spaces[SpaceId::Data as usize].acks.on_handshake(rtt);
        let state = self.recovery.path_state(&acked);
        self.congestion.on_acked(&acked, &state, now);
    }

    fn on_handshake_done(&mut self, now: Instant) {
        self.state = State::Established;
        self.events.push_back(Event::Connected);
        let peer = self.peer.clone().unwrap_or_default();
        // A peer that has no IDs itself may move by ours all the same [RFC 9000 §5.1.1].
        self.local_cids.on_parameters(&peer);
        self.mtu.begin(peer.max_udp_payload, now);
        if self.side == Side::Server {
            self.handshake_done_owed = true;
            self.new_token_owed = true;
            self.on_confirmed(now);
        }
    }

    /// Both ends have finished [RFC 9001 §4.1.2].
    pub(super) fn on_confirmed(&mut self, now: Instant) {
        if self.confirmed {
            return;
        }
        self.confirmed = true;
        self.recovery.confirm();
        // A client that was told before it had a Handshake packet to send, as after a sleep, has them yet.
        self.discard_initial(now);
        self.handshake_keys = None;
        self.discard(SpaceId::Handshake, now);
    }

    /// Keys of `space` are gone, and what it had in flight is forgotten [RFC 9001 §4.9].
    pub(super) fn discard(&mut self, space: SpaceId, now: Instant) {
        self.recovery.discard(space, now);
        self.spaces[space as usize] = super::Space::new(Acks::at_once(now), now);
    }

    /// Initial keys are gone.
    pub(super) fn discard_initial(&mut self, now: Instant) {
        self.first_keys = None;
        if self.initial_keys.take().is_some() {
            self.discard(SpaceId::Initial, now);
        }
    }

    /// The peer's transport parameters, once the handshake brought them.
    pub fn peer_parameters(&self) -> Option<&Parameters> {
        self.peer.as_ref()
    }

    /// The application protocol that the handshake agreed on.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.protocol()
    }

    /// The peer's certificates, its own first; `None` if it has shown none.
    pub fn peer_certificates(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.tls.peer_certificates()
    }
}
