//! Datagrams whose damage no checksum told: numbers are wrong and pass for right ones.
//!
//! Such a connection may end, stand still or deliver wrong bytes, which whoever encrypts notices. It
//! must not panic, nor make either host hold more than it may.

use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_tcp::{ConnConfig, ConnId, ListenConfig};
use tack_units::{Instant, Rate};

use crate::app::Writer;
use crate::bulk::PORT;
use crate::pipe::PipeConfig;
use crate::world::{World, WorldConfig};

/// Unless `TACK_DAMAGE` says otherwise.
const SEEDS: u64 = 150;
/// A header with its options, and a body with some holes.
const WITHIN: usize = 72;
const BYTES: u64 = 200_000;

struct Damaged {
    world: World,
    conns: [Option<ConnId>; 2],
    writers: [Writer; 2],
    /// Most memory that either host may hold for its buffers.
    most: usize,
}

impl Damaged {
    fn new(seed: u64) -> Damaged {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let pipe = PipeConfig {
            loss: [0.0, 0.02][rng.random_range(0..2)],
            reorder: [0.0, 0.05][rng.random_range(0..2)],
            reorder_by: Duration::from_millis(8),
            corrupt: [0.002, 0.02, 0.2][rng.random_range(0..3)],
            corrupt_within: WITHIN,
            ..PipeConfig::clean(Rate::from_mbps(20), Duration::from_millis(5), 60_000)
        };
        let mut world = World::new(WorldConfig::new(seed, [pipe.clone(), pipe]));
        let config = match rng.random_range(0..4) {
            0 => ConnConfig::plain(),
            _ => ConnConfig::default(),
        };
        let most = 2 * (config.send_buffer + config.recv_buffer);
        let listen = ListenConfig::default().with(|it| it.conn = config.clone());
        world.ends[1].host.listen(PORT, listen).expect("a free port");
        let remote = tack_tcp::Remote { path: world.ends[1].addr, port: PORT };
        let now = world.local(0);
        let client = world.ends[0].host.connect(remote, config, now).expect("a free port");
        let writers = [Writer::new(seed, BYTES), Writer::new(seed + 1, BYTES)];
        Damaged { world, conns: [Some(client), None], writers, most }
    }

    fn poll_apps(&mut self) {
        for (end, writer) in self.writers.iter_mut().enumerate() {
            let now = self.world.local(end);
            let host = &mut self.world.ends[end].host;
            while host.poll_event().is_some() {}
            self.conns[end] = self.conns[end].or_else(|| host.accept(PORT));
            let Some(conn) = self.conns[end] else { continue };
            if host.closed(conn).is_some() {
                continue;
            }
            writer.poll(host, conn, u64::MAX, now);
            let n = host.readable(conn).0.len();
            host.consume(conn, n, now);
            let info = host.info(conn).expect("held");
            assert!(info.buffer_memory <= self.most, "{} bytes held", info.buffer_memory);
        }
    }

    fn run(&mut self) {
        let until = Instant::from_secs(60);
        loop {
            self.poll_apps();
            self.world.flush();
            match self.world.next() {
                Some(at) if at <= until => self.world.advance(at),
                _ => break,
            }
        }
    }
}

#[test]
fn numbers_damaged_past_every_checksum_panic_nobody() {
    let seeds = std::env::var("TACK_DAMAGE").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| Damaged::new(seed).run());
        assert!(run.is_ok(), "seed {seed}");
    }
}
