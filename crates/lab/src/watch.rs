//! A simulated run watched while it goes, slice by slice. Looking changes nothing in it, nor does
//! the number of slices: its record is that of [`crate::backend::run`].

use core::time::Duration;

use anyhow::{Result, ensure};
use tack_link::wlan::{Airtime, Span};
use tack_units::Instant;

use crate::backend;
use crate::host::Controllers;
use crate::item::{Backend, Item};
use crate::link::Hop;
use crate::reading::Reading;
use crate::record::Record;
use crate::simulate::Running;
use crate::traffic::Placed;

/// A run under way.
pub struct Watched {
    item: Item,
    running: Running,
}

/// What is seen of a run at one moment. Counts are from its beginning.
#[derive(Clone, Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// How the medium's time went; `None` without Wi-Fi.
    pub airtime: Option<Airtime>,
    /// What the medium was used for lately, in order; the last may reach beyond `at`.
    pub medium: Vec<Span>,
    /// Application bytes that all flows delivered in order.
    pub delivered_bytes: u64,
    /// IP packets of all flows that only acknowledge, as they left.
    pub ack_packets: u64,
    /// What waits.
    pub waiting: Waiting,
    /// Mean of the flows' smoothed round trips; `None` before the first sample, and of UDP.
    pub srtt: Option<Duration>,
}

/// What waits in queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets at the access point.
    pub ap_packets: u64,
    /// Packets at all stations together.
    pub station_packets: u64,
    /// IP-level bytes at the wired path, both directions.
    pub wan_bytes: u64,
}

impl Watched {
    /// Sets a run up; it is at time zero.
    ///
    /// # Errors
    /// When it is not simulated alone, or cannot be built.
    pub fn new(item: &Item) -> Result<Watched> {
        let is_plain = item.backend == Backend::Sim;
        ensure!(is_plain, "only backend = \"sim\" can be watched");
        let running = Running::new(&item.scenario, None, &Controllers::new())?;
        Ok(Watched { item: item.clone(), running })
    }

    /// When it ends.
    pub fn end(&self) -> Instant {
        self.running.end()
    }

    /// Goes on up to and including `until`, never beyond the end.
    pub fn advance(&mut self, until: Instant) {
        self.running.advance(until);
    }

    /// What is seen now, with the medium's uses from about `since` on, as far as is remembered.
    pub fn look(&self, since: Instant) -> Look {
        let setup = self.running.setup();
        let at = setup.sim.world().now();
        let reading = Reading::of(setup, at);
        let medium = setup.wlan().map(|w| w.recent_medium(at).filter(|s| s.to > since).collect());
        Look {
            at,
            airtime: reading.airtime(),
            medium: medium.unwrap_or_default(),
            delivered_bytes: reading.delivered_bytes(),
            ack_packets: reading.ack_packets(),
            waiting: self.waiting(),
            srtt: self.srtt(),
        }
    }

    fn waiting(&self) -> Waiting {
        let setup = self.running.setup();
        let links = setup.sim.world().links();
        let stations = |w: &tack_link::wlan::Wlan, of: &dyn Fn(usize) -> usize| {
            (0..w.config().stations.len()).map(|i| of(i) as u64).sum()
        };
        let wlan = setup.wlan();
        Waiting {
            ap_packets: wlan.map_or(0, |w| stations(w, &|i| w.downlink_backlog(i))),
            station_packets: wlan.map_or(0, |w| stations(w, &|i| w.uplink_backlog(i))),
            wan_bytes: links.iter().map(Hop::queue_bytes).sum(),
        }
    }

    fn srtt(&self) -> Option<Duration> {
        let setup = self.running.setup();
        let known: Vec<Duration> = setup
            .flows
            .iter()
            .filter_map(|flow| {
                let Placed::Flow(id) = &flow.placed else { return None };
                let (from, _) = setup.sim.flow(*id);
                let guest = from.guest.as_ref().map(|g| g.srtt).filter(|srtt| !srtt.is_zero());
                from.info.as_ref().and_then(|i| i.srtt).or(guest)
            })
            .collect();
        known.iter().sum::<Duration>().checked_div(known.len() as u32)
    }

    /// Goes on to the end; what is written down of it.
    ///
    /// # Errors
    /// When the run broke a promise of the simulator.
    pub fn record(self) -> Result<Record> {
        backend::finish(&self.item, self.running)
    }
}
