//! Plain TCP's loss recovery at the sender: SACK scoreboard, RACK-TLP, RTO, RTT, delivery rate.
//!
//! The same verbs as [`tack::Sender`], so that a connection holds one or the other and branches
//! only where the sources of knowledge differ.
//!
//! ```text
//!              acknowledgment                       deadline passed
//!                    |                                     |
//!   cumulative -> sent ------ delivered ----+      RACK --> losses marked
//!   SACK ------> scoreboard --> sent -------+      PTO  --> Timeout::Probe
//!   DSACK -----> undo                       |      RTO  --> Timeout::Rto
//!                        rate, rtt, RACK <--+
//!                               |
//!                        losses marked -> episode opens; ends when its high mark is acknowledged
//! ```
//!
//! Without SACK, RACK and TLP do not apply [RFC 8985 §3]: three duplicate acknowledgments declare
//! the first segment lost, partial acknowledgments the next one [RFC 6582]. With SACK they can be left
//! out: [`LossDetection`].
//!
//! An acknowledgment costs O(log n) and what it newly acknowledges; only a retransmission timeout
//! and an undo walk over all that is outstanding.

mod arrives;
mod rack;
mod rto;
mod sack;
mod sent;
mod tlp;
mod undo;

use core::ops::Range;
use core::time::Duration;

use tack::{Acked, Outstanding, Timeout};
use tack_units::{Instant, earliest};

use rack::{Path, Rack};
use rto::Rto;
use sack::{DupAcks, Scoreboard};
use sent::Sent;
use tack_transport::{RateEstimator, RttEstimator, Snapshot};
use tlp::Tlp;
use undo::Undo;

/// What an acknowledgment said, in stream offsets.
#[derive(Clone, Debug)]
pub struct PlainAck<'a> {
    /// Cumulative acknowledgment.
    pub cum_ack: u64,
    /// SACK blocks, DSACK already split off.
    pub sack: &'a [Range<u64>],
    /// DSACK block if the first block was one [RFC 2883].
    pub dsack: Option<Range<u64>>,
    /// RTT from the timestamp echo, if one came and is usable [RFC 7323 §4].
    pub ts_rtt: Option<Duration>,
    /// It is in whole milliseconds: better than none, where all that is acknowledged was sent again.
    pub ts_is_coarse: bool,
    /// TSecr shows that the original, not the retransmission, was received (Eifel [RFC 3522]):
    /// it is before [`PlainSender::first_retransmission_at`].
    pub echoes_original: bool,
    /// The segment carried no data, no window change and neither SYN nor FIN: it is a duplicate
    /// acknowledgment if it acknowledges nothing new [RFC 5681 §2].
    pub is_pure_ack: bool,
}

/// How a sender that hears SACK finds out what is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossDetection {
    /// By the time since it left, repairs included, and by probes of the tail [RFC 8985].
    #[default]
    RackTlp,
    /// By what is selectively acknowledged above it: three segments [RFC 6675 §4]. What is lost
    /// again, or at the tail, waits for the timeout, as in stacks of before 2015 and in ns-2.
    DupThresh,
}

/// Sender-side recovery of plain TCP.
#[derive(Debug)]
pub struct PlainSender {
    mss: u64,
    sent: Sent,
    detection: LossDetection,
    /// Under [`LossDetection::DupThresh`]: what lies below was judged.
    judged_below: u64,
    feedback: Feedback,
    rack: Rack,
    tlp: Tlp,
    rto: Rto,
    rtt: RttEstimator,
    rate: RateEstimator,
    undo: Undo,
    /// The episode lasts until this is acknowledged.
    recovery_end: Option<u64>,
    /// When RACK declares the next loss if nothing arrives until then.
    rack_deadline: Option<Instant>,
    /// What timers found and no [`Acked`] has told yet.
    unreported: Acked,
    /// Taken over from TACK, and no new data was sent since: `snd_nxt` may be too low.
    end_unknown: bool,
}

/// Where knowledge beyond the cumulative acknowledgment comes from.
#[derive(Debug)]
enum Feedback {
    Sack(Scoreboard),
    DupAcks(DupAcks),
}

impl PlainSender {
    /// `first_seq`: offset of the first byte; `sack`: the peer permits SACK; `mss` in bytes.
    pub fn new(mss: u32, first_seq: u64, sack: bool, now: Instant) -> Self {
        let feedback = if sack {
            Feedback::Sack(Scoreboard::default())
        } else {
            Feedback::DupAcks(DupAcks::default())
        };
        PlainSender {
            mss: u64::from(mss.max(1)),
            sent: Sent::new(first_seq),
            detection: LossDetection::default(),
            judged_below: first_seq,
            feedback,
            rack: Rack::new(first_seq),
            tlp: Tlp::default(),
            rto: Rto::default(),
            rtt: RttEstimator::default(),
            rate: RateEstimator::new(now),
            undo: Undo::default(),
            recovery_end: None,
            rack_deadline: None,
            unreported: Acked::default(),
            end_unknown: false,
        }
    }

    /// The same, with losses found in another way. To be called before anything is sent.
    #[must_use]
    pub fn detecting(self, detection: LossDetection) -> Self {
        PlainSender { detection, ..self }
    }

    /// Takes over what a TACK sender left outstanding, when TACK is given up mid-connection.
    /// To be called before anything is sent; does nothing otherwise. What lies between two of
    /// them, or behind the last, is taken to have arrived.
    pub fn adopt(&mut self, outstanding: &[Outstanding], srtt: Option<Duration>, now: Instant) {
        let Some(first) = outstanding.first() else { return };
        if !self.sent.is_empty() {
            return;
        }
        let known_end = self.sent.snd_nxt();
        self.sent.restart_at(first.seq.start);
        for part in outstanding {
            self.fill_to(part.seq.start, now);
            if part.seq.end <= self.sent.snd_nxt() {
                continue;
            }
            self.sent.push(part.seq.end, Snapshot::at(part.sent_at), part.sent_at);
            self.sent.amend_last(part.retransmitted, part.lost);
        }
        self.fill_to(known_end, now);
        self.sent.number_by_time();
        self.rack = Rack::new(self.sent.snd_una());
        if let Some(srtt) = srtt {
            self.rtt.seed(srtt, now);
        }
        self.rto.on_sent(now);
        self.tlp.on_advance(now);
        self.end_unknown = true;
        if self.sent.has_lost() {
            self.open_episode(false);
        }
    }

    /// An RTT from elsewhere, such as the handshake.
    pub fn on_rtt_sample(&mut self, rtt: Duration, now: Instant) {
        self.rtt.smooth(rtt);
        self.rtt.sample_min(rtt, now);
    }

    /// A segment leaves now: new data continues the stream, a retransmission names part of it.
    ///
    /// # Panics
    /// If new data leaves a gap behind what was sent before: the caller's bug.
    pub fn on_sent(&mut self, seq: Range<u64>, now: Instant) {
        if seq.is_empty() {
            return;
        }
        let snd_nxt = self.sent.snd_nxt();
        let snapshot = self.rate.on_sent(self.in_flight(), now);
        if seq.start < snd_nxt {
            let again = seq.start..seq.end.min(snd_nxt);
            if again.contains(&self.sent.snd_una()) {
                self.rto.on_repair(now);
            }
            let (in_recovery, sack) = (self.in_recovery(), self.has_sack());
            self.tlp.on_retransmission(snd_nxt, again.end - again.start);
            self.undo.on_retransmission(again.clone(), in_recovery, sack, now);
            self.sent.retransmit(again, snapshot, now);
        }
        if seq.end > snd_nxt {
            if self.end_unknown {
                self.fill_to(seq.start, now);
                self.end_unknown = false;
            }
            assert!(seq.start <= self.sent.snd_nxt(), "{seq:?} leaves a gap behind {snd_nxt}");
            self.sent.push(seq.end, snapshot, now);
            self.tlp.on_new_data(seq.end, now);
        }
        self.rto.on_sent(now);
    }

    /// An acknowledgment arrived. One that acknowledges more than was sent changes nothing.
    pub fn on_ack(&mut self, ack: &PlainAck<'_>, now: Instant) -> Acked {
        let prior_in_flight = self.in_flight();
        let mut news = core::mem::take(&mut self.unreported);
        if self.end_unknown {
            self.fill_to(ack.cum_ack, now);
        }
        if ack.cum_ack <= self.sent.snd_nxt() {
            self.apply(ack, &mut news, now);
        }
        news.prior_in_flight = prior_in_flight;
        news.in_flight = self.in_flight();
        news.delivered = self.rate.delivered();
        news
    }

    /// What timers declared lost since the last [`Acked`], if anything; else the next one tells.
    pub fn take_unreported(&mut self) -> Option<Acked> {
        let mut news = core::mem::take(&mut self.unreported);
        if news == Acked::default() {
            return None;
        }
        news.in_flight = self.in_flight();
        news.prior_in_flight = news.in_flight + news.lost_bytes;
        news.delivered = self.rate.delivered();
        news.prior_delivered = news.delivered;
        Some(news)
    }

    /// Full-sized segments are of another length from now on, in bytes.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    /// Segments in flight that are longer than `bytes` did not fit the path: they are offered by
    /// [`Self::next_lost`]. No episode begins and congestion control is not told: nothing says that
    /// a queue overflowed [RFC 8201 §5.4].
    pub fn lose_longer_than(&mut self, bytes: u64) {
        self.sent.mark_longer_lost(bytes);
    }

    /// The sender ran out of data.
    pub fn on_app_limited(&mut self) {
        self.rate.on_app_limited(self.in_flight());
    }

    /// The next lost segment to retransmit, at most one MSS of it.
    pub fn next_lost(&self, now: Instant) -> Option<Range<u64>> {
        let _ = now;
        let lost = self.sent.first_lost()?;
        Some(lost.start..lost.end.min(lost.start + self.mss))
    }

    /// The end of what is outstanding, at most one MSS: what a probe repeats when there is no new
    /// data to send [RFC 8985 §7.3].
    pub fn last_segment(&self) -> Option<Range<u64>> {
        let last = self.sent.last()?;
        Some(last.start.max(last.end.saturating_sub(self.mss))..last.end)
    }

    /// When the first retransmission of the current episode left: the bound for
    /// [`PlainAck::echoes_original`].
    pub fn first_retransmission_at(&self) -> Option<Instant> {
        self.undo.first_resent_at()
    }

    /// RACK reordering timer, TLP or RTO, whichever is next; `None` when nothing is outstanding.
    pub fn deadline(&self) -> Option<Instant> {
        let rto = self.rto.deadline(&self.rtt);
        earliest(earliest(self.rack_deadline, self.probe_deadline(rto)), rto)
    }

    /// The deadline passed. `None`: the RACK timer only marked losses (see `next_lost`, and
    /// [`Self::take_unreported`] for what congestion control must know).
    pub fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        if self.rack_deadline.is_some_and(|deadline| deadline <= now) {
            let lost = self.detect_losses(now);
            if lost.bytes > 0 {
                let mut news = core::mem::take(&mut self.unreported);
                news.lost_sent_at = news.lost_sent_at.max(lost.newest);
                self.note_losses(lost.bytes, &mut news);
                self.unreported = news;
                return None;
            }
        }
        let rto = self.rto.deadline(&self.rtt)?;
        if self.probe_deadline(Some(rto)).is_some_and(|probe| probe <= now) {
            self.tlp.ask();
            self.rto.on_probe(now);
            return Some(Timeout::Probe);
        }
        if rto > now {
            return None;
        }
        self.on_rto(now);
        Some(Timeout::Rto)
    }

    /// The peer has room again for what it refused: the head is sent anew at once, and the timer,
    /// whose backoff measured nothing of the path, starts anew.
    pub fn on_reopened(&mut self, now: Instant) {
        if !self.sent.is_empty() {
            self.on_rto(now);
            self.rto.undo();
        }
    }

    /// Bytes in flight ("pipe"): sent, neither known to have arrived nor declared lost.
    ///
    /// Deviation: a segment sent again before its loss is certain (a probe) counts once, where
    /// [RFC 6675 §4] counts both copies.
    pub fn in_flight(&self) -> u64 {
        match &self.feedback {
            Feedback::Sack(_) => self.sent.in_flight(),
            Feedback::DupAcks(dup_acks) => {
                self.sent.in_flight().saturating_sub(dup_acks.pipe_credit())
            }
        }
    }

    /// In fast recovery or RTO recovery.
    pub fn in_recovery(&self) -> bool {
        self.recovery_end.is_some()
    }

    /// Smoothed RTT.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// RTT variation.
    pub fn rttvar(&self) -> Option<Duration> {
        self.rtt.rttvar()
    }

    /// Least RTT of the last 10 s.
    pub fn rtt_min(&self) -> Option<Duration> {
        self.rtt.min()
    }

    /// Retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        self.rto.timeout(&self.rtt)
    }

    fn note_losses(&mut self, bytes: u64, news: &mut Acked) {
        news.lost_bytes += bytes;
        if self.recovery_end.is_none() && self.sent.has_lost() {
            news.recovery_started = true;
            self.open_episode(false);
        }
    }

    fn open_episode(&mut self, timeout: bool) {
        let snd_nxt = self.sent.snd_nxt();
        self.recovery_end = Some(snd_nxt);
        self.tlp.cancel();
        self.undo.begin(timeout, snd_nxt);
    }

    /// The next episode, with what the last one did not finish.
    fn follow_episode(&mut self) {
        let snd_nxt = self.sent.snd_nxt();
        self.recovery_end = Some(snd_nxt);
        self.tlp.cancel();
        self.undo.follow(self.sent.snd_una(), snd_nxt);
    }

    fn undo_episode(&mut self) {
        self.rto.undo();
        self.rack.on_spurious();
        if self.recovery_end.take().is_some() {
            self.sent.restore_lost();
            self.judged_below = self.sent.snd_una();
        }
    }

    /// [RFC 6298 §5.4-5.6]; under RACK what left within a round trip stays in flight
    /// [RFC 8985 §6.3].
    fn on_rto(&mut self, now: Instant) {
        self.rto.on_expiry(now);
        let path = self.path();
        let mut lost = 0;
        match &mut self.feedback {
            Feedback::Sack(scoreboard) => {
                if self.sent.head_is_sacked() {
                    scoreboard.clear();
                    lost += self.sent.renege();
                }
                if self.detection == LossDetection::DupThresh {
                    lost += self.sent.mark_all_lost();
                }
                lost += self.sent.mark_head_lost();
                while let Some(oldest) = self.sent.oldest()
                    && self.rack.lost_at_timeout(&oldest, path) <= now
                {
                    lost += self.sent.mark_lost(&oldest);
                }
            }
            Feedback::DupAcks(dup_acks) => {
                dup_acks.on_timeout(self.sent.snd_nxt());
                lost += self.sent.mark_all_lost();
            }
        }
        self.unreported.lost_bytes += lost;
        self.rack_deadline = None;
        self.open_episode(true);
    }

    /// A probe never waits beyond the RTO, which is at `rto`: it takes its place [RFC 8985 §7.2].
    fn probe_deadline(&self, rto: Option<Instant>) -> Option<Instant> {
        // [RFC 8985 §7.2]: not in recovery, nothing selectively acknowledged, and SACK to answer.
        let allowed = self.has_sack()
            && self.detection == LossDetection::RackTlp
            && self.recovery_end.is_none()
            && self.sent.sacked_segments() == 0
            && !self.sent.is_empty();
        if !allowed {
            return None;
        }
        let probe = self.tlp.deadline(self.rtt.srtt(), self.sent.segments())?;
        earliest(Some(probe), rto)
    }

    fn path(&self) -> Path {
        let (srtt, rttvar) = (self.rtt.srtt(), self.rtt.rttvar());
        Path {
            rtt_min: self.rtt.min(),
            srtt,
            rtt_most: srtt.unwrap_or_default() + rttvar.unwrap_or_default() * 4,
            in_recovery: self.in_recovery(),
            sacked_segments: self.sent.sacked_segments(),
        }
    }

    fn has_sack(&self) -> bool {
        matches!(self.feedback, Feedback::Sack(_))
    }

    /// What lies between `snd_nxt` and `seq` was sent, and arrived, before we knew of it.
    fn fill_to(&mut self, seq: u64, now: Instant) {
        let snd_nxt = self.sent.snd_nxt();
        if seq > snd_nxt {
            self.sent.push_arrived(seq, now);
            if let Feedback::Sack(scoreboard) = &mut self.feedback {
                scoreboard.insert(snd_nxt..seq);
            }
        }
    }
}

#[cfg(test)]
mod tests;
