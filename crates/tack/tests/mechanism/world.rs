//! Two ends and a path, in virtual time: the smallest host there can be around the mechanism.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use tack::{
    Acked, Arrival, Buffer, Feedback, Frequency, Iack, IackReason, Params, Ranges, Receiver,
    Sender, Tack, Timeout,
};
use tack_units::{Instant, Rate};

use crate::rng::Rng;

/// The path and the sender's demand.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) params: Params,
    /// Pace of the sender, payload.
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) loss: f64,
    pub(crate) ack_loss: f64,
    pub(crate) duplicate: f64,
    /// Share of packets held back by up to `reorder_by`.
    pub(crate) reorder: f64,
    pub(crate) reorder_by: Duration,
    /// Total to send, bytes.
    pub(crate) total: u64,
    /// Receive buffer.
    pub(crate) capacity: u64,
    /// The window is as large as it takes; the sender keeps this many bdp in flight.
    pub(crate) in_flight_bdp: f64,
    /// The sender stays in Startup.
    pub(crate) startup: bool,
    pub(crate) first_pkt_seq: u64,
    pub(crate) first_seq: u64,
    /// Offset between the two microsecond clocks.
    pub(crate) clock_offset_us: u32,
    pub(crate) max_holes: usize,
    /// Packets of jittery queueing: extra forward delay as a function of time and randomness.
    pub(crate) queue: Option<fn(Instant, &mut Rng) -> Duration>,
    /// Added to the time that `queue` sees.
    pub(crate) queue_phase: Duration,
    /// The receiver knows the handshake's round trip, as the sender does.
    pub(crate) handshake: bool,
    /// Both directions lose everything in here.
    pub(crate) blackout: Option<(Instant, Instant)>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 1,
            params: Params::default(),
            rate: Rate::from_mbps(100),
            rtt: Duration::from_millis(80),
            loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            total: u64::MAX / 4,
            capacity: 1 << 40,
            in_flight_bdp: 2.0,
            startup: false,
            first_pkt_seq: 1,
            first_seq: 0,
            clock_offset_us: 0x8000_1234,
            max_holes: 180,
            queue: None,
            queue_phase: Duration::ZERO,
            handshake: true,
            blackout: None,
        }
    }
}

#[derive(Debug)]
enum Parcel {
    Data { pkt_seq: u64, start: u64, end: u64, departure_us: u32, fin: bool },
    Frequency(Frequency),
    Tack(Box<Tack>),
    Iack(Iack),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) data: u64,
    pub(crate) data_lost: u64,
    pub(crate) loss_events: u64,
    pub(crate) tacks: u64,
    pub(crate) loss_iacks: u64,
    pub(crate) window_iacks: u64,
    pub(crate) frequencies: u64,
    pub(crate) probes: u64,
    pub(crate) timeouts: u64,
    pub(crate) spurious: u64,
    pub(crate) blocked_at_tack: Vec<u64>,
}

pub(crate) struct World {
    pub(crate) cfg: Config,
    pub(crate) now: Instant,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) counts: Counts,
    /// From the first sight of a hole at the receiver to its repair.
    pub(crate) repairs: Vec<Duration>,
    pub(crate) acked: Acked,
    pub(crate) rates: Vec<Rate>,
    rng: Rng,
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    parcels: BTreeMap<u64, Parcel>,
    next_parcel: u64,
    next_send: Instant,
    nxt: u64,
    pub(crate) rcv_nxt: u64,
    queued: Ranges,
    holes_since: BTreeMap<u64, Instant>,
    rcv_high: u64,
    last_arrival: Instant,
    last_was_lost: bool,
    window_end: u64,
    /// After a timeout, until the next news: what every controller does.
    one_segment: bool,
}

impl World {
    pub(crate) fn new(cfg: Config) -> Self {
        let now = Instant::from_millis(1);
        let mut sender = Sender::new(cfg.params, cfg.first_pkt_seq, cfg.first_seq, now);
        let handshake = cfg.rtt * 5 / 4;
        sender.on_cum_ack(cfg.first_seq, Some(handshake), now);
        let mut receiver = Receiver::new(cfg.params, cfg.first_pkt_seq);
        if cfg.handshake {
            receiver.on_handshake(handshake);
        }
        World {
            receiver,
            sender,
            counts: Counts::default(),
            repairs: Vec::new(),
            acked: Acked::default(),
            rates: Vec::new(),
            rng: Rng::new(cfg.seed),
            heap: BinaryHeap::new(),
            parcels: BTreeMap::new(),
            next_parcel: 0,
            next_send: now,
            nxt: cfg.first_seq,
            rcv_nxt: cfg.first_seq,
            queued: Ranges::new(),
            holes_since: BTreeMap::new(),
            rcv_high: cfg.first_seq,
            last_arrival: now,
            last_was_lost: false,
            window_end: cfg.first_seq + cfg.capacity,
            one_segment: false,
            now,
            cfg,
        }
    }

    fn end(&self) -> u64 {
        self.cfg.first_seq + self.cfg.total
    }

    pub(crate) fn done(&self) -> bool {
        self.rcv_nxt == self.end() && self.sender.outstanding().is_empty()
    }

    /// Runs until `until` or until nothing can happen any more.
    pub(crate) fn run(&mut self, until: Instant) {
        while !(self.nxt == self.end() && self.done()) {
            self.transmit();
            self.feedback();
            let Some(next) = self.next_time().filter(|t| *t <= until) else { break };
            self.now = self.now.max(next);
            self.arrivals();
            if self.sender.deadline().is_some_and(|d| d <= self.now) {
                self.timeout();
            }
        }
        if self.now < until && self.next_time().is_some_and(|t| t > until) {
            self.now = until;
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let send = self.may_send().then_some(self.next_send);
        let arrival = self.heap.peek().map(|Reverse((at, _))| *at);
        [send, arrival, self.sender.deadline(), self.receiver.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn cap(&self) -> u64 {
        if self.one_segment {
            return 1;
        }
        let bdp = self.cfg.rate.bytes_in(self.cfg.rtt) as f64;
        (bdp * self.cfg.in_flight_bdp) as u64 + 10 * u64::from(self.cfg.params.mss)
    }

    fn may_send(&self) -> bool {
        let new = self.nxt < self.end() && self.nxt < self.window_end;
        self.sender.in_flight() < self.cap() && (self.sender.next_lost(self.now).is_some() || new)
    }

    fn transmit(&mut self) {
        if self.counts.frequencies == 0 {
            self.sync_frequency();
        }
        while self.may_send() && self.next_send <= self.now {
            let range = match self.sender.next_lost(self.now) {
                Some(lost) => lost,
                None => {
                    let mss = u64::from(self.cfg.params.mss);
                    self.nxt..(self.nxt + mss).min(self.end()).min(self.window_end)
                }
            };
            let gap = self.cfg.rate.time_for(range.end - range.start).unwrap();
            self.next_send = self.next_send.max(self.now - gap) + gap;
            self.send(range);
        }
    }

    fn clock_us(&self) -> u32 {
        self.now.as_micros() as u32
    }

    fn send(&mut self, range: std::ops::Range<u64>) {
        let pkt_seq = self.sender.on_sent(range.clone(), self.now);
        self.nxt = self.nxt.max(range.end);
        if self.nxt == self.end() {
            self.sender.on_app_limited();
        }
        self.counts.data += 1;
        let fin = range.end == self.end();
        let departure_us = self.clock_us();
        let lost = self.rng.chance(self.cfg.loss) || self.in_blackout();
        self.counts.data_lost += u64::from(lost);
        self.counts.loss_events += u64::from(lost && !self.last_was_lost);
        self.last_was_lost = lost;
        if lost {
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(self.cfg.duplicate));
        for _ in 0..copies {
            let mut at = self.now + self.cfg.rtt / 2;
            if let Some(queue) = self.cfg.queue {
                at = (at + queue(self.now + self.cfg.queue_phase, &mut self.rng))
                    .max(self.last_arrival);
                self.last_arrival = at;
            }
            if self.rng.chance(self.cfg.reorder) {
                let by = self.cfg.reorder_by.as_nanos() as u64;
                at += Duration::from_nanos(self.rng.below(by));
            }
            let (start, end) = (range.start, range.end);
            self.post(at, Parcel::Data { pkt_seq, start, end, departure_us, fin });
        }
    }

    fn in_blackout(&self) -> bool {
        self.cfg.blackout.is_some_and(|(from, to)| (from..to).contains(&self.now))
    }

    fn post(&mut self, at: Instant, parcel: Parcel) {
        self.heap.push(Reverse((at, self.next_parcel)));
        self.parcels.insert(self.next_parcel, parcel);
        self.next_parcel += 1;
    }

    fn arrivals(&mut self) {
        while self.heap.peek().is_some_and(|Reverse((at, _))| *at <= self.now) {
            let Reverse((_, id)) = self.heap.pop().unwrap();
            match self.parcels.remove(&id).unwrap() {
                Parcel::Data { pkt_seq, start, end, departure_us, fin } => {
                    self.on_data(pkt_seq, start, end, departure_us, fin);
                }
                Parcel::Frequency(f) => self.receiver.on_frequency(&f, self.now),
                Parcel::Tack(tack) => {
                    let acked = self.sender.on_tack(&tack, self.clock_us(), self.now);
                    self.on_acked(acked, tack.cum_ack + tack.window);
                }
                Parcel::Iack(iack) => {
                    let acked = self.sender.on_iack(&iack, self.now);
                    self.on_acked(acked, iack.cum_ack + iack.window);
                }
            }
        }
    }

    fn on_acked(&mut self, acked: Acked, window_end: u64) {
        assert!(acked.in_flight <= self.nxt - self.cfg.first_seq, "seed {}", self.cfg.seed);
        self.counts.spurious += u64::from(acked.spurious);
        self.rates.extend(acked.rate);
        self.acked = acked;
        self.window_end = self.window_end.max(window_end);
        self.one_segment &= self.acked.acked_bytes == 0;
        self.sync_frequency();
    }

    fn sync_frequency(&mut self) {
        let frequency = self.sender.poll_frequency(self.cfg.rate, self.cfg.startup, self.now);
        if let Some(frequency) = frequency {
            self.counts.frequencies += 1;
            if !self.rng.chance(self.cfg.loss) && !self.in_blackout() {
                self.post(self.now + self.cfg.rtt / 2, Parcel::Frequency(frequency));
            }
        }
    }

    fn on_data(&mut self, pkt_seq: u64, start: u64, end: u64, departure_us: u32, fin: bool) {
        let before = self.queued.covered() + self.rcv_nxt;
        let high = self.rcv_high;
        if start > high {
            self.holes_since.insert(high, self.now);
        }
        self.rcv_high = high.max(end);
        self.queued.insert(start.max(self.rcv_nxt)..end.max(self.rcv_nxt));
        if let Some(first) = self.queued.first().filter(|r| r.start == self.rcv_nxt) {
            self.rcv_nxt = first.end;
            self.queued.remove_below(self.rcv_nxt);
        }
        // A contiguous gap counts as repaired when its first byte is here: the lowest is asked
        // for first.
        while let Some((&hole, &since)) = self.holes_since.range(..self.rcv_nxt).next() {
            self.holes_since.remove(&hole);
            self.repairs.push(self.now - since);
        }
        while let Some((&hole, &since)) = self.holes_since.range(start..end).next() {
            self.holes_since.remove(&hole);
            self.repairs.push(self.now - since);
        }
        let arrival = Arrival {
            pkt_seq,
            bytes: end - start,
            departure_us,
            arrival_us: self.clock_us().wrapping_add(self.cfg.clock_offset_us),
            push: fin,
            immediate: fin,
            ce: false,
            duplicate: self.queued.covered() + self.rcv_nxt == before,
        };
        let buffer = Buffer {
            rcv_nxt: self.rcv_nxt,
            queued: &self.queued,
            delivered: self.rcv_nxt + self.queued.covered(),
            window: self.cfg.capacity,
            capacity: self.cfg.capacity,
        };
        self.receiver.on_data(&arrival, buffer, self.now);
    }

    fn feedback(&mut self) {
        loop {
            let buffer = Buffer {
                rcv_nxt: self.rcv_nxt,
                queued: &self.queued,
                delivered: self.rcv_nxt + self.queued.covered(),
                window: self.cfg.capacity,
                capacity: self.cfg.capacity,
            };
            let polled = self.receiver.poll(buffer, self.cfg.max_holes, self.now);
            let Some(feedback) = polled else { break };
            let parcel = match feedback {
                Feedback::Tack(tack) => {
                    self.counts.tacks += 1;
                    self.counts.blocked_at_tack.push(tack.received_in_flight);
                    Parcel::Tack(Box::new(tack))
                }
                Feedback::Iack(iack) => {
                    match iack.reason {
                        IackReason::Loss { .. } => self.counts.loss_iacks += 1,
                        IackReason::Window => self.counts.window_iacks += 1,
                        _ => {}
                    }
                    Parcel::Iack(iack)
                }
            };
            if self.rng.chance(self.cfg.ack_loss) || self.in_blackout() {
                continue;
            }
            let copies = 1 + u64::from(self.rng.chance(self.cfg.duplicate));
            let mut at = self.now + self.cfg.rtt / 2;
            if self.rng.chance(self.cfg.reorder) {
                let by = self.cfg.reorder_by.as_nanos() as u64;
                at += Duration::from_nanos(self.rng.below(by));
            }
            if copies == 2 {
                let copy = match &parcel {
                    Parcel::Tack(t) => Parcel::Tack(t.clone()),
                    Parcel::Iack(i) => Parcel::Iack(i.clone()),
                    _ => unreachable!("only feedback goes this way"),
                };
                self.post(at + Duration::from_micros(50), copy);
            }
            self.post(at, parcel);
        }
    }

    fn timeout(&mut self) {
        match self.sender.on_timeout(self.now) {
            Some(Timeout::Probe) => {
                self.counts.probes += 1;
                let mss = u64::from(self.cfg.params.mss);
                let new = self.nxt..(self.nxt + mss).min(self.end()).min(self.window_end);
                let last = self.sender.outstanding().last().map(|o| o.seq.clone());
                let range = if new.is_empty() { last } else { Some(new) };
                self.send(range.expect("a timer runs only while something is outstanding"));
            }
            Some(Timeout::Rto) => {
                self.counts.timeouts += 1;
                self.one_segment = true;
            }
            None => {}
        }
    }
}

/// The value below which the share `q` of `values` lies.
pub(crate) fn quantile(values: &[Duration], q: f64) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort();
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}
