//! Streams of every length, and many connections at once.

use core::time::Duration;

use tack_tcp::{ConnConfig, Mode, Remote};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, PORT, path};
use crate::world::WorldConfig;

#[test]
fn streams_of_0_and_1_byte_end_cleanly() {
    for conn in [ConnConfig::default(), ConnConfig::plain()] {
        for len in [0, 1] {
            let pipes = path(Rate::from_mbps(10), Duration::from_millis(10), 2.0);
            let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn.clone(), len);
            bulk.run(Instant::from_secs(2));
            assert_eq!((bulk.reader.read, bulk.reader.at_end), (len, true));
            assert_eq!(bulk.world.ends[0].host.closed(bulk.client), Some(Ok(())));
        }
    }
}

#[test]
fn a_receive_buffer_of_any_size_takes_a_stream() {
    let initials = [0, 1, 1_000, usize::MAX];
    for (max, initial) in
        [1, 32 << 20, usize::MAX].into_iter().flat_map(|m| initials.map(|i| (m, i)))
    {
        for conn in [ConnConfig::default(), ConnConfig::plain()] {
            let conn = conn.with(|it| (it.recv_buffer, it.initial_recv_buffer) = (max, initial));
            let pipes = path(Rate::from_mbps(10), Duration::from_millis(10), 2.0);
            let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn, 3_000);
            bulk.run(Instant::from_secs(120));
            let read = (bulk.reader.read, bulk.reader.at_end);
            assert_eq!(read, (3_000, true), "{initial} of {max} bytes");
        }
    }
}

/// Sequence numbers wrap twice and more.
#[test]
fn ten_gibibytes_cross_with_every_byte_in_place() {
    const LEN: u64 = 10 << 30;
    let mut pipes = path(Rate::from_mbps(10_000), Duration::from_millis(2), 2.0);
    pipes[0].loss = 1e-5;
    let mut config = WorldConfig::new(1, pipes);
    config.clocks[1].drift_ppm = 100;
    let conn = ConnConfig::default().with(|it| it.initial_seq = Some(u32::MAX - 10));
    let mut bulk = Bulk::new(config, conn.clone(), conn, LEN);
    bulk.run(Instant::from_secs(60));
    assert_eq!((bulk.reader.read, bulk.reader.at_end), (LEN, true));
    assert_eq!(bulk.info().mode, Mode::Tack);
    let took = bulk.world.now;
    println!("10 GiB by {took}: {:?}", bulk.info());
}

/// Connections of one host take turns: equal shares on a path whose queue they share.
#[test]
fn two_hundred_connections_of_two_hosts_all_finish() {
    let pipes = path(Rate::from_mbps(1_000), Duration::from_millis(10), 4.0);
    let conn = ConnConfig::default();
    let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn.clone(), 100_000);
    let remote = Remote { path: bulk.world.ends[1].addr, port: PORT };
    let mut ids = Vec::new();
    for _ in 0..200 {
        let now = bulk.world.local(0);
        let host = &mut bulk.world.ends[0].host;
        let id = host.connect(remote, conn.clone(), now).expect("a port");
        assert_eq!(host.write(id, &[5; 50_000], now), Ok(50_000));
        host.shutdown_write(id, now).expect("known");
        ids.push(id);
    }
    bulk.run(Instant::from_secs(5));
    let server = &mut bulk.world.ends[1].host;
    let now = bulk.world.now;
    let mut bytes = 0;
    while let Some(id) = server.accept(PORT) {
        bytes += server.readable(id).0.len() + server.readable(id).1.len();
        server.consume(id, usize::MAX, now);
        assert!(server.at_end(id));
        server.close(id, now);
    }
    bulk.run(Instant::from_secs(6));
    assert_eq!(bytes, 200 * 50_000);
    for id in ids {
        assert_eq!(bulk.world.ends[0].host.closed(id), Some(Ok(())));
    }
    assert_eq!(bulk.world.ends[1].host.connections().count(), 1, "what is closed is forgotten");
}
