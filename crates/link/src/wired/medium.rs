//! What happens to a packet between the bottleneck and the far end.

use core::time::Duration;

use rand_pcg::Pcg64;
use tack_units::Instant;

use super::config::{Corruption, DirectionConfig, Reordering};
use super::delay::DelayClock;
use super::flight::Flight;
use super::jitter::JitterClock;
use super::outage::OutageClock;
use crate::counters::Counters;
use crate::draw;
use crate::link::Packet;
use crate::loss::Loss;

/// The random streams of one direction. Their numbers are part of what a seed means.
pub(super) struct Streams {
    seed: u64,
    direction: u64,
}

impl Streams {
    pub(super) fn new(seed: u64, direction: u64) -> Self {
        Streams { seed, direction }
    }

    pub(super) fn get(&self, impairment: u64) -> Pcg64 {
        draw::stream(self.seed, self.direction << 8 | impairment)
    }
}

#[derive(Debug)]
pub(super) struct Medium {
    /// Nothing happens on it but the delay, as on most wires.
    is_plain: bool,
    blackouts: OutageClock,
    loss: Loss,
    corruption: Corruption,
    corruption_rng: Pcg64,
    duplication: f64,
    duplication_rng: Pcg64,
    delay: DelayClock,
    /// The least that a packet takes to the far end, whenever it leaves.
    shortest: Duration,
    jitter: JitterClock,
    reordering: Reordering,
    reordering_rng: Pcg64,
    /// Due time of the last packet that kept its place.
    last_due: Instant,
}

impl Medium {
    pub(super) fn new(config: &DirectionConfig, streams: &Streams) -> Self {
        let DirectionConfig { capacity, queue, holds, delay, .. } = config.clone();
        let plain = DirectionConfig { capacity, queue, holds, delay, ..DirectionConfig::default() };
        let later = config.delay_steps.iter().map(|step| step.delay);
        Medium {
            is_plain: *config == plain,
            blackouts: OutageClock::new(config.blackouts.clone(), streams.get(3)),
            loss: Loss::new(config.loss.clone(), streams.get(4)),
            corruption: config.corruption,
            corruption_rng: streams.get(5),
            duplication: config.duplication,
            duplication_rng: streams.get(6),
            delay: DelayClock::new(config.delay, &config.delay_steps),
            shortest: later.fold(delay, Duration::min),
            jitter: JitterClock::new(config.jitter, streams.get(7)),
            reordering: config.reordering,
            reordering_rng: streams.get(8),
            last_due: Instant::ZERO,
        }
    }

    /// No packet that leaves the bottleneck at `t` or later arrives before this.
    pub(super) fn earliest_arrival(&self, t: Instant) -> Instant {
        t + self.shortest
    }

    /// Takes a packet that left the bottleneck at `t`.
    pub(super) fn carry(
        &mut self,
        mut packet: Packet,
        t: Instant,
        flight: &mut Flight,
        counters: &mut Counters,
    ) {
        if self.is_plain {
            let due = t + self.delay.at(t);
            return self.launch_in_order(packet, due, flight);
        }
        // Every process sees every packet, so that its luck does not depend on the others'.
        let lost = self.loss.strikes();
        let damaged = draw::chance(&mut self.corruption_rng, self.corruption.probability);
        let copied = draw::chance(&mut self.duplication_rng, self.duplication);
        if self.blackouts.covering(t).is_some() {
            counters.blacked_out += 1;
            return;
        }
        if lost {
            counters.lost += 1;
            return;
        }
        if damaged {
            if packet.bytes.is_empty() {
                counters.corrupt_dropped += 1;
                return;
            }
            self.flip_bits(&mut packet.bytes);
            counters.corrupted += 1;
        }
        if copied {
            counters.duplicated += 1;
            self.launch(packet.clone(), t, flight, counters);
        }
        self.launch(packet, t, flight, counters);
    }

    fn launch(&mut self, packet: Packet, t: Instant, flight: &mut Flight, counters: &mut Counters) {
        let due = t + self.delay.at(t) + self.jitter.extra(t);
        let Reordering { probability, min, max } = self.reordering;
        if draw::chance(&mut self.reordering_rng, probability) {
            counters.reordered += 1;
            let held = draw::between(&mut self.reordering_rng, min, max);
            flight.launch_stray(packet, due + held);
        } else {
            self.launch_in_order(packet, due, flight);
        }
    }

    #[inline]
    fn launch_in_order(&mut self, packet: Packet, due: Instant, flight: &mut Flight) {
        self.last_due = self.last_due.max(due);
        flight.launch(packet, self.last_due);
    }

    /// Flips between one and `max_flips` different bits.
    fn flip_bits(&mut self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        let most = u64::from(self.corruption.max_flips.max(1)).min(bits);
        let mut flipped: Vec<u64> = Vec::new();
        let flips = 1 + draw::below(&mut self.corruption_rng, most);
        for _ in 0..flips {
            let bit = draw::below(&mut self.corruption_rng, bits);
            // Flipping a bit back would deliver a sound packet as a damaged one.
            if !flipped.contains(&bit) {
                flipped.push(bit);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
    }
}
