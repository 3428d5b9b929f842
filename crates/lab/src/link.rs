//! The links of a scenario as one type, so that their accounts can be read after a run.

use core::time::Duration;
use std::io::{self, Write};

use anyhow::Result;
use tack_link::tap::Tap;
use tack_link::wired::Wired;
use tack_link::wlan::Wlan;
use tack_link::{End, Link, Output, Packet};
use tack_sim::Seed;
use tack_units::Instant;

use crate::scenario::{Wan, Wifi};

/// One hop.
#[derive(Debug)]
pub(crate) enum Hop {
    /// The 802.11 hop.
    Wlan(Box<Wlan>),
    /// The wired path.
    Wired(Box<Wired>),
    /// One of those, with a capture at both of its ends.
    Tapped(Box<Tapped>),
}

/// A hop and where its packets are written.
pub(crate) struct Tapped(Tap<Hop, Box<dyn Write + Send>>);

impl std::fmt::Debug for Tapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.link().fmt(f)
    }
}

impl Hop {
    /// The wireless hop of a scenario. The same draws wherever it is used.
    ///
    /// # Errors
    /// Which key is wrong; none of a scenario that was parsed.
    pub(crate) fn of_wifi(wifi: &Wifi, seed: Seed) -> Result<Hop> {
        let config = wifi.checked_config(seed.derive("wlan"))?;
        Ok(Hop::Wlan(Box::new(Wlan::new(config)?)))
    }

    /// The wired path of a scenario, whose buffers count products of rate and `rtt`.
    ///
    /// # Errors
    /// As [`Self::of_wifi`].
    pub(crate) fn of_wan(wan: &Wan, rtt: Duration, seed: Seed) -> Result<Hop> {
        // From A, the clients' side, to B is up.
        let (up, down) = (wan.up().config(rtt), wan.down().config(rtt));
        Ok(Hop::Wired(Box::new(Wired::new(up, down, seed.derive("wan"))?)))
    }

    /// See [`Wired::for_arrivals`]; of no consequence to other hops.
    pub(crate) fn for_arrivals(self) -> Hop {
        match self {
            Hop::Wired(wired) => Hop::Wired(Box::new(wired.for_arrivals())),
            other => other,
        }
    }

    /// As in a scenario.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Hop::Wlan(_) => "wifi",
            Hop::Wired(_) => "wan",
            Hop::Tapped(t) => t.0.link().name(),
        }
    }

    /// This hop, its packets written to `out` as pcapng with interfaces `name-a` and `name-b`.
    ///
    /// # Errors
    /// When the file's header cannot be written.
    pub(crate) fn tapped(self, out: Box<dyn Write + Send>, name: &str) -> io::Result<Hop> {
        Ok(Hop::Tapped(Box::new(Tapped(Tap::new(self, out, name)?))))
    }

    /// Ends the capture, if there is one.
    ///
    /// # Errors
    /// The first since its start.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Hop::Tapped(tapped) => tapped.0.finish().map(|_| ()),
            Hop::Wlan(_) | Hop::Wired(_) => Ok(()),
        }
    }

    /// The 802.11 hop, if this is one.
    pub(crate) fn wlan(&self) -> Option<&Wlan> {
        match self {
            Hop::Wlan(w) => Some(w),
            Hop::Wired(_) => None,
            Hop::Tapped(t) => t.0.link().wlan(),
        }
    }

    /// The wired path, if this is one.
    pub(crate) fn wired(&self) -> Option<&Wired> {
        match self {
            Hop::Wired(w) => Some(w),
            Hop::Wlan(_) => None,
            Hop::Tapped(t) => t.0.link().wired(),
        }
    }

    /// Packets dropped by queues so far, both directions; retries given up count as losses.
    pub(crate) fn queue_drops(&self) -> u64 {
        match self {
            Hop::Wlan(w) => w.ledger().queue_drops,
            Hop::Wired(w) => both(w, |c| c.tail_dropped + c.aqm_dropped),
            Hop::Tapped(t) => t.0.link().queue_drops(),
        }
    }

    /// Packets lost on the way so far, both directions.
    pub(crate) fn losses(&self) -> u64 {
        match self {
            Hop::Wlan(w) => w.ledger().retry_drops,
            Hop::Wired(w) => both(w, |c| c.lost + c.blacked_out + c.corrupt_dropped),
            Hop::Tapped(t) => t.0.link().losses(),
        }
    }

    /// Whether every packet offered is delivered, queued or dropped.
    pub(crate) fn conserves(&self) -> bool {
        match self {
            Hop::Wlan(w) => w.ledger().balances(),
            Hop::Wired(w) => [End::A, End::B].iter().all(|end| {
                let c = w.counters(*end);
                c.offered.packets + c.duplicated == c.delivered.packets + c.resident + c.dropped()
            }),
            Hop::Tapped(t) => t.0.link().conserves(),
        }
    }

    /// Bytes waiting in its queues; zero for the WLAN, whose queues count packets.
    pub(crate) fn queue_bytes(&self) -> u64 {
        match self {
            Hop::Wlan(_) => 0,
            Hop::Wired(w) => w.queue_bytes(End::A) + w.queue_bytes(End::B),
            Hop::Tapped(t) => t.0.link().queue_bytes(),
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
            Hop::Tapped(t) => t.0.offer(end, packet, now),
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        match self {
            Hop::Wlan(w) => w.poll(now),
            Hop::Wired(w) => w.poll(now),
            Hop::Tapped(t) => t.0.poll(now),
        }
    }
}
