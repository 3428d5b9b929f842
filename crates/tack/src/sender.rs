//! The sending half: what is in flight, what is lost, how long a round trip takes.
//!
//! ```text
//!                       ack_loss      age of the TACK, rho'
//! on_tack ─► hostile? ─► log          received, lost        ─► Acked ─► congestion control
//! on_iack                once_per_rtt refuses early repeats
//! on_cum_ack             rtt, rtt_min round trips
//!                        recovery     episodes, needless    ─► next_lost ─► host ─► on_sent
//!                        timer        probe, RTO            ─► deadline
//!                        frequency    Eq. 4 to the receiver ─► poll_frequency
//! ```

mod ack_loss;
mod answer;
mod app_limited;
mod bytes;
mod figures;
mod frequency;
mod log;
mod needless;
mod once_per_rtt;
mod overdue;
mod packets;
mod patience;
mod recovery;
mod return_path;
mod rtt;
mod rtt_min;
mod stretch;
mod tail_probe;
mod timer;
mod transmissions;

use core::cell::Cell;
use core::ops::Range;
use core::time::Duration;

use tack_units::{Instant, Rate, math};

use crate::Params;
use crate::feedback::{Acked, Frequency, Iack, IackReason, MAX_HOLES, Tack};
use crate::quota::quota;

use ack_loss::{AckLoss, Age};
use app_limited::AppLimited;
pub use bytes::{Bytes, Outstanding};
use frequency::{Estimates, FrequencySync};
use log::{Receipts, Records, Segment};
use needless::Needless;
use once_per_rtt::OncePerRtt;
pub use packets::{Fate, Packets};
use recovery::{News, Recovery};
use return_path::ReturnPath;
use rtt::Rtt;
use rtt_min::RttMin;
use tail_probe::{Probed, TailProbe};
use timer::{Path, Timer};

/// Why a timer of the sender fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Send a probe: new data if any, else the last segment again [RFC 8985 §7].
    Probe,
    /// Retransmission timeout: everything unacknowledged is lost [RFC 6298 §5].
    Rto,
}

/// Loss beyond which silence says nothing.
const MOST_LOSS: f64 = 0.9;

/// The sending half of the mechanism.
///
/// Its log is the host's choice: [`Bytes`] of one stream, whose holes retransmissions fill, or
/// [`Packets`], which are retired when they are lost.
///
/// - **Input**: [`on_sent`](Self::on_sent) or [`on_packet`](Self::on_packet),
///   [`on_tack`](Self::on_tack), [`on_iack`](Self::on_iack), [`on_cum_ack`](Self::on_cum_ack),
///   [`on_app_limited`](Self::on_app_limited), [`on_timeout`](Self::on_timeout).
/// - **Output**: [`next_lost`](Self::next_lost) before new data, or [`poll_fate`](Self::poll_fate)
///   after every input; [`poll_frequency`](Self::poll_frequency) after feedback,
///   [`deadline`](Self::deadline).
///
/// Feedback that names bytes or packets never sent is ignored as a whole: the peer lies, or the
/// segment is not of this connection.
#[derive(Debug)]
pub struct Sender<L = Bytes> {
    params: Params,
    sent: L,
    delivered: u64,
    rtt: Rtt,
    rtt_min: RttMin,
    ack_loss: AckLoss,
    recovery: Recovery,
    timer: Timer,
    tail_probe: TailProbe,
    /// As the newest TACK that had one told.
    delivery_rate: Option<Rate>,
    frequency: FrequencySync,
    app_limited: AppLimited,
    retransmissions: u64,
    needless: Needless,
    return_path: ReturnPath,
    /// The largest PKT.SEQ that a TACK told, and since when it is there, by the way back later.
    newest_arrived: (u64, Instant),
    /// rho of the newest TACK.
    rho: f64,
}

impl<L: Records> Sender<L> {
    fn with_log(params: Params, sent: L, now: Instant) -> Self {
        Sender {
            sent,
            delivered: 0,
            rtt: Rtt::default(),
            rtt_min: RttMin::new(params.tau),
            ack_loss: AckLoss::default(),
            recovery: Recovery::default(),
            timer: Timer::new(now),
            tail_probe: TailProbe::default(),
            delivery_rate: None,
            frequency: FrequencySync::default(),
            app_limited: AppLimited::default(),
            retransmissions: 0,
            needless: Needless::default(),
            return_path: ReturnPath::default(),
            newest_arrived: (0, now),
            rho: 0.0,
            params,
        }
    }

    /// A TACK arrived. `clock_us` is the clock that stamps departures, now.
    pub fn on_tack(&mut self, tack: &Tack, clock_us: u32, now: Instant) -> Acked {
        let mut acked = self.before();
        let never_sent = tack.cum_ack > self.sent.nxt()
            || tack.rcv_high > self.sent.nxt()
            || tack.largest_pkt_seq >= self.sent.next_pkt_seq();
        if never_sent {
            return self.after(acked, Receipts::default(), now);
        }
        if self.ack_loss.on_tack(tack.counter) == Age::Stale {
            let receipts = self.sent.acknowledge(tack.cum_ack, None);
            self.lose_gaps(&tack.lost, &mut acked, now);
            return self.after(acked, receipts, now);
        }
        self.rho = tack.rho;
        self.timer.on_tack(tack.timing.map_or(Duration::ZERO, |timing| timing.delay));
        let largest = tack.largest_pkt_seq;
        let mut receipts = self.sent.acknowledge(tack.cum_ack, Some(largest));
        self.sent.set_queued_at_peer(tack.cum_ack, tack.received_in_flight);
        let holes = tack.plausible_holes();
        self.read_receipts(tack, &holes, &mut receipts);
        if let Some(newest) = self.sent.when_sent(largest)
            && receipts.newest.is_none_or(|known| known.pkt_seq < newest.pkt_seq)
        {
            receipts.newest = Some(newest);
        }
        if let Some(sample) = tack.timing.and_then(|t| rtt::sample(t, clock_us)) {
            self.on_rtt(sample, now);
            let queued = tack.timing.map(|t| t.queued);
            self.return_path.on_sample(sample, queued.unwrap_or_default());
            (acked.rtt, acked.queued) = (Some(sample), queued);
        }
        self.undo_timeout(Some(largest), receipts.oldest, &mut acked, now);
        if let Some(below) = self.recovery.lost_below(largest) {
            acked.lost_bytes += self.sent.lose_packets(0..below, |_| true);
        }
        let (guard, lost) = (self.guard(), Cell::new(None));
        for hole in holes.into_iter().filter(|hole| hole.start < tack.settled_below) {
            let allows = |s: &Segment| guard.judges(s, &lost, now);
            acked.lost_bytes += self.sent.lose_hole(hole, largest, allows);
        }
        acked.lost_sent_at = lost.get().filter(|_| acked.lost_bytes > 0);
        self.lose_gaps(&tack.lost, &mut acked, now);
        self.lose_overdue(tack, &mut acked, now);
        match self.tail_probe.on_tack(tack.cum_ack, largest, tack.duplicates, &self.ack_loss) {
            Some(Probed::Loss(bytes)) => acked.lost_bytes += bytes,
            Some(Probed::InVain) => self.timer.on_probe_in_vain(now),
            None => {}
        }
        self.delivery_rate = tack.delivery_rate.or(self.delivery_rate);
        acked.rate = tack.delivery_rate;
        acked.rate_interval =
            tack.delivery_rate.map_or(Duration::ZERO, |_| tack.interval.saturating_mul(2));
        // So few show what the path bears nowhere: they are a pause's, a timeout's, or of a fixed window.
        let most = u64::from(self.params.segments_per_ack) * u64::from(self.params.mss);
        let few = acked.prior_in_flight <= most;
        let paused = self.app_limited.covers(tack.counter, largest, tack.interval, now);
        acked.app_limited = few || paused;
        self.frequency.on_echo(tack.interval, tack.regime, now);
        self.needless.on_peer_count(tack.duplicates, self.retransmissions);
        let acked = self.after(acked, receipts, now);
        self.look_for_missed(tack.timing, &acked, now);
        acked
    }

    /// What lies between the holes that a TACK lists has arrived.
    fn read_receipts(&mut self, tack: &Tack, holes: &[Range<u64>], receipts: &mut Receipts) {
        let largest = Some(tack.largest_pkt_seq);
        let mut at = tack.cum_ack;
        for hole in holes {
            self.sent.receive(at..hole.start, largest, receipts);
            at = hole.end;
        }
        if tack.holes_complete && holes.is_empty() == tack.holes.is_empty() {
            self.sent.receive(at..tack.rcv_high, largest, receipts);
        }
    }

    /// The first news after a timeout, of packet `oldest` and others, may prove it needless; the peer has `largest`.
    fn undo_timeout(
        &mut self,
        largest: Option<u64>,
        oldest: Option<u64>,
        acked: &mut Acked,
        now: Instant,
    ) {
        let delivered = self.sent.delivered();
        if delivered <= self.delivered {
            return;
        }
        let Some(undone) = self.recovery.on_news(News { largest, oldest, delivered }) else {
            return;
        };
        acked.spurious = true;
        self.sent.restore_lost(&undone.lost_before);
        if undone.in_vain {
            self.timer.on_needless(now);
        } else {
            // Packets that are retired are not restored, and nobody tells their loss once more.
            let restored = self.sent.in_flight() + self.sent.lost_bytes();
            acked.lost_bytes += undone.missing.saturating_sub(restored);
        }
    }

    /// An IACK arrived from the peer's receiver.
    pub fn on_iack(&mut self, iack: &Iack, now: Instant) -> Acked {
        let mut acked = self.before();
        if iack.cum_ack > self.sent.nxt() {
            return self.after(acked, Receipts::default(), now);
        }
        let receipts = self.acknowledge(iack.cum_ack, &mut acked, now);
        if let IackReason::Loss { gaps } = &iack.reason {
            self.lose_gaps(gaps, &mut acked, now);
        }
        self.after(acked, receipts, now)
    }

    /// The packets in these gaps are lost.
    fn lose_gaps(&mut self, gaps: &[Range<u64>], acked: &mut Acked, now: Instant) {
        let (guard, lost) = (self.guard(), Cell::new(acked.lost_sent_at));
        let allows = |s: &Segment| guard.judges(s, &lost, now);
        let next = self.sent.next_pkt_seq();
        // A gap lies below a packet that arrived, hence was sent.
        for gap in gaps.iter().take(MAX_HOLES).filter(|gap| gap.end < next) {
            acked.lost_bytes += self.sent.lose_packets(gap.clone(), allows);
        }
        acked.lost_sent_at = lost.get().filter(|_| acked.lost_bytes > 0);
    }

    /// A cumulative acknowledgment arrived otherwise (on a data segment); `rtt` is the host's own
    /// sample if it has one (handshake, timestamps). It counts where no TACK has timed the path for a second.
    pub fn on_cum_ack(&mut self, cum_ack: u64, rtt: Option<Duration>, now: Instant) -> Acked {
        let mut acked = self.before();
        // A controller that looks for queues must not take the peer's delay for one.
        acked.rtt = rtt.filter(|_| self.rtt.srtt().is_none());
        if let Some(rtt) = rtt.filter(|rtt| self.rtt.on_sample(*rtt, now)) {
            self.rtt_min.update(rtt, now);
        }
        let receipts = if cum_ack <= self.sent.nxt() {
            self.acknowledge(cum_ack, &mut acked, now)
        } else {
            Receipts::default()
        };
        self.after_data(acked, receipts, now)
    }

    /// A cumulative acknowledgment, without a TACK's word on what lies beyond it.
    fn acknowledge(&mut self, cum_ack: u64, acked: &mut Acked, now: Instant) -> Receipts {
        let receipts = self.sent.acknowledge(cum_ack, None);
        self.undo_timeout(None, receipts.oldest, acked, now);
        receipts
    }

    /// A round trip without the peer's delay.
    fn on_rtt(&mut self, rtt: Duration, now: Instant) {
        self.rtt.on_timing(rtt, now);
        self.rtt_min.update(rtt, now);
    }

    fn guard(&self) -> OncePerRtt {
        OncePerRtt { rtt: self.rtt_min.get().unwrap_or_default() }
    }

    fn before(&self) -> Acked {
        Acked { prior_in_flight: self.sent.in_flight(), ..Acked::default() }
    }

    /// Completes `acked` after `sent` has taken the feedback in.
    fn after(&mut self, mut acked: Acked, receipts: Receipts, now: Instant) -> Acked {
        let delivered = self.sent.delivered().max(self.delivered);
        acked.acked_bytes = delivered - self.delivered;
        (self.delivered, acked.delivered) = (delivered, delivered);
        acked.prior_delivered = receipts.newest.map_or(0, |newest| newest.delivered);
        acked.newest_sent_at = receipts.newest.map(|newest| newest.sent_at);
        if acked.acked_bytes > 0 || receipts.bytes > 0 {
            self.timer.on_progress(now);
            if let Some(sent_at) = acked.newest_sent_at {
                self.timer.on_age(now - sent_at);
            }
        }
        // Where long ones may not pass at all, the short ones that do tell nothing of a queue.
        if receipts.longest >= u64::from(self.params.mss) * 3 / 4 {
            self.timer.on_full_sized();
        }
        self.timer.on_lowest(self.sent.una(), now);
        acked.needless = self.needless.on_seen(receipts.needless);
        acked.spurious |= self.recovery.on_needless(acked.needless);
        let repacked = self.count_repacked();
        self.recovery.on_acknowledged_but(&repacked, self.sent.una());
        if acked.lost_bytes > 0 {
            self.tail_probe.cancel();
            acked.recovery_started = self.recovery.on_lost(self.sent.nxt(), now);
            if acked.recovery_started {
                self.recovery.on_repacked(&repacked);
            }
            // A probe has repaired it already, perhaps, and there is nothing to wait for.
            self.recovery.on_acknowledged(self.sent.una());
        } else if let Some(srtt) = self.rtt.srtt() {
            self.recovery
                .on_nothing_lost(srtt.saturating_add(self.frequency.alpha_in_force()), now);
        }
        self.fill_timer(now);
        acked.in_flight = self.sent.in_flight();
        acked
    }

    /// The same of feedback that came with data.
    fn after_data(&mut self, acked: Acked, receipts: Receipts, now: Instant) -> Acked {
        let acked = self.after(acked, receipts, now);
        if acked.acked_bytes > 0 {
            let last = acked.newest_sent_at.filter(|_| self.sent.is_empty());
            self.timer.on_told_by_data(last.map(|at| now - at));
        }
        acked
    }

    /// The host sends again, in packets that are new to the log, what these carried.
    fn count_repacked(&mut self) -> Vec<(u64, u32)> {
        let repacked = self.sent.take_repacked();
        self.retransmissions += repacked.len() as u64;
        self.recovery.on_repacked(&repacked);
        repacked
    }

    /// Full-sized segments are of another length from now on, in bytes: Eq. 4 counts by it.
    pub fn set_mss(&mut self, mss: u32) {
        self.params.mss = mss.max(1);
    }

    /// The sender ran out of data: rate samples up to what is now in flight are a lower bound.
    pub fn on_app_limited(&mut self) {
        self.app_limited.on_pause(self.sent.next_pkt_seq());
    }

    fn path(&self) -> Path {
        Path {
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar().unwrap_or_default(),
            usual_rtt: self.rtt.usual(),
            rtt_min: self.rtt_min.get().unwrap_or_default(),
            alpha: self.interval(),
            segments_per_ack: self.params.segments_per_ack,
            flush: self.params.flush,
            drain: self.delivery_rate.and_then(|rate| rate.time_for(self.sent.in_flight())),
            lossy: self.loses_acks(),
            probed_again: L::PROBED_AGAIN,
        }
    }

    /// Timeouts in a row that the loss of both ways brings about with no more than this chance, 0 to 1.
    pub fn timeouts_by_chance(&self, chance: f64) -> u32 {
        let answered = (1.0 - self.rho) * (1.0 - self.rho_prime());
        let failed = (1.0 - answered).clamp(0.0, MOST_LOSS);
        if failed > 0.0 { (math::ln(chance) / math::ln(failed)).ceil() as u32 } else { 0 }
    }

    /// TACKs are lost on the way back: silence may mean nothing else.
    pub fn loses_acks(&self) -> bool {
        self.ack_loss.is_lossy()
    }

    /// `L` full-sized segments, in bytes, at least.
    fn quota(&self) -> u64 {
        quota(self.params.segments_per_ack, self.params.mss)
    }

    /// What is in flight has changed.
    fn fill_timer(&mut self, now: Instant) {
        self.timer.set_full(self.sent.in_flight() >= self.quota(), now);
    }

    /// The receiver acknowledges what left last as soon as it arrives: TCP's FIN [RFC 9293 §3.10.7.4]. If nothing
    /// comes it is lost, and a probe need not wait for a TACK that is held back.
    pub fn expect_answer(&mut self) {
        self.timer.expect_answer();
    }

    /// The lowest outstanding was lost at two timeouts, or for eight RTOs, while others of its size arrived: it is to leave alone,
    /// and nothing after it until something arrives. To be asked after each [`Timeout::Rto`]; never so of [`Packets`],
    /// whose numbers are not sent again.
    pub fn repairs_alone(&self) -> bool {
        self.timer.is_alone()
    }

    /// When a timer of the sender fires; `None` when nothing is outstanding.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.sent.is_empty()).then(|| self.timer.deadline(self.path()))
    }

    /// To be called when [`Self::deadline`] has passed. After [`Timeout::Rto`] everything not
    /// known to have arrived is offered by [`Self::next_lost`] again.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let mut timeout = self.timer.on_timeout(self.path(), now);
        // What is known to be lost waits for room in the window, and nothing comes that would make
        // some: the window is full of packets that are not in flight any more. The peer has not
        // told so, having more holes than fit a TACK. A probe's answer would look like progress.
        if timeout == Timeout::Probe && self.sent.lost_bytes() > 0 {
            timeout = Timeout::Rto;
        }
        if timeout == Timeout::Probe {
            self.tail_probe.ask(self.ack_loss.newest());
        } else {
            self.tail_probe.cancel();
            self.app_limited.on_pause(self.sent.next_pkt_seq());
            let whole = self.sent.delivered() + self.sent.in_flight() + self.sent.lost_bytes();
            let lost_before = self.sent.lose_everything();
            let (nxt, next_pkt_seq) = (self.sent.nxt(), self.sent.next_pkt_seq());
            self.recovery.on_timeout(nxt, next_pkt_seq, lost_before, whole, now);
            self.count_repacked();
            self.fill_timer(now);
        }
        Some(timeout)
    }

    /// The frequency to tell the peer now, if it doubled, halved, changed regime, drifted or was
    /// lost on the way. `bw` is congestion control's estimate, `startup` that it still looks for
    /// the bandwidth of the path; whether more acknowledgments help it is decided here.
    pub fn poll_frequency(&mut self, bw: Rate, startup: bool, now: Instant) -> Option<Frequency> {
        let estimates = Estimates {
            bw,
            delivery_rate: self.delivery_rate,
            rtt_min: self.rtt_min.get()?,
            srtt: self.rtt.srtt()?,
            without_queue: self.return_path.rtt().unwrap_or_default(),
            rho_prime: self.ack_loss.rho_prime(),
            startup,
        };
        self.frequency.poll(&self.params, estimates, now)
    }

    /// The peer is reached another way from now on: what is known of the path's times, rate and loss is of the
    /// old one. What is outstanding stays so.
    pub fn on_path_change(&mut self, now: Instant) {
        self.rtt = Rtt::default();
        self.rtt_min = RttMin::new(self.params.tau);
        self.return_path = ReturnPath::default();
        self.delivery_rate = None;
        self.rho = 0.0;
        self.newest_arrived.1 = now;
        self.ack_loss.on_path_change();
        self.timer.on_path_change(now);
        self.frequency.on_path_change();
    }
}

#[cfg(test)]
#[path = "sender/tests.rs"]
mod tests;
