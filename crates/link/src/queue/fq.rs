//! A queue per flow, each under controlled delay, served in turn [RFC 8290].
//!
//! ```text
//! push -> hash -> flow's FIFO ─┐      new flows: at most a quantum each, first
//!                              ├─▶ ▶──────────────────────────────▶ [CoDel] -> pop
//!         limit: the longest ──┘      old flows: a quantum each, in turn
//! ```
//!
//! A flow that comes back after it has emptied is new: what sends less than a quantum per round
//! never waits for what sends more. Flows are told apart by a hash into a fixed number of queues.
//!
//! One set of queues may serve several *groups* with lists of their own, as the stations and
//! traffic identifiers of a Linux access point do: they share queues and limits, and a flow whose
//! queue belongs to another group just now goes into its group's own overflow queue
//! [Hoiland-Jorgensen 2017 §3.1].
//!
//! Deviation: bytes are those of the IP level, where Linux counts link headers in.

use std::collections::VecDeque;

use tack_units::Instant;

use super::codel::{Codel, CodelConfig};
use super::fifo::{Fifo, Limit, QueueCounters};
use crate::error::ConfigError;
use crate::flow_hash::flow_hash;
use crate::link::Packet;

/// What a waiting packet takes in a kernel's memory beside its bytes: buffer and bookkeeping, about
/// what Linux accounts for a full-sized frame (2304) and for an acknowledgment (768).
const PACKET_OVERHEAD_BYTES: u64 = 768;

/// Most queues: 65 536, as Linux has it.
const MAX_FLOWS: u32 = 65_536;

/// The largest packet a flow is charged for; IP has none larger.
const MAX_CHARGE_BYTES: u32 = 65_535;

const NONE: u32 = u32::MAX;

/// Settings of queues per flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Queues that flows are hashed into, 1..=65536.
    pub flows: u32,
    /// Bytes a flow may send per round.
    pub quantum_bytes: u32,
    /// Memory for waiting packets in bytes, 768 for each beside its own.
    pub memory_bytes: u64,
    /// When a limit is reached, the longest flow loses half of its bytes, but at most this many
    /// packets at once.
    pub drop_batch: u32,
    /// Of each queue.
    pub codel: CodelConfig,
}

impl Default for FqCodelConfig {
    /// 1024 queues, a quantum of 1514 bytes, 5 ms and 100 ms with ECN [RFC 8290 §5.2]; 32 MiB and
    /// batches of 64 as in Linux.
    fn default() -> Self {
        FqCodelConfig {
            flows: 1_024,
            quantum_bytes: 1_514,
            memory_bytes: 32 << 20,
            drop_batch: 64,
            codel: CodelConfig { ecn: true, ..CodelConfig::default() },
        }
    }
}

impl FqCodelConfig {
    /// Packets that may wait in all queues together [RFC 8290 §5.2.3].
    pub const LIMIT: Limit = Limit::Packets(10_240);

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return Err(ConfigError::FlowQueues);
        }
        if self.quantum_bytes == 0 {
            return Err(ConfigError::NotPositive("FQ-CoDel's quantum"));
        }
        if self.drop_batch == 0 {
            return Err(ConfigError::NotPositive("FQ-CoDel's drop batch"));
        }
        self.codel.validate()
    }
}

/// One flow's queue. CoDel's state outlives the packets.
#[derive(Debug, Default)]
struct Flow {
    fifo: Fifo,
    codel: Codel,
    deficit: i64,
    /// In whose lists it is; a flow in none has no packets.
    group: Option<usize>,
}

/// Flows that take turns.
#[derive(Debug)]
struct Group {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// Its overflow queue, once there is one.
    overflow: u32,
    codel: CodelConfig,
    packets: usize,
}

/// Queues per flow.
#[derive(Debug)]
pub(crate) struct Fq {
    config: FqCodelConfig,
    limit: Limit,
    perturbation: u64,
    /// Bucket to flow: a flow is made when its first packet comes.
    buckets: Vec<u32>,
    flows: Vec<Flow>,
    groups: Vec<Group>,
    packets: usize,
    bytes: u64,
    counters: QueueCounters,
}

impl Fq {
    /// Empty queues for `groups` groups, under one `limit`.
    pub(crate) fn new(
        config: FqCodelConfig,
        limit: Limit,
        groups: usize,
        perturbation: u64,
    ) -> Self {
        let group = || Group {
            new: VecDeque::new(),
            old: VecDeque::new(),
            overflow: NONE,
            codel: config.codel,
            packets: 0,
        };
        Fq {
            config,
            limit,
            perturbation,
            buckets: vec![NONE; config.flows as usize],
            flows: Vec::new(),
            groups: (0..groups).map(|_| group()).collect(),
            packets: 0,
            bytes: 0,
            counters: QueueCounters::default(),
        }
    }

    /// Gives `group`'s flows constants of their own.
    pub(crate) fn set_codel(&mut self, group: usize, codel: CodelConfig) {
        self.groups[group].codel = codel;
    }

    /// Appends `packet` to its flow; the longest flow pays if that is too much.
    pub(crate) fn push(&mut self, group: usize, packet: Packet, now: Instant) {
        let at = self.classify(group, &packet);
        let flow = &mut self.flows[at as usize];
        if flow.group.is_none() {
            flow.group = Some(group);
            flow.deficit = i64::from(self.config.quantum_bytes);
            self.groups[group].new.push_back(at);
        }
        self.bytes += u64::from(packet.ip_bytes);
        self.packets += 1;
        self.groups[group].packets += 1;
        flow.fifo.push(packet, now);
        while self.is_over() {
            self.drop_from_longest();
        }
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.bytes);
    }

    /// The next packet of `group`; CoDel may drop some before it, and may leave none.
    pub(crate) fn pop(&mut self, group: usize, now: Instant) -> Option<Packet> {
        let g = &mut self.groups[group];
        loop {
            let is_new = !g.new.is_empty();
            let list = if is_new { &mut g.new } else { &mut g.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.config.quantum_bytes);
                list.pop_front();
                g.old.push_back(at);
                continue;
            }
            let before = (flow.fifo.len(), flow.fifo.bytes);
            let packet = flow.codel.departure(&g.codel, &mut flow.fifo, &mut self.counters, now);
            self.packets -= before.0 - flow.fifo.len();
            g.packets -= before.0 - flow.fifo.len();
            self.bytes -= before.1 - flow.fifo.bytes;
            if let Some(packet) = packet {
                flow.deficit -= i64::from(packet.ip_bytes.min(MAX_CHARGE_BYTES));
                return Some(packet);
            }
            list.pop_front();
            if is_new && !g.old.is_empty() {
                // Through the old flows once, or a flow that empties at every turn would always be
                // new and starve them [RFC 8290 §4.2].
                g.old.push_back(at);
            } else {
                flow.group = None;
            }
        }
    }

    /// Packets waiting.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Packets of one group waiting.
    pub(crate) fn group_len(&self, group: usize) -> usize {
        self.groups[group].packets
    }

    /// IP-level bytes waiting.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// The flow that `packet` joins.
    fn classify(&mut self, group: usize, packet: &Packet) -> u32 {
        let hash = flow_hash(packet, self.perturbation);
        let bucket = (u64::from(hash) * u64::from(self.config.flows)) >> 32;
        let slot = &mut self.buckets[bucket as usize];
        let taken = self.flows.get(*slot as usize).and_then(|f| f.group);
        let slot = if taken.is_some_and(|other| other != group) {
            &mut self.groups[group].overflow
        } else {
            slot
        };
        if *slot == NONE {
            *slot = self.flows.len() as u32;
            self.flows.push(Flow::default());
        }
        *slot
    }

    fn is_over(&self) -> bool {
        let full = match self.limit {
            Limit::Packets(n) => self.packets > n as usize,
            Limit::Bytes(n) => self.bytes > n,
        };
        let memory = self.bytes + self.packets as u64 * PACKET_OVERHEAD_BYTES;
        self.packets > 0 && (full || memory > self.config.memory_bytes)
    }

    fn drop_from_longest(&mut self) {
        // A scan, as in Linux; the batch pays for it.
        let longest = self.flows.iter_mut().max_by_key(|f| (f.fifo.bytes, f.fifo.len()));
        let Some(flow) = longest else { return };
        let Some(group) = flow.group else { return };
        let enough = flow.fifo.bytes / 2;
        let mut freed = 0;
        for _ in 0..self.config.drop_batch {
            let Some(head) = flow.fifo.pop() else { break };
            freed += u64::from(head.packet.ip_bytes);
            self.packets -= 1;
            self.groups[group].packets -= 1;
            self.counters.tail_dropped += 1;
            if freed >= enough {
                break;
            }
        }
        self.bytes -= freed;
    }
}

#[cfg(test)]
mod tests;
