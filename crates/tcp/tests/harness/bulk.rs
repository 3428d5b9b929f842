//! Bulk transfers over plain paths: the first thing that must work, and the measures.

use core::time::Duration;

use tack_tcp::{ConnConfig, ConnId, Info, ListenConfig};
use tack_units::{Instant, Rate};

use crate::app::{Reader, Writer};
use crate::pipe::PipeConfig;
use crate::world::{World, WorldConfig};

/// End 0 connects and sends to end 1.
pub(crate) struct Bulk {
    pub(crate) world: World,
    pub(crate) client: ConnId,
    pub(crate) server: Option<ConnId>,
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    pub(crate) closed: bool,
    /// The server's application reads.
    pub(crate) reads: bool,
}

pub(crate) const PORT: u16 = 80;

impl Bulk {
    pub(crate) fn new(
        config: WorldConfig,
        client: ConnConfig,
        server: ConnConfig,
        len: u64,
    ) -> Bulk {
        let mut world = World::new(config);
        let listen = ListenConfig::default().with(|it| it.conn = server);
        world.ends[1].host.listen(PORT, listen).expect("a free port");
        let remote = tack_tcp::Remote { path: world.ends[1].addr, port: PORT };
        let now = world.local(0);
        let client = world.ends[0].host.connect(remote, client, now).expect("a free port");
        Bulk {
            world,
            client,
            server: None,
            writer: Writer::new(7, len),
            reader: Reader::new(7),
            closed: false,
            reads: true,
        }
    }

    /// Runs until `until` or until nothing more happens.
    pub(crate) fn run(&mut self, until: Instant) {
        loop {
            self.poll_apps();
            self.world.flush();
            match self.world.next() {
                Some(at) if at <= until => self.world.advance(at),
                _ => break,
            }
        }
        self.world.now = self.world.now.max(until);
    }

    fn poll_apps(&mut self) {
        let (t0, t1) = (self.world.local(0), self.world.local(1));
        let [a, b] = &mut self.world.ends;
        while a.host.poll_event().is_some() {}
        while b.host.poll_event().is_some() {}
        self.writer.poll(&mut a.host, self.client, u64::MAX, t0);
        if self.server.is_none() {
            self.server = b.host.accept(PORT);
        }
        if let Some(server) = self.server.filter(|_| self.reads) {
            self.reader.poll(&mut b.host, server, u64::MAX, t1);
            if self.reader.at_end && !self.closed {
                self.closed = true;
                b.host.shutdown_write(server, t1).expect("known");
            }
        }
    }

    pub(crate) fn info(&self) -> Info {
        self.world.ends[0].host.info(self.client).expect("known")
    }

    pub(crate) fn server_info(&self) -> Info {
        self.world.ends[1].host.info(self.server.expect("accepted")).expect("known")
    }
}

/// A path of `rate` and `rtt` with a buffer of `bdps`.
pub(crate) fn path(rate: Rate, rtt: Duration, bdps: f64) -> [PipeConfig; 2] {
    let queue = (rate.bytes_in(rtt) as f64 * bdps) as u64;
    let pipe = PipeConfig::clean(rate, rtt / 2, queue.max(30_000));
    [pipe.clone(), pipe]
}

#[test]
fn a_megabyte_crosses_a_clean_path_under_either_mode() {
    for tack in [false, true] {
        let conn = if tack { ConnConfig::default() } else { ConnConfig::plain() };
        let config =
            WorldConfig::new(1, path(Rate::from_mbps(100), Duration::from_millis(20), 1.0));
        let mut bulk = Bulk::new(config, conn.clone(), conn, 1 << 20);
        bulk.run(Instant::from_secs(10));
        assert_eq!(bulk.reader.read, 1 << 20, "tack {tack}");
        assert!(bulk.reader.at_end);
        assert_eq!(bulk.world.ends[0].host.closed(bulk.client), Some(Ok(())));
    }
}
