//! What waits at a contender: one flow per receiver, each the originator of a BlockAck agreement.

mod round;
mod schedule;

use std::collections::VecDeque;

use super::ampdu::{Aggregate, AmpduLimits, aggregate};
use super::block_ack::Reorder;
use super::config::Scheduling;
use super::flow_times::FlowTimes;
use super::phy::{Band, Ns};
use super::timing::subframe_bytes;
use crate::link::{Packet, PacketKind};
use round::Schedule;

/// A packet on its way over one hop.
#[derive(Debug)]
pub(super) struct Mpdu {
    /// `None` once the recipient has it, while the originator does not know yet.
    packet: Option<Packet>,
    seq: u64,
    /// Order of arrival at this contender.
    stamp: u64,
    bytes: u32,
    retries: u32,
    pub(super) kind: PacketKind,
}

impl Mpdu {
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    fn subframe(&self) -> u64 {
        u64::from(subframe_bytes(self.bytes))
    }
}

/// Packets of one contender for one receiver, and both ends of their BlockAck agreement.
#[derive(Debug)]
pub(super) struct Flow {
    queue: VecDeque<Mpdu>,
    /// Of all in `queue`, as subframes.
    bytes: u64,
    next_seq: u64,
    recipient: Reorder,
    /// A BlockAckReq has to go before any more data.
    pub(super) bar_pending: bool,
    /// The receiver is away: nothing is sent to it.
    pub(super) paused: bool,
    pub(super) times: FlowTimes,
    limits: AmpduLimits,
    /// Bytes that both the byte limit and the duration limit allow.
    max_psdu_bytes: u32,
    window: u16,
    /// Receiver's node.
    pub(super) to: u32,
}

/// What became of a PPDU's MPDUs at the originator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// Packets that the recipient got for the first time.
    pub(super) arrived: u64,
    /// Packets given up that never arrived.
    pub(super) lost: u64,
    /// MPDUs given up, arrived or not.
    pub(super) given_up: u64,
}

impl Flow {
    pub(super) fn new(
        to: u32,
        times: FlowTimes,
        limits: AmpduLimits,
        window: u16,
        band: Band,
    ) -> Flow {
        let by_duration = times.rate.max_psdu_bytes(limits.max_duration_ns(), band);
        Flow {
            queue: VecDeque::new(),
            bytes: 0,
            next_seq: 0,
            recipient: Reorder::default(),
            bar_pending: false,
            paused: false,
            times,
            limits,
            max_psdu_bytes: limits.max_bytes.min(by_duration),
            window,
            to,
        }
    }

    /// Whether MPDUs may overtake one another, so that the recipient has to restore the order.
    fn reorders(&self) -> bool {
        self.limits.aggregates()
    }

    fn ready(&self) -> bool {
        !self.paused && (self.bar_pending || !self.queue.is_empty())
    }

    /// MPDUs of the next PPDU, of at most `max_bytes` besides the flow's own limits.
    pub(super) fn next_ppdu(&self, max_bytes: u32) -> Aggregate {
        let Some(oldest) = self.queue.front() else {
            return Aggregate { mpdus: 0, psdu_bytes: 0 };
        };
        let end = oldest.seq + u64::from(self.window);
        let sendable = self.queue.iter().take_while(|m| m.seq < end).map(|m| m.bytes);
        let max_mpdus = usize::from(self.limits.max_mpdus);
        aggregate(sendable, self.max_psdu_bytes.min(max_bytes), max_mpdus)
    }

    /// The first `n` MPDUs.
    pub(super) fn mpdus(&self, n: usize) -> impl Iterator<Item = &Mpdu> {
        self.queue.iter().take(n)
    }

    /// The first `n` MPDUs were sent; `lost[i]` tells which did not arrive (empty: none), and
    /// `answered` whether the originator got the response. `up` takes what the recipient hands up.
    pub(super) fn settle(
        &mut self,
        n: usize,
        lost: &[bool],
        answered: bool,
        retry_limit: u32,
        up: &mut Vec<Packet>,
    ) -> Settled {
        let mut settled = Settled::default();
        let reorders = self.reorders();
        for i in 0..n {
            if lost.get(i).copied().unwrap_or(false) {
                continue;
            }
            let mpdu = &mut self.queue[i];
            if let Some(packet) = mpdu.packet.take() {
                settled.arrived += 1;
                if reorders {
                    self.recipient.on_mpdu(mpdu.seq, packet, self.window, |p| up.push(p));
                } else {
                    up.push(packet);
                }
            }
        }
        if answered && lost.is_empty() {
            let gone: u64 = self.queue.drain(..n).map(|m| m.subframe()).sum();
            self.bytes -= gone;
        } else {
            self.retry(n, lost, answered, retry_limit, &mut settled);
        }
        settled
    }

    /// Keeps what is not acknowledged, as long as it has retries left.
    fn retry(
        &mut self,
        n: usize,
        lost: &[bool],
        answered: bool,
        retry_limit: u32,
        settled: &mut Settled,
    ) {
        // Rotate the sent MPDUs through: those that stay keep their order ahead of the unsent.
        let mut kept = 0;
        for i in 0..n {
            let mut mpdu = self.queue.pop_front().expect("n MPDUs were sent from here");
            if answered && !lost.get(i).copied().unwrap_or(false) {
                self.bytes -= mpdu.subframe();
                continue;
            }
            mpdu.retries += 1;
            if mpdu.retries > retry_limit {
                self.bytes -= mpdu.subframe();
                settled.given_up += 1;
                settled.lost += u64::from(mpdu.packet.is_some());
                continue;
            }
            self.queue.push_back(mpdu);
            kept += 1;
        }
        self.queue.rotate_right(kept);
        if settled.lost > 0 && self.reorders() {
            // The recipient would wait for the gap: tell it to move on.
            self.bar_pending = true;
        }
    }

    /// The BlockAck to a BlockAckReq came: forget what has arrived, and let the recipient skip
    /// what was given up. Returns how many packets that hands up.
    pub(super) fn bar_answered(&mut self, up: &mut Vec<Packet>) {
        self.bar_pending = false;
        let window = usize::from(self.window);
        let sent = self.queue.iter().take(window).filter(|m| m.packet.is_none()).count();
        if sent > 0 {
            self.queue.retain(|m| m.packet.is_some());
            self.bytes = self.queue.iter().map(Mpdu::subframe).sum();
        }
        let start = self.queue.front().map_or(self.next_seq, |m| m.seq);
        self.recipient.move_to(start, &mut |p| up.push(p));
    }

    /// Packets here that have not been handed up.
    pub(super) fn packets(&self) -> u64 {
        let waiting = self.queue.iter().filter(|m| m.packet.is_some()).count();
        (waiting + self.recipient.held_packets()) as u64
    }

    /// MPDUs waiting for transmission or acknowledgment.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// A contender's flows under one limit.
#[derive(Debug)]
pub(super) struct Queue {
    flows: Vec<Flow>,
    limit: usize,
    scheduling: Scheduling,
    overhead: u32,
    next_stamp: u64,
    /// MPDUs in all flows.
    len: usize,
    /// Round robin's place.
    turn: usize,
    /// What is here was committed by queues per flow.
    schedule: Option<Schedule>,
}

impl Queue {
    pub(super) fn new(
        flows: Vec<Flow>,
        limit: usize,
        scheduling: Scheduling,
        overhead: u32,
    ) -> Queue {
        Queue { flows, limit, scheduling, overhead, next_stamp: 0, len: 0, turn: 0, schedule: None }
    }

    pub(super) fn flow(&self, flow: usize) -> &Flow {
        &self.flows[flow]
    }

    pub(super) fn flow_len(&self, flow: usize) -> usize {
        self.flows[flow].len()
    }

    pub(super) fn flow_mut(&mut self, flow: usize) -> &mut Flow {
        &mut self.flows[flow]
    }

    /// Lets `f` change a flow, and keeps the count of MPDUs right.
    pub(super) fn update<T>(&mut self, flow: usize, f: impl FnOnce(&mut Flow) -> T) -> T {
        let before = self.flows[flow].len();
        let result = f(&mut self.flows[flow]);
        self.len = self.len + self.flows[flow].len() - before;
        result
    }

    /// Appends `packet` to `flow`, unless the queue is full.
    pub(super) fn push(&mut self, flow: usize, packet: Packet) -> bool {
        let filled = match self.scheduling {
            Scheduling::Fifo => self.len,
            Scheduling::RoundRobin => self.flows[flow].len(),
        };
        if filled >= self.limit {
            return false;
        }
        self.append(flow, packet);
        true
    }

    #[inline]
    fn append(&mut self, flow: usize, packet: Packet) {
        let f = &mut self.flows[flow];
        let mpdu = Mpdu {
            bytes: packet.ip_bytes.saturating_add(self.overhead),
            kind: packet.kind,
            packet: Some(packet),
            seq: f.next_seq,
            stamp: self.next_stamp,
            retries: 0,
        };
        f.bytes += mpdu.subframe();
        f.queue.push_back(mpdu);
        f.next_seq += 1;
        self.next_stamp += 1;
        self.len += 1;
    }

    /// The flow to serve now; `None` if nothing can be sent.
    pub(super) fn choose(&self) -> Option<usize> {
        if let Some(schedule) = &self.schedule {
            return schedule.committed.iter().copied().find(|f| self.flows[*f].ready());
        }
        if self.flows.len() == 1 {
            return self.flows[0].ready().then_some(0);
        }
        let ready = self.flows.iter().enumerate().filter(|(_, f)| f.ready());
        match self.scheduling {
            // A flow with nothing but a pending BlockAckReq goes first: it is older than packets.
            Scheduling::Fifo => {
                ready.min_by_key(|(_, f)| f.queue.front().map_or(0, |m| m.stamp)).map(|(i, _)| i)
            }
            Scheduling::RoundRobin => {
                let n = self.flows.len();
                ready.min_by_key(|(i, _)| (i + n - self.turn) % n).map(|(i, _)| i)
            }
        }
    }

    /// `flow` has been served, in an exchange that lasts until `end`.
    pub(super) fn served(&mut self, flow: usize, end: Ns) {
        self.turn = (flow + 1) % self.flows.len();
        self.retire(flow, end);
    }

    /// Whether there is something to send.
    pub(super) fn ready(&self) -> bool {
        if self.schedule.is_some() {
            return self.choose().is_some();
        }
        match self.flows.as_slice() {
            [only] => only.ready(),
            flows => flows.iter().any(Flow::ready),
        }
    }

    /// Packets in all flows that have not been handed up.
    pub(super) fn packets(&self) -> u64 {
        self.flows.iter().map(Flow::packets).sum()
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::draw::{below, chance, stream};
    use crate::wlan::{Preset, Standard, WlanConfig};

    fn packet(id: u64) -> Packet {
        Packet { id, dst: 1, ip_bytes: 1_500, ..Packet::default() }
    }

    fn queue(limits: AmpduLimits, limit: usize) -> Queue {
        let config = WlanConfig::preset(Preset::Textbook, Standard::N);
        let times = FlowTimes::new(&config.timing, config.downlink, 64);
        let flow = Flow::new(1, times, limits, 64, config.timing.band);
        Queue::new(vec![flow], limit, Scheduling::Fifo, 38)
    }

    /// Which of `n` MPDUs are lost, in the form `settle` takes.
    fn losses(rng: &mut Pcg64, n: usize, p: f64) -> Vec<bool> {
        let lost: Vec<bool> = (0..n).map(|_| chance(rng, p)).collect();
        if lost.contains(&true) { lost } else { Vec::new() }
    }

    #[test]
    fn whatever_is_lost_the_recipient_hands_up_the_rest_in_order_and_nothing_vanishes() {
        for seed in 0..300 {
            let mut rng = stream(seed, 1);
            let aggregates = seed % 3 > 0;
            let limits = if aggregates { AmpduLimits::new(65_535, 64) } else { AmpduLimits::NONE };
            let mut q = queue(limits, 200);
            let (mut offered, mut refused, mut lost) = (0, 0, 0);
            let mut up = Vec::new();
            for _ in 0..200 {
                for _ in 0..below(&mut rng, 40) {
                    refused += u64::from(!q.push(0, packet(offered)));
                    offered += 1;
                }
                if q.flow(0).bar_pending {
                    q.update(0, |f| f.bar_answered(&mut up));
                    continue;
                }
                let n = q.flow(0).next_ppdu(u32::MAX).mpdus;
                let lost_now = losses(&mut rng, n, 0.3);
                let some_arrived = lost_now.is_empty() || lost_now.contains(&false);
                let answered = some_arrived && chance(&mut rng, 0.9);
                let settled = q.update(0, |f| f.settle(n, &lost_now, answered, 2, &mut up));
                lost += settled.lost;
                let here = q.packets();
                assert_eq!(offered, up.len() as u64 + here + refused + lost, "seed {seed}");
                assert_eq!(q.len, q.flow(0).len(), "seed {seed}");
            }
            assert!(up.windows(2).all(|w| w[0].id < w[1].id), "seed {seed}");
            assert!(up.len() > 80 && (lost > 0 || !aggregates), "seed {seed}: {}", up.len());
        }
    }

    #[test]
    fn no_mpdu_is_sent_beyond_the_recipients_window() {
        let mut q = queue(AmpduLimits::new(1 << 20, 256), 1_000);
        (0..300).for_each(|id| assert!(q.push(0, packet(id))));
        assert_eq!(q.flow(0).next_ppdu(u32::MAX).mpdus, 64);
        // The first is lost: until it arrives, its window allows nothing else.
        let mut lost = vec![false; 64];
        lost[0] = true;
        let mut up = Vec::new();
        let settled = q.update(0, |f| f.settle(64, &lost, true, 7, &mut up));
        assert_eq!((settled.arrived, up.len()), (63, 0));
        assert_eq!(q.flow(0).next_ppdu(u32::MAX).mpdus, 1);
        q.update(0, |f| f.settle(1, &[], true, 7, &mut up));
        assert_eq!(up.len(), 64);
        assert_eq!(q.flow(0).next_ppdu(u32::MAX).mpdus, 64);
    }
}
