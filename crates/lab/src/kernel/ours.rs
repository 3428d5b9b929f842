//! One bulk transfer from our host to our host, each on a TUN in its namespace.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, bail};
use tack_cc::Pacing;
use tack_emu::Emulation;
use tack_link::{End, Link};
use tack_tcp::{ConnConfig, ConnId, EventKind, Host, ListenConfig};
use tack_units::Instant;

use super::cell::Controller;
use crate::tun_host::{App, TunHost, address, read, write};

const PORT: u16 = 5_001;
/// As much as the kernel's side may buffer.
const BUFFER_BYTES: usize = 64 << 20;

/// A transfer of our TCP, as much as the path takes.
pub(super) struct Ours {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Ours {
    /// Connects from end A to end B and begins to send.
    pub(super) fn start<L>(emulation: &Emulation<L>, cc: Controller, seed: u64) -> Result<Ours>
    where
        L: Link + Send + 'static,
    {
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut ours = Ours { received, stop, threads: Vec::new() };
        // The listener first: the other side's SYN must not come to a host that is not there.
        for end in [End::B, End::A] {
            let mut side = TunHost::open(emulation, end, seed)?;
            let conn = match end {
                End::B => listen(&mut side.host, cc).map(|()| None)?,
                End::A => Some(connect(&mut side, cc)?),
            };
            let app = Bulk { conn, sends: end == End::A, received: Arc::clone(&ours.received) };
            let stop = Arc::clone(&ours.stop);
            let name = if end == End::A { "our-send" } else { "our-recv" };
            let thread = Builder::new().name(name.to_owned());
            ours.threads.push(thread.spawn(move || side.run(app, &stop))?);
        }
        Ok(ours)
    }

    /// Bytes the receiving application has read.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// As the kernel does: no TACK, an acknowledgment per two segments, no pacing where the controller
/// does not think in rates.
pub(super) fn conn_config(cc: Controller) -> ConnConfig {
    ConnConfig {
        congestion: Some(cc.algorithm()),
        pacing: Pacing::OnlyIfRateBased,
        send_buffer: BUFFER_BYTES,
        recv_buffer: BUFFER_BYTES,
        ..ConnConfig::plain()
    }
}

fn listen(host: &mut Host, cc: Controller) -> Result<()> {
    let config = ListenConfig { conn: conn_config(cc), ..ListenConfig::default() };
    host.listen(PORT, config).context("our host cannot listen")
}

fn connect(side: &mut TunHost, cc: Controller) -> Result<ConnId> {
    let (to, now) = (SocketAddr::new(address(End::B), PORT), side.now());
    match side.host.connect(to, conn_config(cc), now) {
        Ok(conn) => Ok(conn),
        Err(e) => bail!("our host cannot connect: {e}"),
    }
}

/// Either end's application.
struct Bulk {
    conn: Option<ConnId>,
    sends: bool,
    received: Arc<AtomicU64>,
}

impl App for Bulk {
    fn serve(&mut self, host: &mut Host, now: Instant) {
        while let Some(event) = host.poll_event() {
            if let EventKind::Accepted { listener } = event.kind {
                self.conn = host.accept(listener);
            }
        }
        let Some(conn) = self.conn else { return };
        if self.sends {
            write(host, conn, now);
        } else {
            self.received.fetch_add(read(host, conn, now), Ordering::Relaxed);
        }
    }
}
