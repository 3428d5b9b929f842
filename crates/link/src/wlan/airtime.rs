//! Who used the medium, for how long, and for what.
//!
//! Every nanosecond belongs to exactly one use, so the shares sum to 1.

use core::ops::{Add, Sub};
use core::time::Duration;
use std::collections::VecDeque;

use tack_units::Instant;

use super::phy::Ns;

/// Spans that are remembered: with frames of 100 µs, 20 ms and more.
const RECENT: usize = 1_024;

/// What the medium is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// PPDUs with application data. One that carries both kinds is split by bytes.
    Data,
    /// PPDUs with transport acknowledgments.
    Ack,
    /// Acks, BlockAcks, BlockAckReqs, RTS, CTS, and the interframe spaces inside an exchange.
    Control,
    /// From the first frame of a collision to the end of its last.
    Collision,
    /// PPDUs of which noise left nothing.
    Lost,
    /// Beacons.
    Beacon,
    /// Exchanges of neighbours.
    Neighbour,
    /// Idle while somebody waits to send: AIFS, EIFS and backoff.
    Contention,
    /// Idle with nothing to send.
    Idle,
}

impl Use {
    /// Every use, in the order of [`Airtime::shares`].
    pub const ALL: [Use; 9] = [
        Use::Data,
        Use::Ack,
        Use::Control,
        Use::Collision,
        Use::Lost,
        Use::Beacon,
        Use::Neighbour,
        Use::Contention,
        Use::Idle,
    ];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Use::Data => "data",
            Use::Ack => "ack",
            Use::Control => "control",
            Use::Collision => "collision",
            Use::Lost => "lost",
            Use::Beacon => "beacon",
            Use::Neighbour => "neighbour",
            Use::Contention => "contention",
            Use::Idle => "idle",
        }
    }
}

/// A while of one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which.
    pub what: Use,
    /// Since when.
    pub from: Instant,
    /// Until when: the beginning of the next.
    pub to: Instant,
}

/// Time by use since some instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Airtime {
    by_use: [Ns; 9],
}

impl Airtime {
    /// Time spent on `what`.
    pub fn of(&self, what: Use) -> Duration {
        Duration::from_nanos(self.by_use[what as usize])
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.by_use.iter().sum())
    }

    /// `what`'s share of all time; 0 before any has passed.
    pub fn share(&self, what: Use) -> f64 {
        let total: Ns = self.by_use.iter().sum();
        if total == 0 { 0.0 } else { self.by_use[what as usize] as f64 / total as f64 }
    }

    /// All shares, in the order of [`Use::ALL`].
    pub fn shares(&self) -> [f64; 9] {
        Use::ALL.map(|what| self.share(what))
    }

    /// What was added since `earlier`, an older reading of the same account.
    #[must_use]
    pub fn since(&self, earlier: &Airtime) -> Airtime {
        let mut by_use = self.by_use;
        for (now, before) in by_use.iter_mut().zip(earlier.by_use) {
            *now = now.saturating_sub(before);
        }
        Airtime { by_use }
    }
}

/// What one node sent and how it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Accesses to the medium.
    pub accesses: u64,
    /// Accesses that began together with somebody else's.
    pub collisions: u64,
    /// Accesses that got no response, collisions included.
    pub timeouts: u64,
    /// Collisions between the node's own access categories (no airtime is lost).
    pub internal_collisions: u64,
    /// PPDUs with data, repeated ones included.
    pub data_ppdus: u64,
    /// MPDUs in them.
    pub mpdus: u64,
    /// BlockAckReqs sent.
    pub block_ack_reqs: u64,
    /// Packets that its queues dropped: those that found them full, and `aqm_drops`.
    pub queue_drops: u64,
    /// Of those, packets that CoDel dropped.
    pub aqm_drops: u64,
    /// Packets that CoDel marked Congestion Experienced instead.
    pub ce_marks: u64,
    /// Packets given up after too many retries.
    pub retry_drops: u64,
    /// Time on air with PPDUs of data or acknowledgments, preambles included.
    pub data_airtime: Duration,
    /// Time on air with responses and other control frames.
    pub control_airtime: Duration,
}

impl NodeStats {
    /// What was added since `earlier`, an older reading of the same node.
    #[must_use]
    pub fn since(&self, earlier: &NodeStats) -> NodeStats {
        self.with(earlier, Sub::sub, Sub::sub)
    }

    /// The sum of two nodes.
    #[must_use]
    pub fn plus(&self, other: &NodeStats) -> NodeStats {
        self.with(other, Add::add, Add::add)
    }

    fn with(
        &self,
        other: &NodeStats,
        count: fn(u64, u64) -> u64,
        time: fn(Duration, Duration) -> Duration,
    ) -> NodeStats {
        NodeStats {
            accesses: count(self.accesses, other.accesses),
            collisions: count(self.collisions, other.collisions),
            timeouts: count(self.timeouts, other.timeouts),
            internal_collisions: count(self.internal_collisions, other.internal_collisions),
            data_ppdus: count(self.data_ppdus, other.data_ppdus),
            mpdus: count(self.mpdus, other.mpdus),
            block_ack_reqs: count(self.block_ack_reqs, other.block_ack_reqs),
            queue_drops: count(self.queue_drops, other.queue_drops),
            aqm_drops: count(self.aqm_drops, other.aqm_drops),
            ce_marks: count(self.ce_marks, other.ce_marks),
            retry_drops: count(self.retry_drops, other.retry_drops),
            data_airtime: time(self.data_airtime, other.data_airtime),
            control_airtime: time(self.control_airtime, other.control_airtime),
        }
    }

    /// Mean MPDUs per PPDU; 0 before the first.
    pub fn mpdus_per_ppdu(&self) -> f64 {
        ratio(self.mpdus, self.data_ppdus)
    }

    /// Share of accesses that collided; 0 before the first.
    pub fn collision_probability(&self) -> f64 {
        ratio(self.collisions, self.accesses)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The account itself: a pointer that moves along time and leaves no gap.
#[derive(Debug, Default)]
pub(super) struct Account {
    airtime: Airtime,
    /// Everything before is accounted for.
    until: Ns,
    /// Since when somebody has had something to send, if anybody has.
    waiting_since: Option<Ns>,
    /// The last [`RECENT`] spans, each as its use and its beginning; the last ends at `until`.
    recent: VecDeque<(Use, Ns)>,
}

impl Account {
    /// Somebody has something to send from `now` on.
    pub(super) fn waiting(&mut self, now: Ns) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(now);
        }
    }

    /// Nobody has anything to send any more.
    pub(super) fn nobody_waits(&mut self) {
        self.waiting_since = None;
    }

    /// Idle until `at`.
    pub(super) fn idle_until(&mut self, at: Ns) {
        let split = self.waiting_since.unwrap_or(at).clamp(self.until, at.max(self.until));
        self.put(Use::Idle, split);
        self.put(Use::Contention, at);
    }

    /// `what` until `at`.
    pub(super) fn put(&mut self, what: Use, at: Ns) {
        if at <= self.until {
            return;
        }
        self.airtime.by_use[what as usize] += at - self.until;
        if self.recent.back().is_none_or(|(last, _)| *last != what) {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((what, self.until));
        }
        self.until = at;
    }

    /// The account at `now`. An exchange under way counts in full.
    pub(super) fn read(&self, now: Ns) -> Airtime {
        let mut airtime = self.airtime;
        for (what, from, to) in self.ahead(now) {
            airtime.by_use[what as usize] += to - from;
        }
        airtime
    }

    /// What the time up to `now` counts as that is not accounted for yet.
    fn ahead(&self, now: Ns) -> [(Use, Ns, Ns); 2] {
        let now = now.max(self.until);
        let split = self.waiting_since.unwrap_or(now).clamp(self.until, now);
        [(Use::Idle, self.until, split), (Use::Contention, split, now)]
    }

    /// The last spans up to `now`, in order and without a gap, as far back as is remembered. One under
    /// way reaches beyond `now`.
    pub(super) fn recent(&self, now: Ns) -> impl Iterator<Item = Span> {
        let ends = self.recent.iter().skip(1).map(|(_, from)| *from).chain([self.until]);
        let known = self.recent.iter().zip(ends).map(|((what, from), to)| (*what, *from, to));
        let span = |(what, from, to)| Span {
            what,
            from: Instant::from_nanos(from),
            to: Instant::from_nanos(to),
        };
        known.chain(self.ahead(now)).filter(|(_, from, to)| to > from).map(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_has_no_gap_and_ends_now() {
        let mut account = Account::default();
        let uses = [Use::Data, Use::Control, Use::Ack, Use::Control];
        for n in 0..3_000u64 {
            account.waiting(n * 100);
            account.idle_until(n * 100 + 30);
            account.put(uses[n as usize % 4], n * 100 + 100);
        }
        account.nobody_waits();
        let now = 300_050;
        let spans: Vec<Span> = account.recent(now).collect();
        assert_eq!(spans.len(), RECENT + 1, "old ones are forgotten");
        assert!(spans.windows(2).all(|pair| pair[0].to == pair[1].from));
        let last = spans.last().map(|s| (s.what, s.from.as_nanos(), s.to.as_nanos()));
        assert_eq!(last, Some((Use::Idle, 300_000, now)));
        let data: u64 = spans
            .iter()
            .filter(|s| s.what == Use::Data)
            .map(|s| s.to.as_nanos() - s.from.as_nanos())
            .sum();
        assert_eq!(data, 70 * (RECENT as u64 / 8), "a quarter of the exchanges, 70 ns each");
        let all = account.read(now);
        assert_eq!(all.total(), Duration::from_nanos(now));
    }
}
