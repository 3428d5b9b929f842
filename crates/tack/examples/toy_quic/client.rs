//! The sending host: streams, what each packet carried, and the mechanism's sender.

use std::collections::BTreeMap;
use std::time::Duration;

use tack::{Fate, Params, Ranges, Sender, Timeout, equations};
use tack_units::{Instant, Rate};

use super::config::Config;
use super::frame::{Frame, Packet, Part, content};

/// One packet number of so many is left out.
const SKIPPED: u64 = 500;

#[derive(Debug, Default)]
struct Stream {
    total: u64,
    nxt: u64,
    acked: Ranges,
    /// To be packed anew.
    lost: Ranges,
}

impl Stream {
    /// At most `most` bytes to send: what is lost, then what is new.
    fn next(&mut self, most: u64) -> Option<std::ops::Range<u64>> {
        if let Some(lost) = self.lost.first() {
            let range = lost.start..lost.end.min(lost.start + most);
            self.lost.remove(range.clone());
            return Some(range);
        }
        let range = self.nxt..self.total.min(self.nxt + most);
        self.nxt = range.end;
        (!range.is_empty()).then_some(range)
    }

    fn has_data(&self) -> bool {
        !self.lost.is_empty() || self.nxt < self.total
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) sender: Sender<tack::Packets>,
    streams: [Stream; 2],
    /// What each packet carried that may be heard of.
    carried: BTreeMap<u64, Vec<Part>>,
    /// Packets of the peer to acknowledge, and what else goes with the next packet.
    control: Vec<Frame>,
    probe: bool,
    next_send: Instant,
    rate: Rate,
    window: u64,
    mss: u64,
    random: u64,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
}

impl Client {
    pub(crate) fn new(config: &Config, params: Params, now: Instant) -> Self {
        let mut sender = Sender::of_packets(params, 1, now);
        // As if a handshake had measured it.
        sender.on_cum_ack(0, Some(config.rtt), now);
        let mss = u64::from(params.mss);
        Client {
            sender,
            streams: config.totals.map(|total| Stream { total, ..Stream::default() }),
            carried: BTreeMap::new(),
            control: Vec::new(),
            probe: false,
            next_send: now,
            rate: config.rate,
            // A fixed rate and twice the bdp stand in for congestion control.
            window: 2 * equations::bdp(config.rate, config.rtt) + 10 * mss,
            mss,
            random: config.seed | 1,
            packets: 0,
            lost: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.streams.iter().all(|s| s.acked.covered() == s.total)
    }

    pub(crate) fn handle(&mut self, packet: Packet, now: Instant) {
        let asks = packet.frames.iter().any(|f| matches!(f, Frame::Ping));
        for frame in packet.frames {
            // A real host hands what these return to congestion control.
            let _acked = match frame {
                Frame::Tack(tack) => self.sender.on_tack(&tack, now.as_micros() as u32, now),
                Frame::Iack(iack) => self.sender.on_iack(&iack, now),
                _ => continue,
            };
        }
        if asks {
            self.control.push(Frame::Ack(packet.number));
        }
        self.read_fates();
    }

    fn read_fates(&mut self) {
        while let Some(fate) = self.sender.poll_fate() {
            let (Fate::Arrived(pkt_seq) | Fate::Lost(pkt_seq) | Fate::Forged(pkt_seq)) = fate;
            let parts = self.carried.get(&pkt_seq).cloned().unwrap_or_default();
            for Part { stream, range } in parts {
                let stream = &mut self.streams[stream];
                match fate {
                    Fate::Arrived(_) => {
                        stream.acked.insert(range.clone());
                        stream.lost.remove(range);
                    }
                    Fate::Lost(_) => {
                        for part in stream.acked.gaps_in(range) {
                            stream.lost.insert(part);
                        }
                    }
                    Fate::Forged(_) => {}
                }
            }
            match fate {
                Fate::Arrived(_) => drop(self.carried.remove(&pkt_seq)),
                Fate::Lost(_) => self.lost += 1,
                Fate::Forged(_) => panic!("{pkt_seq} was skipped"),
            }
        }
        self.carried = self.carried.split_off(&self.sender.forgotten_below());
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.probe |= self.sender.on_timeout(now) == Some(Timeout::Probe);
        self.read_fates();
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Packet> {
        if let Some(frequency) = self.sender.poll_frequency(self.rate, false, now) {
            self.control.push(Frame::Frequency(frequency));
        }
        let may_send = self.may_send() && self.next_send <= now;
        let mut parts = if may_send || self.probe { self.pack() } else { Vec::new() };
        if parts.is_empty() && self.probe {
            // Nothing is new: the oldest packet's data goes once more.
            parts = self.carried.first_key_value().map_or(Vec::new(), |(_, parts)| parts.clone());
        }
        let mut frames = core::mem::take(&mut self.control);
        if parts.is_empty() {
            // What only acknowledges, or what is repeated until it shows, asks for nothing.
            return (!frames.is_empty()).then(|| {
                let pkt_seq = self.sender.on_uncounted(now);
                Packet { number: pkt_seq - 1, departure_us: now.as_micros() as u32, frames }
            });
        }
        self.probe = false;
        if self.draw().is_multiple_of(SKIPPED) {
            self.sender.skip(now);
        }
        let bytes: u64 = parts.iter().map(|p| p.range.end - p.range.start).sum();
        let pkt_seq = self.sender.on_packet(bytes as u32, now);
        frames.extend(parts.iter().map(|part| {
            let bytes = part.range.clone().map(|at| content(part.stream, at)).collect();
            Frame::Stream(part.clone(), bytes)
        }));
        self.carried.insert(pkt_seq, parts);
        self.packets += 1;
        let spacing = self.rate.time_for(bytes).unwrap_or(Duration::MAX);
        self.next_send = now.max(self.next_send) + spacing;
        Some(Packet { number: pkt_seq - 1, departure_us: now.as_micros() as u32, frames })
    }

    fn may_send(&self) -> bool {
        self.sender.in_flight() < self.window && self.streams.iter().any(Stream::has_data)
    }

    /// Fills a packet with parts of both streams, in an order and sizes that chance makes.
    fn pack(&mut self) -> Vec<Part> {
        let (mut parts, mut room) = (Vec::new(), self.mss);
        let first = (self.draw() % 2) as usize;
        let share = 1 + self.draw() % self.mss;
        for (stream, most) in [(first, share), (1 - first, self.mss), (first, self.mss)] {
            if let Some(range) = self.streams[stream].next(most.min(room)).filter(|_| room > 0) {
                room -= range.end - range.start;
                parts.push(Part { stream, range });
            }
        }
        parts
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let send = self.may_send().then_some(self.next_send);
        [self.sender.deadline(), send].into_iter().flatten().min()
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }
}
