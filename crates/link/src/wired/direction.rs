//! One direction: queue, bottleneck, medium and flight, and the account of all four.

use tack_units::{Instant, earliest};

use super::bottleneck::Bottleneck;
use super::config::DirectionConfig;
use super::flight::Flight;
use super::medium::{Medium, Streams};
use super::outage::OutageClock;
use crate::counters::Counters;
use crate::error::ConfigError;
use crate::link::Packet;
use crate::queue::Queue;

#[derive(Debug)]
pub(super) struct Direction {
    queue: Queue,
    bottleneck: Bottleneck,
    medium: Medium,
    flight: Flight,
    counters: Counters,
    /// When something departs or is due next; [`Instant::MAX`] is never.
    next: Instant,
    /// When it asks to be polled: then, or no later than something arrives.
    wake: Instant,
    /// A mere departure is no reason to be polled.
    for_arrivals: bool,
}

impl Direction {
    pub(super) fn new(
        config: DirectionConfig,
        seed: u64,
        number: u64,
    ) -> Result<Direction, ConfigError> {
        config.validate()?;
        let streams = Streams::new(seed, number);
        let medium = Medium::new(&config, &streams);
        let holds = OutageClock::new(config.holds, streams.get(2));
        Ok(Direction {
            queue: Queue::new(config.queue, streams.get(1)),
            bottleneck: Bottleneck::new(config.capacity, holds),
            medium,
            flight: Flight::default(),
            counters: Counters::default(),
            next: Instant::MAX,
            wake: Instant::MAX,
            for_arrivals: false,
        })
    }

    pub(super) fn offer(&mut self, packet: Packet, now: Instant) {
        // What happened before this packet came decides whether it finds room.
        self.advance(now);
        self.counters.offered.add(packet.ip_bytes);
        self.queue.push(packet, now);
        self.bottleneck.wake(&mut self.queue, now);
        // Asked once for each packet: what vanishes stays vanished until the next one, or the end.
        assert!(self.account().are_conserved(), "packets vanished: {:?}", self.account());
        self.look_ahead();
    }

    /// Moves everything up to `now`; when the next delivery is due, if it is by then.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Instant> {
        if now < self.next { None } else { self.work_off(now) }
    }

    /// Apart from the question whether anything is due: most find that nothing is.
    #[inline(never)]
    fn work_off(&mut self, now: Instant) -> Option<Instant> {
        while let Some((packet, t)) = self.bottleneck.depart(&mut self.queue, now) {
            self.medium.carry(packet, t, &mut self.flight, &mut self.counters);
        }
        let due = self.flight.due().filter(|due| *due <= now);
        if due.is_none() {
            // Else its delivery does.
            self.look_ahead();
        }
        due
    }

    /// The packet that [`Self::advance`] said is due.
    pub(super) fn deliver(&mut self) -> Option<Packet> {
        let packet = self.flight.land()?;
        self.counters.delivered.add(packet.ip_bytes);
        self.look_ahead();
        Some(packet)
    }

    /// What is next may be something else.
    #[inline]
    fn look_ahead(&mut self) {
        let (departs, due) = (self.bottleneck.deadline(&self.queue), self.flight.due());
        self.next = earliest(departs, due).unwrap_or(Instant::MAX);
        self.wake = self.next;
        if self.for_arrivals {
            let arrives = departs.map(|at| self.medium.earliest_arrival(at));
            self.wake = earliest(arrives, due).unwrap_or(Instant::MAX);
        }
    }

    /// When to poll again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.wake).filter(|at| *at < Instant::MAX)
    }

    /// See [`Wired::for_arrivals`](super::Wired::for_arrivals).
    pub(super) fn set_for_arrivals(&mut self) {
        self.for_arrivals = true;
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    pub(super) fn counters(&self) -> Counters {
        let counters = self.account();
        assert!(counters.are_conserved(), "packets vanished: {counters:?}");
        counters
    }

    fn account(&self) -> Counters {
        let queue = self.queue.counters();
        let waiting = self.queue.len() + usize::from(self.bottleneck.is_busy()) + self.flight.len();
        Counters {
            resident: waiting as u64,
            tail_dropped: queue.tail_dropped,
            aqm_dropped: queue.aqm_dropped,
            acks_replaced: queue.acks_replaced,
            ce_marked: queue.ce_marked,
            peak_queue_bytes: queue.peak_bytes,
            ..self.counters
        }
    }
}
