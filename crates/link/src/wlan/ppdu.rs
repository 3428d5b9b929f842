//! What a winner of contention is about to put on the air, and which of it survives.

use core::time::Duration;

use rand_pcg::Pcg64;

use super::config::{HiddenInterferer, Protection};
use super::phy::{DataRate, Ns};
use super::{Role, Wlan};
use crate::draw::{exponential, nanos};

/// What an exchange carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// This many MPDUs of a flow, which together have this many bytes.
    Data { flow: usize, mpdus: usize, psdu_bytes: u32 },
    /// A BlockAckReq of a flow.
    Bar { flow: usize },
    /// This many MPDUs of a neighbour.
    Neighbour { index: usize, mpdus: u32 },
    /// A beacon.
    Beacon { index: usize },
}

/// One exchange: protection, PPDU, response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) contender: u32,
    pub(super) node: u32,
    pub(super) what: What,
    pub(super) start: Ns,
    /// Protection before the PPDU, the SIFS after it included.
    pub(super) lead: Ns,
    /// Duration of an RTS; 0 without.
    pub(super) rts: Ns,
    /// Duration of the frame that answers it or goes ahead alone; 0 without protection.
    pub(super) cts: Ns,
    pub(super) ppdu: Ns,
    pub(super) rate: DataRate,
    /// Duration of the response; 0 if none is due.
    pub(super) response: Ns,
    pub(super) timeout: Ns,
    pub(super) sifs: Ns,
}

impl Plan {
    pub(super) fn ppdu_start(&self) -> Ns {
        self.start + self.lead
    }

    pub(super) fn ppdu_end(&self) -> Ns {
        self.start + self.lead + self.ppdu
    }

    /// End of the exchange if it succeeds.
    pub(super) fn end(&self) -> Ns {
        self.ppdu_end() + if self.response > 0 { self.sifs + self.response } else { 0 }
    }

    /// When its sender stops if it collides: an RTS that is not answered ends the exchange.
    pub(super) fn collided_end(&self) -> Ns {
        if self.rts > 0 { self.start + self.rts } else { self.ppdu_end() }
    }

    /// Start of the MPDU that begins after `bytes_before` of the PSDU's `psdu_bytes`.
    pub(super) fn mpdu_start(&self, bytes_before: u32, psdu_bytes: u32) -> Ns {
        let preamble = self.rate.preamble_ns();
        let data = self.ppdu - preamble.min(self.ppdu);
        let before = data * Ns::from(bytes_before) / Ns::from(psdu_bytes.max(1));
        self.ppdu_start() + preamble + before
    }
}

impl Wlan {
    /// What contender `id` sends if it starts at `start`, continuing a TXOP until `txop_end`.
    pub(super) fn plan(&self, id: u32, start: Ns, txop_end: Option<Ns>) -> Option<Plan> {
        match self.roles[id as usize] {
            Role::Queue(q) => self.plan_queue(id, q, start, txop_end),
            Role::Neighbour(index) => {
                let n = &self.neighbours[index];
                let ppdu = n.next_ppdu();
                let what = What::Neighbour { index, mpdus: ppdu.mpdus };
                let plan = self.bare(id, what, start, n.rate);
                Some(Plan { ppdu: ppdu.ppdu, response: ppdu.response, timeout: n.timeout, ..plan })
            }
            Role::Beacon(index) => {
                let b = &self.beacons[index];
                let plan = self.bare(id, What::Beacon { index }, start, b.rate);
                Some(Plan { ppdu: b.ppdu, ..plan })
            }
        }
    }

    fn bare(&self, id: u32, what: What, start: Ns, rate: DataRate) -> Plan {
        Plan {
            contender: id,
            node: self.contention.node(id),
            what,
            start,
            lead: 0,
            rts: 0,
            cts: 0,
            ppdu: 0,
            rate,
            response: 0,
            timeout: 0,
            sifs: self.sifs,
        }
    }

    fn plan_queue(&self, id: u32, q: usize, start: Ns, txop_end: Option<Ns>) -> Option<Plan> {
        let flow = self.queues[q].choose()?;
        let f = self.queues[q].flow(flow);
        let times = &f.times;
        let mut plan = self.bare(id, What::Bar { flow }, start, times.rate);
        plan.timeout = times.timeout;
        if f.bar_pending {
            plan.ppdu = times.bar;
            plan.response = times.block_ack;
            return Some(plan);
        }
        let band = self.config.timing.band;
        let txop = self.contention.contender(id).txop;
        let end = txop_end.or((txop > 0).then_some(start + txop));
        let max_bytes = end.map_or(u32::MAX, |end| {
            let around = self.sifs + times.block_ack.max(times.ack);
            let room = (end - start.min(end)).saturating_sub(around);
            times.rate.max_psdu_bytes(room, band)
        });
        let mut a = f.next_ppdu(max_bytes);
        if txop_end.is_none() {
            self.protect(&mut plan, a.psdu_bytes);
            if plan.lead > 0 && end.is_some() {
                // Protection eats into the TXOP.
                let bytes = times.rate.ppdu_ns(max_bytes, band).saturating_sub(plan.lead);
                a = f.next_ppdu(times.rate.max_psdu_bytes(bytes, band));
            }
        }
        if a.mpdus == 0 {
            return None;
        }
        plan.what = What::Data { flow, mpdus: a.mpdus, psdu_bytes: a.psdu_bytes };
        plan.ppdu = times.rate.ppdu_ns(a.psdu_bytes, band);
        plan.response = if a.mpdus > 1 { times.block_ack } else { times.ack };
        Some(plan)
    }

    fn protect(&self, plan: &mut Plan, psdu_bytes: u32) {
        let t = &self.config.timing;
        let rate = |kbps: Option<u32>| match kbps {
            Some(kbps) => t.control_rate(kbps, plan.rate),
            None => t.response_rate(plan.rate),
        };
        match self.config.protection {
            Protection::RtsCts { threshold_bytes, kbps } if psdu_bytes > threshold_bytes => {
                plan.rts = nanos(t.rts(rate(kbps)));
                plan.cts = nanos(t.ack(rate(kbps)));
                plan.lead = plan.rts + self.sifs + plan.cts + self.sifs;
            }
            Protection::CtsToSelf { kbps } => {
                plan.cts = nanos(t.ack(rate(kbps)));
                plan.lead = plan.cts + self.sifs;
            }
            Protection::None | Protection::RtsCts { .. } => {}
        }
    }
}

/// The bursts of a hidden interferer that touch `[from, to)`, as `(begin, end)`.
///
/// Returns `true` at once if one hits before `fatal_until` or if any hit is fatal.
pub(super) fn interfere(
    hidden: &HiddenInterferer,
    from: Ns,
    to: Ns,
    fatal_until: Ns,
    bursts: &mut Vec<(Ns, Ns)>,
    rng: &mut Pcg64,
) -> bool {
    bursts.clear();
    let gap = Duration::try_from_secs_f64(1.0 / hidden.bursts_per_s);
    let Ok(gap) = gap else { return false };
    let Some(burst) = hidden.burst else {
        return nanos(exponential(rng, gap)) < to - from;
    };
    // Bursts that began up to their own length before the PPDU still overlap it.
    let burst = nanos(burst);
    let mut begin = from.saturating_sub(burst);
    loop {
        begin = begin.saturating_add(nanos(exponential(rng, gap)).max(1));
        if begin >= to {
            return false;
        }
        if begin < fatal_until && begin + burst > from {
            return true;
        }
        bursts.push((begin, begin + burst));
    }
}
