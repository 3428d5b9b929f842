//! Loss seen from gaps in PKT.SEQ space [TON §V-A].
//!
//! ```text
//! arrives:   1   3           4   6   5            PKT.SEQ is new for every transmission, so
//! gap:         [2]               [5]  (vanishes)  a lost retransmission leaves a gap as well
//! IACK:          --settling--> (largest 3, second largest 1)
//! ```
//!
//! One gap is one loss event. It settles first: a late packet shrinks it, splits it
//! or makes it vanish. The settling time is RTTmin/4 [TON §VIII] and adapts: each proof that it
//! was too short adds another RTTmin/4, up to 2 RTTmin, at most once per RTTmin; sixteen announced
//! losses without such a proof take one away again (the rule of [RFC 8985 §6.2] for its
//! reordering window, which ends at a round trip, that of a queue included). On near paths it grows further, up to 4 RTTmin
//! or 50 ms: a station's aggregate may hold a packet back for several of their round trips. The proof is a packet that
//! arrives after its loss was announced, which its number tells. (That data arrives twice proves nothing: a probe
//! does that, and what came of it was a repair that left half a second late.)
//!
//! Deviation: [TON §V-A] sends one IACK per loss event. A queue that overflows drops every other
//! packet for a while, which would be an IACK per two packets: so IACKs are [`PER_RTT`] apart at
//! least, and each announces every gap that has settled. A lone loss is announced right away.
//!
//! Deviation: what tells of the gap is a TACK, with its numbers ([`Tack::lost`](crate::Tack::lost)), and the TACK that
//! was to follow need not. Where Eq. 4 counts packets an IACK beside each of its TACKs made more acknowledgments of a
//! flow that loses much than TCP sends. With the policies of the paper ([`RbbPolicy`](crate::RbbPolicy)) it is an IACK.
//!
//! Deviation: where sixteen losses passed and no packet came late at all, what is left is
//! RTTmin/128: the path does not reorder, and an IACK leaves "right away by default" [TON §V-A,
//! footnote 1]. The first late packet brings RTTmin/4 back. Before it ever came, three packets that are missing and
//! were passed by three do so as well, as one is enough for TCP [RFC 8985 §6.2]: a queue overflows, and a flow that
//! hears of that a quarter of a round trip later overshoots by so much more.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tack_units::Instant;

/// Gaps that wait to settle. A peer that leaves more (it skips numbers on purpose) has the oldest
/// announced early.
const MAX_PENDING: usize = 4_096;
/// Announced gaps remembered to recognise packets that arrive too late: 1 % of 10 Gbit/s over 100 ms leaves 800
/// in a round trip. 64 KiB at most.
const MAX_ANNOUNCED: usize = 4_096;
/// Settling time while RTTmin is unknown: most reordering is over by then, and the first round
/// trip tells better.
const UNKNOWN_SETTLING: Duration = Duration::from_millis(1);
/// Announced losses without proof of reordering that take one step off the settling time.
const LOSSES_PER_STEP_DOWN: u32 = 16;
/// What of RTTmin/4 is left on a path that does not reorder: one of so many parts, enough for
/// packets of one batch that were handed up in another order.
const IN_ORDER: u32 = 32;
/// So many packets that are missing, and have been passed by as many, tell of a loss where none has come late yet.
const DUP_THRESH: u64 = 3;
/// Longest settling time: so many RTTmin, and on near paths so much, but not more RTTmin than this.
const LONGEST_RTTS: f64 = 2.0;
const NEAR_SETTLING: Duration = Duration::from_millis(50);
const NEAR_RTTS: f64 = 4.0;
/// Loss IACKs per RTTmin at most.
const PER_RTT: u32 = 16;
/// Gaps that one IACK announces at most, whatever fits.
const MAX_GAPS: usize = 128;

/// A gap that waits to settle.
#[derive(Clone, Copy, Debug)]
struct Gap {
    end: u64,
    revealed: Instant,
    /// Highest byte received before the gap showed: holes of SEQ space below it are older.
    rcv_high: u64,
}

/// Detects loss at the receiver.
#[derive(Debug)]
pub(super) struct LossDetector {
    /// Next PKT.SEQ expected, one past the largest received.
    next: u64,
    /// start -> gap, disjoint. Their order is also the order in which they settle.
    pending: BTreeMap<u64, Gap>,
    /// Packets in them.
    missing: u64,
    /// Announced gaps, oldest first.
    announced: VecDeque<Range<u64>>,
    settling: Settling,
    /// When the last IACK left; `None` before, and while one left gaps over.
    last_iack: Option<Instant>,
}

impl LossDetector {
    /// `first` is the first PKT.SEQ the peer will use; 0 stands for 1, see [`crate::PktSeq`].
    pub(super) fn new(first: u64, divisor: u32) -> Self {
        LossDetector {
            next: first.max(1),
            pending: BTreeMap::new(),
            missing: 0,
            announced: VecDeque::new(),
            settling: Settling::new(divisor),
            last_iack: None,
        }
    }

    /// Packet `pkt_seq` arrived; `rcv_high` is the highest byte received before it. Returns how
    /// many packets more are now known to have been sent; `None`: this one had arrived before, and the
    /// path has doubled it.
    pub(super) fn on_arrival(&mut self, pkt_seq: u64, rcv_high: u64, now: Instant) -> Option<u64> {
        if pkt_seq < self.next {
            return self.on_late(pkt_seq, now).then_some(0);
        }
        let expected = (pkt_seq - self.next).saturating_add(1);
        if pkt_seq > self.next {
            let gap = Gap { end: pkt_seq, revealed: now, rcv_high };
            self.pending.insert(self.next, gap);
            self.missing = self.missing.saturating_add(pkt_seq - self.next);
        }
        self.next = pkt_seq.saturating_add(1);
        Some(expected)
    }

    pub(super) fn set_rtt_min(&mut self, rtt_min: Duration) {
        self.settling.rtt_min = rtt_min;
        // What a near path took is too much of a far one.
        self.settling.steps = self.settling.steps.min(self.settling.most_steps());
    }

    /// A late packet: takes its number out of the gap it is in. False if it is in none.
    fn on_late(&mut self, pkt_seq: u64, now: Instant) -> bool {
        if let Some((&start, &gap)) = self.pending.range(..=pkt_seq).next_back()
            && pkt_seq < gap.end
        {
            self.settling.on_reordering();
            self.pending.remove(&start);
            self.missing -= 1;
            if start < pkt_seq {
                self.pending.insert(start, Gap { end: pkt_seq, ..gap });
            }
            if pkt_seq + 1 < gap.end {
                self.pending.insert(pkt_seq + 1, gap);
            }
            return true;
        }
        let i = self.announced.partition_point(|g| g.end <= pkt_seq);
        let is_announced = self.announced.get(i).is_some_and(|g| g.contains(&pkt_seq));
        if is_announced {
            // Keep what is left above it: several late packets of one gap are one proof, and
            // the settling time grows at most once per RTTmin anyway.
            self.announced[i].start = pkt_seq + 1;
            self.settling.on_proof(now);
        }
        is_announced
    }

    /// When the next IACK is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let settled = self.settled_at()?;
        // The peer tells RTTmin: spacing must not make room for more gaps than the bound.
        let spacing = match self.pending.len() > MAX_PENDING {
            true => Duration::ZERO,
            false => self.settling.rtt_min / PER_RTT,
        };
        Some(self.last_iack.map_or(settled, |last| settled.max(last + spacing)))
    }

    /// A TACK that is due at `at` waits for a gap which settles right away behind it.
    pub(super) fn settled_soon(&self, at: Instant) -> Instant {
        let soon = |settled: &Instant| (at..=at + self.settling.in_order()).contains(settled);
        self.deadline().filter(soon).unwrap_or(at)
    }

    /// When the oldest pending gap settles. Mostly there is none.
    #[inline]
    fn settled_at(&self) -> Option<Instant> {
        let (_, oldest) = self.pending.first_key_value()?;
        if self.pending.len() > MAX_PENDING {
            return Some(oldest.revealed);
        }
        let passed = self.next - oldest.end;
        let many = self.missing >= DUP_THRESH && passed >= DUP_THRESH;
        Some(oldest.revealed + self.settling.time(many))
    }

    /// The gaps that an IACK announces now, ascending; none before the deadline. At most `room`.
    pub(super) fn poll(&mut self, room: usize, now: Instant) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return gaps;
        }
        let room = room.clamp(1, MAX_GAPS);
        while gaps.len() < room && self.settled_at().is_some_and(|at| at <= now) {
            let Some((start, gap)) = self.pending.pop_first() else { break };
            self.missing -= gap.end - start;
            if self.announced.len() == MAX_ANNOUNCED {
                self.announced.pop_front();
            }
            self.announced.push_back(start..gap.end);
            self.settling.on_announced();
            gaps.push(start..gap.end);
        }
        self.last_iack = (gaps.len() < room).then_some(now);
        gaps
    }

    /// Holes of SEQ space below this are settled: their loss was announced. `None`: all are.
    pub(super) fn settled_below(&self) -> Option<u64> {
        self.pending.first_key_value().map(|(_, gap)| gap.rcv_high)
    }

    /// Largest PKT.SEQ received; the one before the first when none was.
    pub(super) fn largest(&self) -> u64 {
        self.next.saturating_sub(1)
    }
}

/// The adaptive settling time.
#[derive(Debug)]
struct Settling {
    rtt_min: Duration,
    divisor: u32,
    /// Settling time in steps of RTTmin/divisor, up to `divisor`; 0 on paths that do not reorder.
    steps: u32,
    /// A packet came late once.
    reordered: bool,
    last_step: Option<Instant>,
    announced_since_proof: u32,
}

impl Settling {
    fn new(divisor: u32) -> Self {
        Settling {
            rtt_min: Duration::ZERO,
            divisor: divisor.max(1),
            steps: 1,
            reordered: false,
            last_step: None,
            announced_since_proof: 0,
        }
    }

    /// `many` packets are missing, and as many have passed them.
    fn time(&self, many: bool) -> Duration {
        match self.steps {
            _ if many && !self.reordered => self.in_order(),
            _ if self.rtt_min.is_zero() => UNKNOWN_SETTLING,
            0 => self.in_order(),
            steps => (self.rtt_min / self.divisor).saturating_mul(steps),
        }
    }

    /// What is left on a path that does not reorder.
    fn in_order(&self) -> Duration {
        self.rtt_min / self.divisor / IN_ORDER
    }

    fn most_steps(&self) -> u32 {
        let near = NEAR_SETTLING.div_duration_f64(self.rtt_min.max(Duration::from_nanos(1)));
        (f64::from(self.divisor) * near.clamp(LONGEST_RTTS, NEAR_RTTS)) as u32
    }

    fn on_announced(&mut self) {
        self.announced_since_proof += 1;
        if self.announced_since_proof >= LOSSES_PER_STEP_DOWN {
            self.announced_since_proof = 0;
            self.steps = self.steps.saturating_sub(1);
        }
    }

    /// A packet came late, though not too late.
    fn on_reordering(&mut self) {
        self.announced_since_proof = 0;
        self.reordered = true;
        self.steps = self.steps.max(1);
    }

    fn on_proof(&mut self, now: Instant) {
        self.on_reordering();
        if self.last_step.is_none_or(|at| now - at >= self.rtt_min) {
            self.last_step = Some(now);
            self.steps = (self.steps + 1).min(self.most_steps());
        }
    }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
