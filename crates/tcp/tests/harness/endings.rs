//! Peers that vanish, windows that close for minutes, and how connections end.

use core::time::Duration;

use tack_tcp::wire::{AckType, Flags};
use tack_tcp::{ConnConfig, ConnectionError, Keepalive, State};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::raw::Raw;
use crate::world::WorldConfig;

fn both() -> [ConnConfig; 2] {
    [ConnConfig::default(), ConnConfig::plain()]
}

fn dark_from(seconds: u64) -> WorldConfig {
    let mut pipes = path(Rate::from_mbps(50), Duration::from_millis(20), 2.0);
    for pipe in &mut pipes {
        pipe.blackouts.push(Instant::from_secs(seconds)..Instant::MAX);
    }
    WorldConfig::new(5, pipes)
}

#[test]
fn a_vanished_peer_ends_the_connection_after_the_user_timeout() {
    for conn in both() {
        let conn = conn.with(|it| it.user_timeout = Some(Duration::from_secs(30)));
        let mut bulk = Bulk::new(dark_from(2), conn.clone(), conn, 1 << 40);
        bulk.run(Instant::from_secs(31));
        assert_eq!(bulk.info().state, State::Established);
        bulk.run(Instant::from_secs(34));
        let closed = bulk.world.ends[0].host.closed(bulk.client);
        assert_eq!(closed, Some(Err(ConnectionError::TimedOut)));
    }
}

#[test]
fn a_window_that_stays_closed_for_the_user_timeout_ends_the_connection_and_a_slow_reader_does_not()
{
    for conn in both() {
        let conn = conn.with(|it| {
            it.recv_buffer = 50_000;
            it.initial_recv_buffer = 50_000;
            it.user_timeout = Some(Duration::from_secs(30));
        });
        let pipes = path(Rate::from_mbps(50), Duration::from_millis(20), 2.0);
        let mut bulk = Bulk::new(WorldConfig::new(5, pipes), conn.clone(), conn, 1 << 20);
        for second in (1..200).step_by(20) {
            bulk.reads = false;
            bulk.run(Instant::from_secs(second));
            bulk.reads = true;
            bulk.run(Instant::from_millis(second * 1_000 + 1));
        }
        let read = bulk.reader.read;
        assert!((300_000..1_000_000).contains(&read), "{read} bytes, each of them progress");
        bulk.reads = false;
        bulk.run(Instant::from_secs(205));
        assert_eq!(bulk.world.ends[0].host.closed(bulk.client), None);
        bulk.run(Instant::from_secs(240));
        let closed = bulk.world.ends[0].host.closed(bulk.client);
        assert_eq!(closed, Some(Err(ConnectionError::TimedOut)));
    }
}

#[test]
fn a_vanished_peer_ends_the_connection_after_its_retransmissions() {
    for conn in both() {
        let conn = conn.with(|it| it.max_retransmissions = 6);
        let mut bulk = Bulk::new(dark_from(2), conn.clone(), conn, 1 << 40);
        bulk.run(Instant::from_secs(3_600));
        let closed = bulk.world.ends[0].host.closed(bulk.client);
        assert_eq!(closed, Some(Err(ConnectionError::TimedOut)));
        assert!(bulk.info().counters.timeouts <= 7);
    }
}

#[test]
fn keepalive_finds_a_silent_peer_gone_and_leaves_a_living_one_alone() {
    for conn in both() {
        let keepalive = Keepalive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(2),
            probes: 3,
        };
        let conn = conn.with(|it| it.keepalive = Some(keepalive));
        let mut bulk = Bulk::new(dark_from(100), conn.clone(), conn, 1_000);
        bulk.writer.ends = false;
        bulk.run(Instant::from_secs(100));
        assert_eq!(bulk.info().state, State::Established, "it lived");
        bulk.run(Instant::from_secs(130));
        for (end, id) in [(0, bulk.client), (1, bulk.server.expect("accepted"))] {
            let closed = bulk.world.ends[end].host.closed(id);
            assert_eq!(closed, Some(Err(ConnectionError::KeepaliveTimedOut)));
        }
    }
}

/// 400 kB towards a reader with room for 50 kB who does not read.
fn unread(conn: ConnConfig) -> Bulk {
    let conn = conn.with(|it| {
        it.recv_buffer = 50_000;
        it.initial_recv_buffer = 50_000;
    });
    let pipes = path(Rate::from_mbps(50), Duration::from_millis(20), 2.0);
    let mut bulk = Bulk::new(WorldConfig::new(5, pipes), conn.clone(), conn, 400_000);
    bulk.reads = false;
    bulk
}

#[test]
fn a_window_closed_for_minutes_is_probed_ever_more_rarely_and_opens_without_loss() {
    for conn in both() {
        let mut bulk = unread(conn);
        bulk.run(Instant::from_secs(600));
        let info = bulk.info();
        assert_eq!((info.state, info.snd_wnd), (State::Established, 0));
        let probes = info.counters.segments_sent - info.counters.data_segments_sent;
        assert!((10..40).contains(&probes), "{probes} probes in ten minutes");
        bulk.reads = true;
        bulk.run(Instant::from_secs(610));
        assert_eq!(bulk.reader.read, 400_000, "the window update came at once");
        assert_eq!(bulk.world.ends[0].host.closed(bulk.client), Some(Ok(())));
    }
}

#[test]
fn a_window_that_stays_closed_holds_what_was_given_up_for_minutes_and_not_for_ever() {
    for conn in both() {
        let mut bulk = unread(conn);
        bulk.run(Instant::from_secs(60));
        let now = bulk.world.local(0);
        bulk.world.ends[0].host.close(bulk.client, now);
        bulk.run(Instant::from_secs(240));
        assert!(!bulk.world.ends[0].host.is_idle(), "the reader may only be slow");
        bulk.run(Instant::from_secs(600));
        assert!(bulk.world.ends[0].host.is_idle());
        let server = bulk.server.expect("accepted");
        let closed = bulk.world.ends[1].host.closed(server);
        assert_eq!(closed, Some(Err(ConnectionError::Reset)), "it is told");
    }
}

/// The window is taken back from what is in flight: each time that goes again it is refused again.
#[test]
fn a_peer_that_takes_its_window_back_holds_what_was_given_up_for_minutes_and_not_for_ever() {
    for (conn, gives_up) in
        both().into_iter().flat_map(|conn| [(conn.clone(), true), (conn, false)])
    {
        let tack = conn.ack.tack().is_some();
        let mut raw = Raw::connected(conn);
        raw.write(&[7; 1_000]);
        let id = raw.conn();
        if gives_up {
            let now = raw.now;
            raw.host.close(id, now);
        }
        let (began, mut held_until) = (raw.now, None);
        while raw.now < began + Duration::from_secs(3_600) {
            for sent in raw.wait(Duration::from_secs(1)) {
                if !sent.payload.is_empty() && sent.header.options.ack_type.is_none() {
                    let mut refusal = raw.header();
                    refusal.window = 0;
                    refusal.options.ack_type = tack.then_some(AckType::WindowIack);
                    raw.send(refusal, &[]);
                }
            }
            if raw.host.is_idle() {
                held_until.get_or_insert(raw.now - began);
            }
        }
        let minutes = held_until.map(|held| held.as_secs() / 60);
        assert!(
            if gives_up { matches!(minutes, Some(4..30)) } else { minutes.is_none() },
            "{minutes:?}"
        );
    }
}

#[test]
fn a_lost_window_update_is_made_good_by_a_probe() {
    for conn in both() {
        let conn = conn.with(|it| {
            it.recv_buffer = 50_000;
            it.initial_recv_buffer = 50_000;
        });
        let pipes = path(Rate::from_mbps(50), Duration::from_millis(20), 2.0);
        let mut config = WorldConfig::new(5, pipes);
        let dark = Instant::from_secs(5)..Instant::from_secs(9);
        config.pipes[1].blackouts.push(dark);
        let mut bulk = Bulk::new(config, conn.clone(), conn, 400_000);
        bulk.reads = false;
        bulk.run(Instant::from_secs(6));
        bulk.reads = true;
        bulk.run(Instant::from_secs(8));
        assert!(bulk.reader.read < 400_000);
        bulk.run(Instant::from_secs(80));
        assert_eq!(bulk.reader.read, 400_000);
    }
}

#[test]
fn close_with_unread_data_resets() {
    for conn in both() {
        let mut raw = Raw::connected(conn);
        let header = raw.data_header();
        raw.send(header, b"nobody reads this");
        let (id, now) = (raw.conn(), raw.now);
        raw.host.close(id, now);
        let sent = raw.drain();
        assert!(sent.iter().any(|s| s.header.flags.has(Flags::RST)));
        assert!(raw.host.info(id).is_none());
        assert_eq!(raw.host.time_wait_len(), 0);
    }
}

#[test]
fn close_delivers_what_was_written_and_data_for_nobody_resets() {
    let mut raw = Raw::connected(ConnConfig::plain());
    raw.write(b"last words");
    let (id, now) = (raw.conn(), raw.now);
    raw.host.close(id, now);
    let sent = raw.drain();
    assert!(sent.iter().any(|s| s.header.flags.has(Flags::FIN)));
    raw.ack = raw.ack.add(11);
    raw.send(raw.header(), &[]);
    let header = raw.data_header();
    let answers = raw.send(header, b"more");
    assert!(answers.iter().any(|s| s.header.flags.has(Flags::RST)));
}

#[test]
fn who_leaves_repeats_the_ack_of_a_fin_that_came_just_now_and_only_once() {
    for (conn, pause, copies) in
        both().into_iter().flat_map(|conn| [(conn.clone(), 0, 1), (conn, 2, 0)])
    {
        let mut raw = Raw::connected(conn);
        let (id, now) = (raw.conn(), raw.now);
        raw.host.close(id, now);
        raw.drain();
        raw.ack = raw.ack.add(1);
        let mut fin = raw.data_header();
        fin.flags = Flags::ACK | Flags::FIN;
        raw.send(fin.clone(), &[]);
        raw.now += Duration::from_secs(pause);
        assert!(raw.host.is_idle());
        let now = raw.now;
        raw.host.take_leave(now);
        assert_eq!(raw.host.is_idle(), copies == 0, "whoever waits sees it leave");
        let again = raw.drain();
        assert_eq!(again.len(), copies);
        assert!(again.iter().all(|it| it.header.ack == fin.seq.add(1)));
        raw.host.take_leave(now);
        assert!(raw.drain().is_empty());
    }
}

#[test]
fn time_wait_answers_a_repeated_fin_ignores_rst_and_yields_to_a_newer_syn() {
    for conn in both() {
        let mut raw = Raw::connected(conn);
        let (id, now) = (raw.conn(), raw.now);
        raw.host.shutdown_write(id, now).expect("known");
        raw.drain();
        raw.ack = raw.ack.add(1);
        let mut fin = raw.data_header();
        fin.flags = Flags::ACK | Flags::FIN;
        raw.send(fin.clone(), &[]);
        assert_eq!(raw.host.closed(id), Some(Ok(())));
        assert_eq!(raw.host.time_wait_len(), 1);
        // [RFC 9293 §3.10.7.4]: a FIN again is acknowledged again.
        raw.now += Duration::from_secs(30);
        let answers = raw.send(fin.clone(), &[]);
        assert_eq!(answers[0].header.ack, fin.seq.add(1));
        // [RFC 1337 §3]
        let mut rst = raw.header();
        rst.flags = Flags::RST;
        rst.seq = fin.seq.add(1);
        assert!(raw.send(rst, &[]).is_empty());
        assert_eq!(raw.host.time_wait_len(), 1);
        // [RFC 6191 §2]: a newer timestamp, although the number is older.
        raw.seq = raw.seq.add(u32::MAX - 5_000);
        let answer = raw.syn();
        assert_eq!(answer.header.flags, Flags::SYN | Flags::ACK);
        assert_eq!(raw.host.time_wait_len(), 0);
    }
}

#[test]
fn time_wait_ends_after_two_segment_lifetimes() {
    let pipes = path(Rate::from_mbps(50), Duration::from_millis(20), 2.0);
    let conn = ConnConfig::default;
    let mut bulk = Bulk::new(WorldConfig::new(5, pipes), conn(), conn(), 1_000);
    bulk.run(Instant::from_secs(50));
    assert_eq!(bulk.world.ends[0].host.time_wait_len(), 1);
    bulk.run(Instant::from_secs(62));
    assert_eq!(bulk.world.ends[0].host.time_wait_len(), 0);
}
