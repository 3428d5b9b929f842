//! One run: controllers on one path, and what came of it.

use core::time::Duration;

use anyhow::{Result, bail, ensure};
use tack_cc::{Algorithm, Pacing};
use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::queue::{Discipline, Limit, QueueConfig, RedConfig};
use tack_link::wired::{Capacity, DirectionConfig, Jitter, Wired};
use tack_sim::{
    AckStrategy, FlowConfig, FlowId, FlowSample, Seed, Series, Simulation, Site, Transport,
};
use tack_units::{Instant, Rate};

use crate::stats::quantile;

/// IP-level bytes of a full segment.
const PACKET_BYTES: u64 = 1_500;
/// TCP text in it: 20 bytes of IP, 20 of TCP and 12 of timestamps taken off.
pub const SEGMENT_BYTES: u64 = 1_448;
/// So large that only the window and the path limit a flow.
const BUFFER_BYTES: usize = 64 << 20;
/// Between two samples of windows and queue.
const SAMPLE_PERIOD: Duration = Duration::from_millis(2);

/// A path and who is on it.
#[derive(Clone, Debug)]
pub struct Course {
    /// Of the bottleneck, on IP-level bytes; `None` has none.
    pub rate: Option<Rate>,
    /// Of the empty path.
    pub rtt: Duration,
    /// Drop-tail, bytes.
    pub buffer_bytes: u64,
    /// The queue marks ECN-capable packets by RED, between a quarter of a bdp and four, and all
    /// flows are capable.
    pub marks: bool,
    /// On the way of the data, behind the bottleneck.
    pub loss: LossConfig,
    /// One flow each.
    pub flows: Vec<Algorithm>,
    /// The n-th flow begins n times this later.
    pub stagger: Duration,
    /// Segments per acknowledgment; 2 is what everybody has.
    pub segments_per_ack: u32,
    /// Who is paced.
    pub pacing: Pacing,
    /// From the beginning to here nothing counts.
    pub warmup: Duration,
    /// The end.
    pub duration: Duration,
    /// Of everything random.
    pub seed: u64,
}

/// What a course did, from warm-up to end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of [`Course::flows`].
    pub flows: Vec<FlowOutcome>,
    /// Packets dropped by the queue and lost behind it, per packet offered, all flows together.
    pub loss: f64,
    /// Delay in the bottleneck's queue that one sample in twenty exceeds.
    pub queue_p95: Option<Duration>,
}

/// What one flow did.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Who.
    pub algorithm: Algorithm,
    /// Text delivered in order.
    pub goodput: Rate,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Loss episodes: reductions of a window-based controller, timeouts apart.
    pub episodes: u64,
    /// Mean smoothed round trip after the warm-up, of the empty path before there is one.
    pub srtt: Duration,
    /// State over the whole run.
    pub series: Series<FlowSample>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Default)]
struct Reading {
    delivered: u64,
    retransmissions: u64,
    timeouts: u64,
    episodes: u64,
}

impl Course {
    /// The bandwidth-delay product, bytes.
    pub fn bdp_bytes(rate: Rate, rtt: Duration) -> u64 {
        rate.bytes_in(rtt).max(2 * PACKET_BYTES)
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the path cannot be built, a byte arrived wrong or a flow stalled.
    pub fn run(&self) -> Result<Outcome> {
        let seed = Seed(self.seed);
        let mut sim = Simulation::new(seed);
        let link = sim.add_link(self.path(seed)?);
        let (near, far) = (Site { link, end: End::A }, Site { link, end: End::B });
        let (from, to) = (sim.add_host(near), sim.add_host(far));
        let mut start = Instant::ZERO;
        for &algorithm in &self.flows {
            let mut transport = Transport::new(AckStrategy::every(self.segments_per_ack));
            transport.congestion = Some(algorithm);
            transport.send_buffer = Some(BUFFER_BYTES);
            transport.recv_buffer = Some(BUFFER_BYTES);
            let mut config = FlowConfig::bulk(from, to, &transport);
            config.from_conn.pacing = self.pacing;
            (config.from_conn.ecn, config.to_conn.ecn) = (self.marks, self.marks);
            config.start = start;
            sim.add_flow(config);
            start += self.stagger;
        }
        sim.record_every(SAMPLE_PERIOD, |link: &Wired| link.queue_bytes(End::A));
        let warm = Instant::ZERO + self.warmup;
        sim.run_until(warm);
        let before: Vec<Reading> = sim.flows().map(|f| reading(&sim, f)).collect();
        let link_before = sim.world().link(link).counters(End::A);
        sim.run_until(Instant::ZERO + self.duration);
        if let Some(stall) = sim.stall() {
            bail!("{stall}");
        }
        let link_after = sim.world().link(link).counters(End::A);
        let offered = link_after.offered.packets - link_before.offered.packets;
        let dropped = link_after.dropped() - link_before.dropped();
        let ids: Vec<FlowId> = sim.flows().collect();
        let flows = ids.iter().zip(&before).map(|(id, b)| self.flow_outcome(&sim, *id, b));
        Ok(Outcome {
            flows: flows.collect::<Result<_>>()?,
            loss: dropped as f64 / (offered as f64).max(1.0),
            queue_p95: self.rate.and_then(|rate| {
                let samples = sim.queue_series(link)?.samples().iter();
                let counted = samples.filter(|(at, _)| *at >= warm);
                let mut s: Vec<f64> =
                    counted.map(|(_, bytes)| *bytes as f64 * 8.0 / rate.as_bps() as f64).collect();
                quantile(&mut s, 0.95).map(Duration::from_secs_f64)
            }),
        })
    }

    fn path(&self, seed: Seed) -> Result<Wired> {
        let one_way = self.rtt / 2;
        let limit = Limit::Bytes(self.buffer_bytes);
        let clean = DirectionConfig::clean(Rate::from_mbps(1), one_way, limit);
        let capacity = self.rate.map_or(Capacity::Unlimited, Capacity::Constant);
        let queue = QueueConfig { discipline: self.discipline(), ..clean.queue.clone() };
        let data = DirectionConfig { capacity, queue, loss: self.loss.clone(), ..clean.clone() };
        let acks =
            DirectionConfig { capacity: Capacity::Unlimited, jitter: self.processing(), ..clean };
        Ok(Wired::new(data, acks, seed.derive("link"))?)
    }

    /// Who shares a drop-tail queue takes up to a packet's time over each acknowledgment. Without,
    /// phases decide who loses [Floyd & Jacobson 1992 §3.3], run after run in the same way.
    fn processing(&self) -> Jitter {
        match self.rate.and_then(|rate| rate.time_for(PACKET_BYTES)) {
            Some(max) if self.flows.len() > 1 => Jitter::Uniform { max },
            _ => Jitter::None,
        }
    }

    fn discipline(&self) -> Discipline {
        let Some(rate) = self.rate.filter(|_| self.marks) else { return Discipline::DropTail };
        let bdp = Course::bdp_bytes(rate, self.rtt) as f64 / PACKET_BYTES as f64;
        Discipline::Red(RedConfig {
            min_packets: bdp / 4.0,
            max_packets: bdp * 4.0,
            packet_time: rate.time_for(PACKET_BYTES).unwrap_or(Duration::from_secs(1)),
            ecn: true,
            ..RedConfig::default()
        })
    }

    fn flow_outcome(
        &self,
        sim: &Simulation<Wired>,
        id: FlowId,
        before: &Reading,
    ) -> Result<FlowOutcome> {
        let (_, to) = sim.flow(id);
        let wrong = to.first_wrong_byte;
        ensure!(wrong.is_none(), "byte {wrong:?} of flow {} arrived wrong", id.0);
        let after = reading(sim, id);
        let bytes = after.delivered - before.delivered;
        let over = self.duration.saturating_sub(self.warmup);
        let warm = Instant::ZERO + self.warmup;
        let (mut sum, mut samples) = (Duration::ZERO, 0);
        for (_, sample) in sim.flow_series(id).samples().iter().filter(|(at, _)| *at >= warm) {
            sum += sample.srtt.unwrap_or(self.rtt);
            samples += 1;
        }
        Ok(FlowOutcome {
            algorithm: self.flows[id.0 as usize],
            goodput: Rate::from_bytes_over(bytes, over).unwrap_or(Rate::ZERO),
            retransmissions: after.retransmissions - before.retransmissions,
            timeouts: after.timeouts - before.timeouts,
            episodes: after.episodes - before.episodes,
            srtt: sum.checked_div(samples).unwrap_or(self.rtt),
            series: sim.flow_series(id).clone(),
        })
    }
}

fn reading(sim: &Simulation<Wired>, id: FlowId) -> Reading {
    let (from, to) = sim.flow(id);
    let counters = from.info.map(|info| info.counters);
    let (retransmissions, timeouts, episodes) =
        counters.map_or((0, 0, 0), |c| (c.retransmissions, c.timeouts, c.loss_episodes));
    Reading { delivered: to.received, retransmissions, timeouts, episodes }
}
