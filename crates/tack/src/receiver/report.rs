//! Which holes a TACK lists, and when it lists more [TON §V-A, §VI-B].
//!
//! A hole ("receive-buffer bubble", RBB) is a range of SEQ space that is missing below the highest
//! byte received. The lowest come first, because delivery waits for them. Only settled holes are
//! listed: the others may be reordering, and their loss IACK has not been sent yet.
//!
//! - Rule 1: as many distinct holes as fit.
//! - Rule 2: the room that is left is filled by repeating the oldest.
//!
//! Deviation: rule 2 is followed by the policies of the paper, "rich" and "poor"; on demand, a
//! hole is repeated from TACK to TACK but not inside one. A TACK arrives whole or not at all, so
//! a copy inside it says nothing, and its airtime is what we set out to save.
//!
//! Deviation: Eq. 5 is a trigger, and it triggers early. Exactly the dQ blocks it asks for is marginal
//! (repair time p99 of 19 RTT at 1 Gbit/s, 200 ms, rho 1 %, rho' 10 %), since a list spends its slots
//! on holes whose retransmission is already on its way; once it holds, every hole is listed (p99 of
//! 2 RTT). For the same reason one hole per TACK is too few long before Eq. 5 says so: a hole whose
//! IACK was lost has to become the lowest first, and keeps the slot for `RTT + alpha`, not for
//! `alpha`. At 200 ms, 100 Mbit/s, rho 1 %, rho' 5 % (Eq. 5: 0.86 of Q) that cost 23 % of the goodput.
//! So the list is complete from one lost IACK per [`MARGIN`] round trips on; the price is bytes in
//! TACKs, never another packet. And a hole that was announced in vain is listed whatever Eq. 5 says
//! (`receiver/in_vain.rs`): while rho' is 0, the one IACK that is lost would be missed for ever.

use core::ops::Range;

use crate::params::RbbPolicy;
use crate::{Ranges, equations};

/// How far below Eq. 5 the whole list begins.
const MARGIN: f64 = 32.0;

/// What a TACK says about the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Holes, ascending, then repeated.
    pub(super) holes: Vec<Range<u64>>,
    /// Every hole is in `holes`.
    pub(super) complete: bool,
}

/// How many holes may be listed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    distinct: usize,
    fill: bool,
    unsettled: bool,
}

/// The policy applied: `max_holes` fit the MSS, some hole was announced `in_vain` or not, and Eq. 5
/// is asked with what both ends measured.
pub(super) fn room(
    policy: RbbPolicy,
    max_holes: usize,
    in_vain: bool,
    rho: f64,
    rho_prime: f64,
    link: &equations::Link,
) -> Room {
    match policy {
        RbbPolicy::Rich => Room { distinct: max_holes, fill: true, unsettled: false },
        RbbPolicy::Every => Room { distinct: max_holes, fill: false, unsettled: true },
        RbbPolicy::Poor(q) => {
            let q = usize::try_from(q).unwrap_or(usize::MAX);
            Room { distinct: max_holes.min(q.max(1)), fill: true, unsettled: false }
        }
        RbbPolicy::OnDemand => {
            let more = in_vain || equations::more_blocks_needed(rho, MARGIN * rho_prime, 1, link);
            let distinct = if more { max_holes } else { max_holes.min(1) };
            Room { distinct, fill: false, unsettled: false }
        }
    }
}

/// The list: holes between `rcv_nxt` and the highest of `queued` that start below
/// `settled_below` (all of them, if `None`).
pub(super) fn report(
    rcv_nxt: u64,
    queued: &Ranges,
    settled_below: Option<u64>,
    room: Room,
) -> Report {
    let settled_below = settled_below.filter(|_| !room.unsettled);
    let mut gaps = queued.gaps(rcv_nxt).peekable();
    let mut holes = Vec::new();
    while holes.len() < room.distinct
        && let Some(gap) = gaps.next_if(|g| settled_below.is_none_or(|limit| g.start < limit))
    {
        holes.push(gap);
    }
    let complete = gaps.peek().is_none();
    let distinct = holes.len();
    if room.fill && distinct > 0 {
        for i in 0..room.distinct - distinct {
            holes.push(holes[i % distinct].clone());
        }
    }
    Report { holes, complete }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of one hole
mod tests {
    use super::*;

    const LINK: equations::Link =
        equations::Link { bdp: 25_000_000, beta: 4, segments_per_ack: 2, mss: 1_500 };

    fn queued() -> Ranges {
        let mut r = Ranges::new();
        for range in [4..7, 10..11, 20..30] {
            r.insert(range);
        }
        r
    }

    #[test]
    fn distinct_holes_come_first_and_lowest_first_then_the_oldest_repeat() {
        // [TON §VI-B], rules 1 and 2.
        let room = room(RbbPolicy::Rich, 7, false, 0.0, 0.0, &LINK);
        let r = report(2, &queued(), None, room);
        let distinct = [2..4, 7..10, 11..20];
        let expected: Vec<_> = distinct.iter().cycle().take(7).cloned().collect();
        assert_eq!(r, Report { holes: expected, complete: true });
    }

    #[test]
    fn a_short_list_is_not_complete() {
        let r = report(2, &queued(), None, room(RbbPolicy::Rich, 2, false, 0.0, 0.0, &LINK));
        assert_eq!(r, Report { holes: vec![2..4, 7..10], complete: false });
    }

    #[test]
    fn poor_lists_q_holes_and_fills_its_q_slots() {
        let one = report(2, &queued(), None, room(RbbPolicy::Poor(1), 100, false, 0.5, 0.5, &LINK));
        assert_eq!(one.holes, [2..4]);
        let five =
            report(2, &queued(), None, room(RbbPolicy::Poor(5), 100, false, 0.5, 0.5, &LINK));
        assert_eq!(five.holes, [2..4, 7..10, 11..20, 2..4, 7..10]);
    }

    #[test]
    fn on_demand_lists_one_hole_until_equation_5_comes_near_and_then_all() {
        let calm =
            report(2, &queued(), None, room(RbbPolicy::OnDemand, 100, false, 0.001, 0.001, &LINK));
        assert_eq!(calm, Report { holes: vec![2..4], complete: false });
        let rough =
            report(2, &queued(), None, room(RbbPolicy::OnDemand, 100, false, 0.01, 0.1, &LINK));
        assert_eq!(rough, Report { holes: vec![2..4, 7..10, 11..20], complete: true });
    }

    #[test]
    fn on_demand_lists_all_once_one_was_announced_in_vain() {
        let room = room(RbbPolicy::OnDemand, 100, true, 0.0, 0.0, &LINK);
        assert_eq!(report(2, &queued(), None, room).holes, [2..4, 7..10, 11..20]);
    }

    #[test]
    fn holes_that_have_not_settled_are_not_listed() {
        // [TON §V-A], last paragraph.
        let all = room(RbbPolicy::Rich, 3, false, 0.0, 0.0, &LINK);
        let r = report(2, &queued(), Some(11), all);
        assert_eq!(r, Report { holes: vec![2..4, 7..10, 2..4], complete: false });
        let none = report(2, &queued(), Some(2), all);
        assert_eq!(none, Report { holes: vec![], complete: false });
    }

    #[test]
    fn every_hole_is_listed_once_whether_it_has_settled_or_not() {
        let all = room(RbbPolicy::Every, 9, false, 0.0, 0.0, &LINK);
        let r = report(2, &queued(), Some(2), all);
        assert_eq!(r, Report { holes: vec![2..4, 7..10, 11..20], complete: true });
    }

    #[test]
    fn nothing_missing_is_a_complete_empty_list() {
        let all = room(RbbPolicy::Rich, 9, false, 0.0, 0.0, &LINK);
        let nothing = report(2, &Ranges::new(), None, all);
        assert_eq!(nothing, Report { holes: vec![], complete: true });
        let no_room = room(RbbPolicy::OnDemand, 0, false, 0.0, 0.0, &LINK);
        assert!(!report(2, &queued(), None, no_room).complete);
    }
}
