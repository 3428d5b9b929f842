//! A Linux device's queues: one per receiver, category and flow ahead of the hardware's, as
//! mac80211 has them ("intermediate queues") [Hoiland-Jorgensen 2017; mac80211].
//!
//! ```text
//! packet ─▶ FQ-CoDel per receiver and category ─▶ committed PPDUs ─▶ contention
//!                  receivers in turn, by airtime ──▲   (the hardware's queue, FIFO)
//! ```
//!
//! Only a few PPDUs lie in the hardware's queue, where nothing passes them; everything else waits
//! where flows are kept apart and CoDel sees it. Which receiver the next PPDU is for is decided by
//! deficit round robin over airtime: `wlan/queue/schedule.rs`.
//!
//! Deviation: a committed PPDU is filled up when it gets the medium, from what waits for its
//! receiver then, as devices do that aggregate in their firmware. ath9k aggregates when it commits,
//! which would send the first acknowledgments of a burst alone and make every ACK dearer.
//!
//! Deviation: TCP Small Queues, by which a Linux host keeps its own sockets from filling these
//! queues, are the transport's and are not modelled.

use core::time::Duration;

use tack_units::Instant;

use super::ampdu::{AmpduLimits, aggregate};
use super::edca::{AcParams, CATEGORIES};
use super::error::ConfigError;
use super::flow_times::FlowTimes;
use super::phy::{DataRate, Ns, Standard};
use super::timing::Timing;
use crate::draw::nanos;
use crate::link::Packet;
use crate::queue::{CodelConfig, Fq, FqCodelConfig, Limit};

/// Settings of a Linux device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxqConfig {
    /// The flows' queues. All receivers and categories of a device share them.
    pub fq: FqCodelConfig,
    /// Packets that may wait in all of them, per device.
    pub limit_packets: u32,
    /// CoDel's constants towards slow receivers; `None`: those of `fq`.
    pub slow: Option<SlowReceivers>,
    /// PPDUs that the hardware's queue of a category holds, the one on the air included: 1..=64.
    pub committed_ppdus: usize,
    /// Airtime a receiver gets per round.
    pub airtime_quantum: Duration,
    /// Airtime that may be committed; `None`: `committed_ppdus` alone bounds it.
    pub aql: Option<AirtimeLimits>,
}

/// When a receiver is slow, and what CoDel does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReceivers {
    /// Expected throughput in kb/s, times the number of receivers, below which one is slow.
    pub below_kbps: u32,
    /// What its flows get.
    pub codel: CodelConfig,
}

/// Airtime queue limits: what may be committed to the hardware, as estimated from sizes and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirtimeLimits {
    /// For one receiver in one category, whatever else is committed.
    pub low: Duration,
    /// The same while less than `total` is committed by the device.
    pub high: Duration,
    /// For all receivers and categories.
    pub total: Duration,
}

impl AirtimeLimits {
    /// Linux's: 5 ms, 12 ms and 24 ms.
    pub const LINUX: AirtimeLimits = AirtimeLimits {
        low: Duration::from_millis(5),
        high: Duration::from_millis(12),
        total: Duration::from_millis(24),
    };

    /// Whether a receiver that has `pending` of the device's `total` committed may have more.
    pub(super) fn allow(&self, pending: Ns, total: Ns) -> bool {
        pending < nanos(self.low) || (total < nanos(self.total) && pending < nanos(self.high))
    }
}

impl TxqConfig {
    /// mac80211's values: 4096 queues, 300 bytes per round, 8192 packets, 16 MiB (4 MiB before ac);
    /// CoDel of 20 ms and 100 ms that marks, and of 50 ms and 300 ms that does not towards receivers
    /// slower than 6 Mb/s times their number (Linux dropped that rule in 2025: `slow: None`); 256 µs
    /// of airtime per round, Linux's airtime limits; two PPDUs in the hardware, as ath9k has them.
    pub fn mac80211(standard: Standard) -> TxqConfig {
        let codel = |target, interval, ecn| CodelConfig {
            target: Duration::from_millis(target),
            interval: Duration::from_millis(interval),
            ecn,
        };
        TxqConfig {
            fq: FqCodelConfig {
                flows: 4_096,
                quantum_bytes: 300,
                memory_bytes: if standard >= Standard::Ac { 16 << 20 } else { 4 << 20 },
                drop_batch: 32,
                codel: codel(20, 100, true),
            },
            limit_packets: 8_192,
            slow: Some(SlowReceivers { below_kbps: 6_000, codel: codel(50, 300, false) }),
            committed_ppdus: 2,
            airtime_quantum: Duration::from_micros(256),
            aql: Some(AirtimeLimits::LINUX),
        }
    }

    pub(super) fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let check = |ok: bool, name: &str, problem: &'static str| {
            let field = format!("{field}.{name}");
            if ok { Ok(()) } else { Err(ConfigError { field, problem }) }
        };
        let fq = self.fq.validate().is_ok();
        check(fq, "fq", "needs 1 to 65536 queues, a quantum, a batch and CoDel's interval")?;
        check(self.limit_packets > 0, "limit_packets", "must be positive")?;
        let slow = self.slow.is_none_or(|s| !s.codel.interval.is_zero());
        check(slow, "slow", "CoDel's interval must be positive")?;
        check((1..=64).contains(&self.committed_ppdus), "committed_ppdus", "must be 1 to 64")?;
        // Rounds are counted up to what a receiver owes: not too many.
        let quantum = Duration::from_micros(1)..=Duration::from_secs(1);
        check(quantum.contains(&self.airtime_quantum), "airtime_quantum", "must be 1 us to 1 s")?;
        let aql = self.aql.is_none_or(|a| a.low <= a.high && !a.low.is_zero());
        check(aql, "aql", "must be positive, the low limit below the high one")
    }

    /// What CoDel gets towards one of `receivers`, all of whose frames go at `rate`.
    fn codel_for(&self, expected_kbps: u64, receivers: usize) -> CodelConfig {
        match self.slow {
            Some(slow) if expected_kbps < u64::from(slow.below_kbps) * receivers as u64 => {
                slow.codel
            }
            _ => self.fq.codel,
        }
    }
}

/// IP-level throughput towards a receiver that has the medium to itself, in kb/s: what rate control
/// tells mac80211.
pub(super) fn expected_kbps(
    timing: &Timing,
    edca: &AcParams,
    rate: DataRate,
    limits: &AmpduLimits,
    overhead: u32,
) -> u64 {
    const IP_BYTES: u32 = 1_500;
    let by_duration = rate.max_psdu_bytes(limits.max_duration_ns(), timing.band);
    let sizes = std::iter::repeat(IP_BYTES + overhead);
    let max_bytes = limits.max_bytes.min(by_duration);
    let a = aggregate(sizes, max_bytes, usize::from(limits.max_mpdus));
    let times = FlowTimes::new(timing, rate, 64);
    let backoff = nanos(timing.slot) * u64::from(edca.cw_min) / 2;
    let response = if a.mpdus > 1 { times.block_ack } else { times.ack };
    let wait = nanos(timing.aifs(edca.aifsn)) + backoff + nanos(timing.sifs) + response;
    let cycle = wait + rate.ppdu_ns(a.psdu_bytes, timing.band);
    a.mpdus as u64 * u64::from(IP_BYTES) * 8_000_000 / cycle.max(1)
}

/// What waits in one device ahead of its hardware.
#[derive(Debug)]
pub(super) struct Txqs {
    pub(super) config: TxqConfig,
    pub(super) fq: Fq,
    /// Drops, of those CoDel's, and marks that are accounted for.
    pub(super) noted: [u64; 3],
}

impl Txqs {
    /// For a device with as many receivers as `expected_kbps` has throughputs.
    pub(super) fn new(config: TxqConfig, expected_kbps: &[u64], perturbation: u64) -> Txqs {
        let receivers = expected_kbps.len();
        let limit = Limit::Packets(config.limit_packets);
        let mut fq = Fq::new(config.fq, limit, receivers * CATEGORIES, perturbation);
        for (i, kbps) in expected_kbps.iter().enumerate() {
            for category in 0..CATEGORIES {
                fq.set_codel(i * CATEGORIES + category, config.codel_for(*kbps, receivers));
            }
        }
        Txqs { config, fq, noted: [0; 3] }
    }

    /// Packets that wait for a receiver in a category.
    pub(super) fn waiting(&self, receiver: usize, category: usize) -> usize {
        self.fq.group_len(receiver * CATEGORIES + category)
    }

    /// Packets that wait for a receiver.
    pub(super) fn waiting_for(&self, receiver: usize) -> usize {
        (0..CATEGORIES).map(|c| self.waiting(receiver, c)).sum()
    }

    /// Packets that wait.
    pub(super) fn packets(&self) -> u64 {
        self.fq.len() as u64
    }

    pub(super) fn pop(&mut self, receiver: usize, category: usize, now: Ns) -> Option<Packet> {
        self.fq.pop(receiver * CATEGORIES + category, Instant::from_nanos(now))
    }
}
