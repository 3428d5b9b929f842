//! Endpoints: who is let in, who is told what, and what connections survive.

use std::net::SocketAddr;
use std::time::Duration;

use tack_quic::streams::{Dir, StreamEvent, StreamId};
use tack_quic::wire::Version;
use tack_quic::{Config, ConnId, Connection, ConnectionError, Endpoint, Event, Listen};
use tack_units::Instant;

#[allow(unreachable_pub, reason = "shared with the conversations, by its path")]
#[path = "conversation/tls.rs"]
mod tls;

const DELAY: Duration = Duration::from_millis(10);

/// Two endpoints and a wire between them.
struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
    /// As the other sees each.
    addresses: [SocketAddr; 2],
    /// Where the client was before.
    left: Vec<SocketAddr>,
    /// To whom, when, what.
    wire: Vec<(usize, Instant, Vec<u8>)>,
    events: [Vec<(ConnId, Event)>; 2],
    /// Bytes that each has sent.
    sent: [usize; 2],
    /// This one's datagrams are lost.
    mute: Option<usize>,
}

impl Pair {
    fn new(listen: Listen) -> Pair {
        Pair {
            now: Instant::ZERO,
            ends: [Endpoint::new([1; 32], None), Endpoint::new([2; 32], Some(listen))],
            addresses: [([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 443).into()],
            left: Vec::new(),
            wire: Vec::new(),
            events: [Vec::new(), Vec::new()],
            sent: [0; 2],
            mute: None,
        }
    }

    fn connect(&mut self, config: Config) -> ConnId {
        let name = tls::NAME.try_into().unwrap();
        self.ends[0].connect(self.addresses[1], name, tls::client(), config, self.now).unwrap()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send();
            let arrival = self.wire.iter().map(|(_, at, _)| *at).min();
            let timers = self.ends.iter().map(Endpoint::deadline);
            let next = timers.chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let due: Vec<_>;
            (due, self.wire) = self.wire.drain(..).partition(|(_, at, _)| *at <= self.now);
            for (to, _, mut datagram) in due {
                self.ends[to].handle(self.addresses[1 - to], 0, &mut datagram, self.now);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
    }

    fn send(&mut self) {
        for who in 0..2 {
            let mut bytes = Vec::new();
            while let Some(burst) = self.ends[who].poll_transmit(&mut bytes, 20_000, self.now) {
                let is_there = burst.to == self.addresses[1 - who];
                assert!(is_there || self.left.contains(&burst.to), "{burst:?}");
                for datagram in bytes.chunks(burst.segment_size) {
                    self.sent[who] += datagram.len();
                    if self.mute != Some(who) && is_there {
                        self.wire.push((1 - who, self.now + DELAY, datagram.to_vec()));
                    }
                }
                bytes.clear();
            }
            while let Some(event) = self.ends[who].poll_event() {
                self.events[who].push(event);
            }
        }
    }

    fn client(&mut self, id: ConnId) -> &mut Connection {
        self.ends[0].connection(id).unwrap()
    }

    fn server(&mut self) -> &mut Connection {
        let id = self.ends[1].connections().last().unwrap();
        self.ends[1].connection(id).unwrap()
    }

    fn connected(&self, who: usize) -> bool {
        self.events[who].iter().any(|(_, event)| *event == Event::Connected)
    }

    /// `len` bytes from the client arrive whole.
    fn transfer(&mut self, id: ConnId, len: usize) {
        let now = self.now;
        let stream = self.client(id).open(Dir::Uni, now).unwrap();
        let (mut sent, mut got, mut buffer) = (0, 0, vec![0; 70_000]);
        for _ in 0..2_000 {
            while sent < len {
                let data: Vec<u8> = (sent..len.min(sent + 9_000)).map(|at| at as u8).collect();
                let taken = self.client(id).write(stream, &data).unwrap();
                sent += taken;
                if taken < data.len() {
                    break;
                }
                if sent == len {
                    self.client(id).finish(stream).unwrap();
                }
            }
            self.run(Duration::from_millis(20));
            loop {
                match self.server().read(stream, &mut buffer) {
                    Ok(Some(n @ 1..)) => {
                        assert!(buffer[..n].iter().zip(got..).all(|(b, at)| *b == at as u8));
                        got += n;
                    }
                    Ok(None) => {
                        assert_eq!(got, len);
                        return;
                    }
                    _ => break,
                }
            }
        }
        panic!("{got} of {len} bytes arrived");
    }
}

fn listen() -> Listen {
    let config = Config::default();
    Listen { tls: tls::server(), config, max_connections: 100, max_handshakes: 100 }
}

#[test]
fn a_client_is_let_in_by_both_versions_and_speaks_tack() {
    for version in [Version::V1, Version::V2] {
        let mut pair = Pair::new(listen());
        let id = pair.connect(Config { version, ..Config::default() });
        pair.run(Duration::from_secs(1));
        assert!(pair.connected(0) && pair.connected(1), "{version:?}");
        assert!(pair.client(id).is_tack() && pair.server().is_tack());
        assert_eq!(pair.server().version(), version);
        pair.transfer(id, 300_000);
        assert!(pair.client(id).info().mtu > 1_400, "the path takes more than the least");
    }
}

#[test]
fn a_client_shows_where_it_is_when_many_come() {
    let mut pair = Pair::new(Listen { max_handshakes: 0, ..listen() });
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    assert!(pair.connected(0) && pair.connected(1));
    assert_eq!(pair.ends[1].counters().retries, 1);
    pair.transfer(id, 10_000);
}

#[test]
fn of_more_clients_than_are_allowed_nothing_is_heard() {
    let mut pair = Pair::new(Listen { max_connections: 2, ..listen() });
    for _ in 0..5 {
        pair.connect(Config::default());
    }
    pair.run(Duration::from_millis(500));
    assert_eq!(pair.ends[1].connections().count(), 2);
    assert!(pair.ends[1].counters().refused >= 3);
}

#[test]
fn another_version_is_answered_with_ours_and_noise_with_nothing() {
    let mut pair = Pair::new(listen());
    let mut datagram = vec![0xc0, 9, 9, 9, 9, 1, 7, 1, 8];
    datagram.resize(1_200, 0);
    let from = pair.addresses[0];
    pair.ends[1].handle(from, 0, &mut datagram.clone(), Instant::ZERO);
    pair.ends[1].handle(from, 0, &mut datagram[..1_199], Instant::ZERO);
    pair.ends[1].handle(from, 0, &mut [0; 1_200], Instant::ZERO);
    let mut answer = Vec::new();
    assert!(pair.ends[1].poll_transmit(&mut answer, 20_000, Instant::ZERO).is_some());
    assert_eq!(answer[..9], [0xc0, 0, 0, 0, 0, 1, 8, 1, 7]);
    assert!(pair.ends[1].poll_transmit(&mut answer, 20_000, Instant::ZERO).is_none());
}

#[test]
fn a_server_that_forgot_a_connection_resets_it() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    // It starts anew, with the same secret.
    pair.ends[1] = Endpoint::new([2; 32], Some(listen()));
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, &[7; 100]).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.events[0].last(), Some(&(id, Event::Closed(ConnectionError::Reset))));
    assert_eq!(pair.ends[0].connections().count(), 0);
}

#[test]
fn a_connection_survives_a_nat_that_rebinds() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.transfer(id, 50_000);
    for port in [6_000, 7_000] {
        pair.left.push(pair.addresses[0]);
        pair.addresses[0] = ([10, 0, 0, 1], port).into();
        pair.wire.clear();
        // What was on its way to the old port is lost; the server learns of the new one from the client.
        let now = pair.now;
        let stream = pair.client(id).open(Dir::Uni, now).unwrap();
        pair.client(id).write(stream, b"here").unwrap();
        pair.transfer(id, 50_000);
        assert_eq!(pair.server().remote(), pair.addresses[0]);
    }
}

#[test]
fn keys_are_updated_by_either_side_while_data_flows() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let mut updates = 0;
    for round in 0..10 {
        pair.transfer(id, 30_000);
        let conn = if round % 2 == 0 { pair.client(id) } else { pair.server() };
        updates += u32::from(conn.update_keys());
    }
    // A server that only acknowledges is not acknowledged itself, and must not begin another.
    assert!(updates >= 5, "{updates}");
    pair.transfer(id, 30_000);
}

#[test]
fn datagrams_arrive_and_none_longer_than_a_packet_is_taken() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let most = pair.client(id).max_datagram();
    assert!(pair.client(id).send_datagram(&vec![0; most + 1]).is_err());
    pair.client(id).send_datagram(&vec![7; most]).unwrap();
    pair.client(id).send_datagram(b"two").unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server().recv_datagram(), Some(vec![7; most]));
    assert_eq!(pair.server().recv_datagram().as_deref(), Some(&b"two"[..]));
    assert_eq!(pair.server().recv_datagram(), None);
}

#[test]
fn a_datagram_that_is_longer_than_the_one_before_it_leaves_in_a_burst_of_its_own() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let most = pair.client(id).max_datagram();
    let sent = [vec![1; 100], vec![2; most], vec![3; 5], vec![4; most]];
    for datagram in &sent {
        pair.client(id).send_datagram(datagram).unwrap();
    }
    pair.run(Duration::from_millis(100));
    for datagram in &sent {
        assert!(pair.server().recv_datagram().as_ref() == Some(datagram));
    }
}

#[test]
fn what_arrived_is_read_after_the_end_of_a_connection_that_is_held() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let held = pair.ends[1].accept().unwrap();
    assert_eq!(pair.ends[1].accept(), None);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, b"last words").unwrap();
    pair.run(Duration::from_millis(100));
    pair.client(id).close(7, b"", now);
    pair.run(Duration::from_secs(10));
    assert!(pair.ends.iter().all(Endpoint::is_idle));
    let mut buffer = [0; 100];
    assert_eq!(pair.server().accept_stream(Dir::Uni), Some(stream));
    assert_eq!(pair.server().read(stream, &mut buffer), Ok(Some(10)));
    assert!(pair.server().closed().is_some());
    let now = pair.now;
    pair.ends[1].release(held, now);
    assert_eq!(pair.ends[1].connections().count(), 0);
}

#[test]
fn a_first_packet_that_cannot_be_opened_is_no_connection() {
    let mut pair = Pair::new(Listen { max_connections: 1, ..listen() });
    let mut noise = vec![0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x44, 0xb0];
    noise.resize(1_200, 7);
    let from = ([10, 0, 0, 9], 9).into();
    for port in 0..100 {
        noise[6] = port;
        pair.ends[1].handle(from, 0, &mut noise.clone(), Instant::ZERO);
    }
    assert_eq!(pair.ends[1].connections().count(), 0);
    pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    assert!(pair.connected(0) && pair.connected(1));
    assert_eq!(pair.ends[1].counters().accepted, 1);
}

#[test]
fn a_connection_that_is_kept_alive_outlasts_a_silence() {
    let mut pair = Pair::new(listen());
    let keep_alive = Some(Duration::from_secs(10));
    let id = pair.connect(Config { keep_alive, ..Config::default() });
    pair.run(Duration::from_secs(1));
    let before = pair.client(id).info().counters.packets_sent;
    pair.run(Duration::from_secs(300));
    assert!(pair.client(id).is_established() && pair.server().is_established());
    let sent = pair.client(id).info().counters.packets_sent - before;
    assert!((25..=65).contains(&sent), "{sent}");
    pair.transfer(id, 10_000);
}

#[test]
fn a_close_is_heard_with_its_code_and_both_ends_forget() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    pair.client(id).close(7, b"enough", now);
    pair.run(Duration::from_secs(5));
    let (code, reason) = (7, b"enough".to_vec());
    let closed = Event::Closed(ConnectionError::ClosedByApplication { code, reason });
    assert_eq!(pair.events[1].last().map(|(_, event)| event), Some(&closed));
    assert!(pair.ends.iter().all(|end| end.connections().count() == 0));
    assert!(pair.ends.iter().all(|end| end.deadline().is_none()));
}

#[test]
fn silence_ends_a_connection_after_the_shorter_of_both_patiences() {
    let mut pair = Pair::new(listen());
    let idle_timeout = Some(Duration::from_secs(5));
    let id = pair.connect(Config { idle_timeout, ..Config::default() });
    pair.run(Duration::from_secs(1));
    pair.run(Duration::from_secs(3));
    assert!(pair.client(id).is_established());
    pair.run(Duration::from_secs(5));
    for who in 0..2 {
        let last = pair.events[who].last().map(|(_, event)| event);
        assert_eq!(last, Some(&Event::Closed(ConnectionError::TimedOut)), "{who}");
    }
}

#[test]
fn a_stream_that_is_given_up_or_not_wanted_is_known_to_be_at_the_other_end() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    let streams: Vec<StreamId> =
        (0..2).map(|_| pair.client(id).open(Dir::Uni, now).unwrap()).collect();
    for stream in &streams {
        pair.client(id).write(*stream, &[7; 1_000]).unwrap();
    }
    pair.run(Duration::from_millis(100));
    pair.client(id).reset(streams[0], 5).unwrap();
    pair.server().stop(streams[1], 6).unwrap();
    pair.run(Duration::from_millis(200));
    let mut buffer = [0; 10];
    let read = pair.server().read(streams[0], &mut buffer);
    assert_eq!(read, Err(tack_quic::UseError::Reset(5)));
    let stopped = Event::Stream(StreamEvent::Stopped(streams[1]));
    assert!(pair.events[0].contains(&(id, stopped)));
    assert_eq!((pair.client(id).open_streams(), pair.server().open_streams()), (0, 0));
}

#[test]
fn a_server_sends_no_more_than_three_times_what_came_before_it_knows_the_address() {
    let mut pair = Pair::new(listen());
    pair.connect(Config::default());
    pair.send();
    pair.mute = Some(0);
    let came: usize = pair.wire.iter().map(|(_, _, datagram)| datagram.len()).sum();
    pair.run(Duration::from_secs(20));
    let went = pair.sent[1];
    assert!(went > 0 && went <= 3 * came, "{went} for {came}");
}
