//! Who knows what is lost: plain TCP's scoreboard at the sender, or TACK's receiver.

use core::ops::Range;
use core::time::Duration;

use tack::{Acked, IackReason, Timeout};
use tack_cc::{RateSample, RateSource, Snapshot};
use tack_transport::PathState;
use tack_units::{Instant, Rate};

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::paws::Clock;
use crate::recovery::{PlainAck, PlainSender};
use crate::stats::{FallbackReason, Mode};
use crate::wire::Timestamps;

/// Loss recovery of one connection, and with it the answer to what governs the connection: no other
/// part of it knows. Boxed: a connection holds one, and idle ones are many.
#[derive(Debug)]
pub(crate) enum Recovery {
    /// SACK, RACK-TLP and RTO; and why TACK was given up for them, if it was.
    Plain(Box<PlainSender>, Option<FallbackReason>),
    /// PKT.SEQ, TACKs and IACKs.
    Tack(Box<tack::Sender>),
}

/// What the header of an acknowledgment says, in stream offsets.
pub(crate) struct Heard<'a> {
    /// Not below SND.UNA.
    pub(crate) cum_ack: u64,
    pub(crate) snd_nxt: u64,
    /// SACK blocks, DSACK split off.
    pub(crate) sack: &'a [Range<u64>],
    pub(crate) dsack: Option<Range<u64>>,
    /// Timestamps of an acknowledgment of something new.
    pub(crate) echo: Option<Timestamps>,
    /// It says nothing else: see [`PlainAck::is_pure_ack`].
    pub(crate) is_pure_ack: bool,
    pub(crate) clock: &'a Clock,
}

/// What the body of an acknowledgment said, once read.
pub(crate) enum News {
    Tack(tack::Tack),
    Iack(tack::Iack),
    /// Only what every header says.
    Nothing,
}

impl Heard<'_> {
    /// The round trip that the timestamps show, delays of the peer's acknowledgment included.
    fn rtt(&self, now: Instant) -> Option<Duration> {
        self.clock.rtt(self.echo, now)
    }
}

impl Recovery {
    pub(crate) fn tack(params: tack::Params, first_pkt_seq: u64, first: u64, now: Instant) -> Self {
        Recovery::Tack(Box::new(tack::Sender::new(params, first_pkt_seq, first, now)))
    }

    pub(crate) fn plain(sender: PlainSender) -> Self {
        Recovery::Plain(Box::new(sender), None)
    }

    pub(crate) fn is_tack(&self) -> bool {
        matches!(self, Recovery::Tack(_))
    }

    /// Few acknowledgments come, and they are lost on the way.
    pub(crate) fn loses_acks(&self) -> bool {
        match self {
            Recovery::Plain(..) => false,
            Recovery::Tack(sender) => sender.loses_acks(),
        }
    }

    /// Timeouts in a row that say nothing of the path but its loss, unless with this chance.
    pub(crate) fn timeouts_by_chance(&self, chance: f64) -> u32 {
        match self {
            Recovery::Plain(..) => 0,
            Recovery::Tack(sender) => sender.timeouts_by_chance(chance),
        }
    }

    /// What governs the connection.
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Recovery::Plain(_, None) => Mode::Plain,
            Recovery::Plain(_, Some(reason)) => Mode::FellBack(*reason),
            Recovery::Tack(_) => Mode::Tack,
        }
    }

    /// Replaces TACK by `plain`, which goes on from what is outstanding.
    pub(crate) fn fall_back(
        &mut self,
        mut plain: PlainSender,
        reason: FallbackReason,
        now: Instant,
    ) {
        let Recovery::Tack(sender) = self else { return };
        plain.adopt(&sender.outstanding(), sender.srtt(), now);
        *self = Recovery::Plain(Box::new(plain), Some(reason));
    }

    /// Our SYN is acknowledged; `rtt`: since it left, if that is known.
    pub(crate) fn on_syn_acked(&mut self, rtt: Option<Duration>, now: Instant) -> Acked {
        match self {
            Recovery::Plain(plain, _) => {
                let ack = PlainAck {
                    cum_ack: FIRST_BYTE,
                    sack: &[],
                    dsack: None,
                    ts_rtt: rtt,
                    ts_is_coarse: false,
                    echoes_original: false,
                    is_pure_ack: true,
                };
                plain.on_ack(&ack, now)
            }
            Recovery::Tack(sender) => sender.on_cum_ack(FIRST_BYTE, rtt, now),
        }
    }

    /// An acknowledgment came, and `news` with it.
    pub(crate) fn on_ack(&mut self, heard: Heard<'_>, news: News, now: Instant) -> Acked {
        let rtt = heard.rtt(now);
        match (self, news) {
            (Recovery::Plain(plain, _), _) => {
                let first_resent = plain.first_retransmission_at().map(|at| heard.clock.val(at));
                let ack = PlainAck {
                    cum_ack: heard.cum_ack,
                    sack: heard.sack,
                    dsack: heard.dsack,
                    ts_rtt: rtt,
                    ts_is_coarse: !heard.clock.is_fine(),
                    echoes_original: first_resent.is_some_and(|first| {
                        heard.echo.is_some_and(|ts| (ts.ecr.wrapping_sub(first) as i32) < 0)
                    }),
                    is_pure_ack: heard.is_pure_ack,
                };
                plain.on_ack(&ack, now)
            }
            // A report of packets that never left is none. Its header was believed, and the bytes it
            // acknowledges are given back: whoever repairs must not reach for them again.
            (Recovery::Tack(sender), News::Tack(tack))
                if tack.largest_pkt_seq >= sender.next_pkt_seq() =>
            {
                sender.on_cum_ack(heard.cum_ack, None, now)
            }
            (Recovery::Tack(sender), News::Tack(mut tack)) => {
                clamp_report(&mut tack, heard.snd_nxt);
                sender.on_tack(&tack, heard.clock.val(now), now)
            }
            (Recovery::Tack(sender), News::Iack(iack))
                if !matches!(iack.reason, IackReason::Frequency(_)) =>
            {
                sender.on_iack(&iack, now)
            }
            (Recovery::Tack(sender), _) => {
                sender.on_cum_ack(heard.cum_ack, rtt.filter(|_| heard.clock.is_fine()), now)
            }
        }
    }

    /// A segment leaves, with a FIN or without; returns its PKT.SEQ under TACK.
    pub(crate) fn on_sent(&mut self, seq: Range<u64>, fin: bool, now: Instant) -> Option<u64> {
        match self {
            Recovery::Plain(plain, _) => {
                plain.on_sent(seq, now);
                None
            }
            Recovery::Tack(sender) => {
                let pkt_seq = sender.on_sent(seq, now);
                if fin {
                    sender.expect_answer();
                }
                Some(pkt_seq)
            }
        }
    }

    /// PKT.SEQ of the latest transmission, near which others are expanded; `None`: they have none.
    pub(crate) fn latest_pkt_seq(&self) -> Option<u64> {
        match self {
            Recovery::Plain(..) => None,
            Recovery::Tack(sender) => Some(sender.next_pkt_seq() - 1),
        }
    }

    /// Counter of the newest TACK, near which others are expanded.
    pub(crate) fn newest_tack(&self) -> u32 {
        match self {
            Recovery::Plain(..) => 0,
            Recovery::Tack(sender) => sender.newest_tack(),
        }
    }

    /// The frequency a peer with TACK should acknowledge at, when it must be told. `estimate`: what
    /// congestion control makes of the path.
    pub(crate) fn poll_frequency(
        &mut self,
        estimate: impl FnOnce() -> Snapshot,
        now: Instant,
    ) -> Option<tack::Frequency> {
        let Recovery::Tack(sender) = self else { return None };
        let snapshot = estimate();
        // Before the first rate sample, which the receiver makes only once it knows a frequency.
        let guess = || Rate::from_bytes_over(snapshot.cwnd, sender.srtt()?);
        let bw = snapshot.bandwidth.or_else(guess)?;
        sender.poll_frequency(bw, snapshot.startup, now)
    }

    /// What congestion control is to know, `acked` having been applied.
    pub(crate) fn path_state(&self, acked: &Acked) -> PathState {
        PathState {
            srtt: self.srtt(),
            rtt_min: self.rtt_min(),
            rate: self.rate_sample(acked),
            ack_interval: self.ack_interval(),
            in_recovery: self.in_recovery(),
        }
    }

    /// What an acknowledgment shows of the delivery rate.
    fn rate_sample(&self, acked: &Acked) -> Option<RateSample> {
        let (source, shows) = match self {
            // Plain TCP counts a round trip by what was delivered, whether or not its times allow a
            // rate: a probe for RTTmin of retransmissions alone would never end otherwise.
            Recovery::Plain(..) => {
                let newest_is_known = acked.acked_bytes > 0 && acked.prior_delivered > 0;
                (RateSource::Sender, acked.rate.is_some() || newest_is_known)
            }
            // TACK's rounds go by its TACKs, which bring the receiver's rate.
            Recovery::Tack(_) => (RateSource::Receiver, acked.rate.is_some()),
        };
        shows.then_some(RateSample {
            delivery_rate: acked.rate,
            app_limited: acked.app_limited,
            source,
            prior_delivered: acked.prior_delivered,
            interval: acked.rate_interval,
        })
    }

    pub(crate) fn on_app_limited(&mut self) {
        match self {
            Recovery::Plain(plain, _) => plain.on_app_limited(),
            Recovery::Tack(sender) => sender.on_app_limited(),
        }
    }

    pub(crate) fn next_lost(&self, now: Instant) -> Option<Range<u64>> {
        match self {
            Recovery::Plain(plain, _) => plain.next_lost(now),
            Recovery::Tack(sender) => sender.next_lost(now),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Recovery::Plain(plain, _) => plain.deadline(),
            Recovery::Tack(sender) => sender.deadline(),
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        match self {
            Recovery::Plain(plain, _) => plain.on_timeout(now),
            Recovery::Tack(sender) => sender.on_timeout(now),
        }
    }

    /// What timed out is to leave alone. Plain TCP's timer is not put off by what arrives beyond a hole.
    pub(crate) fn repairs_alone(&self) -> bool {
        matches!(self, Recovery::Tack(sender) if sender.repairs_alone())
    }

    /// The peer had taken back its window from what is outstanding, and opens it. A peer with TACK
    /// never does: it is of our kind.
    pub(crate) fn on_reopened(&mut self, now: Instant) {
        if let Recovery::Plain(plain, _) = self {
            plain.on_reopened(now);
        }
    }

    pub(crate) fn in_flight(&self) -> u64 {
        match self {
            Recovery::Plain(plain, _) => plain.in_flight(),
            Recovery::Tack(sender) => sender.in_flight(),
        }
    }

    /// A loss episode is open.
    pub(crate) fn in_recovery(&self) -> bool {
        match self {
            Recovery::Plain(plain, _) => plain.in_recovery(),
            Recovery::Tack(sender) => sender.in_recovery(),
        }
    }

    /// Full-sized segments are of another length from now on.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        match self {
            Recovery::Plain(plain, _) => plain.set_mss(mss),
            Recovery::Tack(sender) => sender.set_mss(mss),
        }
    }

    /// What is in flight in segments longer than `bytes` did not fit the path.
    pub(crate) fn lose_longer_than(&mut self, bytes: u64) {
        match self {
            Recovery::Plain(plain, _) => plain.lose_longer_than(bytes),
            Recovery::Tack(sender) => sender.lose_longer_than(bytes),
        }
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain, _) => plain.srtt(),
            Recovery::Tack(sender) => sender.srtt(),
        }
    }

    pub(crate) fn rttvar(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain, _) => plain.rttvar(),
            Recovery::Tack(sender) => sender.rttvar(),
        }
    }

    pub(crate) fn rtt_min(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain, _) => plain.rtt_min(),
            Recovery::Tack(sender) => sender.rtt_min(),
        }
    }

    pub(crate) fn rto(&self) -> Duration {
        match self {
            Recovery::Plain(plain, _) => plain.rto(),
            Recovery::Tack(sender) => sender.rto(),
        }
    }

    /// Loss rates rho of data and rho' of acknowledgments; zero for plain TCP, which sees neither.
    pub(crate) fn loss_rates(&self) -> (f64, f64) {
        match self {
            Recovery::Plain(..) => (0.0, 0.0),
            Recovery::Tack(sender) => (sender.rho(), sender.rho_prime()),
        }
    }

    /// TACK interval in force at the peer; zero for plain TCP.
    pub(crate) fn ack_interval(&self) -> Duration {
        match self {
            Recovery::Plain(..) => Duration::ZERO,
            Recovery::Tack(sender) => sender.interval(),
        }
    }
}

/// What a peer reports beyond what was sent is a lie or an error: cut off.
fn clamp_report(tack: &mut tack::Tack, snd_nxt: u64) {
    tack.rcv_high = tack.rcv_high.min(snd_nxt);
    for hole in &mut tack.holes {
        hole.end = hole.end.min(snd_nxt);
    }
    tack.holes.retain(|hole| hole.start < hole.end);
}
