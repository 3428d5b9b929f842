//! The driver of an open-loop experiment: sources, acknowledgments, counters.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tack_units::Instant;

use super::{AckRule, HEADER_BYTES, Mode, OpenLoop, WIRED_HOST};
use crate::link::{End, HostId, Link, Output, Packet, PacketKind};
use crate::wlan::{Airtime, ConfigError, Ledger, NodeStats, Wlan};

/// Counters at one instant.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) data: Vec<u64>,
    pub(super) acks_sent: u64,
    pub(super) acks_delivered: u64,
    pub(super) ap: NodeStats,
    pub(super) stations: NodeStats,
    pub(super) airtime: Airtime,
    pub(super) ledger: Ledger,
}

/// A stream of data packets.
#[derive(Debug)]
struct Flow {
    src: HostId,
    dst: HostId,
    /// The station whose queue the data enters or, from the wired side, is for.
    station: usize,
    /// Packets kept waiting in that queue when saturated.
    depth: usize,
    received: u64,
    unacknowledged: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet of this flow reaches its queue.
    Data(usize),
    /// Receivers look whether an ACK is due.
    Tick,
}

/// An experiment under way.
pub(super) struct Run {
    wlan: Wlan,
    mode: Mode,
    ack: AckRule,
    flows: Vec<Flow>,
    /// Flows by the station host that tells them apart: the receiver or, if all go to the wired
    /// host, the sender.
    by_host: Vec<(HostId, usize)>,
    interval: Option<Duration>,
    events: BinaryHeap<Reverse<(Instant, Event)>>,
    now: Instant,
    next_id: u64,
    acks_sent: u64,
    acks_delivered: u64,
    data_ip_bytes: u32,
    ack_ip_bytes: u32,
}

impl Run {
    pub(super) fn new(experiment: &OpenLoop) -> Result<Run, ConfigError> {
        let wlan = Wlan::new(experiment.wlan.clone())?;
        let flows = flows(experiment);
        let up = experiment.mode == Mode::Up;
        let key = |f: &Flow| if up { f.src } else { f.dst };
        let mut by_host: Vec<_> = flows.iter().enumerate().map(|(i, f)| (key(f), i)).collect();
        by_host.sort_unstable();
        let ack = match experiment.mode {
            Mode::UdpAck | Mode::Relay => experiment.ack,
            Mode::Udp | Mode::Up => AckRule::Never,
        };
        let payload_bits = f64::from((experiment.data_ip_bytes - HEADER_BYTES) * 8);
        let interval = experiment
            .offered_mbps
            .map(|mbps| payload_bits / mbps / 1e6)
            .map(|s| Duration::from_secs_f64(s).max(Duration::from_nanos(1)));
        let mut run = Run {
            wlan,
            mode: experiment.mode,
            ack,
            by_host,
            interval,
            events: BinaryHeap::new(),
            now: Instant::ZERO,
            next_id: 0,
            acks_sent: 0,
            acks_delivered: 0,
            flows,
            data_ip_bytes: experiment.data_ip_bytes,
            ack_ip_bytes: experiment.ack_ip_bytes,
        };
        if let Some(interval) = interval {
            // Senders are spread over an interval: nothing ties independent sources together.
            for i in 0..run.flows.len() {
                let offset = interval * i as u32 / run.flows.len() as u32;
                let at = Instant::ZERO + run.entry_delay(experiment) + offset;
                run.events.push(Reverse((at, Event::Data(i))));
            }
        } else {
            run.top_up();
        }
        if let AckRule::Every(period) = run.ack {
            run.events.push(Reverse((Instant::ZERO + period, Event::Tick)));
        }
        Ok(run)
    }

    /// How long data travels before it reaches the queue that the model begins with.
    fn entry_delay(&self, experiment: &OpenLoop) -> Duration {
        match self.mode {
            Mode::Udp | Mode::UdpAck => experiment.wired_delay,
            Mode::Relay | Mode::Up => Duration::ZERO,
        }
    }

    /// Runs until `end`.
    pub(super) fn until(&mut self, end: Instant) {
        loop {
            let wait = match self.wlan.poll(self.now) {
                Output::Deliver { packet, .. } => {
                    self.on_packet(&packet);
                    continue;
                }
                Output::Wait(wait) => wait,
            };
            if self.interval.is_none() {
                // Packets offered now may be sent at once: ask again before moving on.
                if self.top_up() {
                    continue;
                }
            }
            let event = self.events.peek().map_or(Instant::MAX, |Reverse((at, _))| *at);
            let next = wait.unwrap_or(Instant::MAX).min(event);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if event == next {
                let Reverse((at, event)) = self.events.pop().expect("just peeked");
                self.on_event(at, event);
            }
        }
    }

    fn on_event(&mut self, at: Instant, event: Event) {
        match event {
            Event::Data(i) => {
                self.offer_data(i);
                let interval = self.interval.unwrap_or(Duration::MAX);
                self.events.push(Reverse((at + interval, event)));
            }
            Event::Tick => {
                for i in 0..self.flows.len() {
                    if self.flows[i].unacknowledged > 0 {
                        self.send_ack(i);
                    }
                }
                let AckRule::Every(period) = self.ack else { return };
                self.events.push(Reverse((at + period, event)));
            }
        }
    }

    fn on_packet(&mut self, packet: &Packet) {
        if packet.kind == PacketKind::Ack {
            self.acks_delivered += 1;
            return;
        }
        let station = if self.mode == Mode::Up { packet.src } else { packet.dst };
        let Ok(at) = self.by_host.binary_search_by_key(&station, |(host, _)| *host) else { return };
        let i = self.by_host[at].1;
        let flow = &mut self.flows[i];
        flow.received += 1;
        flow.unacknowledged += 1;
        if matches!(self.ack, AckRule::EveryPackets(l) if flow.unacknowledged >= l) {
            self.send_ack(i);
        }
    }

    fn send_ack(&mut self, i: usize) {
        self.flows[i].unacknowledged = 0;
        self.acks_sent += 1;
        let Flow { src, dst, .. } = self.flows[i];
        self.offer(End::A, dst, src, PacketKind::Ack);
    }

    fn offer_data(&mut self, i: usize) {
        let Flow { src, dst, .. } = self.flows[i];
        let end = if src == WIRED_HOST { End::B } else { End::A };
        self.offer(end, src, dst, PacketKind::Data);
    }

    fn offer(&mut self, end: End, src: HostId, dst: HostId, kind: PacketKind) {
        let ip_bytes = match kind {
            PacketKind::Data => self.data_ip_bytes,
            PacketKind::Ack => self.ack_ip_bytes,
        };
        let id = self.next_id;
        self.next_id += 1;
        let sent_at = self.now;
        let packet = Packet { id, src, dst, ip_bytes, kind, bytes: Vec::new(), ecn: 0, sent_at };
        self.wlan.offer(end, packet, self.now);
    }

    /// Refills every saturated sender's queue; true if anything was missing.
    fn top_up(&mut self) -> bool {
        let mut any = false;
        loop {
            // One packet each in turn, so that a shared queue is shared evenly.
            let mut more = false;
            for i in 0..self.flows.len() {
                if self.backlog(i) < self.flows[i].depth {
                    self.offer_data(i);
                    more = true;
                }
            }
            if !more {
                return any;
            }
            any = true;
        }
    }

    fn backlog(&self, i: usize) -> usize {
        let flow = &self.flows[i];
        if flow.src == WIRED_HOST {
            self.wlan.downlink_backlog(flow.station)
        } else {
            self.wlan.uplink_backlog(flow.station)
        }
    }

    pub(super) fn reading(&self) -> Reading {
        let stations = (0..self.wlan.config().stations.len())
            .filter_map(|i| self.wlan.station_stats(i))
            .fold(NodeStats::default(), |sum, s| sum.plus(&s));
        Reading {
            data: self.flows.iter().map(|f| f.received).collect(),
            acks_sent: self.acks_sent,
            acks_delivered: self.acks_delivered,
            ap: self.wlan.ap_stats(),
            stations,
            airtime: self.wlan.airtime(self.now),
            ledger: self.wlan.ledger(),
        }
    }
}

fn flows(experiment: &OpenLoop) -> Vec<Flow> {
    let config = &experiment.wlan;
    let host = |i: usize| config.stations[i].hosts[0];
    let n = config.stations.len();
    // Two PPDUs' worth: the queue never runs dry between two polls.
    let depth = |mpdus: u16, limit: usize| (2 * usize::from(mpdus.max(1))).clamp(1, limit);
    let flow = |src, dst, station, depth| Flow {
        src,
        dst,
        station,
        depth,
        received: 0,
        unacknowledged: 0,
    };
    let up_depth = |i: usize| {
        let limits = config.stations[i].ampdu.unwrap_or(config.station_ampdu);
        depth(limits.max_mpdus, config.station_queue_packets)
    };
    match experiment.mode {
        Mode::Udp | Mode::UdpAck => {
            let depth = depth(config.ap_ampdu.max_mpdus, (config.ap_queue_packets / n).max(1));
            (0..n).map(|i| flow(WIRED_HOST, host(i), i, depth)).collect()
        }
        Mode::Relay => vec![flow(host(0), host(1), 0, up_depth(0))],
        Mode::Up => (0..n).map(|i| flow(host(i), WIRED_HOST, i, up_depth(i))).collect(),
    }
}
