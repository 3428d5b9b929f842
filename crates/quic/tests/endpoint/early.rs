//! Clients that speak before the handshake is done (0-RTT).

use std::sync::Arc;
use std::time::Duration;

use tack_quic::streams::Dir;
use tack_quic::{Config, ConnId, Early, Listen};

use super::pair::Pair;
use super::tls::{self, Sessions};

/// A client of a pair, by TLS that remembers the server.
fn begin(pair: &mut Pair, tls: &Arc<rustls::ClientConfig>) -> ConnId {
    let (name, at) = (tls::NAME.try_into().unwrap(), pair.addresses[1]);
    pair.ends[0].connect(at, name, tls.clone(), Config::default(), pair.now).unwrap()
}

#[test]
fn a_client_that_speaks_early_is_accepted_before_its_handshake_is_done_and_once() {
    let config = Config { max_early_data: 10_000, ..Config::default() };
    let mut pair = Pair::new(Listen::new(tls::server(), config));
    let tls = Sessions::early().client;
    begin(&mut pair, &tls);
    pair.run(Duration::from_millis(5));
    assert_eq!(pair.ends[1].accept(), None);
    pair.run(Duration::from_secs(1));
    assert!(pair.ends[1].accept().is_some());
    let second = begin(&mut pair, &tls);
    assert_eq!(pair.client(second).early(), Early::Open);
    pair.run(Duration::from_millis(15));
    let accepted = pair.ends[1].accept().unwrap();
    assert!(pair.ends[1].peek(accepted).unwrap().is_handshaking());
    pair.transfer(second, 100_000);
    assert_eq!(pair.client(second).early(), Early::Accepted);
    assert_eq!(pair.ends[1].accept(), None, "it was accepted");
}

#[test]
fn what_a_retry_made_a_server_drop_is_said_early_once_more() {
    let config = Config { max_early_data: 10_000, ..Config::default() };
    // It wants a token of everybody.
    let listen = Listen { max_handshakes: 0, ..Listen::new(tls::server(), config) };
    let mut pair = Pair::new(listen);
    let tls = Sessions::early().client;
    begin(&mut pair, &tls);
    pair.run(Duration::from_secs(1));
    assert!(pair.ends[1].accept().is_some());
    // From elsewhere the client's is none.
    pair.left.push(pair.addresses[0]);
    pair.addresses[0].set_ip([10, 0, 0, 9].into());
    let id = begin(&mut pair, &tls);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, b"early").unwrap();
    pair.run(Duration::from_millis(35));
    assert_eq!(pair.ends[1].counters().retries, 2);
    let accepted = pair.ends[1].accept().unwrap();
    let conn = pair.ends[1].connection(accepted).unwrap();
    let mut word = [0; 9];
    assert!(conn.is_handshaking());
    assert_eq!(conn.read(stream, &mut word), Ok(Some(5)));
    pair.transfer(id, 10_000);
}

#[test]
fn what_was_recorded_of_a_client_s_early_data_is_not_taken_again() {
    let config = Config { max_early_data: 10_000, ..Config::default() };
    let mut pair = Pair::new(Listen::new(tls::server(), config));
    let tls = Sessions::early().client;
    begin(&mut pair, &tls);
    pair.run(Duration::from_secs(1));
    let id = begin(&mut pair, &tls);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, b"pay").unwrap();
    pair.send();
    let recorded: Vec<_> = pair.wire.iter().map(|(.., datagram)| datagram.clone()).collect();
    assert!(!recorded.is_empty());
    pair.run(Duration::from_secs(1));
    let mut word = [0; 9];
    assert_eq!(pair.server().read(stream, &mut word), Ok(Some(3)));
    assert_eq!(pair.server().early(), Early::Accepted);
    while pair.ends[1].accept().is_some() {}
    let before = pair.ends[1].connections().count();
    for mut datagram in recorded {
        pair.ends[1].handle(pair.addresses[0], 0, &mut datagram, pair.now);
    }
    assert_eq!(pair.ends[1].connections().count(), before + 1, "it looks like a client");
    assert_eq!((pair.server().early(), pair.server().open_streams()), (Early::None, 0));
    assert_eq!(pair.ends[1].accept(), None);
}
