//! Many connections to one server in a short time: local ports, TIME-WAIT, and using it anew.

use core::time::Duration;
use std::net::SocketAddr;

use tack_tcp::{
    ConnConfig, ConnId, ConnectError, Ecn, Host, HostConfig, ListenConfig, Remote, State,
};
use tack_units::Instant;

const PORT: u16 = 7;
const DELAY: Duration = Duration::from_millis(1);

/// A client and a server, and what travels between them.
struct Pair {
    hosts: [Host; 2],
    now: Instant,
    path: Vec<(Instant, usize, Vec<u8>)>,
    /// Which datagrams are lost, counted from the first.
    lost: fn(usize) -> bool,
    sent: usize,
}

impl Pair {
    fn new(config: HostConfig, conn: ConnConfig) -> Pair {
        let now = Instant::from_secs(1);
        let mut hosts = [1, 2].map(|s| Host::new(config.clone(), [s; 32], now));
        hosts[1].listen(PORT, ListenConfig::default().with(|it| it.conn = conn)).expect("free");
        Pair { hosts, now, path: Vec::new(), lost: |_| false, sent: 0 }
    }

    fn address(end: usize) -> SocketAddr {
        ([10, 0, 0, 1 + end as u8], 9).into()
    }

    fn connect(&mut self, config: &ConnConfig) -> Result<ConnId, ConnectError> {
        let remote = Remote { path: Self::address(1), port: PORT };
        self.hosts[0].connect(remote, config.clone(), self.now)
    }

    fn run(&mut self, long: Duration) {
        let until = self.now + long;
        loop {
            for end in 0..2 {
                let mut buffer = Vec::new();
                while let Some(t) = self.hosts[end].poll_transmit(&mut buffer, 65_000, self.now) {
                    for datagram in buffer.chunks(t.segment_size) {
                        self.sent += 1;
                        if !(self.lost)(self.sent) {
                            self.path.push((self.now + DELAY, 1 - end, datagram.to_vec()));
                        }
                    }
                    buffer.clear();
                }
                while self.hosts[end].poll_event().is_some() {}
            }
            let arrival = self.path.iter().map(|(at, ..)| *at).min();
            let deadlines = self.hosts.iter().filter_map(Host::deadline).chain(arrival);
            let Some(next) = deadlines.min().filter(|at| *at <= until) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(now));
            for (at, to, datagram) in core::mem::take(&mut self.path) {
                if at > now {
                    self.path.push((at, to, datagram));
                    continue;
                }
                let from = Self::address(1 - to);
                self.hosts[to].handle(from, &datagram, datagram.len(), Ecn::NotEct, now);
            }
        }
        self.now = until;
    }

    /// A whole short life: a request, its answer, and the client closes first.
    fn exchange(&mut self, config: &ConnConfig, request: &[u8]) {
        let client = self.connect(config).expect("a port");
        self.hosts[0].write(client, request, self.now).expect("open");
        self.hosts[0].shutdown_write(client, self.now).expect("open");
        self.run(3 * DELAY);
        let server = loop {
            match self.hosts[1].accept(PORT) {
                Some(server) => break server,
                None => self.run(Duration::from_millis(200)),
            }
        };
        let mut heard = Vec::new();
        let mut out = [0; 100];
        while !self.hosts[1].at_end(server) {
            if let Some(n) = self.hosts[1].read(server, &mut out, self.now).expect("no error") {
                heard.extend_from_slice(&out[..n]);
            }
            self.run(DELAY);
        }
        assert_eq!(heard, request);
        self.hosts[1].shutdown_write(server, self.now).expect("open");
        self.hosts[1].close(server, self.now);
        while self.hosts[0].info(client).expect("known").state != State::TimeWait {
            self.run(DELAY);
        }
        self.hosts[0].close(client, self.now);
    }
}

fn few_ports(ports: u16) -> HostConfig {
    HostConfig::default().with(|it| it.ephemeral_ports = 50_000..=50_000 + (ports - 1))
}

#[test]
fn connections_to_one_server_are_not_bounded_by_ports_in_a_minute() {
    for conn in [ConnConfig::default(), ConnConfig::plain()] {
        let mut pair = Pair::new(few_ports(16), conn.clone());
        let began = pair.now;
        // Some 2 000 a minute over 16 ports, of which TIME-WAIT would allow 16.
        for i in 0..500u32 {
            pair.exchange(&conn, &i.to_be_bytes());
            pair.run(Duration::from_millis(100));
        }
        assert!(pair.now.saturating_since(began) < Duration::from_secs(60));
        assert_eq!(pair.hosts[0].time_wait_len(), 16);
        let counters = pair.hosts.map(|host| host.counters());
        assert!(counters.iter().all(|c| c.resets_sent == 0), "{counters:?}");
    }
}

#[test]
fn a_port_rests_for_a_second_and_without_timestamps_for_all_of_time_wait() {
    for (timestamps, rest) in [(true, 1), (false, 60)] {
        let conn = ConnConfig::plain().with(|it| it.timestamps = timestamps);
        let mut pair = Pair::new(few_ports(1), conn.clone());
        pair.exchange(&conn, b"first");
        let soon = Duration::from_secs(rest) - Duration::from_millis(100);
        pair.run(soon);
        assert_eq!(pair.connect(&conn), Err(ConnectError::NoPort), "timestamps: {timestamps}");
        pair.run(Duration::from_millis(200));
        pair.exchange(&conn, b"second");
    }
}

#[test]
fn a_4_tuple_used_anew_survives_what_is_lost_of_its_last_end() {
    // The last acknowledgment of the first connection is lost: the server still waits for it when
    // the port is used again.
    for lost in 1..40 {
        let conn = ConnConfig::plain();
        let mut pair = Pair::new(few_ports(1), conn.clone());
        pair.exchange(&conn, b"first");
        pair.run(Duration::from_millis(1_100));
        pair.sent = 0;
        pair.lost = match lost % 4 {
            0 => |n| n % 4 == 0,
            1 => |n| n % 5 == 1,
            2 => |n| n % 3 == 2,
            _ => |n| n % 7 < 2,
        };
        pair.run(Duration::from_millis(lost));
        for i in 0..3u8 {
            pair.exchange(&conn, &[i; 50]);
            pair.run(Duration::from_millis(1_100));
        }
    }
}

#[test]
fn every_port_is_taken_before_there_is_none() {
    let conn = ConnConfig::plain();
    let mut pair = Pair::new(few_ports(1_000), conn.clone());
    let all: Vec<_> = (0..1_000).map(|_| pair.connect(&conn).expect("a port")).collect();
    let ports: std::collections::BTreeSet<_> =
        all.iter().map(|&id| pair.hosts[0].local_port(id)).collect();
    assert_eq!(ports.len(), 1_000);
    assert_eq!(pair.connect(&conn), Err(ConnectError::NoPort));
    // One that fails gives its port back at once.
    pair.hosts[0].abort(all[500], pair.now);
    pair.hosts[0].close(all[500], pair.now);
    assert!(pair.connect(&conn).is_ok());
    // Towards another server all are free.
    let remote = Remote { path: Pair::address(1), port: PORT + 1 };
    assert!(pair.hosts[0].connect(remote, conn, pair.now).is_ok());
}
