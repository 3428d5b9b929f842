//! Who knows what is lost: plain TCP's scoreboard at the sender, or TACK's receiver.

use core::ops::Range;
use core::time::Duration;

use tack::{Acked, Timeout};
use tack_units::Instant;

use crate::recovery::PlainSender;

/// Loss recovery of one connection. Boxed: a connection holds one, and idle ones are many.
#[derive(Debug)]
pub(crate) enum Recovery {
    /// SACK, RACK-TLP and RTO.
    Plain(Box<PlainSender>),
    /// PKT.SEQ, TACKs and IACKs.
    Tack(Box<TackSide>),
}

/// TACK's sender and what the host must know of it.
#[derive(Debug)]
pub(crate) struct TackSide {
    pub(crate) sender: tack::Sender,
    /// Highest PKT.SEQ sent.
    pub(crate) highest_sent: u64,
    /// TACK interval in force at the peer.
    pub(crate) interval: Duration,
    /// rho of the latest TACK.
    pub(crate) rho: f64,
    /// A loss episode lasts until this is acknowledged.
    pub(crate) recovery_end: u64,
}

impl Recovery {
    pub(crate) fn tack(params: tack::Params, first_pkt_seq: u64, first: u64, now: Instant) -> Self {
        Recovery::Tack(Box::new(TackSide {
            sender: tack::Sender::new(params, first_pkt_seq, first, now),
            highest_sent: first_pkt_seq,
            interval: Duration::ZERO,
            rho: 0.0,
            recovery_end: first,
        }))
    }

    pub(crate) fn plain(mss: u32, first: u64, sack: bool, now: Instant) -> Self {
        Recovery::Plain(Box::new(PlainSender::new(mss, first, sack, now)))
    }

    pub(crate) fn is_tack(&self) -> bool {
        matches!(self, Recovery::Tack(_))
    }

    /// Replaces TACK by plain recovery that goes on from what is outstanding.
    pub(crate) fn fall_back(&mut self, mss: u32, una: u64, sack: bool, now: Instant) {
        let Recovery::Tack(side) = self else { return };
        let outstanding = side.sender.outstanding();
        let mut plain = PlainSender::new(mss, una, sack, now);
        plain.adopt(&outstanding, side.sender.srtt(), now);
        *self = Recovery::Plain(Box::new(plain));
    }

    /// A segment leaves; returns its PKT.SEQ under TACK.
    pub(crate) fn on_sent(&mut self, seq: Range<u64>, now: Instant) -> Option<u64> {
        match self {
            Recovery::Plain(plain) => {
                plain.on_sent(seq, now);
                None
            }
            Recovery::Tack(side) => {
                side.highest_sent = side.sender.on_sent(seq, now);
                Some(side.highest_sent)
            }
        }
    }

    pub(crate) fn on_app_limited(&mut self) {
        match self {
            Recovery::Plain(plain) => plain.on_app_limited(),
            Recovery::Tack(side) => side.sender.on_app_limited(),
        }
    }

    pub(crate) fn next_lost(&self, now: Instant) -> Option<Range<u64>> {
        match self {
            Recovery::Plain(plain) => plain.next_lost(now),
            Recovery::Tack(side) => side.sender.next_lost(now),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Recovery::Plain(plain) => plain.deadline(),
            Recovery::Tack(side) => side.sender.deadline(),
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) -> Option<Timeout> {
        match self {
            Recovery::Plain(plain) => plain.on_timeout(now),
            Recovery::Tack(side) => side.sender.on_timeout(now),
        }
    }

    /// The peer had taken back its window from what is outstanding, and opens it. A peer with TACK
    /// never does: it is of our kind.
    pub(crate) fn on_reopened(&mut self, now: Instant) {
        if let Recovery::Plain(plain) = self {
            plain.on_reopened(now);
        }
    }

    pub(crate) fn in_flight(&self) -> u64 {
        match self {
            Recovery::Plain(plain) => plain.in_flight(),
            Recovery::Tack(side) => side.sender.in_flight(),
        }
    }

    pub(crate) fn in_recovery(&self, una: u64) -> bool {
        match self {
            Recovery::Plain(plain) => plain.in_recovery(),
            Recovery::Tack(side) => una < side.recovery_end,
        }
    }

    /// Full-sized segments are of another length from now on.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        match self {
            Recovery::Plain(plain) => plain.set_mss(mss),
            Recovery::Tack(side) => side.sender.set_mss(mss),
        }
    }

    /// What is in flight in segments longer than `bytes` did not fit the path.
    pub(crate) fn lose_longer_than(&mut self, bytes: u64) {
        match self {
            Recovery::Plain(plain) => plain.lose_longer_than(bytes),
            Recovery::Tack(side) => side.sender.lose_longer_than(bytes),
        }
    }

    /// A loss episode began while everything below `snd_nxt` was out.
    pub(crate) fn note_episode(&mut self, acked: &Acked, snd_nxt: u64) {
        if let Recovery::Tack(side) = self
            && acked.recovery_started
        {
            side.recovery_end = snd_nxt;
        }
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain) => plain.srtt(),
            Recovery::Tack(side) => side.sender.srtt(),
        }
    }

    pub(crate) fn rttvar(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain) => plain.rttvar(),
            Recovery::Tack(side) => side.sender.rttvar(),
        }
    }

    pub(crate) fn rtt_min(&self) -> Option<Duration> {
        match self {
            Recovery::Plain(plain) => plain.rtt_min(),
            Recovery::Tack(side) => side.sender.rtt_min(),
        }
    }

    pub(crate) fn rto(&self) -> Duration {
        match self {
            Recovery::Plain(plain) => plain.rto(),
            Recovery::Tack(side) => side.sender.rto(),
        }
    }

    /// TACK interval in force at the peer; zero for plain TCP.
    pub(crate) fn ack_interval(&self) -> Duration {
        match self {
            Recovery::Plain(_) => Duration::ZERO,
            Recovery::Tack(side) => side.interval,
        }
    }
}
