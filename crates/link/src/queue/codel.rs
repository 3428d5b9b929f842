//! Controlled delay [RFC 8289 §5]: drop at the head while packets have waited too long for too
//! long.
//!
//! Once every packet of an `interval` has waited `target` or more, one is dropped, and the n-th
//! following `interval / sqrt(n)` after the one before, until a packet has waited less.

use core::time::Duration;

use tack_units::Instant;

use super::fifo::{Fifo, QueueCounters};
use crate::draw;
use crate::error::ConfigError;
use crate::ip;
use crate::link::Packet;

/// CoDel's two constants, and whether it marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Standing delay that is acceptable.
    pub target: Duration,
    /// About the worst round-trip time of the flows.
    pub interval: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for CodelConfig {
    /// 5 ms and 100 ms [RFC 8289 §4.2, §4.3], dropping.
    fn default() -> Self {
        CodelConfig {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }
}

impl CodelConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.interval.is_zero() {
            return Err(ConfigError::NotPositive("CoDel's interval"));
        }
        Ok(())
    }
}

/// The state variables of [RFC 8289 §5.4], by their names there. The constants come with each call:
/// the queues of many flows share theirs.
#[derive(Debug, Default)]
pub(super) struct Codel {
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above_time: Option<Instant>,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    dropping: bool,
    /// Largest packet seen: a queue of less than one is never a standing queue.
    maxpacket: u64,
}

impl Codel {
    /// Takes the next packet, dropping or marking on the way.
    pub(super) fn departure(
        &mut self,
        config: &CodelConfig,
        fifo: &mut Fifo,
        counters: &mut QueueCounters,
        now: Instant,
    ) -> Option<Packet> {
        let (mut packet, mut ok_to_drop) = self.dodequeue(config, fifo, now)?;
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if mark(config, &mut packet, counters) {
                    self.drop_next = control_law(config, self.drop_next, self.count);
                    break;
                }
                counters.aqm_dropped += 1;
                let Some(next) = self.dodequeue(config, fifo, now) else {
                    self.dropping = false;
                    return None;
                };
                (packet, ok_to_drop) = next;
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next = control_law(config, self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            let marked = mark(config, &mut packet, counters);
            self.enter_dropping(config, now);
            if !marked {
                counters.aqm_dropped += 1;
                return self.dodequeue(config, fifo, now).map(|(packet, _)| packet);
            }
        }
        Some(packet)
    }

    /// The head, and whether the delay has been above target for an interval.
    fn dodequeue(
        &mut self,
        config: &CodelConfig,
        fifo: &mut Fifo,
        now: Instant,
    ) -> Option<(Packet, bool)> {
        let Some(head) = fifo.pop() else {
            self.first_above_time = None;
            return None;
        };
        self.maxpacket = self.maxpacket.max(u64::from(head.packet.ip_bytes));
        let sojourn = now - head.queued_at;
        if sojourn < config.target || fifo.bytes <= self.maxpacket {
            self.first_above_time = None;
            return Some((head.packet, false));
        }
        let due = *self.first_above_time.get_or_insert(now + config.interval);
        Some((head.packet, now >= due))
    }

    fn enter_dropping(&mut self, config: &CodelConfig, now: Instant) {
        self.dropping = true;
        // Soon after the last episode, start from the rate that ended it [RFC 8289 §5.3].
        let delta = self.count.saturating_sub(self.lastcount);
        let recently = now - self.drop_next < 16 * config.interval;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.drop_next = control_law(config, now, self.count);
        self.lastcount = self.count;
    }
}

fn control_law(config: &CodelConfig, t: Instant, count: u32) -> Instant {
    let interval_ns = draw::nanos(config.interval) as f64;
    t + Duration::from_nanos((interval_ns / f64::from(count).sqrt()) as u64)
}

fn mark(config: &CodelConfig, packet: &mut Packet, counters: &mut QueueCounters) -> bool {
    let marked = config.ecn && ip::mark_ce(packet);
    counters.ce_marked += u64::from(marked);
    marked
}
