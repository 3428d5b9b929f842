//! A scenario set up, and what must hold of it whatever it is.

use core::ops::Range;
use core::time::Duration;
use std::io::Write;

use anyhow::{Result, ensure};
use tack_link::wlan::Wlan;
use tack_sim::{LinkId, Simulation};
use tack_units::Instant;

use crate::host::Controllers;
use crate::link::Hop;
use crate::network::{Capture, Network};
use crate::scenario::Scenario;
use crate::series;
use crate::traffic::{Placed, Planted, place};

/// How often the sender's state is sampled for RTT percentiles.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// A scenario set up, its flows in order.
pub(crate) struct Setup {
    pub(crate) sim: Simulation<Hop>,
    pub(crate) wlan: Option<LinkId>,
    pub(crate) wan: Option<LinkId>,
    pub(crate) flows: Vec<Planted>,
}

impl Setup {
    pub(crate) fn build(
        scenario: &Scenario,
        capture: Capture,
        controllers: &Controllers,
    ) -> Result<Setup> {
        let mut network = Network::build(scenario, capture)?;
        network.sim.record_every(SAMPLE_PERIOD, Hop::queue_bytes);
        let flows = scenario.flows().enumerate();
        let flows = flows.map(|(n, flow)| place(&mut network, scenario, (n, &flow), controllers));
        let flows = flows.collect::<Result<_>>()?;
        let Network { sim, wlan, wan, .. } = network;
        Ok(Setup { sim, wlan, wan, flows })
    }

    pub(crate) fn write_series(&self, out: &mut dyn Write) -> std::io::Result<()> {
        series::write_header(out)?;
        for (number, flow) in self.flows.iter().enumerate() {
            if let Placed::Flow(id) = &flow.placed {
                series::write_flow(out, number, self.sim.flow_series(*id))?;
            }
        }
        out.flush()
    }

    pub(crate) fn wlan(&self) -> Option<&Wlan> {
        self.sim.world().link(self.wlan?).wlan()
    }

    /// From a flow's start until its last byte was read; what goes on has no end.
    pub(crate) fn life(&self, flow: usize) -> Range<Instant> {
        let Planted { placed, times, .. } = &self.flows[flow];
        let end = match placed {
            Placed::Udp { .. } => times.stop,
            Placed::Flow(id) => {
                let (from, to) = self.sim.flow(*id);
                to.at_end.then(|| from.last_read_at.max(to.last_read_at).or(times.stop)).flatten()
            }
        };
        times.start..end.unwrap_or(Instant::MAX)
    }

    /// A flow with data to send, room and a living path never stands still.
    pub(crate) fn check_stall(&self) -> Result<()> {
        match self.sim.stall() {
            Some(stall) => Err(stall.clone().into()),
            None => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.check_stall()?;
        for hop in self.sim.world().links() {
            ensure!(hop.conserves(), "packets were not conserved on {hop:?}");
        }
        if let Some(w) = self.wlan() {
            let shares: f64 = w.airtime(self.sim.world().now()).shares().iter().sum();
            ensure!((shares - 1.0).abs() < 1e-6, "airtime shares sum to {shares}");
        }
        for flow in &self.flows {
            if let Placed::Flow(id) = &flow.placed {
                let (from, to) = self.sim.flow(*id);
                crate::stock::check(*id, &from, &to)?;
                for side in [&from, &to] {
                    let wrong = side.first_wrong_byte;
                    ensure!(wrong.is_none(), "byte {wrong:?} of flow {} arrived wrong", id.0);
                }
            }
        }
        Ok(())
    }
}
