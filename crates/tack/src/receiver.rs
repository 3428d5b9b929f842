//! The receiving half: decides when to acknowledge and what to say.
//!
//! ```text
//!             schedule  when is a TACK due (Eq. 4)         ─┐
//!             late      how late the host comes to that    ─┤
//! on_data ──► loss      gap in PKT.SEQ, settled            ─┤
//!             owd       which packet times the round trip  ─┼─► poll ──► TACK or IACK
//!             delivery  delivery rate, rho                 ─┤
//!             report    which holes to list (Eq. 5)        ─┤
//! on_window ► window    abrupt change of the window        ─┘
//! ```

mod delivery;
mod in_vain;
mod late;
mod loss;
mod owd;
mod report;
mod schedule;
mod unheard;
mod window;

use core::time::Duration;

use tack_units::{Instant, earliest};

use crate::feedback::{Frequency, Iack, IackReason, Regime, Tack};
use crate::{Params, Ranges, RbbPolicy, equations};

use delivery::{DataLoss, Delivery};
use in_vain::InVain;
use late::Lateness;
use loss::LossDetector;
use owd::OneWayDelay;
use schedule::{Schedule, Urgency};
use unheard::Unheard;
use window::{Offer, WindowWatch};

/// A data packet arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its PKT.SEQ, expanded.
    pub pkt_seq: u64,
    /// Bytes of data it carries, had before or not (0 for a bare FIN or probe).
    pub bytes: u64,
    /// Its departure timestamp: microseconds of the sender's clock, modulo 2^32.
    pub departure_us: u32,
    /// Its arrival by our own clock in microseconds, same width; only differences matter.
    pub arrival_us: u32,
    /// It was the last of a push (PSH), see [`Params::ack_on_push`].
    pub push: bool,
    /// Acknowledge at once: FIN, or a request of the host (out-of-window data, keepalive).
    pub immediate: bool,
    /// It was CE-marked.
    pub ce: bool,
    /// It brought nothing new (a needless retransmission or a duplicate).
    pub duplicate: bool,
}

/// What the host holds that a report needs; borrowed, because reassembly is the host's.
///
/// SEQ is the host's unit: bytes of one stream, where a hole is filled by a retransmission, or
/// PKT.SEQ itself, where a hole stays and `rcv_nxt` is a floor that the host raises.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// Next byte expected; of packets, the floor below which no number is told of any more, at most
    /// [`Receiver::settled_below`].
    pub rcv_nxt: u64,
    /// What has arrived above `rcv_nxt`.
    pub queued: &'a Ranges,
    /// Distinct bytes of data that arrived on the connection so far, by any constant offset.
    pub delivered: u64,
    /// Receive window now offered, bytes from `rcv_nxt`. `u64::MAX`, as `capacity`, where flow
    /// control has messages of its own: there are no window IACKs then.
    pub window: u64,
    /// Size of the whole receive buffer, bytes.
    pub capacity: u64,
}

impl Buffer<'_> {
    fn rcv_high(&self) -> u64 {
        self.queued.last().map_or(self.rcv_nxt, |r| r.end.max(self.rcv_nxt))
    }

    fn offer(&self) -> Offer {
        Offer {
            rcv_nxt: self.rcv_nxt,
            rcv_high: self.rcv_high(),
            window: self.window,
            capacity: self.capacity,
        }
    }
}

/// What to send now.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// A TACK.
    Tack(Tack),
    /// An IACK.
    Iack(Iack),
}

/// The receiving half of the mechanism. Poll it after every call that changed it.
///
/// - **Input**: [`on_data`](Self::on_data), [`on_window`](Self::on_window),
///   [`on_frequency`](Self::on_frequency), [`on_rtt_update`](Self::on_rtt_update).
/// - **Output**: [`poll`](Self::poll) until `None`, then wait for [`deadline`](Self::deadline).
///
/// RTTmin is not measured here: it is that of the last [`Frequency`], before the first one that of
/// the handshake, and while that is unknown, too, every `L` segments are acknowledged.
#[derive(Debug)]
pub struct Receiver {
    params: Params,
    schedule: Schedule,
    /// When the next TACK is due, once [`Self::poll`] has worked it out and until that changes:
    /// whoever polled in vain asks for the deadline next.
    due: Option<Option<Instant>>,
    late: Lateness,
    loss: LossDetector,
    in_vain: InVain,
    owd: OneWayDelay,
    delivery: Delivery,
    data_loss: DataLoss,
    window: WindowWatch,
    /// `rcv_high` after the last arrival.
    rcv_high: Option<u64>,
    counter: u32,
    /// When a TACK last listed more than one hole.
    listed_at: Option<Instant>,
    duplicates: u32,
    unheard: Unheard,
    rho_prime: f64,
    bdp: u64,
    ce: CongestionMarks,
}

impl Receiver {
    /// `first_pkt_seq` is the number of the peer's first data packet if known from negotiation.
    pub fn new(params: Params, first_pkt_seq: u64) -> Self {
        Receiver {
            schedule: Schedule::new(&params),
            due: None,
            late: Lateness::default(),
            loss: LossDetector::new(first_pkt_seq, params.settling_divisor),
            in_vain: InVain::default(),
            owd: OneWayDelay::new(params.owd_timing, params.tau),
            delivery: Delivery::new(),
            data_loss: DataLoss::default(),
            window: WindowWatch::new(params.mss),
            rcv_high: None,
            counter: 0,
            listed_at: None,
            duplicates: 0,
            unheard: Unheard::default(),
            rho_prime: 0.0,
            bdp: 0,
            ce: CongestionMarks::default(),
            params,
        }
    }

    /// A data packet arrived; the host has already put it into its buffer. O(log N) in the number
    /// of gaps, O(1) without loss; allocates only when a gap appears.
    pub fn on_data(&mut self, arrival: &Arrival, buffer: Buffer<'_>, now: Instant) {
        self.late.on_awake(now);
        let rcv_high = self.rcv_high.unwrap_or(buffer.rcv_nxt);
        let expected = self.loss.on_arrival(arrival.pkt_seq, rcv_high, now);
        self.rcv_high = Some(buffer.rcv_high());
        self.data_loss.on_expected(expected.unwrap_or(0));
        // What the path itself doubled says nothing about retransmissions.
        let needless = arrival.duplicate && expected.is_some();
        self.unheard.on_arrival(needless && self.rho_prime > 0.0);
        if needless {
            self.duplicates = self.duplicates.wrapping_add(1);
        }
        let departed = self.owd.on_arrival(arrival.departure_us, arrival.arrival_us, now);
        self.delivery.on_arrival(buffer.delivered, departed, now);
        self.ce.on_arrival(arrival.ce);
        let urgency = if arrival.immediate || (arrival.push && self.params.ack_on_push) {
            Urgency::AtOnce
        } else if needless {
            Urgency::Needless
        } else {
            Urgency::None
        };
        self.schedule_anew().on_arrival(arrival.bytes, urgency, now);
        self.schedule.on_queue(equations::stretching(self.owd.queued(), &self.link()));
        self.window.update(buffer.offer());
    }

    /// A packet arrived that asks for no acknowledgment, such as one that only acknowledges where
    /// those have a PKT.SEQ, too: its number is no gap, and it starts no TACK.
    pub fn on_unasked(&mut self, pkt_seq: u64, buffer: Buffer<'_>, now: Instant) {
        let rcv_high = self.rcv_high.unwrap_or(buffer.rcv_nxt);
        let expected = self.loss.on_arrival(pkt_seq, rcv_high, now);
        self.rcv_high = Some(buffer.rcv_high());
        self.data_loss.on_expected(expected.unwrap_or(0));
    }

    /// The application took data from the buffer, or its size changed.
    pub fn on_window(&mut self, buffer: Buffer<'_>, _now: Instant) {
        self.window.update(buffer.offer());
    }

    /// The host's handshake took `rtt`: what is assumed until the sender tells a frequency.
    pub fn on_handshake(&mut self, rtt: Duration) {
        let frequency = equations::startup_interval(rtt, self.params.startup);
        self.schedule_anew().on_handshake(frequency, rtt);
        self.loss.set_rtt_min(rtt);
    }

    /// Full-sized segments are of another length from now on, in bytes: what arrives is counted by it.
    pub fn set_mss(&mut self, mss: u32) {
        self.params.mss = mss.max(1);
        self.schedule_anew().set_mss(mss);
    }

    /// A data packet leaves now that acknowledges; `says_all`: everything that has arrived, as an
    /// ACK frame does, and a cumulative acknowledgment where nothing is queued beyond it.
    pub fn on_acknowledged_by_data(&mut self, says_all: bool, now: Instant) {
        self.schedule_anew().on_data_left(says_all, now);
    }

    /// The peer's sender asked for another frequency.
    pub fn on_frequency(&mut self, frequency: &Frequency, _now: Instant) {
        self.schedule_anew().on_frequency(frequency);
        self.loss.set_rtt_min(frequency.rtt_min);
        self.rho_prime = if frequency.rho_prime.is_nan() { 0.0 } else { frequency.rho_prime };
        self.bdp = frequency.bdp;
    }

    /// The peer asked for a fresh RTT sample ([`IackReason::RttUpdate`]): a TACK leaves at once.
    pub fn on_rtt_update(&mut self, now: Instant) {
        self.schedule_anew().demand(now);
    }

    /// What to send now, if anything; call until `None`. `max_holes` bounds the list (what fits
    /// the host's MSS).
    pub fn poll(&mut self, buffer: Buffer<'_>, max_holes: usize, now: Instant) -> Option<Feedback> {
        let feedback = match self.poll_reason(max_holes, now) {
            // It is the TACK that the packets before were waiting for; one that lists holes would be longer than the IACK.
            Some(IackReason::Window)
                if self.tells_by_tack() && self.schedule.owes() && buffer.queued.is_empty() =>
            {
                self.schedule_anew().demand(now);
                Feedback::Tack(self.tack(buffer, max_holes, now))
            }
            Some(IackReason::Loss { gaps }) if self.tells_by_tack() => {
                self.schedule_anew().demand(now);
                // Where every hole is listed, those are of packets, too.
                let lost = if self.params.rbb == RbbPolicy::Every { Vec::new() } else { gaps };
                let max_holes = max_holes.saturating_sub(lost.len());
                Feedback::Tack(Tack { lost, ..self.tack(buffer, max_holes, now) })
            }
            Some(reason) => {
                Feedback::Iack(Iack { cum_ack: buffer.rcv_nxt, window: buffer.window, reason })
            }
            None if self.poll_due(now) => Feedback::Tack(self.tack(buffer, max_holes, now)),
            None => return None,
        };
        self.window.on_told(buffer.offer());
        Some(feedback)
    }

    fn poll_reason(&mut self, room: usize, now: Instant) -> Option<IackReason> {
        let gaps = self.loss.poll(room, now);
        if !gaps.is_empty() {
            self.data_loss.on_lost(gaps.iter().map(|gap| gap.end - gap.start).sum());
            if self.params.loss_iacks {
                return Some(IackReason::Loss { gaps });
            }
        }
        if let Some(marked) = self.ce.poll() {
            return Some(IackReason::CongestionExperienced { marked });
        }
        self.window.wanted().then_some(IackReason::Window)
    }

    fn tack(&mut self, buffer: Buffer<'_>, max_holes: usize, now: Instant) -> Tack {
        let rho_of_interval = self.data_loss.on_tack();
        let link = self.link();
        let settled_below = self.loss.settled_below();
        let announced = self.settled_below().min(buffer.rcv_high());
        let (rtt_min, alpha) = (self.schedule.rtt_min(), self.schedule.alpha());
        let old_below = self.in_vain.on_tack(announced, rtt_min, alpha, now);
        // Holes ascend, and the oldest were announced first.
        let in_vain = !buffer.queued.is_empty() && buffer.rcv_nxt < old_below;
        let rho = self.data_loss.rho();
        let max_holes = if self.lists_again(now) { max_holes } else { max_holes.min(1) };
        let room = report::room(self.params.rbb, max_holes, in_vain, rho, self.rho_prime, &link);
        let listed = report::report(buffer.rcv_nxt, buffer.queued, settled_below, room);
        if listed.holes.len() > 1 {
            self.listed_at = Some(now);
        }
        let ahead = self.ahead();
        self.schedule_anew().on_tack(ahead, now);
        self.unheard.on_tack(alpha, rtt_min, now);
        self.counter = self.counter.wrapping_add(1);
        Tack {
            counter: self.counter,
            cum_ack: buffer.rcv_nxt,
            timing: self.owd.take(now),
            delivery_rate: self.delivery.on_tack(self.measuring_window(), self.owd.queued()),
            rho: rho_of_interval,
            received_in_flight: buffer.queued.covered(),
            window: buffer.window,
            largest_pkt_seq: self.loss.largest(),
            rcv_high: buffer.rcv_high(),
            holes: listed.holes,
            holes_complete: listed.complete,
            lost: Vec::new(),
            settled_below: announced,
            interval: self.schedule.alpha(),
            regime: self.schedule.regime(),
            duplicates: self.duplicates,
        }
    }

    /// Of TACKs that losses brought close together not each repeats the list, or a thin return path would carry
    /// little else.
    fn lists_again(&self, now: Instant) -> bool {
        let again = |at| now + self.schedule.alpha() / 8 >= at + self.schedule.alpha();
        self.params.rbb != RbbPolicy::OnDemand || self.listed_at.is_none_or(again)
    }

    fn link(&self) -> equations::Link {
        equations::Link {
            bdp: self.bdp,
            beta: self.params.beta,
            segments_per_ack: self.schedule.segments_per_ack(),
            mss: self.params.mss,
        }
    }

    /// Over how long rates are measured: two TACK intervals; half an RTTmin where each packet is
    /// acknowledged.
    fn measuring_window(&self) -> Duration {
        let two = self.schedule.alpha().saturating_mul(2);
        if two.is_zero() { self.schedule.rtt_min() / 2 } else { two }
    }

    /// When [`Self::poll`] next has something to say without further input. In the past when it
    /// has something to say already.
    pub fn deadline(&self) -> Option<Instant> {
        if self.window.wanted() || self.ce.wanted() {
            return Some(Instant::ZERO);
        }
        earliest(self.due(), self.loss.deadline())
    }

    /// The schedule, to be changed: when the next TACK is due is not known any more.
    fn schedule_anew(&mut self) -> &mut Schedule {
        self.due = None;
        self.late.on_told(None);
        &mut self.schedule
    }

    /// Whether the host would come too late for the next TACK.
    fn poll_due(&mut self, now: Instant) -> bool {
        self.late.on_awake(now);
        let due = *self.due.insert(self.due());
        let is_due = due.is_some_and(|due| due <= now + self.ahead());
        self.late.on_told(due.filter(|due| *due > now));
        is_due
    }

    /// What is due so soon leaves now, since the host would come late for it.
    fn ahead(&self) -> Duration {
        self.late.usual_of(self.schedule.rtt_min())
    }

    /// When the next TACK is due.
    fn due(&self) -> Option<Instant> {
        let anew = || {
            let by_schedule = self.schedule.due().map(|at| match self.tells_by_tack() {
                true => self.loss.settled_soon(at),
                false => at,
            });
            earliest(by_schedule, self.unheard.due())
        };
        self.due.unwrap_or_else(anew)
    }

    /// A loss is told by a TACK with the rest of what is known, not by an IACK beside the TACKs, and so is a window where
    /// packets wait for a TACK anyway. The paper's policies have the paper's IACKs.
    fn tells_by_tack(&self) -> bool {
        let together = matches!(self.params.rbb, RbbPolicy::Every | RbbPolicy::OnDemand);
        together && self.params.loss_iacks
    }

    /// What [`Self::poll`] says next tells of a loss, at `now`.
    pub fn tells_loss(&self, now: Instant) -> bool {
        self.params.loss_iacks && self.loss.deadline().is_some_and(|at| at <= now)
    }

    /// What is missing of SEQ space below this is lost: each of its holes has settled. A host that
    /// forgets holes forgets none above it, or a packet that is late would count as had before.
    /// `u64::MAX` when nothing waits to settle.
    pub fn settled_below(&self) -> u64 {
        self.loss.settled_below().unwrap_or(u64::MAX)
    }

    /// Regime in force, as the peer's sender asked for.
    pub fn regime(&self) -> Regime {
        self.schedule.regime()
    }

    /// `alpha` in force; zero until the peer's sender has told it.
    pub fn interval(&self) -> Duration {
        self.schedule.alpha()
    }

    /// How long packets may lie unread without harm: a quarter of `alpha` in the regime of Eq. 4, where
    /// what is said waits for as long as `alpha` anyway; none in Startup, which measures how packets
    /// are spaced. A host whose packets come one by one saves most of its wake-ups with it.
    ///
    /// The delays it adds are no path's: the least of a TACK interval [TON §V-C] is that of a packet
    /// which came as the host looked. The rate is taken over more than two intervals.
    pub fn leeway(&self) -> Duration {
        match self.regime() {
            Regime::Startup => Duration::ZERO,
            Regime::Steady => self.interval() / 4,
        }
    }

    /// A round trip as it is now: the RTTmin in force and what packets wait on the way here, but for the queue that
    /// a sender makes which probes for bandwidth. `None` before an RTTmin is known.
    pub fn round_trip(&self) -> Option<Duration> {
        let rtt_min = self.schedule.rtt_min();
        let queued = match self.regime() {
            Regime::Startup => Duration::ZERO,
            Regime::Steady => self.owd.queued(),
        };
        (!rtt_min.is_zero()).then(|| rtt_min + queued)
    }

    /// rho over the last few thousand packets, in [0, 1].
    pub fn rho(&self) -> f64 {
        self.data_loss.rho()
    }

    /// TACKs sent so far, modulo 2^32.
    pub fn tacks(&self) -> u32 {
        self.counter
    }

    /// Transmissions that brought nothing new, modulo 2^32; what the path doubled is none.
    pub fn duplicates(&self) -> u32 {
        self.duplicates
    }
}

/// Transitions to CE-marked packets, told at once [RFC 9768 §3.2.2.5.1].
#[derive(Debug, Default)]
struct CongestionMarks {
    marked: u64,
    last_was_marked: bool,
    wanted: bool,
}

impl CongestionMarks {
    fn on_arrival(&mut self, ce: bool) {
        self.marked += u64::from(ce);
        self.wanted |= ce && !self.last_was_marked;
        self.last_was_marked = ce;
    }

    fn wanted(&self) -> bool {
        self.wanted
    }

    fn poll(&mut self) -> Option<u64> {
        core::mem::take(&mut self.wanted).then_some(self.marked)
    }
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;
