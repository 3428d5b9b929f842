//! The links of a scenario as one type, so that their accounts can be read after a run.

use tack_link::wired::Wired;
use tack_link::wlan::Wlan;
use tack_link::{End, Link, Output, Packet};
use tack_units::Instant;

/// One hop.
#[derive(Debug)]
pub enum Hop {
    /// The 802.11 hop.
    Wlan(Box<Wlan>),
    /// The wired path.
    Wired(Box<Wired>),
}

impl Hop {
    /// Packets dropped by queues so far, both directions; retries given up count as losses.
    pub fn queue_drops(&self) -> u64 {
        match self {
            Hop::Wlan(w) => w.ledger().queue_drops,
            Hop::Wired(w) => both(w, |c| c.tail_dropped + c.aqm_dropped),
        }
    }

    /// Packets lost on the way so far, both directions.
    pub fn losses(&self) -> u64 {
        match self {
            Hop::Wlan(w) => w.ledger().retry_drops,
            Hop::Wired(w) => both(w, |c| c.lost + c.blacked_out + c.corrupt_dropped),
        }
    }

    /// Whether every packet offered is delivered, queued or dropped.
    pub fn conserves(&self) -> bool {
        match self {
            Hop::Wlan(w) => w.ledger().balances(),
            Hop::Wired(w) => [End::A, End::B].iter().all(|end| {
                let c = w.counters(*end);
                c.offered.packets + c.duplicated == c.delivered.packets + c.resident + c.dropped()
            }),
        }
    }

    /// Bytes waiting in its queues; zero for the WLAN, whose queues count packets.
    pub fn queue_bytes(&self) -> u64 {
        match self {
            Hop::Wlan(_) => 0,
            Hop::Wired(w) => w.queue_bytes(End::A) + w.queue_bytes(End::B),
        }
    }
}

fn both(wired: &Wired, count: impl Fn(&tack_link::wired::Counters) -> u64) -> u64 {
    [End::A, End::B].iter().map(|end| count(&wired.counters(*end))).sum()
}

impl Link for Hop {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        match self {
            Hop::Wlan(w) => w.offer(end, packet, now),
            Hop::Wired(w) => w.offer(end, packet, now),
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        match self {
            Hop::Wlan(w) => w.poll(now),
            Hop::Wired(w) => w.poll(now),
        }
    }
}
