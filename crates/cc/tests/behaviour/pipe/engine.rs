//! The machine behind [`Path`](super::Path): events in order of time, ties in order of insertion.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;
use tack_cc::{
    AckSample, CongestionControl, Controller, LossKind, LossSample, Pacer, PacerConfig, RateSample,
    RateSource,
};
use tack_units::{Instant, Rate};

use super::policed::Policed;
use super::{Feedback, MSS, Path, Sight, Trace};

#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Number of the segment this transmission carries.
    segment: u64,
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    app_limited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Packets arrive at the receiver, marked or not.
    Arrive(Vec<(u64, bool)>),
    /// Feedback number arrives at the sender.
    Feedback(u64),
    LinkDone,
    Receiver,
    Sender,
}

/// What one feedback says.
#[derive(Clone, Debug)]
struct Report {
    packets: Vec<u64>,
    rate: Option<Rate>,
    /// Time the newest of `packets` waited for this feedback.
    delay: Duration,
    /// Highest number of a marked packet so far; 0 if none.
    marked: u64,
    interval: Duration,
}

pub(super) struct Pipe {
    path: Path,
    trace: Trace,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    serial: u64,
    random: Pcg32,
    // Sender.
    cc: CongestionControl,
    pacer: Pacer,
    outstanding: BTreeMap<u64, Sent>,
    next: u64,
    /// Segments sent and not yet acknowledged, those to be sent again, and the next new one.
    unacked: BTreeSet<u64>,
    lost: VecDeque<u64>,
    next_segment: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    app_limited_until: u64,
    recovery_point: u64,
    marked_until: u64,
    largest_acked: u64,
    srtt: Option<Duration>,
    rtt_min: Option<Duration>,
    heard: Instant,
    timer: Option<Instant>,
    // Link.
    policed: Policed,
    queue: VecDeque<(u64, bool)>,
    on_air: Vec<(u64, bool)>,
    busy: bool,
    // Receiver.
    received: u64,
    /// `(when, received)` at the newest arrival of earlier feedbacks.
    marks: VecDeque<(Instant, u64)>,
    unreported: Vec<u64>,
    since_feedback: u64,
    last_feedback: Instant,
    arrived: Instant,
    marked: u64,
    reports: BTreeMap<u64, Report>,
    next_report: u64,
}

impl Pipe {
    pub(super) fn new(path: Path, cc: CongestionControl) -> Self {
        let config = PacerConfig::new(MSS as u32);
        Self {
            random: Pcg32::new(path.seed, 7),
            path,
            trace: Trace::default(),
            now: Instant::ZERO,
            events: BinaryHeap::new(),
            serial: 0,
            cc,
            pacer: Pacer::new(config, Instant::ZERO),
            outstanding: BTreeMap::new(),
            next: 1,
            unacked: BTreeSet::new(),
            lost: VecDeque::new(),
            next_segment: 1,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited_until: 0,
            recovery_point: 0,
            marked_until: 0,
            largest_acked: 0,
            srtt: None,
            rtt_min: None,
            heard: Instant::ZERO,
            timer: None,
            policed: Policed::default(),
            queue: VecDeque::new(),
            on_air: Vec::new(),
            busy: false,
            received: 0,
            marks: VecDeque::from([(Instant::ZERO, 0)]),
            unreported: Vec::new(),
            since_feedback: 0,
            last_feedback: Instant::ZERO,
            arrived: Instant::ZERO,
            marked: 0,
            reports: BTreeMap::new(),
            next_report: 0,
        }
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((when, self.serial, event)));
    }

    fn chance(&mut self, probability: f64) -> bool {
        f64::from(self.random.next_u32()) < probability * f64::from(u32::MAX)
    }

    pub(super) fn run(mut self, end: Instant) -> Trace {
        self.at(Instant::ZERO, Event::Sender);
        while let Some(Reverse((when, _, event))) = self.events.pop() {
            if when > end {
                break;
            }
            self.now = when;
            match event {
                Event::Arrive(packets) => self.arrive(&packets),
                Event::Feedback(number) => self.on_feedback(number),
                Event::LinkDone => self.link_done(),
                Event::Receiver => self.receiver_timer(),
                Event::Sender => {
                    self.timer = None;
                    self.check_timeout();
                    self.send();
                }
            }
        }
        self.trace
    }

    // --- Sender -----------------------------------------------------------------------------

    fn in_flight(&self) -> u64 {
        self.outstanding.len() as u64 * MSS
    }

    fn wake(&mut self, when: Instant) {
        if self.timer.is_none_or(|t| when < t) {
            self.timer = Some(when);
            self.at(when, Event::Sender);
        }
    }

    fn send(&mut self) {
        if let Some(pause) = self.path.idle.iter().find(|p| (p.0..p.1).contains(&self.now)) {
            return self.wake(pause.1);
        }
        self.pacer.set_rate(self.cc.pacing_rate(), self.now);
        while self.in_flight() + MSS <= self.cc.window() {
            if self.pacer.budget(self.now) < MSS {
                let when = self.pacer.next_departure(self.now);
                return self.wake(when);
            }
            self.transmit();
        }
        if !self.outstanding.is_empty() {
            self.wake(self.heard + self.timeout());
        }
    }

    fn transmit(&mut self) {
        if self.outstanding.is_empty() {
            self.first_sent = self.now;
            self.delivered_at = self.now;
            self.heard = self.now;
        }
        // The application pauses right after this one.
        let soon = self.now + Duration::from_millis(1);
        let pausing = self.path.idle.iter().any(|p| p.0 > self.now && p.0 <= soon);
        if pausing {
            self.app_limited_until = self.delivered + self.in_flight() + MSS;
        }
        let app_limited = self.app_limited_until > self.delivered;
        let segment = self.lost.pop_front().unwrap_or(self.next_segment);
        self.next_segment = self.next_segment.max(segment + 1);
        self.unacked.insert(segment);
        let sent = Sent {
            segment,
            at: self.now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited,
        };
        self.outstanding.insert(self.next, sent);
        self.pacer.on_sent(MSS, self.now);
        let in_flight = self.in_flight();
        self.cc.on_sent(MSS, in_flight, pausing, self.now);
        self.pacer.set_rate(self.cc.pacing_rate(), self.now);
        let packet = self.next;
        self.next += 1;
        let counted_out = self.path.lose_every.is_some_and(|n| packet.is_multiple_of(n));
        let policed = self.path.police.is_some_and(|bucket| !self.policed.admit(bucket, self.now));
        if !counted_out && !policed && !self.chance(self.path.loss) {
            self.enqueue(packet);
        }
    }

    fn timeout(&self) -> Duration {
        self.srtt.map_or(Duration::from_secs(1), |s| s * 2 + Duration::from_millis(200))
    }

    fn check_timeout(&mut self) {
        if self.outstanding.is_empty() || self.now < self.heard + self.timeout() {
            return;
        }
        let lost_bytes = self.in_flight();
        let outstanding = core::mem::take(&mut self.outstanding);
        self.lost.extend(outstanding.values().map(|sent| sent.segment));
        self.heard = self.now;
        self.trace.timeouts += 1;
        let kind = LossKind::Timeout;
        self.recovery_point = self.next_segment;
        self.cc.on_loss(&LossSample { now: self.now, kind, lost_bytes, in_flight: 0 });
    }

    fn on_feedback(&mut self, number: u64) {
        let report = self.reports.remove(&number).expect("sent once");
        self.heard = self.now;
        let prior_in_flight = self.in_flight();
        let mut newest: Option<Sent> = None;
        let mut acked_bytes = 0;
        for &packet in &report.packets {
            self.largest_acked = self.largest_acked.max(packet);
            self.delivered += MSS;
            if let Some(sent) = self.outstanding.remove(&packet) {
                acked_bytes += MSS;
                self.unacked.remove(&sent.segment);
                newest = newest.filter(|n| n.at > sent.at).or(Some(sent));
            }
        }
        let rtt = newest.map(|sent| (self.now - sent.at).saturating_sub(report.delay));
        if let Some(rtt) = rtt {
            self.srtt = Some(self.srtt.map_or(rtt, |s| (s * 7 + rtt) / 8));
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |m| m.min(rtt)));
        }
        let (lost_bytes, lost_sent_at) = self.declare_lost();
        self.trace.losses += lost_bytes / MSS;
        if lost_bytes > 0 && !self.in_recovery() {
            self.recovery_point = self.next_segment;
            let (kind, in_flight) = (LossKind::Recovery, self.in_flight());
            self.cc.on_loss(&LossSample { now: self.now, kind, lost_bytes, in_flight });
        }
        let marked = report.marked > self.marked_until;
        if marked {
            self.marked_until = self.next - 1;
            let (kind, in_flight) = (LossKind::CongestionExperienced, self.in_flight());
            self.cc.on_loss(&LossSample { now: self.now, kind, lost_bytes: 0, in_flight });
        }
        let ack = AckSample {
            now: self.now,
            acked_bytes,
            lost_bytes,
            delivered: self.delivered,
            prior_in_flight,
            in_flight: self.in_flight(),
            rtt,
            srtt: self.srtt,
            queued: None,
            rtt_min: self.rtt_min,
            rate: newest.and_then(|sent| self.rate_sample(sent, &report)),
            newest_sent_at: newest.map(|sent| sent.at),
            lost_sent_at,
            ack_interval: report.interval,
            cwnd_limited: self.app_limited_until <= self.delivered,
            in_recovery: self.in_recovery(),
            ece: marked,
        };
        if let Some(sent) = newest {
            self.first_sent = sent.at;
        }
        self.delivered_at = self.now;
        self.cc.on_ack(&ack);
        let queue_bytes = (self.queue.len() + self.on_air.len()) as u64 * MSS;
        self.trace.sights.push(Sight {
            at: self.now,
            snapshot: self.cc.snapshot(),
            in_flight: self.in_flight(),
            queue_bytes,
            rtt: rtt.unwrap_or_default(),
        });
        self.send();
    }

    /// Everything outstanding when the last episode began is acknowledged, or not [RFC 6582].
    fn in_recovery(&self) -> bool {
        self.unacked.first().is_some_and(|una| *una < self.recovery_point)
    }

    /// Three packets sent later have arrived: this one is lost.
    fn declare_lost(&mut self) -> (u64, Option<Instant>) {
        let mut lost = (0, None);
        while let Some(oldest) = self.outstanding.first_entry() {
            if oldest.key() + 3 > self.largest_acked {
                break;
            }
            let sent = oldest.remove();
            self.lost.push_back(sent.segment);
            lost = (lost.0 + MSS, Some(sent.at));
        }
        lost
    }

    fn rate_sample(&self, sent: Sent, report: &Report) -> Option<RateSample> {
        let prior_delivered = sent.delivered;
        let app_limited = sent.app_limited;
        if self.path.feedback == Feedback::Tack {
            let (source, interval) = (RateSource::Receiver, report.interval * 2);
            let delivery_rate = Some(report.rate?);
            return Some(RateSample {
                delivery_rate,
                app_limited,
                source,
                prior_delivered,
                interval,
            });
        }
        let interval = (sent.at - sent.first_sent).max(self.now - sent.delivered_at);
        let bytes = self.delivered - sent.delivered;
        let delivery_rate =
            if interval < self.rtt_min? { None } else { Rate::from_bytes_over(bytes, interval) };
        let source = RateSource::Sender;
        Some(RateSample { delivery_rate, app_limited, source, prior_delivered, interval })
    }

    // --- Bottleneck -------------------------------------------------------------------------

    fn enqueue(&mut self, packet: u64) {
        let queued = self.queue.len() as u64 * MSS;
        if queued + MSS > self.path.buffer_bytes {
            return;
        }
        let marked = self.path.mark_above.is_some_and(|limit| queued > limit);
        self.queue.push_back((packet, marked));
        if !self.busy {
            self.serve();
        }
    }

    fn serve(&mut self) {
        let count = self.queue.len().min(self.path.aggregate);
        if count == 0 {
            return;
        }
        self.busy = true;
        self.on_air = self.queue.drain(..count).collect();
        let changed = self.path.changes.iter().rev().find(|c| c.0 <= self.now);
        let rate = changed.map_or(self.path.rate, |c| c.1);
        let mut begin = self.now;
        if !self.path.contention.is_zero() {
            let share = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
            begin += self.path.contention.mul_f64(2.0 * share);
        }
        if let Some(pause) = self.path.suspended.iter().find(|p| (p.0..p.1).contains(&begin)) {
            begin = pause.1;
        }
        let airtime = rate.time_for(count as u64 * MSS).expect("the path has a rate");
        self.at(begin + airtime, Event::LinkDone);
    }

    fn link_done(&mut self) {
        let packets = core::mem::take(&mut self.on_air);
        let when = self.now + self.path.rtt / 2;
        self.at(when, Event::Arrive(packets));
        self.busy = false;
        self.serve();
    }

    // --- Receiver ---------------------------------------------------------------------------

    fn arrive(&mut self, packets: &[(u64, bool)]) {
        for (packet, marked) in packets {
            self.trace.arrivals.push((self.now, MSS));
            self.received += MSS;
            self.arrived = self.now;
            self.unreported.push(*packet);
            self.since_feedback += 1;
            self.marked = self.marked.max(if *marked { *packet } else { 0 });
            if self.is_due() {
                self.report();
            }
        }
        if !self.unreported.is_empty() {
            let wait = self.interval().max(Duration::from_millis(25));
            let next = match self.path.feedback {
                Feedback::Every(_) => self.now + Duration::from_millis(40),
                Feedback::Tack if self.since_feedback >= 2 => self.last_feedback + self.interval(),
                Feedback::Tack => self.now + wait,
            };
            self.at(next, Event::Receiver);
        }
    }

    /// `1/f` by Eq. 4, from what the sender believes.
    fn interval(&self) -> Duration {
        let alpha = self.rtt_min.unwrap_or_default() / 4;
        let bw = self.cc.snapshot().bandwidth;
        let counting = bw.and_then(|bw| bw.time_for(2 * MSS)).unwrap_or_default();
        alpha.max(counting)
    }

    fn is_due(&self) -> bool {
        match self.path.feedback {
            Feedback::Every(n) => self.since_feedback >= n,
            Feedback::Tack if self.cc.snapshot().startup => true,
            Feedback::Tack => {
                let alpha = self.rtt_min.unwrap_or_default() / 4;
                self.since_feedback >= 2 && self.now >= self.last_feedback + alpha
            }
        }
    }

    fn receiver_timer(&mut self) {
        let flush = match self.path.feedback {
            Feedback::Every(_) => Duration::from_millis(40),
            Feedback::Tack if self.since_feedback >= 2 => self.interval(),
            Feedback::Tack => self.interval().max(Duration::from_millis(25)),
        };
        if !self.unreported.is_empty() && self.now >= self.last_feedback + flush {
            self.report();
        }
    }

    fn report(&mut self) {
        let tack = self.path.feedback == Feedback::Tack;
        let interval = if tack { self.interval() } else { Duration::ZERO };
        // Over two intervals at least, from arrival to arrival.
        let since = self.marks.iter().rev().find(|m| self.arrived >= m.0 + interval * 2);
        let since = *since.unwrap_or(&self.marks[0]);
        let rate = Rate::from_bytes_over(self.received - since.1, self.arrived - since.0);
        self.marks.push_back((self.arrived, self.received));
        if self.marks.len() > 1_000 {
            self.marks.pop_front();
        }
        let report = Report {
            packets: core::mem::take(&mut self.unreported),
            rate,
            delay: if tack { self.now - self.arrived } else { Duration::ZERO },
            marked: self.marked,
            interval: if self.cc.snapshot().startup { Duration::ZERO } else { interval },
        };
        self.since_feedback = 0;
        self.last_feedback = self.now;
        self.trace.feedbacks += 1;
        if self.chance(self.path.feedback_loss) {
            // What it told, the next one tells.
            self.unreported = report.packets;
            return;
        }
        let number = self.next_report;
        self.next_report += 1;
        self.reports.insert(number, report);
        let when = self.now + self.path.rtt / 2;
        self.at(when, Event::Feedback(number));
    }
}
