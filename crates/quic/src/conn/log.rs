//! What one packet number space has sent and not heard of.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tack_transport::Snapshot;
use tack_units::Instant;

use super::space::Load;
use crate::seen::LossReason;

/// A packet that leaves.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// It asks for an acknowledgment, and counts as in flight.
    pub(crate) eliciting: bool,
    /// It has an ECN mark.
    pub(crate) marked: bool,
    /// Bytes of it.
    pub(crate) bytes: u32,
    pub(crate) carried: Load,
}

/// A packet that left.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) sent: Sent,
    pub(super) at: Instant,
    pub(super) snapshot: Snapshot,
    /// It was declared lost, and is remembered because it may be late only.
    pub(super) lost: bool,
    /// It is in flight on the path that was left, see [`Log::leave_path`].
    pub(super) former: bool,
}

/// Packets by their numbers, which ascend: they leave in this order and are settled nearly in it.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// `None` of those that are settled, but never at the front.
    ring: VecDeque<(u64, Option<Logged>)>,
    held: usize,
}

impl Packets {
    pub(super) fn len(&self) -> usize {
        self.held
    }

    /// `number` is greater than all before.
    fn push(&mut self, number: u64, logged: Logged) {
        self.ring.push_back((number, Some(logged)));
        self.held += 1;
    }

    fn place(&self, number: u64) -> Option<usize> {
        let (first, _) = self.ring.front()?;
        // Most often none is left out between.
        let likely = usize::try_from(number.checked_sub(*first)?).ok()?;
        match self.ring.get(likely) {
            Some((found, _)) if *found == number => Some(likely),
            _ => self.ring.binary_search_by_key(&number, |(number, _)| *number).ok(),
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Logged> {
        self.ring[self.place(number)?].1.as_ref()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Logged> {
        let place = self.place(number)?;
        self.ring[place].1.as_mut()
    }

    fn remove(&mut self, number: u64) -> Option<Logged> {
        let place = self.place(number)?;
        let logged = self.ring[place].1.take()?;
        self.held -= 1;
        while self.ring.front().is_some_and(|(_, logged)| logged.is_none()) {
            self.ring.pop_front();
        }
        Some(logged)
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<u64> {
        self.ring.front().map(|(number, _)| *number)
    }

    /// Those of `numbers`, ascending.
    pub(super) fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, &Logged)> {
        let start = self.ring.partition_point(|(number, _)| *number < numbers.start);
        let within = self.ring.range(start..).take_while(move |(number, _)| *number < numbers.end);
        within.filter_map(|(number, logged)| Some((*number, logged.as_ref()?)))
    }
}

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) packets: Packets,
    /// The next packet's number.
    pub(super) next: u64,
    pub(super) largest_acked: Option<u64>,
    /// When the oldest packet that was overtaken counts as lost [RFC 9002 §6.1.2].
    pub(super) loss_time: Option<Instant>,
    pub(super) last_eliciting: Option<Instant>,
    /// Packets that ask for an acknowledgment, and their bytes.
    pub(super) eliciting: usize,
    pub(super) in_flight: u64,
    /// Those of them that went by the path that was left and are not lost.
    pub(super) former: u64,
    /// The last number that was left out.
    pub(super) skipped: Option<u64>,
    /// Packets to a plain peer that were taken for lost and may be late only.
    pub(super) lost: BTreeMap<u64, (Logged, LossReason)>,
}

/// Packets of a space that are remembered; of more, the oldest that asks for nothing is forgotten.
const MOST_PACKETS: usize = 1 << 17;
/// And of those that were taken for lost.
const MOST_LOST: usize = 1 << 12;

impl Log {
    pub(super) fn push(&mut self, logged: Logged) {
        let number = self.next;
        self.next += 1;
        if logged.sent.eliciting {
            self.eliciting += 1;
            self.in_flight += u64::from(logged.sent.bytes);
            self.last_eliciting = Some(logged.at);
        } else if logged.sent.carried.is_empty() || self.packets.len() >= MOST_PACKETS {
            return;
        }
        self.packets.push(number, logged);
    }

    /// The packet is settled one way or the other.
    pub(super) fn remove(&mut self, number: u64) -> Option<Logged> {
        let logged = self.packets.remove(number)?;
        if logged.sent.eliciting {
            self.eliciting -= 1;
            self.in_flight -= u64::from(logged.sent.bytes);
        }
        if logged.former {
            self.former -= u64::from(logged.sent.bytes);
        }
        Some(logged)
    }

    /// Of packets with these numbers what is in flight is not on the path that there is now. What went by others before
    /// them counts again: whoever moves and moves and acknowledges nothing gets no more than a window or two.
    pub(super) fn leave_path(&mut self, numbers: Range<u64>) {
        self.former = 0;
        for (number, slot) in &mut self.packets.ring {
            let Some(logged) = slot else { continue };
            let is_in_flight = logged.sent.eliciting && !logged.lost;
            logged.former = is_in_flight && numbers.contains(number);
            self.former += u64::from(logged.sent.bytes) * u64::from(logged.former);
        }
    }

    /// The packet is lost, but may be late only; its bytes, and what it carried.
    pub(super) fn note_lost(&mut self, number: u64) -> Option<(u32, Load)> {
        let logged = self.packets.get_mut(number)?;
        logged.lost = true;
        if core::mem::take(&mut logged.former) {
            self.former -= u64::from(logged.sent.bytes);
        }
        Some((logged.sent.bytes, logged.sent.carried.clone()))
    }

    /// A packet that was removed is lost, but may be late only.
    pub(super) fn remember_lost(&mut self, number: u64, logged: Logged, reason: LossReason) {
        if self.lost.len() >= MOST_LOST {
            self.lost.pop_first();
        }
        self.lost.insert(number, (logged, reason));
    }

    /// Those that were taken for lost `patience` after they left do not arrive any more.
    pub(super) fn forget_lost(&mut self, patience: Duration, now: Instant) {
        let is_old = |logged: &Logged| logged.at + patience < now;
        while self.lost.first_entry().is_some_and(|first| is_old(&first.get().0)) {
            self.lost.pop_first();
        }
    }

    /// What the oldest packets in flight carried that ask for an acknowledgment.
    pub(super) fn oldest(&self, packets: usize) -> Load {
        self.asking().take(packets).flat_map(|p| p.sent.carried.iter().cloned()).collect()
    }

    /// More packets in flight ask for one.
    pub(super) fn has_more_than(&self, packets: usize) -> bool {
        self.asking().nth(packets).is_some()
    }

    fn asking(&self) -> impl Iterator<Item = &Logged> {
        let all = self.packets.range(0..u64::MAX).map(|(_, p)| p);
        all.filter(|p| p.sent.eliciting && !p.lost)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::conn::space::Carried;

    #[test]
    fn a_probe_repeats_what_is_in_flight_and_not_what_is_lost_already() {
        let mut log = Log::default();
        for number in 0..3 {
            let carried: Load = [Carried::NewCid(number)].into_iter().collect();
            let sent = Sent { eliciting: true, marked: false, bytes: 1, carried };
            let snapshot = Snapshot::at(Instant::ZERO);
            log.push(Logged { sent, at: Instant::ZERO, snapshot, lost: false, former: false });
        }
        assert!(log.note_lost(0).is_some_and(|(_, load)| !load.is_empty()));
        let repeated: Vec<Carried> = log.oldest(1).into_each().collect();
        assert_eq!(repeated, [Carried::NewCid(1)]);
    }

    #[test]
    fn packets_are_found_and_settled_as_in_an_ordered_map() {
        let mut state = 1_u64;
        let mut draw = |most: u64| {
            // Any generator will do.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let logged = || Logged {
            sent: Sent { eliciting: true, marked: false, bytes: 1, carried: Load::default() },
            at: Instant::ZERO,
            snapshot: Snapshot::at(Instant::ZERO),
            lost: false,
            former: false,
        };
        let (mut packets, mut map, mut next) = (Packets::default(), BTreeMap::new(), 0);
        for _ in 0..20_000 {
            match draw(3) {
                0 => {
                    next += 1 + draw(2) * draw(4);
                    packets.push(next, logged());
                    map.insert(next, ());
                }
                1 => {
                    let number = next.saturating_sub(draw(60));
                    assert_eq!(packets.get(number).is_some(), map.contains_key(&number));
                    assert_eq!(packets.remove(number).is_some(), map.remove(&number).is_some());
                }
                _ => {
                    let from = next.saturating_sub(draw(60));
                    let range = from..from + draw(40);
                    let found: Vec<u64> = packets.range(range.clone()).map(|(n, _)| n).collect();
                    assert_eq!(found, map.range(range).map(|(n, ())| *n).collect::<Vec<_>>());
                }
            }
            assert_eq!(packets.len(), map.len());
            assert_eq!(packets.first(), map.keys().next().copied());
        }
    }
}
