//! From an access to its outcome: what the winners send, what of it arrives, and what everybody
//! learns from it.

use core::time::Duration;

use super::airtime::Use;
use super::edca::CATEGORIES;
use super::host::{Exit, MAX_DELIVERIES};
use super::phy::Ns;
use super::ppdu::{Plan, What, interfere};
use super::queue::Settled;
use super::timing::subframe_bytes;
use super::{AP, Role, Txop, Wlan};
use crate::draw::chance;
use crate::link::{Packet, PacketKind};

/// Buffers kept between accesses.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    winners: Vec<(u32, Ns)>,
    plans: Vec<Plan>,
    /// Per MPDU of the PPDU under way; empty if nothing is lost.
    lost: Vec<bool>,
    bursts: Vec<(Ns, Ns)>,
    up: Vec<Packet>,
}

impl Wlan {
    /// Carries out the next access to the medium, from its first frame to its outcome.
    pub(super) fn access(&mut self) {
        if let Some(txop) = self.txop.take() {
            self.go_on(txop);
            return;
        }
        let mut winners = std::mem::take(&mut self.scratch.winners);
        let mut plans = std::mem::take(&mut self.scratch.plans);
        self.contention.contend(&mut winners);
        plans.clear();
        for (i, &(id, start)) in winners.iter().enumerate() {
            let node = self.contention.node(id);
            self.prepare_role(id, start);
            let beaten = winners[i + 1..].iter().any(|w| self.contention.node(w.0) == node);
            match self.plan(id, start, None) {
                Some(plan) if beaten => self.collide_internally(&plan),
                Some(plan) => plans.push(plan),
                None => self.refresh(id, start),
            }
        }
        match plans.as_slice() {
            [] => {}
            [plan] => self.alone(plan, None),
            plans => self.collide(plans),
        }
        self.scratch.winners = winners;
        self.scratch.plans = plans;
    }

    /// The next PPDU of a transmission opportunity, if there is one that fits.
    fn go_on(&mut self, txop: Txop) {
        self.prepare_role(txop.contender, txop.next_at);
        let plan = self.plan(txop.contender, txop.next_at, Some(txop.end));
        match plan.filter(|p| p.end() <= txop.end) {
            Some(plan) => self.alone(&plan, Some(txop.end)),
            None => self.contention.busy_until(txop.next_at - self.sifs),
        }
    }

    fn prepare_role(&mut self, contender: u32, now: Ns) {
        if let Role::Queue(q) = self.roles[contender as usize] {
            self.prepare(q, now);
        }
    }

    /// Two categories of one node wanted the same slot: the lower one behaves as if it collided.
    fn collide_internally(&mut self, plan: &Plan) {
        self.stats[plan.node as usize].internal_collisions += 1;
        let gave_up = self.lose(plan);
        self.contention.failed(plan.contender, gave_up, &mut self.rng);
        self.refresh(plan.contender, plan.start);
    }

    /// One sender has the medium.
    fn alone(&mut self, plan: &Plan, txop_end: Option<Ns>) {
        self.account.idle_until(plan.start);
        self.count(plan, txop_end.is_none());
        let answered = match plan.what {
            What::Beacon { index } => {
                self.account.put(Use::Beacon, plan.end());
                self.beacons[index].due = false;
                true
            }
            What::Neighbour { index, mpdus } => {
                self.account.put(Use::Neighbour, plan.end());
                self.neighbours[index].succeeded(mpdus);
                true
            }
            What::Bar { flow } => self.request(plan, flow),
            What::Data { .. } => self.send_data(plan, plan.ppdu_start()),
        };
        if answered {
            self.finish(plan, txop_end);
        }
        self.refresh(plan.contender, plan.start);
    }

    /// A BlockAckReq and its BlockAck.
    fn request(&mut self, plan: &Plan, flow: usize) -> bool {
        self.account.put(Use::Control, plan.ppdu_end());
        let e = self.config.errors;
        if chance(&mut self.rng, e.ppdu) || chance(&mut self.rng, e.response) {
            self.fail(plan, plan.ppdu_end(), false);
            return false;
        }
        self.account.put(Use::Control, plan.end());
        let q = plan.contender as usize;
        let mut up = std::mem::take(&mut self.scratch.up);
        self.queues[q].update(flow, |f| f.bar_answered(&mut up));
        self.hand_up(q, flow, plan.ppdu_end(), up);
        true
    }

    /// The data of `plan` from `from` on, which is later than the PPDU's start after a collision
    /// that it survived. Returns whether its sender got a response.
    fn send_data(&mut self, plan: &Plan, from: Ns) -> bool {
        let What::Data { flow, mpdus, psdu_bytes } = plan.what else { return false };
        let captured = from > plan.ppdu_start();
        let clear_from = if captured { from } else { 0 };
        match self.noise(plan, flow, mpdus, psdu_bytes, clear_from) {
            Survivors::NoCts => {
                let end = plan.collided_end();
                self.account.put(Use::Lost, end);
                self.lose_alone(plan, end);
                false
            }
            Survivors::None => {
                let end = plan.ppdu_end();
                self.account.put(Use::Control, plan.ppdu_start());
                self.account.put(if captured { Use::Collision } else { Use::Lost }, end);
                self.lose_alone(plan, end);
                false
            }
            Survivors::Some => {
                if captured {
                    self.account.put(Use::Collision, from);
                } else {
                    self.account.put(Use::Control, from);
                }
                self.put_data(plan, flow, mpdus, from);
                self.account.put(Use::Control, plan.end());
                let answered = !chance(&mut self.rng, self.config.errors.response);
                let settled = self.settle(plan, flow, mpdus, answered);
                if !answered {
                    self.note_missing_block_ack(plan);
                    self.fail(plan, plan.end(), settled.given_up == mpdus as u64);
                }
                answered
            }
        }
    }

    /// Nothing of a lone PPDU arrived: everyone sees what a collision looks like.
    fn lose_alone(&mut self, plan: &Plan, end: Ns) {
        self.defer_bystanders(end);
        let gave_up = self.lose(plan);
        self.fail(plan, end, gave_up);
    }

    /// Several senders started together.
    fn collide(&mut self, plans: &[Plan]) {
        let first = plans.iter().map(|p| p.start).min().unwrap_or(0);
        let end = plans.iter().map(Plan::collided_end).max().unwrap_or(first);
        self.account.idle_until(first);
        for plan in plans {
            self.count(plan, true);
            self.stats[plan.node as usize].collisions += 1;
        }
        let captured = plans.iter().position(|p| self.survives_in_part(p, plans));
        if captured.is_none() {
            self.defer_bystanders(end);
        }
        self.account.put(Use::Collision, if captured.is_some() { first } else { end });
        self.contention.busy_until(end);
        for (i, plan) in plans.iter().enumerate() {
            if Some(i) != captured {
                let gave_up = match plan.what {
                    What::Beacon { index } => {
                        self.beacons[index].due = false;
                        true
                    }
                    _ => self.lose(plan),
                };
                self.contention.hold(plan.node, plan.collided_end() + plan.timeout);
                self.stats[plan.node as usize].timeouts += 1;
                self.contention.failed(plan.contender, gave_up, &mut self.rng);
                self.refresh(plan.contender, plan.start);
            }
        }
        if let Some(plan) = captured.map(|i| &plans[i]) {
            if self.send_data(plan, other_end(plan, plans)) {
                self.finish(plan, None);
            }
            self.refresh(plan.contender, plan.start);
        }
    }

    /// Whether `plan` is the access point's and outlasts the other frames at a receiver that is
    /// not sending itself.
    fn survives_in_part(&self, plan: &Plan, plans: &[Plan]) -> bool {
        let What::Data { flow, .. } = plan.what else { return false };
        let to = self.queues[plan.contender as usize].flow(flow).to;
        self.config.capture
            && plan.node as usize == AP
            && plan.rts == 0
            && plans.iter().all(|p| p.node != to)
            && other_end(plan, plans) < plan.ppdu_end()
    }

    /// A sender got its response: the medium is idle after it, or goes on with its TXOP.
    fn finish(&mut self, plan: &Plan, txop_end: Option<Ns>) {
        let end = plan.end();
        self.count_response(plan);
        self.contention.busy_until(end);
        if self.config.idle_before_response && matches!(plan.what, What::Data { mpdus: 1, .. }) {
            self.contention.open_gap(plan.ppdu_end());
        }
        self.contention.succeeded(plan.contender, &mut self.rng);
        if let Role::Queue(q) = self.roles[plan.contender as usize] {
            if let What::Data { flow, .. } = plan.what {
                self.queues[q].served(flow, end);
            }
            let txop = self.contention.contender(plan.contender).txop;
            let txop_end = txop_end.unwrap_or(plan.start + txop);
            if txop > 0 && end + self.sifs < txop_end && self.has_work(q) {
                let next_at = end + self.sifs;
                self.txop = Some(Txop { contender: plan.contender, next_at, end: txop_end });
                self.contention.busy_until(next_at);
            }
        }
    }

    /// A sender got no response although nobody else sent; the medium is idle from `end`.
    fn fail(&mut self, plan: &Plan, end: Ns, gave_up: bool) {
        self.stats[plan.node as usize].timeouts += 1;
        self.contention.busy_until(end);
        self.contention.hold(plan.node, end.min(plan.ppdu_end()) + plan.timeout);
        self.contention.failed(plan.contender, gave_up, &mut self.rng);
    }

    /// Bystanders that met an error wait EIFS after `end`.
    fn defer_bystanders(&mut self, end: Ns) {
        let share = self.config.eifs_share;
        self.contention.hold_some(end + self.eifs_extra, share, &mut self.rng);
    }

    /// All of `plan` was lost; true if all of it is given up.
    fn lose(&mut self, plan: &Plan) -> bool {
        match plan.what {
            What::Data { flow, mpdus, .. } => {
                self.scratch.lost.clear();
                self.scratch.lost.resize(mpdus, true);
                let settled = self.settle(plan, flow, mpdus, false);
                self.note_missing_block_ack(plan);
                settled.given_up == mpdus as u64
            }
            What::Neighbour { index, mpdus } => {
                let limit = self.config.retry_limit.unwrap_or(u32::MAX);
                self.neighbours[index].failed(mpdus, limit)
            }
            // Deviation: requests are repeated for ever. Giving one up would leave the recipient
            // waiting for a gap that nothing fills.
            What::Bar { .. } | What::Beacon { .. } => false,
        }
    }

    fn note_missing_block_ack(&mut self, plan: &Plan) {
        if let What::Data { flow, mpdus, .. } = plan.what
            && self.config.explicit_bar
            && mpdus > 1
        {
            self.queues[plan.contender as usize].flow_mut(flow).bar_pending = true;
        }
    }

    /// Tells both ends of a flow what became of a PPDU (`scratch.lost`).
    fn settle(&mut self, plan: &Plan, flow: usize, mpdus: usize, answered: bool) -> Settled {
        let q = plan.contender as usize;
        let limit = self.config.retry_limit.unwrap_or(u32::MAX);
        let mut up = std::mem::take(&mut self.scratch.up);
        let lost = &self.scratch.lost;
        let settled =
            self.queues[q].update(flow, |f| f.settle(mpdus, lost, answered, limit, &mut up));
        self.ledger.retry_drops += settled.lost;
        self.stats[plan.node as usize].retry_drops += settled.lost;
        self.hand_up(q, flow, plan.ppdu_end(), up);
        settled
    }

    /// What the recipient of a flow releases at `end`.
    fn hand_up(&mut self, q: usize, flow: usize, end: Ns, mut up: Vec<Packet>) {
        let to = self.queues[q].flow(flow).to as usize;
        if to == AP {
            for packet in up.drain(..) {
                let exit = self.station_of(packet.dst).map_or(Exit::Wired, Exit::Relay);
                self.deliveries.push(end, exit, packet);
            }
        } else if !up.is_empty() {
            self.hosts[to - 1].begin(end, &mut self.rng);
            for packet in up.drain(..) {
                if self.deliveries.len() >= MAX_DELIVERIES {
                    self.ledger.queue_drops += 1;
                    self.stats[to].queue_drops += 1;
                    continue;
                }
                let at = self.hosts[to - 1].next();
                self.deliveries.push(at, Exit::Station, packet);
            }
        }
        self.scratch.up = up;
    }

    /// Draws what noise and interference destroy into `scratch.lost`, besides every MPDU that
    /// begins before `clear_from`.
    fn noise(
        &mut self,
        plan: &Plan,
        flow: usize,
        mpdus: usize,
        psdu_bytes: u32,
        clear_from: Ns,
    ) -> Survivors {
        let Scratch { lost, bursts, .. } = &mut self.scratch;
        lost.clear();
        bursts.clear();
        let e = &self.config.errors;
        let down = plan.node as usize == AP;
        let p = if down { e.downlink_mpdu } else { e.uplink_mpdu };
        let mut fatal = chance(&mut self.rng, e.ppdu);
        if let Some(hidden) = &self.config.hidden {
            // A CTS silences hidden stations too: only the RTS is exposed.
            let to = if plan.rts > 0 { plan.start + plan.rts } else { plan.ppdu_end() };
            let header = plan.ppdu_start() + plan.rate.preamble_ns();
            let fatal_until = if plan.rts > 0 { to } else { header };
            let hit = interfere(hidden, plan.start, to, fatal_until, bursts, &mut self.rng);
            if hit && plan.rts > 0 {
                return Survivors::NoCts;
            }
            fatal |= hit;
        }
        if fatal {
            return Survivors::None;
        }
        if p == 0.0 && bursts.is_empty() && clear_from == 0 {
            return Survivors::Some;
        }
        let mut before = 0;
        for mpdu in self.queues[plan.contender as usize].flow(flow).mpdus(mpdus) {
            let start = plan.mpdu_start(before, psdu_bytes);
            before += subframe_bytes(mpdu.bytes());
            let end = plan.mpdu_start(before, psdu_bytes);
            let hit = bursts.iter().any(|&(from, to)| from < end && to > start);
            lost.push(start < clear_from || hit || chance(&mut self.rng, p));
        }
        if lost.iter().all(|lost| *lost) {
            return Survivors::None;
        }
        if !lost.contains(&true) {
            lost.clear();
        }
        Survivors::Some
    }

    /// Accounts `[from, PPDU end)` to data and acknowledgments, by bytes.
    fn put_data(&mut self, plan: &Plan, flow: usize, mpdus: usize, from: Ns) {
        let (mut all, mut acks) = (0u64, 0u64);
        for mpdu in self.queues[plan.contender as usize].flow(flow).mpdus(mpdus) {
            all += u64::from(mpdu.bytes());
            acks += if mpdu.kind == PacketKind::Ack { u64::from(mpdu.bytes()) } else { 0 };
        }
        let end = plan.ppdu_end();
        let ack_time = (end - from.min(end)) * acks / all.max(1);
        self.account.put(Use::Data, end - ack_time);
        self.account.put(Use::Ack, end);
    }

    /// Notes what a sender puts on the air, up to a response.
    fn count(&mut self, plan: &Plan, access: bool) {
        let stats = &mut self.stats[plan.node as usize];
        stats.accesses += u64::from(access);
        let lead = Duration::from_nanos(if plan.rts > 0 { plan.rts } else { plan.cts });
        let ppdu = Duration::from_nanos(plan.ppdu);
        stats.control_airtime += lead;
        if let What::Data { flow, .. } | What::Bar { flow } = plan.what {
            self.queues[plan.contender as usize].charge(flow, plan.ppdu, plan.start);
        }
        match plan.what {
            What::Data { mpdus, .. } => {
                stats.data_ppdus += 1;
                stats.mpdus += mpdus as u64;
                stats.data_airtime += ppdu;
            }
            What::Bar { .. } => {
                stats.block_ack_reqs += 1;
                stats.control_airtime += ppdu;
            }
            What::Neighbour { .. } => stats.data_airtime += ppdu,
            What::Beacon { .. } => stats.control_airtime += ppdu,
        }
    }

    /// Notes what a receiver puts on the air.
    fn count_response(&mut self, plan: &Plan) {
        let (What::Data { flow, .. } | What::Bar { flow }) = plan.what else { return };
        let to = self.queues[plan.contender as usize].flow(flow).to as usize;
        let cts = if plan.rts > 0 { plan.cts } else { 0 };
        self.stats[to].control_airtime += Duration::from_nanos(plan.response + cts);
        if to == AP {
            let category = plan.contender as usize % CATEGORIES;
            self.charge_uplink(plan.node as usize - 1, category, plan.ppdu, plan.start);
        }
    }
}

/// What noise leaves of a PPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survivors {
    /// The RTS was lost: the PPDU is not sent at all.
    NoCts,
    /// No MPDU.
    None,
    /// At least one; `Scratch::lost` tells which.
    Some,
}

/// When the last of the other senders stops.
fn other_end(plan: &Plan, plans: &[Plan]) -> Ns {
    let others = plans.iter().filter(|p| p.contender != plan.contender);
    others.map(Plan::collided_end).max().unwrap_or(0)
}
