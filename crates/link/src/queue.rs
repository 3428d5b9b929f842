//! What waits before a bottleneck, and what is dropped there.
//!
//! ```text
//! push -> [ACK filter] -> [RED] -> limit -> FIFO -> [CoDel] -> pop
//! push -> [a FIFO with CoDel per flow -> round robin], limit -> pop
//! ```
//!
//! The limit always holds; the policies drop or mark before it does.

mod ack_filter;
mod codel;
mod fifo;
mod fq;
mod red;

use rand::Rng as _;
use rand_pcg::Pcg64;
use tack_units::Instant;

use crate::error::ConfigError;
use crate::ip;
use crate::link::Packet;
use ack_filter::AckFilter;
use codel::Codel;
pub use codel::CodelConfig;
pub use fifo::Limit;
use fifo::{Fifo, QueueCounters};
pub(crate) use fq::Fq;
pub use fq::FqCodelConfig;
pub use red::RedConfig;
use red::{Red, Verdict};

/// Who decides what is dropped before the limit is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// Nobody.
    #[default]
    DropTail,
    /// Random early detection on arrival.
    Red(RedConfig),
    /// Controlled delay on departure.
    Codel(CodelConfig),
    /// A queue per flow, each under controlled delay, served in turn [RFC 8290].
    FqCodel(FqCodelConfig),
}

/// A queue's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// When it is full.
    pub limit: Limit,
    /// What happens before.
    pub discipline: Discipline,
    /// Whether a TCP acknowledgment replaces an older one of its flow that still waits
    /// [RFC 3449 §5.2.1].
    pub ack_filter: bool,
}

impl Default for QueueConfig {
    /// Drop-tail, 1000 packets: Linux's default transmit queue length.
    fn default() -> Self {
        QueueConfig {
            limit: Limit::Packets(1_000),
            discipline: Discipline::DropTail,
            ack_filter: false,
        }
    }
}

impl QueueConfig {
    /// A plain drop-tail queue.
    pub fn drop_tail(limit: Limit) -> Self {
        QueueConfig { limit, ..QueueConfig::default() }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match &self.discipline {
            Discipline::DropTail => Ok(()),
            Discipline::Red(red) => red.validate(),
            Discipline::Codel(codel) => codel.validate(),
            Discipline::FqCodel(_) if self.ack_filter => Err(ConfigError::AckFilterPerFlow),
            Discipline::FqCodel(fq) => fq.validate(),
        }
    }
}

#[derive(Debug)]
enum Policy {
    DropTail,
    Red(Red),
    Codel(CodelConfig, Codel),
    FqCodel(Box<Fq>),
}

/// A running queue.
#[derive(Debug)]
pub(crate) struct Queue {
    fifo: Fifo,
    limit: Limit,
    policy: Policy,
    filter: Option<AckFilter>,
    counters: QueueCounters,
}

impl Queue {
    pub(crate) fn new(config: QueueConfig, mut rng: Pcg64) -> Self {
        let policy = match config.discipline {
            Discipline::DropTail => Policy::DropTail,
            Discipline::Red(red) => Policy::Red(Red::new(red, rng)),
            Discipline::Codel(codel) => Policy::Codel(codel, Codel::default()),
            Discipline::FqCodel(fq) => {
                Policy::FqCodel(Box::new(Fq::new(fq, config.limit, 1, rng.next_u64())))
            }
        };
        Queue {
            fifo: Fifo::default(),
            limit: config.limit,
            policy,
            filter: config.ack_filter.then(AckFilter::default),
            counters: QueueCounters::default(),
        }
    }

    pub(crate) fn push(&mut self, mut packet: Packet, now: Instant) {
        if let Policy::FqCodel(fq) = &mut self.policy {
            fq.push(0, packet, now);
            return;
        }
        let segment = self.filter.as_ref().and_then(|_| ip::tcp(&packet.bytes));
        if let (Some(filter), Some(segment)) = (&self.filter, &segment)
            && let Some(position) = filter.replaceable_by(segment)
            && self.fifo.fits_instead_of(position, packet.ip_bytes, self.limit)
        {
            self.fifo.replace(position, packet);
            self.counters.acks_replaced += 1;
            self.filter.as_mut().expect("it chose the position").admitted(segment, position);
            return;
        }
        if let Policy::Red(red) = &mut self.policy {
            match red.arrival(self.fifo.len(), packet.ecn, now) {
                Verdict::Accept => {}
                Verdict::Mark => self.counters.ce_marked += u64::from(ip::mark_ce(&mut packet)),
                Verdict::Drop => {
                    self.counters.aqm_dropped += 1;
                    return;
                }
            }
        }
        if !self.fifo.fits(packet.ip_bytes, self.limit) {
            self.counters.tail_dropped += 1;
            return;
        }
        let position = self.fifo.push(packet, now);
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.fifo.bytes);
        if let (Some(filter), Some(segment)) = (&mut self.filter, &segment) {
            filter.admitted(segment, position);
        }
    }

    /// The next packet to serve. CoDel may drop some before it, and may leave none.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Packet> {
        let packet = match &mut self.policy {
            Policy::FqCodel(fq) => return fq.pop(0, now),
            Policy::Codel(config, codel) => {
                codel.departure(config, &mut self.fifo, &mut self.counters, now)
            }
            Policy::DropTail | Policy::Red(_) => self.fifo.pop().map(|head| head.packet),
        };
        if let Some(filter) = &mut self.filter {
            filter.forget_before(self.fifo.head_position);
        }
        if let Policy::Red(red) = &mut self.policy
            && packet.is_some()
            && self.fifo.len() == 0
        {
            red.emptied(now);
        }
        packet
    }

    pub(crate) fn len(&self) -> usize {
        if let Policy::FqCodel(fq) = &self.policy { fq.len() } else { self.fifo.len() }
    }

    /// IP-level bytes waiting.
    pub(crate) fn bytes(&self) -> u64 {
        if let Policy::FqCodel(fq) = &self.policy { fq.bytes() } else { self.fifo.bytes }
    }

    pub(crate) fn counters(&self) -> &QueueCounters {
        if let Policy::FqCodel(fq) = &self.policy { fq.counters() } else { &self.counters }
    }
}

#[cfg(test)]
mod tests;
