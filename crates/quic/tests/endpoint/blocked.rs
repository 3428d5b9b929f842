//! Peers that take no more for a while, and windows of any size.

use std::time::Duration;

use tack_quic::streams::{Dir, StreamId};
use tack_quic::{Config, ConnId, Listen};

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
