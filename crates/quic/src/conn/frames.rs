//! The frames of a packet.

use core::time::Duration;

use rustls::Side;
use std::net::SocketAddr;

use tack::Acked;
use tack_transport::SizeSearch;
use tack_units::Instant;

use super::early::is_of_early;
use super::path::Validated;
use super::recovery::{Became, Fate, Heard};
use super::space::{Carried, SpaceId};
use super::{Connection, Event};
use crate::error::{Violation, code};
use crate::seen::{LossReason, PacketKind, What};
use crate::streams::Dir;
use crate::wire::{Ack, ConnectionId, Frame, Loss, Reader, Report};

/// Where a packet came from and went to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) from: SocketAddr,
    /// Of the packet.
    pub(super) number: u64,
    /// See `number`.
    pub(super) bytes: usize,
    pub(super) dcid: ConnectionId,
}

/// What a packet was, once its frames are read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) eliciting: bool,
    pub(super) immediate: bool,
    /// It had stream data or datagrams.
    is_data: bool,
    pub(super) stamp: Option<u32>,
    /// It had nothing but what probes a path: the peer has not moved by it [RFC 9000 §9.1].
    pub(super) only_probes: bool,
    ack: Option<Ack>,
    /// ACK frames behind the first, until all are united in that.
    further: Vec<Ack>,
    report: Option<Report>,
    loss: Option<Loss>,
}

impl Read {
    /// A report is of one ACK frame, and of the only one in its packet (`docs/quic-tack.md`).
    fn check_reports(&self) -> Result<(), Violation> {
        let is_alone = self.ack.is_some() && self.further.is_empty();
        if self.has_report() && !is_alone {
            let reason = "a report of TACK without exactly one acknowledgment";
            return Err(Violation::of_protocol(reason));
        }
        Ok(())
    }

    /// As many ACK frames as there are say what one says: what they tell is found out by one walk through what is in
    /// flight, and nothing is lost for what stands in the next of them. The delay and the marks are those of the largest.
    fn unite_acks(&mut self) {
        if self.further.is_empty() {
            return;
        }
        let all: Vec<Ack> = self.ack.take().into_iter().chain(self.further.drain(..)).collect();
        let mut ranges: Vec<_> = all.iter().flat_map(|ack| ack.ranges.iter().cloned()).collect();
        ranges.sort_unstable_by_key(|range| core::cmp::Reverse(range.end));
        ranges.dedup_by(|below, above| {
            let joins = below.end >= above.start;
            above.start = if joins { above.start.min(below.start) } else { above.start };
            joins
        });
        let newest = all.into_iter().max_by_key(Ack::largest);
        self.ack = newest.map(|ack| Ack { ranges, ..ack });
    }

    fn has_report(&self) -> bool {
        self.report.is_some() || self.loss.is_some()
    }
}

impl Connection {
    /// Reads what a packet of this kind carried. Acknowledgments are returned.
    pub(super) fn read_frames(
        &mut self,
        kind: PacketKind,
        frames: &[u8],
        origin: &Origin,
        now: Instant,
    ) -> Result<Read, Violation> {
        let space = SpaceId::of(kind);
        let mut read = Read { only_probes: true, ..Read::default() };
        let mut reader = Reader::new(frames);
        if reader.is_empty() {
            return Err(Violation::of_protocol("a packet without frames"));
        }
        while !reader.is_empty() && !self.is_ending() {
            let frame = Frame::parse(&mut reader).map_err(|_| {
                Violation::new(code::FRAME_ENCODING_ERROR, "a frame cannot be read")
            })?;
            let may_be = match kind {
                PacketKind::Initial | PacketKind::Handshake => is_of_handshake(&frame),
                PacketKind::ZeroRtt => is_of_early(&frame),
                PacketKind::OneRtt => true,
            };
            if !may_be {
                return Err(Violation::of_protocol("a frame in a packet that may not have it"));
            }
            read.eliciting |= frame.is_ack_eliciting();
            read.only_probes &= matches!(
                frame,
                Frame::Padding(_)
                    | Frame::PathChallenge(_)
                    | Frame::PathResponse(_)
                    | Frame::NewConnectionId { .. }
                    | Frame::Stamp(_)
            );
            read.is_data |= matches!(frame, Frame::Stream { .. } | Frame::Datagram(_));
            match frame {
                Frame::Padding(_) | Frame::Ping => {}
                Frame::Crypto { offset, data } => self.on_crypto(space, offset, data, now)?,
                Frame::Close(close) => self.on_close(&close, now),
                Frame::Ack(ack) if read.ack.is_none() => read.ack = Some(ack),
                Frame::Ack(ack) => read.further.push(ack),
                Frame::Report(_) | Frame::Loss(_) | Frame::Frequency(_) | Frame::Stamp(_)
                    if !self.is_tack() =>
                {
                    let reason = "a frame of TACK that was not negotiated";
                    return Err(Violation::new(code::FRAME_ENCODING_ERROR, reason));
                }
                Frame::Report(_) | Frame::Loss(_) if read.has_report() => {
                    return Err(Violation::of_protocol("a second report of TACK in a packet"));
                }
                Frame::Report(report) => read.report = Some(report),
                Frame::Loss(loss) => read.loss = Some(loss),
                Frame::Stamp(stamp) => read.stamp = Some(stamp),
                Frame::ImmediateAck => read.immediate = true,
                Frame::Frequency(frequency) => {
                    self.data_acks().on_frequency(&frequency, origin.number, now);
                }
                Frame::AckFrequency(frame) => {
                    if self.ours.min_ack_delay.is_some_and(|min| frame.request.max_ack_delay < min)
                    {
                        return Err(Violation::of_protocol("a shorter ACK delay than was allowed"));
                    }
                    self.data_acks().on_ack_frequency(&frame);
                }
                frame => self.on_frame(frame, origin, now)?,
            }
        }
        read.check_reports()?;
        read.unite_acks();
        self.counters.data_packets_received += u64::from(read.is_data);
        Ok(read)
    }

    fn data_acks(&mut self) -> &mut super::Acks {
        &mut self.spaces[SpaceId::Data as usize].acks
    }

    /// Frames of 1-RTT packets alone.
    fn on_frame(
        &mut self,
        frame: Frame<'_>,
        origin: &Origin,
        now: Instant,
    ) -> Result<(), Violation> {
        let dir = |bidi: bool| if bidi { Dir::Bidi } else { Dir::Uni };
        match frame {
            Frame::Stream { id, offset, fin, data } => {
                self.streams.on_stream(id, offset, fin, data, now)?;
                self.streams.tune(id, self.recovery.srtt(), now);
            }
            Frame::ResetStream { id, code, final_size } => {
                self.streams.on_reset(id, code, final_size, now)?;
            }
            Frame::StopSending { id, code } => self.streams.on_stop_sending(id, code, now)?,
            Frame::MaxData(most) => self.streams.on_max_data(most),
            Frame::MaxStreamData { id, most } => self.streams.on_max_stream_data(id, most, now)?,
            Frame::MaxStreams { bidi, most } => self.streams.on_max_streams(dir(bidi), most),
            Frame::StreamDataBlocked { id, .. } => self.streams.on_stream_data_blocked(id, now)?,
            Frame::DataBlocked(_) | Frame::StreamsBlocked { .. } => {}
            Frame::HandshakeDone if self.side == Side::Server => {
                return Err(Violation::of_protocol("HANDSHAKE_DONE from a client"));
            }
            Frame::HandshakeDone => self.on_confirmed(now),
            Frame::NewToken(_) if self.side == Side::Server => {
                return Err(Violation::of_protocol("NEW_TOKEN from a client"));
            }
            Frame::NewToken(token) if token.len() > MAX_TOKEN => {}
            Frame::NewToken(token) => self.new_token = Some(token.to_vec()),
            Frame::NewConnectionId { sequence, retire_prior_to, id, token } => {
                let cid = ConnectionId::new(id).expect("the parser bounds its length");
                self.remote_cids.on_new(sequence, retire_prior_to, cid, token)?;
            }
            Frame::RetireConnectionId(sequence) => {
                self.local_cids.on_retire(sequence, &origin.dcid)?
            }
            Frame::PathChallenge(data) => self.path.on_challenge(data, origin.from, origin.bytes),
            Frame::PathResponse(data) => self.on_path_response(data, now),
            Frame::Datagram(data) => self.on_datagram(data)?,
            other => unreachable!("{other:?} is read elsewhere"),
        }
        Ok(())
    }

    fn on_path_response(&mut self, data: [u8; 8], now: Instant) {
        let Some(validated) = self.path.on_response(data) else { return };
        let Validated { is_another, small } = validated;
        // The client will come from there.
        self.new_token_owed = self.side == Side::Server;
        if is_another {
            self.begin_path(now);
        }
        if small {
            // It is there; now whether the path takes full-sized datagrams [RFC 9000 §8.2.1].
            let data = self.draw().to_le_bytes();
            self.path.probe(data, self.recovery.pto_interval(), now);
        }
    }

    fn on_datagram(&mut self, data: &[u8]) -> Result<(), Violation> {
        if self.config.datagram_buffer == 0 {
            return Err(Violation::of_protocol("a datagram that was not asked for"));
        }
        self.datagrams_in.push(data, self.config.datagram_buffer);
        // These are but a few: what happens to streams is told elsewhere.
        self.events.retain(|event| *event != Event::Datagram);
        self.events.push_back(Event::Datagram);
        Ok(())
    }

    /// Applies what a packet acknowledged.
    pub(super) fn apply_acks(
        &mut self,
        space: SpaceId,
        read: &Read,
        now: Instant,
    ) -> Result<(), Violation> {
        let (report, loss) = (read.report.as_ref(), read.loss);
        read.ack.as_ref().map_or(Ok(()), |ack| self.apply_ack(space, ack, (report, loss), now))
    }

    fn apply_ack(
        &mut self,
        space: SpaceId,
        ack: &Ack,
        (report, loss): (Option<&Report>, Option<Loss>),
        now: Instant,
    ) -> Result<(), Violation> {
        let exponent = self.peer.as_ref().map_or(3, |peer| peer.ack_delay_exponent);
        let delay_us = u64::try_from(u128::from(ack.delay) << exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(delay_us);
        let (next, largest_before) = self.recovery.next_number(space);
        let heard = Heard { ack, delay, report, loss };
        let acked = self.recovery.on_ack(space, &heard, now)?;
        if space != SpaceId::Data {
            self.learn_round_trip(now);
        }
        if space == SpaceId::Data {
            self.counters.acks_received += 1;
            self.counters.tacks_received += u64::from(report.is_some());
            self.counters.loss_acks_received += u64::from(loss.is_some());
            self.on_data_acked(ack, largest_before, next, now);
        }
        if let Some(acked) = acked {
            let acked = self.adapt(acked, now);
            if self.recovery.take_persistent() {
                self.congestion.on_timeout(acked.lost_bytes, acked.in_flight, now);
                self.counters.loss_episodes += 1;
            }
            if acked.acked_bytes > 0 {
                self.timeouts_in_a_row = 0;
                self.streams.tune_sending(self.congestion.window(), now);
            }
        }
        self.read_fates(now);
        self.close_if_left(now);
        if space == SpaceId::Data {
            self.note_figures(now);
        }
        Ok(())
    }

    /// Congestion control follows what became of packets, but for a probe that was too long, and for those of
    /// another path.
    pub(super) fn adapt(&mut self, mut acked: Acked, now: Instant) -> Acked {
        let [arrived, lost] = self.recovery.of_former_path();
        acked.acked_bytes = acked.acked_bytes.saturating_sub(arrived);
        acked.lost_bytes = acked.lost_bytes.saturating_sub(lost);
        let state = self.recovery.path_state(&acked);
        let is_lost = |number| self.recovery.tells_lost(number);
        self.mtu.excuse(&mut acked, is_lost, state.in_recovery, now);
        self.congestion.on_acked(&acked, &state, now);
        self.counters.loss_episodes += u64::from(acked.recovery_started);
        acked
    }

    fn on_data_acked(&mut self, ack: &Ack, before: Option<u64>, next: u64, now: Instant) {
        let largest = ack.largest();
        if self.side == Side::Client && self.early.is_beyond(largest) {
            // Whoever acknowledges 1-RTT packets has finished [RFC 9001 §4.1.2].
            self.on_confirmed(now);
        }
        if let Some(keys) = &mut self.one_rtt {
            keys.on_acked(largest);
        }
        let has = |number| ack.ranges.iter().any(|range| range.contains(&number));
        if self.mtu.on_ack(has, now) {
            self.follow_mtu();
        }
        // Counts of acknowledgments that overtook each other say nothing [RFC 9000 §13.4.2.1].
        let marked = self.recovery.take_marked();
        let is_newer = before.is_none_or(|before| largest > before);
        if is_newer && self.ecn.on_ack(ack, marked, next) {
            self.congestion.on_mark(self.recovery.in_flight(), now);
        }
    }

    /// Hands on what became of packets.
    pub(super) fn read_fates(&mut self, now: Instant) {
        while let Some(Fate { space, became, bytes, carried }) = self.recovery.poll_fate() {
            if let Became::Lost(number, reason) = became {
                self.note_lost(space, number, reason, now);
            }
            if space == SpaceId::Data {
                self.note_length(became, bytes);
            }
            for carried in carried.into_each() {
                match became {
                    Became::Arrived(_) => self.on_carried_arrived(space, carried),
                    Became::Lost(..) | Became::Repeated => self.on_carried_lost(space, carried),
                }
            }
        }
        let by_chance = self.recovery.timeouts_by_chance(SizeSearch::FALSE_ALARM);
        if self.mtu.on_fates(by_chance, now) {
            self.follow_mtu();
        }
    }

    /// What became of a packet of so many bytes may have been for its length.
    fn note_length(&mut self, became: Became, bytes: u32) {
        match became {
            Became::Arrived(_) => self.mtu.on_arrived(bytes),
            Became::Lost(number, _) => {
                let (next, _) = self.recovery.next_number(SpaceId::Data);
                self.mtu.on_lost(number, bytes, next);
            }
            Became::Repeated => {}
        }
    }

    fn note_lost(&mut self, space: SpaceId, number: u64, reason: LossReason, now: Instant) {
        let is_early = self.side == Side::Client && !self.early.is_beyond(number);
        let kind = match space {
            SpaceId::Initial => PacketKind::Initial,
            SpaceId::Handshake => PacketKind::Handshake,
            SpaceId::Data if is_early => PacketKind::ZeroRtt,
            SpaceId::Data => PacketKind::OneRtt,
        };
        self.note(now, || What::Lost(kind, number, reason));
    }

    fn on_carried_arrived(&mut self, space: SpaceId, carried: Carried) {
        match carried {
            Carried::Crypto(range) => {
                self.spaces[space as usize].sending.on_acked(range, false);
            }
            Carried::Stream(carried) => self.streams.on_acked(carried),
            Carried::Acks(below) => self.spaces[space as usize].acks.on_told(below),
            Carried::AckFrequency(sequence) => {
                if let Some(asks) = &mut self.ack_frequency {
                    asks.on_acked(sequence);
                    self.recovery.max_ack_delay = asks.max_ack_delay();
                }
            }
            Carried::HandshakeDone
            | Carried::NewToken
            | Carried::NewCid(_)
            | Carried::RetireCid(_) => {}
        }
    }

    fn on_carried_lost(&mut self, space: SpaceId, carried: Carried) {
        match carried {
            Carried::Crypto(range) => {
                self.spaces[space as usize].sending.on_lost(range, false);
            }
            Carried::Stream(carried) => self.streams.on_lost(carried),
            Carried::HandshakeDone => self.handshake_done_owed = true,
            Carried::NewToken => self.new_token_owed = true,
            Carried::NewCid(sequence) => self.local_cids.tell_again(sequence),
            Carried::RetireCid(sequence) => self.remote_cids.retire_again(sequence),
            Carried::AckFrequency(sequence) => {
                if let Some(asks) = &mut self.ack_frequency {
                    asks.on_lost(sequence);
                }
            }
            Carried::Acks(_) => {}
        }
    }
}

/// A longer token is not kept: it has to leave room in the packet that shows it.
const MAX_TOKEN: usize = 256;

/// Frames of Initial and Handshake packets [RFC 9000 §12.4].
fn is_of_handshake(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Padding(_) | Frame::Ping | Frame::Ack(_) | Frame::Crypto { .. } => true,
        Frame::Close(close) => close.frame_type.is_some(),
        _ => false,
    }
}
