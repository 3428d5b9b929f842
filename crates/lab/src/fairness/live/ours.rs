//! The flows as connections of our stack: one host per end.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tack_cc::Pacing;
use tack_emu::Emulation;
use tack_link::{End, Link};
use tack_tcp::ack::EverySegment;
use tack_tcp::{AckStrategy, ConnConfig, ConnId, EventKind, Host, ListenConfig};
use tack_units::Instant;

use super::traffic::{Received, Traffic};
use super::{Class, LiveRun, MSS, REVERSE_WINDOW_BYTES};
use crate::tun_host::{App, TunHost, address, read, write};

/// As much as a flow in the simulator may buffer.
const BUFFER_BYTES: usize = 64 << 20;
/// What TACK's packet number takes of a segment.
const PKT_SEQ_BYTES: u16 = 8;

/// Starts the threads of both ends.
pub(super) fn start<L>(
    emulation: &Emulation<L>,
    run: &LiveRun,
    received: &Arc<Received>,
) -> Result<Traffic>
where
    L: Link + Send + 'static,
{
    let mut traffic = Traffic::default();
    // The listener first: the other side's SYN must not come to a host that is not there.
    for (name, end) in [("our-b", End::B), ("our-a", End::A)] {
        let mut side = TunHost::open(emulation, end, run.seed)?;
        let mut starts = Vec::new();
        if end == End::B {
            for class in Class::ALL {
                let config = ListenConfig { conn: conn_config(run, class), ..Default::default() };
                side.host.listen(class.port(), config).context("our host cannot listen")?;
            }
        } else {
            let begin = side.now();
            starts.extend(run.starts().iter().map(|start| (begin + start.after, start.class)));
            starts.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        }
        let received = Arc::clone(received);
        let flows = Flows { run: *run, starts, open: Vec::new(), received };
        traffic.spawn(name, move |stop| side.run(flows, stop))?;
    }
    Ok(traffic)
}

/// As the simulated dumbbell's flows have it.
fn conn_config(run: &LiveRun, class: Class) -> ConnConfig {
    let ack = match class {
        Class::Others => run.cell.strategy,
        Class::Every | Class::Reverse => AckStrategy::EverySegment(EverySegment),
    };
    let options = if ack.tack().is_some() { PKT_SEQ_BYTES } else { 0 };
    let mut config = ConnConfig {
        ack,
        congestion: Some(run.cell.cc.algorithm()),
        pacing: Pacing::OnlyIfRateBased,
        mss: Some(MSS + options),
        send_buffer: BUFFER_BYTES,
        recv_buffer: BUFFER_BYTES,
        ..ConnConfig::default()
    };
    if class == Class::Reverse {
        config.recv_buffer = REVERSE_WINDOW_BYTES;
        config.initial_recv_buffer = REVERSE_WINDOW_BYTES;
    }
    config
}

/// The applications of an end.
struct Flows {
    run: LiveRun,
    /// The next last.
    starts: Vec<(Instant, Class)>,
    open: Vec<Open>,
    received: Arc<Received>,
}

#[derive(Clone, Copy)]
struct Open {
    conn: ConnId,
    class: Class,
    sends: bool,
}

impl Flows {
    fn start_due(&mut self, host: &mut Host, now: Instant) {
        while let Some((_, class)) = self.starts.pop_if(|(at, _)| *at <= now) {
            let to = SocketAddr::new(address(End::B), class.port());
            // A flow that cannot start is missed on the path.
            if let Ok(conn) = host.connect(to, conn_config(&self.run, class), now) {
                self.open.push(Open { conn, class, sends: class.is_forward() });
            }
        }
    }
}

impl App for Flows {
    fn serve(&mut self, host: &mut Host, now: Instant) {
        self.start_due(host, now);
        while let Some(event) = host.poll_event() {
            let EventKind::Accepted { listener } = event.kind else { continue };
            if let Some((class, conn)) = Class::of_port(listener).zip(host.accept(listener)) {
                self.open.push(Open { conn, class, sends: !class.is_forward() });
            }
        }
        for Open { conn, class, sends } in &self.open {
            if *sends {
                write(host, *conn, now);
            } else {
                self.received.add(*class, read(host, *conn, now));
            }
        }
    }

    fn next_at(&self) -> Option<Instant> {
        self.starts.last().map(|(at, _)| *at)
    }
}
