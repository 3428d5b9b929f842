//! The flows as connections of our stack: one host per end.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tack_emu::Emulation;
use tack_link::{End, Link};
use tack_tcp::{ConnConfig, ConnId, EventKind, Host, ListenConfig};
use tack_units::Instant;

use super::threads::Threads;
use super::{Start, port, starts};
use crate::scenario::Scenario;
use crate::traffic::flow_config;
use crate::tun_host::{App, TunHost, address, read, write};

/// Starts the threads of both ends.
pub(super) fn start<L>(
    emulation: &Emulation<L>,
    scenario: &Scenario,
    begin: Instant,
) -> Result<Threads>
where
    L: Link + Send + 'static,
{
    let mut threads = Threads::default();
    for (name, end) in [("our-b", End::B), ("our-a", End::A)] {
        let mut side = TunHost::open(emulation, end, scenario.seed)?;
        for (entry, flow) in scenario.flow.iter().enumerate() {
            if let Some(config) = flow_config(flow).filter(|_| super::sender(flow) != end) {
                let config = ListenConfig::default().with(|it| it.conn = config.to_conn);
                side.host.listen(port(entry), config).context("our host cannot listen")?;
            }
        }
        let mut due: Vec<Due> = starts(scenario, begin)
            .into_iter()
            .filter(|start| start.sender == end)
            .filter_map(|start| Some(Due { config: flow_config(&start.flow)?.from_conn, start }))
            .collect();
        due.sort_by_key(|due| core::cmp::Reverse(due.start.at));
        let flows = Flows { to: address(end.other()), due, open: Vec::new() };
        threads.spawn(name, move |stop| side.run(flows, stop))?;
    }
    Ok(threads)
}

/// A flow to be.
struct Due {
    start: Start,
    config: ConnConfig,
}

/// The applications of an end.
struct Flows {
    to: std::net::IpAddr,
    /// The next last.
    due: Vec<Due>,
    open: Vec<Open>,
}

struct Open {
    conn: ConnId,
    /// `None` receives.
    sends_until: Option<Instant>,
}

impl App for Flows {
    fn serve(&mut self, host: &mut Host, now: Instant) {
        while let Some(due) = self.due.pop_if(|due| due.start.at <= now) {
            let to = SocketAddr::new(self.to, port(due.start.entry));
            // A flow that cannot start is missed on the path.
            if let Ok(conn) = host.connect(to, due.config, now) {
                self.open.push(Open { conn, sends_until: Some(due.start.stop) });
            }
        }
        while let Some(event) = host.poll_event() {
            let EventKind::Accepted { listener } = event.kind else { continue };
            let conn = host.accept(listener);
            self.open.extend(conn.map(|conn| Open { conn, sends_until: None }));
        }
        for open in &self.open {
            match open.sends_until {
                Some(stop) if now < stop => write(host, open.conn, now),
                Some(_) => {}
                None => {
                    read(host, open.conn, now);
                }
            }
        }
    }

    fn next_at(&self) -> Option<Instant> {
        self.due.last().map(|due| due.start.at)
    }
}
