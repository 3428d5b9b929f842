//! Contention: who may send next, and what that does to everybody's backoff.
//!
//! ```text
//! a_i = max(idle, hold_i) + SIFS + AIFSN_i · slot      earliest start after the medium fell idle
//! T_i = a_i + bo_i · slot                              access time
//! W   = { i : T_i <= min T + cca }                     one winner sends, several collide
//! ```
//!
//! Whoever is not in `W` and had begun to count (`a_i <= min T`) loses the whole slots that passed
//! and, under EDCA, the one in which the winner began. Nothing is simulated slot by slot: the cost
//! of an access is linear in the contenders that count down, and idle ones cost nothing.

use rand_pcg::Pcg64;

use super::config::FreezeRule;
use super::edca::AcParams;
use super::phy::Ns;
use crate::draw::{below, chance, nanos};

/// One queue's contention state.
#[derive(Debug)]
pub(super) struct Contender {
    /// Its node: holds are shared by the categories of a node.
    pub(super) node: u32,
    /// `SIFS + AIFSN · slot`.
    pub(super) aifs: Ns,
    cw_min: u32,
    cw_max: u32,
    pub(super) txop: Ns,
    cw: u32,
    /// Backoff slots left.
    backoff: u32,
    /// The last backoff ran out with nothing to send: a frame that finds the medium idle may go
    /// at once.
    done: bool,
    /// Has something to send.
    pub(super) backlogged: bool,
    /// In `counting`.
    counting: bool,
}

/// The shared medium as the contenders see it.
#[derive(Debug)]
pub(super) struct Contention {
    slot: Ns,
    cca: Ns,
    freeze: FreezeRule,
    /// When the medium last became idle, or will after the exchange under way.
    pub(super) idle_at: Ns,
    /// End of the PPDU under way, if frames that arrive at that very instant find the medium idle.
    gap_at: Option<Ns>,
    /// Per node: its own earliest idle start, after EIFS or a response timeout.
    hold: Vec<Ns>,
    contenders: Vec<Contender>,
    /// Contenders whose backoff runs: backlogged ones, and empty ones after an attempt.
    counting: Vec<u32>,
    next: Option<Ns>,
    next_is_known: bool,
}

impl Contention {
    pub(super) fn new(slot: Ns, cca: Ns, freeze: FreezeRule, nodes: usize) -> Contention {
        Contention {
            slot,
            cca,
            freeze,
            idle_at: 0,
            gap_at: None,
            hold: vec![0; nodes],
            contenders: Vec::new(),
            counting: Vec::new(),
            next: None,
            next_is_known: true,
        }
    }

    /// Adds a contender of `node` and returns its number. Higher numbers of a node win its
    /// internal collisions.
    pub(super) fn add(&mut self, node: u32, sifs: Ns, params: &AcParams) -> u32 {
        self.contenders.push(Contender {
            node,
            aifs: sifs + Ns::from(params.aifsn) * self.slot,
            cw_min: params.cw_min,
            cw_max: params.cw_max,
            txop: nanos(params.txop),
            cw: params.cw_min,
            backoff: 0,
            done: true,
            backlogged: false,
            counting: false,
        });
        u32::try_from(self.contenders.len() - 1).expect("nodes are bounded by MAX_NODES")
    }

    pub(super) fn contender(&self, id: u32) -> &Contender {
        &self.contenders[id as usize]
    }

    pub(super) fn node(&self, id: u32) -> u32 {
        self.contender(id).node
    }

    pub(super) fn is_backlogged(&self, id: u32) -> bool {
        self.contender(id).backlogged
    }

    fn count_start(&self, c: &Contender) -> Ns {
        self.idle_at.max(self.hold[c.node as usize]) + c.aifs
    }

    fn access_time(&self, c: &Contender) -> Ns {
        self.count_start(c) + Ns::from(c.backoff) * self.slot
    }

    /// When the next access begins; `None` while nobody has anything to send.
    pub(super) fn next_access(&mut self) -> Option<Ns> {
        if !self.next_is_known {
            let times = self.counting.iter().map(|&id| self.contender(id));
            self.next = times.filter(|c| c.backlogged).map(|c| self.access_time(c)).min();
            self.next_is_known = true;
        }
        self.next
    }

    /// Something arrived at `now` for contender `id`, which had nothing before.
    pub(super) fn backlog(&mut self, id: u32, now: Ns, rng: &mut Pcg64) {
        let start = self.count_start(self.contender(id));
        let (idle_at, slot) = (self.idle_at, self.slot);
        let c = &mut self.contenders[id as usize];
        if c.backlogged {
            return;
        }
        c.backlogged = true;
        self.next_is_known = false;
        if now < idle_at {
            if c.done && self.gap_at != Some(now) {
                c.backoff = draw_backoff(rng, c.cw);
            }
        } else if now > start + Ns::from(c.backoff) * slot {
            // The backoff is over already; frames start on slot boundaries.
            c.backoff = u32::try_from((now - start).div_ceil(slot)).unwrap_or(u32::MAX);
        }
        c.done = false;
        if !c.counting {
            c.counting = true;
            self.counting.push(id);
        }
    }

    /// Contender `id` has nothing to send any more (or is away). Its backoff runs on.
    pub(super) fn drained(&mut self, id: u32) {
        self.contenders[id as usize].backlogged = false;
        self.next_is_known = false;
    }

    /// Everyone whose access time falls within carrier sense's reach of the earliest one, with
    /// those times, lowest number first. Freezes the others.
    pub(super) fn contend(&mut self, winners: &mut Vec<(u32, Ns)>) {
        winners.clear();
        let Some(first) = self.next_access() else { return };
        let mut i = 0;
        while i < self.counting.len() {
            let id = self.counting[i];
            let start = self.count_start(self.contender(id));
            let c = &mut self.contenders[id as usize];
            let access = start + Ns::from(c.backoff) * self.slot;
            if c.backlogged && access <= first + self.cca {
                winners.push((id, access));
            } else {
                if first >= start {
                    let boundary = Ns::from(self.freeze == FreezeRule::Edca);
                    let lost = (first - start) / self.slot + boundary;
                    c.backoff = c.backoff.saturating_sub(u32::try_from(lost).unwrap_or(u32::MAX));
                }
                if !c.backlogged && (access <= first || c.backoff == 0) {
                    c.done = true;
                    c.backoff = 0;
                    c.counting = false;
                    self.counting.swap_remove(i);
                    continue;
                }
            }
            i += 1;
        }
        winners.sort_unstable();
        self.next_is_known = false;
    }

    /// An attempt of `id` succeeded: smallest window, and a backoff after it even if nothing waits.
    pub(super) fn succeeded(&mut self, id: u32, rng: &mut Pcg64) {
        let c = &mut self.contenders[id as usize];
        c.cw = c.cw_min;
        c.backoff = draw_backoff(rng, c.cw);
        self.next_is_known = false;
    }

    /// An attempt of `id` failed: window doubled, or smallest again if the frame was given up.
    pub(super) fn failed(&mut self, id: u32, gave_up: bool, rng: &mut Pcg64) {
        let c = &mut self.contenders[id as usize];
        c.cw = if gave_up { c.cw_min } else { (2 * c.cw + 1).min(c.cw_max) };
        c.backoff = draw_backoff(rng, c.cw);
        self.next_is_known = false;
    }

    /// The medium is busy until `idle_at`.
    pub(super) fn busy_until(&mut self, idle_at: Ns) {
        self.idle_at = idle_at;
        self.next_is_known = false;
    }

    /// Frames that arrive at `at`, between a PPDU and its response, need no backoff.
    pub(super) fn open_gap(&mut self, at: Ns) {
        self.gap_at = Some(at);
    }

    /// `node` must see the medium idle from no earlier than `at`.
    pub(super) fn hold(&mut self, node: u32, at: Ns) {
        self.hold[node as usize] = at;
        self.next_is_known = false;
    }

    /// Each node with probability `share` must see the medium idle from no earlier than `at`
    /// (EIFS). Senders are held separately afterwards.
    pub(super) fn hold_some(&mut self, at: Ns, share: f64, rng: &mut Pcg64) {
        for hold in &mut self.hold {
            if chance(rng, share) {
                *hold = at;
            }
        }
        self.next_is_known = false;
    }
}

/// Uniform in `0..=cw`.
fn draw_backoff(rng: &mut Pcg64, cw: u32) -> u32 {
    below(rng, u64::from(cw) + 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::stream;

    const SLOT: Ns = 9_000;
    const SIFS: Ns = 16_000;
    const DIFS: Ns = SIFS + 2 * SLOT;

    /// Two nodes with one contender each and windows of one slot: nothing is left to chance.
    fn two(freeze: FreezeRule) -> Contention {
        let mut c = Contention::new(SLOT, 4_000, freeze, 2);
        for node in 0..2 {
            c.add(node, SIFS, &AcParams::new(0, 0, 2));
        }
        c
    }

    fn winners(c: &mut Contention) -> Vec<(u32, Ns)> {
        let mut winners = Vec::new();
        c.contend(&mut winners);
        winners
    }

    #[test]
    fn a_frame_that_finds_the_medium_long_idle_goes_on_the_next_slot_boundary() {
        let (mut c, mut rng) = (two(FreezeRule::Edca), stream(1, 0));
        assert_eq!(c.next_access(), None);
        c.backlog(0, DIFS + 10 * SLOT + 1, &mut rng);
        assert_eq!(c.next_access(), Some(DIFS + 11 * SLOT));
        // One that came within DIFS waits for its end.
        let mut c = two(FreezeRule::Edca);
        c.backlog(0, 5, &mut rng);
        assert_eq!(c.next_access(), Some(DIFS));
    }

    #[test]
    fn the_freezing_rules_differ_by_the_slot_in_which_the_other_starts() {
        for (freeze, left) in [(FreezeRule::Edca, 2), (FreezeRule::Dcf, 3)] {
            let (mut c, mut rng) = (two(freeze), stream(1, 0));
            c.backlog(0, 0, &mut rng);
            c.backlog(1, 0, &mut rng);
            c.contenders[0].backoff = 4;
            c.contenders[1].backoff = 7;
            assert_eq!(winners(&mut c), [(0, DIFS + 4 * SLOT)]);
            assert_eq!(c.contenders[1].backoff, left);
        }
    }

    #[test]
    fn starts_closer_than_carrier_sense_collide() {
        let (mut c, mut rng) = (two(FreezeRule::Edca), stream(1, 0));
        c.backlog(0, 0, &mut rng);
        c.backlog(1, 0, &mut rng);
        c.hold(1, 4_000);
        assert_eq!(winners(&mut c), [(0, DIFS), (1, DIFS + 4_000)]);
        c.hold(1, 4_001);
        assert_eq!(winners(&mut c), [(0, DIFS)]);
    }

    #[test]
    fn windows_double_up_to_the_largest_and_fall_back() {
        let mut rng = stream(1, 0);
        let mut c = Contention::new(SLOT, 4_000, FreezeRule::Edca, 1);
        let id = c.add(0, SIFS, &AcParams::new(15, 100, 2));
        let windows: Vec<_> = (0..4)
            .map(|_| {
                c.failed(id, false, &mut rng);
                c.contenders[0].cw
            })
            .collect();
        assert_eq!(windows, [31, 63, 100, 100]);
        c.failed(id, true, &mut rng);
        assert_eq!(c.contenders[0].cw, 15);
        c.failed(id, false, &mut rng);
        c.succeeded(id, &mut rng);
        assert_eq!(c.contenders[0].cw, 15);
    }

    #[test]
    fn backoff_is_uniform_over_the_window() {
        let mut rng = stream(7, 0);
        let mut seen = [0u32; 16];
        for _ in 0..160_000 {
            seen[draw_backoff(&mut rng, 15) as usize] += 1;
        }
        // Four standard deviations of a count around 10 000.
        assert!(seen.iter().all(|n| n.abs_diff(10_000) < 400), "{seen:?}");
    }

    #[test]
    fn a_post_backoff_that_has_run_out_is_drawn_anew_in_a_busy_period() {
        let mut rng = stream(3, 0);
        let mut c = Contention::new(SLOT, 4_000, FreezeRule::Edca, 2);
        c.add(0, SIFS, &AcParams::new(0, 0, 2));
        c.add(1, SIFS, &AcParams::new(1_023, 1_023, 2));
        c.backlog(0, 0, &mut rng);
        winners(&mut c);
        c.busy_until(1_000_000);
        let draws: Vec<_> = (0..20)
            .map(|_| {
                c.contenders[1].done = true;
                c.contenders[1].backlogged = false;
                c.backlog(1, 500_000, &mut rng);
                c.contenders[1].backoff
            })
            .collect();
        assert!(draws.iter().any(|b| *b > 100), "{draws:?}");
        // One that still runs keeps its place.
        c.contenders[1].backlogged = false;
        c.contenders[1].done = false;
        c.contenders[1].backoff = 5;
        c.backlog(1, 600_000, &mut rng);
        assert_eq!(c.contenders[1].backoff, 5);
    }
}
