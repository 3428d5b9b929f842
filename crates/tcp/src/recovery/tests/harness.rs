//! A sender under test, a receiver by the book, and a path that loses, reorders and duplicates.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack::Ranges;

use super::*;
use tack_strategies::{AckStrategy, Acknowledge, Arrival, News, PathSeen, Receiver};

pub(super) const MSS: u64 = 1_000;

/// What a run is made of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) segments: u64,
    /// Window of the sender in segments; there is no congestion control here.
    pub(super) window: u64,
    pub(super) sack: bool,
    pub(super) detection: LossDetection,
    pub(super) timestamps: bool,
    /// `L` of the receiver.
    pub(super) segments_per_ack: u32,
    pub(super) one_way: Duration,
    /// Time a data segment occupies the path.
    pub(super) serialisation: Duration,
    pub(super) loss: f64,
    pub(super) ack_loss: f64,
    pub(super) duplicate: f64,
    /// Share of packets held back, and for how long at most.
    pub(super) reorder: (f64, Duration),
    /// Transmissions lost, counted from 0 in the order of sending.
    pub(super) drop: Vec<u64>,
    /// Everything is held back for so long at that time.
    pub(super) stall: Option<(Instant, Duration)>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            seed: 1,
            segments: 100,
            window: 20,
            sack: true,
            detection: LossDetection::default(),
            timestamps: true,
            segments_per_ack: 2,
            one_way: Duration::from_millis(20),
            serialisation: Duration::from_micros(100),
            loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            reorder: (0.0, Duration::ZERO),
            drop: Vec::new(),
            stall: None,
        }
    }
}

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) transmissions: u64,
    pub(super) retransmissions: u64,
    pub(super) lost_on_path: u64,
    pub(super) probes: u64,
    pub(super) timeouts: u64,
    pub(super) episodes: u64,
    pub(super) spurious: u64,
    pub(super) needless: u64,
    pub(super) took: Duration,
    /// Segments that arrived at the receiver a second time though they were not duplicated.
    pub(super) arrived_twice: u64,
    pub(super) rates: Vec<(Rate, bool)>,
}

use tack_units::Rate;

#[derive(Debug)]
enum Event {
    Data { seq: Range<u64>, ts_val: Instant },
    Ack { cum_ack: u64, blocks: Vec<Range<u64>>, dsack: Option<Range<u64>>, ts_ecr: Instant },
    Look,
}

struct World {
    plan: Plan,
    rng: Pcg64,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    path_free_at: Instant,
    sender: PlainSender,
    snd_nxt: u64,
    probe_now: bool,
    // The receiver.
    rcv_nxt: u64,
    queued: Ranges,
    recent: Vec<Range<u64>>,
    dsack: Option<Range<u64>>,
    ts_recent: Instant,
    last_ack_sent: u64,
    delayed: Receiver,
    outcome: Outcome,
    acked_bytes: u64,
}

/// Runs the plan until everything is acknowledged.
pub(super) fn run(plan: &Plan) -> Outcome {
    let name = format!("tcp-l{}-noquick", plan.segments_per_ack);
    let ack: AckStrategy = name.parse().expect("a strategy");
    let mut world = World {
        rng: Pcg64::seed_from_u64(plan.seed),
        now: Instant::ZERO,
        events: BTreeMap::new(),
        serial: 0,
        path_free_at: Instant::ZERO,
        sender: PlainSender::new(MSS as u32, 0, plan.sack, Instant::ZERO).detecting(plan.detection),
        snd_nxt: 0,
        probe_now: false,
        rcv_nxt: 0,
        queued: Ranges::new(),
        recent: Vec::new(),
        dsack: None,
        ts_recent: Instant::ZERO,
        last_ack_sent: 0,
        delayed: ack.receiver(MSS as u32),
        outcome: Outcome::default(),
        acked_bytes: 0,
        plan: plan.clone(),
    };
    world.sender.on_rtt_sample(2 * plan.one_way, Instant::ZERO);
    world.run();
    world.outcome
}

impl World {
    fn total(&self) -> u64 {
        self.plan.segments * MSS
    }

    fn run(&mut self) {
        let mut steps = 0;
        self.transmit();
        while self.sender.sent.snd_una() < self.total() {
            steps += 1;
            assert!(steps < 2_000_000, "no end in sight: {:?}", self.plan);
            let event = self.events.keys().next().map(|key| key.0);
            let next = [event, self.sender.deadline(), self.delayed.deadline()]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or_else(|| panic!("nothing will ever happen: {:?}", self.plan));
            self.now = self.now.max(next);
            self.step();
            self.transmit();
        }
        assert_eq!(self.rcv_nxt, self.total(), "{:?}", self.plan);
        assert_eq!(self.acked_bytes, self.total(), "{:?}", self.plan);
        assert_eq!(self.sender.in_flight(), 0, "{:?}", self.plan);
        assert_eq!(self.sender.deadline(), None, "{:?}", self.plan);
        self.outcome.took = self.now - Instant::ZERO;
    }

    fn step(&mut self) {
        if self.sender.deadline().is_some_and(|deadline| deadline <= self.now) {
            match self.sender.on_timeout(self.now) {
                Some(Timeout::Probe) => {
                    self.outcome.probes += 1;
                    self.probe_now = true;
                }
                Some(Timeout::Rto) => self.outcome.timeouts += 1,
                None => {
                    let news = self.sender.take_unreported();
                    self.outcome.episodes += u64::from(news.is_some_and(|n| n.recovery_started));
                }
            }
        } else if self.delayed.is_due(self.now) {
            self.send_ack();
        } else if let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Event::Data { seq, ts_val } => self.receive(seq, ts_val),
                Event::Ack { cum_ack, blocks, dsack, ts_ecr } => {
                    self.acknowledged(cum_ack, &blocks, dsack, ts_ecr);
                }
                Event::Look => {}
            }
        }
        if self.delayed.is_due(self.now) {
            self.send_ack();
        }
    }

    fn transmit(&mut self) {
        if core::mem::take(&mut self.probe_now) {
            if self.snd_nxt < self.total() {
                self.send(self.snd_nxt..self.snd_nxt + MSS);
            } else if let Some(last) = self.sender.last_segment() {
                self.send(last);
            }
        }
        while self.sender.in_flight() + MSS <= self.plan.window * MSS {
            if let Some(lost) = self.sender.next_lost(self.now) {
                self.send(lost);
            } else if self.snd_nxt < self.total() {
                self.send(self.snd_nxt..self.snd_nxt + MSS);
            } else {
                self.sender.on_app_limited();
                break;
            }
        }
    }

    fn send(&mut self, seq: Range<u64>) {
        let number = self.outcome.transmissions;
        self.outcome.transmissions += 1;
        self.outcome.retransmissions += u64::from(seq.start < self.snd_nxt);
        self.snd_nxt = self.snd_nxt.max(seq.end);
        let before = self.sender.in_flight();
        self.sender.on_sent(seq.clone(), self.now);
        assert!(self.sender.in_flight() <= before + (seq.end - seq.start), "{:?}", self.plan);
        self.path_free_at = self.path_free_at.max(self.now) + self.plan.serialisation;
        let lost = self.plan.drop.contains(&number) || self.rng.random_bool(self.plan.loss);
        if lost {
            self.outcome.lost_on_path += 1;
            return;
        }
        let copies = 1 + u64::from(self.rng.random_bool(self.plan.duplicate));
        for _ in 0..copies {
            let at = self.path_free_at + self.plan.one_way + self.held_back();
            self.schedule(at, Event::Data { seq: seq.clone(), ts_val: self.now });
        }
        // A second copy is the network's doing.
        self.outcome.arrived_twice = self.outcome.arrived_twice.wrapping_sub(copies - 1);
    }

    fn held_back(&mut self) -> Duration {
        let (share, most) = self.plan.reorder;
        let mut delay = Duration::ZERO;
        if self.rng.random_bool(share) {
            delay = most.mul_f64(self.rng.random_range(0.0..1.0));
        }
        if let Some((at, length)) = self.plan.stall
            && self.now >= at
            && self.now < at + length
        {
            delay += at + length - self.now;
        }
        delay
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// [RFC 9293 §3.10.7.4, RFC 2018 §4, RFC 2883 §4, RFC 7323 §4.3] in small.
    fn receive(&mut self, seq: Range<u64>, ts_val: Instant) {
        if seq.start <= self.last_ack_sent && ts_val >= self.ts_recent {
            self.ts_recent = ts_val;
        }
        let known = seq.end <= self.rcv_nxt || self.queued.contains(&seq);
        if known {
            self.dsack = Some(seq.clone());
            self.outcome.arrived_twice = self.outcome.arrived_twice.wrapping_add(1);
        }
        let had_holes = !self.queued.is_empty();
        let in_order = seq.start <= self.rcv_nxt;
        if !known {
            self.queued.insert(seq.start.max(self.rcv_nxt)..seq.end);
            if let Some(first) = self.queued.first()
                && first.start <= self.rcv_nxt
            {
                self.rcv_nxt = first.end;
                self.queued.remove_below(self.rcv_nxt);
            }
            self.recent.retain(|range| range.start != seq.start);
            self.recent.insert(0, seq.clone());
            self.recent.truncate(64);
        }
        let immediate = known || had_holes || !in_order;
        let bytes = (seq.end - seq.start) as u32;
        let arrival =
            Arrival { bytes, segment: bytes, immediate, news: News::InOrder, polled: false };
        self.delayed.on_data(&arrival, &PathSeen::default(), self.now);
    }

    fn send_ack(&mut self) {
        self.delayed.on_ack_sent(self.now);
        let dsack = self.dsack.take();
        let mut blocks: Vec<Range<u64>> = Vec::new();
        let room = if self.plan.timestamps { 3 } else { 4 } - usize::from(dsack.is_some());
        for recent in self.recent.clone() {
            let Some(block) = self.queued.iter().find(|range| range.contains(&recent.start)) else {
                continue;
            };
            if blocks.len() < room && !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        self.last_ack_sent = self.rcv_nxt;
        let (cum_ack, ts_ecr) = (self.rcv_nxt, self.ts_recent);
        if self.rng.random_bool(self.plan.ack_loss) {
            return;
        }
        let copies = 1 + u64::from(self.rng.random_bool(self.plan.duplicate / 2.0));
        for _ in 0..copies {
            let at = self.now + self.plan.one_way + self.held_back();
            let (blocks, dsack) = (blocks.clone(), dsack.clone());
            let blocks = if self.plan.sack { blocks } else { Vec::new() };
            let dsack = dsack.filter(|_| self.plan.sack);
            self.schedule(at, Event::Ack { cum_ack, blocks, dsack, ts_ecr });
        }
    }

    fn acknowledged(
        &mut self,
        cum_ack: u64,
        sack: &[Range<u64>],
        dsack: Option<Range<u64>>,
        ts_ecr: Instant,
    ) {
        let stamped = self.plan.timestamps;
        let first = self.sender.first_retransmission_at();
        let ack = PlainAck {
            cum_ack,
            sack,
            dsack,
            ts_rtt: stamped.then(|| self.now - ts_ecr),
            ts_is_coarse: false,
            echoes_original: stamped && first.is_some_and(|first| ts_ecr < first),
            is_pure_ack: true,
        };
        let before = self.sender.in_flight();
        let news = self.sender.on_ack(&ack, self.now);
        assert_eq!(news.prior_in_flight, before, "{:?}", self.plan);
        assert_eq!(news.in_flight, self.sender.in_flight(), "{:?}", self.plan);
        self.acked_bytes += news.acked_bytes;
        assert_eq!(self.acked_bytes, news.delivered, "counted once: {:?}", self.plan);
        assert!(self.acked_bytes <= self.total(), "{:?}", self.plan);
        if let Some(rtt) = news.rtt {
            assert!(rtt >= 2 * self.plan.one_way, "{rtt:?}: {:?}", self.plan);
        }
        if self.plan.sack {
            self.assert_pipe_is_what_a_walk_gives();
        }
        self.outcome.rates.extend(news.rate.map(|rate| (rate, news.app_limited)));
        self.outcome.episodes += u64::from(news.recovery_started);
        self.outcome.spurious += u64::from(news.spurious);
        self.outcome.needless += news.needless;
        self.schedule(self.now, Event::Look);
    }

    /// What is in flight by the definition: outstanding, not selectively acknowledged, not lost.
    fn assert_pipe_is_what_a_walk_gives(&self) {
        let sent = &self.sender.sent;
        let outstanding = sent.snd_nxt() - sent.snd_una();
        let pipe = outstanding - sent.sacked_bytes_by_walking() - sent.lost_bytes_by_walking();
        assert_eq!(self.sender.in_flight(), pipe, "{:?}", self.plan);
    }
}
