//! The guests of a host: whose turn it is, and who wants to be woken.
//!
//! Only those are asked that something happened to: a packet costs its own connection's work, however many there are.

use std::collections::{BTreeMap, BTreeSet};

use tack_link::Packet;
use tack_units::{Instant, Timers};

use crate::endpoint::{Outgoing, Spare};
use crate::flow::FlowId;
use crate::guest::GuestEnd;

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(crate) struct Guests {
    ends: BTreeMap<FlowId, GuestEnd>,
    /// Those that may have something to send.
    ready: BTreeSet<FlowId>,
    /// As each wanted when it last had nothing to send.
    timers: Timers<FlowId>,
}

impl Guests {
    pub(crate) fn add(&mut self, flow: FlowId, end: GuestEnd) {
        // A host that sleeps is asked for its deadline first.
        self.timers.set(flow, end.deadline());
        self.ready.insert(flow);
        self.ends.insert(flow, end);
    }

    pub(crate) fn get(&self, flow: FlowId) -> Option<&GuestEnd> {
        self.ends.get(&flow)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What arrived for `flow`; false: it is no guest's.
    pub(crate) fn handle(
        &mut self,
        flow: FlowId,
        packet: &Packet,
        payload: &[u8],
        now: Instant,
    ) -> bool {
        let Some(end) = self.ends.get_mut(&flow) else { return false };
        end.handle(packet, payload, now);
        self.ready.insert(flow);
        true
    }

    /// Of several that may send, the one of the lowest flow.
    pub(crate) fn poll_transmit(&mut self, spare: &mut Spare, now: Instant) -> Option<Outgoing> {
        while let Some(flow) = self.ready.first().copied() {
            let end = self.ends.get_mut(&flow)?;
            if let Some(out) = end.poll_transmit(spare, now) {
                return Some(out);
            }
            self.ready.remove(&flow);
            self.timers.set(flow, end.deadline());
        }
        None
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(flow) = self.timers.pop_due(now) {
            if let Some(end) = self.ends.get_mut(&flow) {
                end.handle_timeout(now);
            }
            self.ready.insert(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tack_link::PacketKind;
    use tack_tcp::ConnectionError;

    use super::*;
    use crate::app::{App, Pattern};
    use crate::guest::Guest;
    use crate::report::GuestInfo;
    use crate::seed::Seed;
    use crate::side::{Role, Stream};

    /// Answers each packet with two and each timeout with one, and counts how often it is asked. Where it has a deadline,
    /// each packet puts it off.
    #[derive(Debug)]
    struct Stack {
        polls: Arc<AtomicU64>,
        deadline: Option<Instant>,
        owed: u32,
    }

    impl Stream for Stack {
        fn read(&mut self, _: &mut dyn FnMut(&[u8]), _: Instant) {}

        fn at_end(&self) -> bool {
            false
        }

        fn unsent(&self) -> u64 {
            0
        }

        fn write(&mut self, _: &[u8], _: Instant) -> Option<usize> {
            Some(0)
        }

        fn finish(&mut self, _: Instant) -> bool {
            false
        }
    }

    impl Guest for Stack {
        fn connect(&mut self, _: Instant) {}

        fn handle(&mut self, _: &[u8], _: u8, now: Instant) {
            self.owed += 2;
            self.deadline = self.deadline.map(|_| now + Duration::from_millis(10));
        }

        fn poll_transmit(&mut self, _: &mut Vec<u8>, _: Instant) -> Option<(PacketKind, u8)> {
            self.polls.fetch_add(1, Ordering::Relaxed);
            self.owed = self.owed.checked_sub(1)?;
            Some((PacketKind::Data, 0))
        }

        fn deadline(&self) -> Option<Instant> {
            self.deadline
        }

        fn handle_timeout(&mut self, now: Instant) {
            assert!(self.deadline.take().is_some_and(|at| at <= now));
            self.owed += 1;
        }

        fn closed(&self) -> Option<Result<(), ConnectionError>> {
            None
        }

        fn info(&self) -> Option<GuestInfo> {
            None
        }
    }

    const PEER: u32 = 1;

    /// A guest for each deadline, and how often each is asked.
    fn guests(deadlines: [Option<Instant>; 3]) -> (Guests, [Arc<AtomicU64>; 3]) {
        let (mut guests, polls) = (Guests::default(), <[Arc<AtomicU64>; 3]>::default());
        let pattern = Arc::new(Pattern::new(Seed(1).stream("pattern")));
        for (n, deadline) in (0..).zip(deadlines) {
            let polls = Arc::clone(&polls[n as usize]);
            let stack = Box::new(Stack { polls, deadline, owed: 0 });
            let role = Role::Server { app: App::Bulk { bytes: None } };
            let (flow, at, pattern) = (FlowId(n), Ipv4Addr::LOCALHOST, Arc::clone(&pattern));
            guests.add(flow, GuestEnd::new((flow, n as u16), role, pattern, stack, at, (PEER, at)));
        }
        (guests, polls)
    }

    fn sent(guests: &mut Guests, now: Instant) -> usize {
        core::iter::from_fn(|| guests.poll_transmit(&mut Spare::default(), now)).count()
    }

    fn asked(polls: &[Arc<AtomicU64>; 3]) -> [u64; 3] {
        polls.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }

    #[test]
    fn a_stack_is_asked_when_a_packet_or_its_time_came_and_not_for_its_neighbours() {
        let at = Instant::from_millis;
        let (mut guests, polls) = guests([Some(at(9)), None, Some(at(5))]);
        assert_eq!((sent(&mut guests, at(0)), asked(&polls)), (0, [1; 3]), "each is new");
        let packet = Packet::default();
        for ms in 1..5 {
            assert!(guests.handle(FlowId(1), &packet, &[0; 8], at(ms)));
            assert_eq!((sent(&mut guests, at(ms)), asked(&polls)), (2, [0, 3, 0]));
            guests.handle_timeout(at(ms));
            assert_eq!((sent(&mut guests, at(ms)), asked(&polls)), (0, [0; 3]));
            assert_eq!(guests.deadline(), Some(at(5)));
        }
        guests.handle_timeout(at(5));
        assert_eq!((sent(&mut guests, at(5)), asked(&polls)), (1, [0, 0, 2]));
        assert_eq!(guests.deadline(), Some(at(9)));
        assert!(!guests.handle(FlowId(3), &packet, &[0; 8], at(6)), "nobody's");
        assert_eq!((sent(&mut guests, at(6)), asked(&polls)), (0, [0; 3]));
    }

    #[test]
    fn a_deadline_that_a_packet_put_off_while_a_late_host_slept_is_not_served_early() {
        let at = Instant::from_millis;
        let (mut guests, polls) = guests([Some(at(3)), Some(at(4)), None]);
        assert_eq!(guests.deadline(), Some(at(3)), "before anything was asked");
        assert_eq!((sent(&mut guests, at(0)), asked(&polls)), (0, [1; 3]));
        assert!(guests.handle(FlowId(0), &Packet::default(), &[0; 8], at(4)));
        guests.handle_timeout(at(4));
        assert_eq!((sent(&mut guests, at(4)), asked(&polls)), (3, [3, 2, 0]));
        assert_eq!(guests.deadline(), Some(at(14)));
    }
}
