//! Peers that take no more for a while, and windows of any size.

use std::time::Duration;

use tack_quic::streams::{Dir, StreamId};
use tack_quic::{Config, ConnId, ConnectionError, Listen};

use super::pair::Pair;
use super::tls;

fn listen(change: impl FnOnce(&mut Config)) -> Listen {
    let mut config = Config::default();
    change(&mut config);
    Listen::new(tls::server(), config)
}

/// A stream of the client's with so many bytes written, of which the server reads none.
fn speak(pair: &mut Pair, id: ConnId, len: usize) -> StreamId {
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    let mut written = 0;
    for _ in 0..100 {
        written += pair.client(id).write(stream, &vec![7; len - written]).unwrap();
        pair.run(Duration::from_millis(50));
    }
    assert_eq!(written, len);
    stream
}

#[test]
fn a_first_window_beyond_the_greatest_is_taken_as_it_was_told() {
    let mut pair = Pair::new(listen(|config| {
        (config.initial_window, config.max_window) = (300_000, 10_000);
        (config.initial_connection_window, config.max_connection_window) = (300_000, 10_000);
    }));
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let stream = speak(&mut pair, id, 300_000);
    let (mut got, mut out) = (0, vec![0; 70_000]);
    while let Ok(Some(n @ 1..)) = pair.server().read(stream, &mut out) {
        got += n;
    }
    assert_eq!((got, pair.server().closed()), (300_000, None));
    pair.transfer(id, 1_000_000);
}

#[test]
fn a_connection_whose_peer_reads_nothing_for_long_outlives_the_silence_if_bytes_wait() {
    for (stream, connection) in [(50_000, 1 << 20), (1 << 20, 50_000)] {
        let mut pair = Pair::new(listen(|config| {
            (config.initial_window, config.max_window) = (stream, stream);
            config.initial_connection_window = connection;
            config.max_connection_window = connection;
        }));
        let id = pair.connect(Config::default());
        pair.ends[0].hold(id);
        pair.run(Duration::from_secs(1));
        let stream = speak(&mut pair, id, 120_000);
        let before = pair.client(id).info().counters.packets_sent;
        pair.run(Duration::from_secs(600));
        let sent = pair.client(id).info().counters.packets_sent - before;
        assert!((30..100).contains(&sent), "{sent} packets");
        let (mut got, mut out) = (0, vec![0; 70_000]);
        for _ in 0..100 {
            while let Ok(Some(n @ 1..)) = pair.server().read(stream, &mut out) {
                got += n;
            }
            pair.run(Duration::from_millis(100));
        }
        assert_eq!(got, 120_000);
        // Nothing waits any more: silence is an end again.
        pair.run(Duration::from_secs(60));
        assert_eq!(pair.client(id).closed(), Some(&ConnectionError::TimedOut));
    }
}

#[test]
fn where_the_peer_has_gone_silence_ends_what_waits_for_it() {
    let mut pair = Pair::new(listen(|config| config.max_window = 0));
    let id = pair.connect(Config::default());
    pair.ends[0].hold(id);
    pair.run(Duration::from_secs(1));
    speak(&mut pair, id, 300_000);
    pair.mute = Some(1);
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.client(id).closed(), Some(&ConnectionError::TimedOut));
}

#[test]
fn a_connection_s_window_that_begins_with_nothing_and_may_grow_does() {
    let mut pair = Pair::new(listen(|config| config.initial_connection_window = 0));
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.transfer(id, 300_000);
}
