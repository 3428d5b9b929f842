//! Counters at two moments of a run, and the figures between them.

use core::time::Duration;

use tack_link::End;
use tack_link::wired::Counters;
use tack_link::wlan::{Airtime, NodeStats, Use};
use tack_sim::{Delays, FlowId, FlowSample, SideReport, Traffic};
use tack_units::Instant;

use crate::link::Hop;
use crate::playout::VideoResult;
use crate::result::{AirtimeShares, DirectionResult, FlowResult, RunResult, WanResult};
use crate::setup::Setup;
use crate::stats::{mean, quantile};
use crate::traffic::Placed;

/// Counters at one moment.
pub(crate) struct Reading {
    now: Instant,
    flows: Vec<FlowReading>,
    air: Option<(Airtime, NodeStats)>,
    /// Server to client, client to server.
    wan: Option<(Counters, Counters)>,
}

#[derive(Clone, Default)]
struct FlowReading {
    app_bytes: u64,
    data_packets: u64,
    ack_packets: u64,
    /// Of the ends that send data; `None` of a stack that has none.
    timeouts: Option<u64>,
    loss_episodes: u64,
    /// Of both ends together.
    departed: Traffic,
    arrived: Traffic,
    iacks: u64,
    /// One-way delays of the data.
    delays: Delays,
    /// One-way delays of what comes back, without data and with.
    back_delays: [Delays; 2],
    /// Least one-way delay of any packet, there and back.
    floors: Option<(Duration, Duration)>,
}

/// The measured part of a run.
pub(crate) struct Period<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) before: Reading,
    /// When what RTTmin looks back on began, if that is later.
    pub(crate) recent: Reading,
    pub(crate) after: Reading,
}

impl Reading {
    /// All counters at `now`, which the simulation has just reached.
    pub(crate) fn of(setup: &Setup, now: Instant) -> Reading {
        let air = setup.wlan().map(|w| {
            let mut nodes = w.ap_stats();
            for i in 0..w.config().stations.len() {
                nodes = w.station_stats(i).map_or(nodes, |s| nodes.plus(&s));
            }
            (w.airtime(now), nodes)
        });
        let wan = setup.wan.and_then(|link| {
            let wired = setup.sim.world().link(link).wired()?;
            Some((wired.counters(End::B), wired.counters(End::A)))
        });
        let flows = setup.flows.iter().map(|flow| FlowReading::of(setup, &flow.placed)).collect();
        Reading { now, flows, air, wan }
    }

    /// How the medium's time went so far; `None` without Wi-Fi.
    pub(crate) fn airtime(&self) -> Option<Airtime> {
        self.air.as_ref().map(|(airtime, _)| *airtime)
    }

    /// Application bytes that all flows delivered so far.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.flows.iter().map(|f| f.app_bytes).sum()
    }

    /// Packets of all flows that only acknowledge, so far.
    pub(crate) fn ack_packets(&self) -> u64 {
        self.flows.iter().map(|f| f.ack_packets).sum()
    }
}

impl FlowReading {
    fn of(setup: &Setup, placed: &Placed) -> FlowReading {
        match placed {
            Placed::Udp { src, dst, header_bytes } => {
                let got = setup.sim.world().host(*dst).open_loop_from(*src);
                let left = setup.sim.world().host(*src).open_loop_to(*dst);
                let traffic = |data_packets| Traffic { data_packets, ..Traffic::default() };
                FlowReading {
                    departed: traffic(left),
                    timeouts: Some(0),
                    arrived: traffic(got.packets),
                    app_bytes: got.ip_bytes - got.packets * u64::from(*header_bytes),
                    data_packets: left,
                    ..FlowReading::default()
                }
            }
            Placed::Flow(id) => {
                let (from, to) = setup.sim.flow(*id);
                FlowReading {
                    timeouts: has_timeouts(&from).then(|| {
                        of_senders(&from, &to, |side| {
                            let own = side.info.as_ref().map(|i| i.counters.timeouts);
                            own.or_else(|| side.guest.as_ref()?.timeouts)
                        })
                    }),
                    loss_episodes: of_senders(&from, &to, |side| {
                        let own = side.info.as_ref().map(|i| i.counters.loss_episodes);
                        own.or(side.guest.as_ref().map(|g| g.congestion_events))
                    }),
                    // Request-response data goes both ways: what both applications read counts.
                    app_bytes: from.received + to.received,
                    data_packets: data_sent(&from) + data_sent(&to),
                    ack_packets: acks_sent(&from) + acks_sent(&to),
                    departed: from.departed + to.departed,
                    arrived: from.arrived + to.arrived,
                    iacks: iacks_sent(&from) + iacks_sent(&to),
                    delays: to.data_delays.clone(),
                    back_delays: [from.ack_delays.clone(), from.data_delays.clone()],
                    floors: least_delay(&to).zip(least_delay(&from)),
                }
            }
        }
    }
}

impl Period<'_> {
    fn time(&self) -> Duration {
        self.after.now.saturating_since(self.before.now)
    }

    /// Every figure of the run.
    pub(crate) fn result(&self) -> RunResult {
        let flows: Vec<FlowResult> = (0..self.setup.flows.len()).map(|i| self.flow(i)).collect();
        let links = self.setup.sim.world().links();
        let air = self.before.air.as_ref().zip(self.after.air.as_ref());
        RunResult {
            airtime: air.map(|(b, a)| shares(&a.0.since(&b.0))),
            collision_share: air.map(|(b, a)| a.1.since(&b.1).collision_probability()),
            wan: self.before.wan.zip(self.after.wan).map(|(before, after)| WanResult {
                down: direction(&before.0, &after.0, self.time()),
                up: direction(&before.1, &after.1, self.time()),
            }),
            queue_drops: links.iter().map(Hop::queue_drops).sum(),
            link_losses: links.iter().map(Hop::losses).sum(),
            flows,
        }
    }

    fn flow(&self, index: usize) -> FlowResult {
        let (before, after) = (&self.before.flows[index], &self.after.flows[index]);
        let time = self.time().as_secs_f64();
        let per_s = |b: u64, a: u64| a.saturating_sub(b) as f64 / time;
        let departed = after.departed.since(&before.departed);
        let arrived = after.arrived.since(&before.arrived);
        let mut result = FlowResult {
            goodput_bps: per_s(before.app_bytes, after.app_bytes) * 8.0,
            data_packets_per_s: per_s(before.data_packets, after.data_packets),
            ack_packets_per_s: per_s(before.ack_packets, after.ack_packets),
            ack_bytes_per_s: departed.ack_bytes as f64 / time,
            data_lost_per_s: per_s(arrived.data_packets, departed.data_packets),
            timeouts_per_s: after.timeouts.map(|after| per_s(before.timeouts.unwrap_or(0), after)),
            loss_episodes_per_s: per_s(before.loss_episodes, after.loss_episodes),
            delivered_bytes: after.app_bytes,
            data_packets: after.departed.data_packets,
            bare_packets: after.departed.ack_packets,
            iacks_per_s: per_s(before.iacks, after.iacks),
            ..FlowResult::default()
        };
        result.video = self.video(index);
        let started = self.setup.flows[index].times.start.saturating_since(Instant::ZERO);
        result.started_at_s = started.as_secs_f64();
        result.present_s = self.present(index).as_secs_f64();
        if let Placed::Flow(id) = self.setup.flows[index].placed {
            self.sender(index, id, &mut result);
            let is_whole = |bytes| after.app_bytes >= bytes;
            result.completed_at_s = result
                .completed_at_s
                .filter(|_| self.setup.flows[index].file_bytes.is_none_or(is_whole));
            let delays = after.delays.since(&before.delays);
            let us = |d: Duration| d.as_secs_f64() * 1e6;
            let p95 = delays.quantile(0.95).zip(after.delays.least());
            result.queue_delay_p95_us = p95.map(|(p95, least)| us(p95.saturating_sub(least)));
            result.owd_floor_us = after.floors.map(|(there, back)| us(there + back));
            let recent = &self.recent.flows[index];
            // Of the kind that most of them are.
            let back = after.back_delays.iter().zip(&recent.back_delays);
            let back = back.map(|(after, before)| after.since(before)).max_by_key(Delays::len);
            let back = back.unwrap_or_default();
            let usual = after.delays.since(&recent.delays).quantile(0.0).zip(back.quantile(0.5));
            result.owd_usual_us = usual.map(|(there, back)| us(there + back));
        }
        result
    }

    /// How long a flow was there in the measured time. One that was to leave before is not, whatever of
    /// it was under way.
    fn present(&self, index: usize) -> Duration {
        if self.setup.flows[index].times.stop.is_some_and(|stop| stop <= self.before.now) {
            return Duration::ZERO;
        }
        let life = self.setup.life(index);
        life.end.min(self.after.now).saturating_since(life.start.max(self.before.now))
    }

    /// What is seen of a video.
    fn video(&self, index: usize) -> Option<VideoResult> {
        let (flow, sim) = (&self.setup.flows[index], &self.setup.sim);
        let playout = flow.playout.as_ref()?;
        let arrivals = match flow.placed {
            Placed::Flow(id) => sim.flow(id).1.frames,
            Placed::Udp { src, dst, .. } => sim.world().host(dst).frames_from(src),
        };
        Some(playout.watch(arrivals, self.before.now, self.after.now))
    }

    /// What the sender of a flow tells.
    fn sender(&self, index: usize, id: FlowId, result: &mut FlowResult) {
        let (from, to) = self.setup.sim.flow(id);
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        result.timeouts = self.after.flows[index].timeouts;
        result.retransmissions = of_senders(&from, &to, |side| {
            let own = side.info.as_ref().map(|i| i.counters.retransmissions);
            own.or(side.guest.as_ref().map(|g| g.resent))
        });
        let guest = from.guest.as_ref().and_then(|g| g.rtt_min);
        result.rtt_min_us = from.info.as_ref().and_then(|i| i.rtt_min).or(guest).map(us);
        if to.at_end {
            let since_zero = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64();
            result.completed_at_s = to.last_read_at.map(since_zero);
        }
        let samples: Vec<&FlowSample> = {
            let (life, all) = (self.setup.life(index), self.setup.sim.flow_series(id).samples());
            let there = all.iter().filter(|(at, _)| *at >= self.before.now && life.contains(at));
            there.map(|(_, sample)| sample).collect()
        };
        result.cwnd_mean_bytes = mean(samples.iter().map(|s| s.cwnd as f64)).unwrap_or(0.0);
        let mut rtts: Vec<f64> = samples.iter().filter_map(|s| s.srtt.map(us)).collect();
        result.srtt_mean_us = mean(rtts.iter().copied()).unwrap_or(0.0);
        result.rtt_p50_us = quantile(&mut rtts, 0.5);
        result.rtt_p95_us = quantile(&mut rtts, 0.95);
    }
}

fn direction(before: &Counters, after: &Counters, time: Duration) -> DirectionResult {
    let delivered = after.delivered.bytes - before.delivered.bytes;
    let offered = after.offered.packets - before.offered.packets;
    let drops = |c: &Counters| c.tail_dropped + c.aqm_dropped;
    let dropped = drops(after) - drops(before);
    DirectionResult {
        delivered_bps: delivered as f64 * 8.0 / time.as_secs_f64(),
        queue_drop_share: dropped as f64 / (offered as f64).max(1.0),
    }
}

/// The sum over the ends whose applications sent something: of a dialogue, both. What only acknowledges sends
/// nothing again, and a stack of others counts its lost acknowledgments, too.
fn of_senders(
    from: &SideReport<'_>,
    to: &SideReport<'_>,
    of: impl Fn(&SideReport<'_>) -> Option<u64>,
) -> u64 {
    let back = Some(to).filter(|to| to.written > 0);
    [Some(from), back].into_iter().flatten().filter_map(of).sum()
}

/// Whether an end says how often its retransmission timer expired, or is to say it once there is a connection.
fn has_timeouts(side: &SideReport<'_>) -> bool {
    side.guest.as_ref().is_none_or(|guest| guest.timeouts.is_some())
}

fn data_sent(side: &SideReport<'_>) -> u64 {
    let guest = side.guest.as_ref().map(|_| side.departed.data_packets);
    side.info.as_ref().map(|i| i.counters.data_segments_sent).or(guest).unwrap_or(0)
}

fn acks_sent(side: &SideReport<'_>) -> u64 {
    let guest = side.guest.as_ref().map(|_| side.departed.ack_packets);
    side.info.as_ref().map(|i| i.counters.acks_sent.total()).or(guest).unwrap_or(0)
}

/// Of the packets that arrived here.
fn least_delay(side: &SideReport<'_>) -> Option<Duration> {
    [side.data_delays.least(), side.ack_delays.least()].into_iter().flatten().min()
}

fn iacks_sent(side: &SideReport<'_>) -> u64 {
    let guest = side.guest.as_ref().map_or(0, |guest| guest.iacks);
    side.info.as_ref().map_or(guest, |i| {
        let acks = i.counters.acks_sent;
        acks.loss + acks.window + acks.frequency + acks.ce
    })
}

pub(crate) fn shares(airtime: &Airtime) -> AirtimeShares {
    let share = |what| airtime.share(what);
    AirtimeShares {
        data: share(Use::Data),
        acks: share(Use::Ack),
        collisions: share(Use::Collision),
        control: share(Use::Control) + share(Use::Beacon) + share(Use::Lost),
        idle: share(Use::Contention) + share(Use::Idle),
        neighbours: share(Use::Neighbour),
    }
}
