//! Many connections that open at the same instant.

use core::time::Duration;

use tack_tcp::{ConnConfig, ConnId, Event, EventKind, ListenConfig};
use tack_units::{Instant, Rate};

use crate::bulk::{PORT, path};
use crate::pipe::PipeConfig;
use crate::world::{World, WorldConfig};

const HELLO: &[u8] = b"hello";
/// The server takes its time.
const EVERY: Duration = Duration::from_millis(100);
const AT_A_TIME: usize = 100;

struct Crowd {
    world: World,
    clients: Vec<ConnId>,
    accepted: usize,
    heard: usize,
}

impl Crowd {
    fn new(count: usize, conn: &ConnConfig, pipes: [PipeConfig; 2]) -> Crowd {
        let mut world = World::new(WorldConfig::new(11, pipes));
        let listen = ListenConfig::default().with(|it| it.conn = conn.clone());
        world.ends[1].host.listen(PORT, listen).expect("a free port");
        let remote = tack_tcp::Remote { path: world.ends[1].addr, port: PORT };
        let now = world.local(0);
        let host = &mut world.ends[0].host;
        let open = |_| {
            let id = host.connect(remote, conn.clone(), now).expect("a free port");
            assert_eq!(host.write(id, HELLO, now), Ok(HELLO.len()));
            id
        };
        let clients = (0..count).map(open).collect();
        Crowd { world, clients, accepted: 0, heard: 0 }
    }

    fn run(&mut self, until: Instant) {
        let mut next_turn = self.world.now;
        while self.world.now < until && self.accepted.min(self.heard) < self.clients.len() {
            if self.world.now >= next_turn {
                self.accept_some();
                next_turn += EVERY;
            }
            self.hear();
            self.world.flush();
            let at = self.world.next().map_or(next_turn, |at| at.min(next_turn));
            self.world.advance(at);
        }
    }

    fn accept_some(&mut self) {
        for _ in 0..AT_A_TIME {
            let Some(id) = self.world.ends[1].host.accept(PORT) else { return };
            self.accepted += 1;
            self.read(id);
        }
    }

    /// Reads what those that were accepted say. They stay open.
    fn hear(&mut self) {
        while self.world.ends[0].host.poll_event().is_some() {}
        while let Some(Event { conn, kind }) = self.world.ends[1].host.poll_event() {
            if kind == EventKind::Readable {
                self.read(conn);
            }
        }
    }

    fn read(&mut self, id: ConnId) {
        let now = self.world.local(1);
        let mut buffer = [0; 16];
        if let Ok(Some(n @ 1..)) = self.world.ends[1].host.read(id, &mut buffer, now) {
            assert_eq!(&buffer[..n], HELLO);
            self.heard += 1;
        }
    }
}

/// All of them connect and are accepted, and none ends.
fn all_get_in(count: usize, pipes: &[PipeConfig; 2]) {
    for conn in [ConnConfig::default(), ConnConfig::plain()] {
        let mut crowd = Crowd::new(count, &conn, pipes.clone());
        crowd.run(Instant::from_secs(90));
        let host = &crowd.world.ends[0].host;
        let ended = crowd.clients.iter().filter_map(|&id| host.closed(id)).collect::<Vec<_>>();
        let counters = crowd.world.ends[1].host.counters();
        let state = (crowd.accepted, crowd.heard, crowd.world.now);
        assert!(ended.is_empty(), "{} ended, {:?}; {state:?}; {counters:?}", ended.len(), ended[0]);
        assert_eq!((crowd.accepted, crowd.heard), (count, count), "{counters:?}");
    }
}

/// More than the backlogs of handshakes and of connections together: the rest are cookies, and wait.
#[test]
fn of_thousands_that_connect_at_once_all_are_accepted_in_the_end() {
    all_get_in(3_000, &path(Rate::from_mbps(1_000), Duration::from_millis(1), 20.0));
}

/// Answers take so long that SYNs are repeated: whoever was sent a cookie the first time finds room
/// the second time, and answers the cookie.
#[test]
fn a_client_whose_repeated_syn_found_room_may_answer_the_cookie_of_the_first() {
    let pipe = |rate| PipeConfig::clean(rate, Duration::from_millis(5), 10 << 20);
    all_get_in(3_000, &[pipe(Rate::from_mbps(1_000)), pipe(Rate::from_mbps(1))]);
}
