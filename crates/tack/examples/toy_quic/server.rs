//! The receiving host: reassembly, packet numbers above a floor, and the mechanism's receiver.

use std::collections::VecDeque;
use std::time::Duration;

use tack::{Arrival, Buffer, Feedback, Params, Ranges, Receiver};
use tack_units::Instant;

use super::config::Config;
use super::frame::{Frame, Packet, content};

/// Holes that fit a packet: an ACK frame has a few bytes for each.
const MAX_HOLES: usize = 300;

#[derive(Debug)]
pub(crate) struct Server {
    receiver: Receiver,
    streams: [(Vec<u8>, Ranges); 2],
    delivered: u64,
    /// PKT.SEQ below this is not told of any more.
    floor: u64,
    /// PKT.SEQ that arrived, from the floor on.
    arrived: Ranges,
    next_number: u64,
    /// Packets that asked to be acknowledged: number, and below which PKT.SEQ they told everything.
    pings: VecDeque<(u64, u64)>,
    pinged: Option<Instant>,
    rtt: Duration,
    pub(crate) tacks: u64,
    pub(crate) losses: u64,
}

impl Server {
    pub(crate) fn new(config: &Config, params: Params) -> Self {
        let mut receiver = Receiver::new(params, 1);
        receiver.on_handshake(config.rtt);
        Server {
            receiver,
            streams: config.totals.map(|total| (vec![0; total as usize], Ranges::new())),
            delivered: 0,
            floor: 1,
            arrived: Ranges::new(),
            next_number: 0,
            pings: VecDeque::new(),
            pinged: None,
            rtt: config.rtt,
            tacks: 0,
            losses: 0,
        }
    }

    /// Every byte of both streams is here, and is what was sent.
    pub(crate) fn is_intact(&self) -> bool {
        self.streams.iter().enumerate().all(|(id, (bytes, have))| {
            have.covered() == bytes.len() as u64
                && bytes.iter().zip(0..).all(|(byte, at)| *byte == content(id, at))
        })
    }

    pub(crate) fn handle(&mut self, packet: Packet, now: Instant) {
        let pkt_seq = packet.number + 1;
        // What the path doubled; and what comes below the floor may be that.
        if pkt_seq < self.floor || self.arrived.contains(&(pkt_seq..pkt_seq + 1)) {
            return;
        }
        self.arrived.insert(pkt_seq..pkt_seq + 1);
        let (mut bytes, mut new_bytes, mut asks) = (0, 0, false);
        for frame in packet.frames {
            match frame {
                Frame::Stream(part, text) => {
                    let (stream, have) = &mut self.streams[part.stream];
                    stream[part.range.start as usize..part.range.end as usize]
                        .copy_from_slice(&text);
                    bytes += text.len() as u64;
                    new_bytes += have.insert(part.range);
                    asks = true;
                }
                Frame::Frequency(frequency) => self.receiver.on_frequency(&frequency, now),
                Frame::Ack(number) => self.raise_floor(number),
                Frame::Ping => asks = true,
                Frame::Tack(_) | Frame::Iack(_) => unreachable!("data goes one way"),
            }
        }
        self.delivered += new_bytes;
        let buffer = buffer(self.floor, &self.arrived, self.delivered);
        if !asks {
            self.receiver.on_unasked(pkt_seq, buffer, now);
            return;
        }
        let arrival = Arrival {
            pkt_seq,
            bytes,
            departure_us: packet.departure_us,
            arrival_us: now.as_micros() as u32,
            push: false,
            immediate: self.streams.iter().all(|(s, have)| have.covered() == s.len() as u64),
            ce: false,
            duplicate: new_bytes == 0,
        };
        self.receiver.on_data(&arrival, buffer, now);
    }

    /// Our packet `number` arrived, and all that it told is known [RFC 9000 §13.2.4].
    fn raise_floor(&mut self, number: u64) {
        while let Some(&(ping, told_below)) = self.pings.front().filter(|(p, _)| *p <= number) {
            if ping == number {
                self.floor = self.floor.max(told_below.min(self.receiver.settled_below()));
                self.arrived.remove_below(self.floor);
            }
            self.pings.pop_front();
        }
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Packet> {
        let buffer = buffer(self.floor, &self.arrived, self.delivered);
        let tells_loss = self.receiver.tells_loss(now);
        let feedback = self.receiver.poll(buffer, MAX_HOLES, now)?;
        let number = self.next_number;
        self.next_number += 1;
        let mut frames = Vec::new();
        match feedback {
            Feedback::Iack(iack) => frames.push(Frame::Iack(iack)),
            Feedback::Tack(tack) => {
                self.tacks += 1;
                self.losses += u64::from(tells_loss);
                if self.pinged.is_none_or(|at| now - at >= self.rtt) {
                    let told_below = match tack.holes_complete {
                        true => tack.rcv_high,
                        false => tack.holes.last().map_or(self.floor, |hole| hole.end),
                    };
                    self.pings.push_back((number, told_below));
                    self.pinged = Some(now);
                    frames.push(Frame::Ping);
                }
                frames.push(Frame::Tack(Box::new(tack)));
            }
        }
        Some(Packet { number, departure_us: now.as_micros() as u32, frames })
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.receiver.deadline()
    }

    /// Ranges of packet numbers that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.arrived.len()
    }
}

/// Packets are what is received or missing; flow control is none of the mechanism's business.
fn buffer(floor: u64, arrived: &Ranges, delivered: u64) -> Buffer<'_> {
    Buffer { rcv_nxt: floor, queued: arrived, delivered, window: u64::MAX, capacity: u64::MAX }
}
