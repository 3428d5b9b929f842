//! What an idle connection costs, counted by the allocator.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;

use tack_tcp::{ConnConfig, ConnId, Ecn, Host, HostConfig, ListenConfig, Mode, Remote};
use tack_units::Instant;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only a counter is kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two hosts joined by a wire without delay.
struct Pair {
    hosts: [Host; 2],
    now: Instant,
}

const PORT: u16 = 80;

impl Pair {
    fn new(conn: ConnConfig) -> Pair {
        let now = Instant::ZERO;
        let host = |s| Host::new(HostConfig::default(), [s; 32], now);
        let mut hosts = [host(1), host(2)];
        let listen = ListenConfig::default().with(|it| it.conn = conn);
        hosts[1].listen(PORT, listen).expect("free");
        Pair { hosts, now }
    }

    fn addr(i: usize) -> SocketAddr {
        ([10, 0, 0, i as u8], 9).into()
    }

    /// Carries everything until `until`.
    fn run(&mut self, until: Instant) {
        loop {
            let mut quiet = true;
            for i in 0..2 {
                let mut buffer = Vec::new();
                while let Some(t) = self.hosts[i].poll_transmit(&mut buffer, 65_000, self.now) {
                    let from = Self::addr(i);
                    self.hosts[1 - i].handle(from, &buffer, t.segment_size, Ecn::NotEct, self.now);
                    buffer.clear();
                    quiet = false;
                }
                while self.hosts[i].poll_event().is_some() {}
            }
            if !quiet {
                continue;
            }
            let next = self.hosts.iter().filter_map(Host::deadline).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.hosts.iter_mut().for_each(|h| h.handle_timeout(self.now));
        }
        self.now = until;
    }

    fn connect(&mut self, config: &ConnConfig) -> (ConnId, ConnId) {
        let remote = Remote { path: Self::addr(1), port: PORT };
        let client = self.hosts[0].connect(remote, config.clone(), self.now).expect("a port");
        self.run(self.now + core::time::Duration::from_millis(1));
        (client, self.hosts[1].accept(PORT).expect("established"))
    }
}

/// One test, because the counter is the process's.
#[test]
fn an_idle_connection_holds_at_most_8_kib_and_no_buffer() {
    const N: usize = 500;
    for config in [ConnConfig::default(), ConnConfig::plain()] {
        let mut pair = Pair::new(config.clone());
        // What the hosts keep for themselves, and tables' first growth, are not a connection's.
        pair.connect(&config);
        let before = HELD.load(Ordering::Relaxed);
        let mut conns = Vec::with_capacity(N);
        for _ in 0..N {
            conns.push(pair.connect(&config));
        }
        for &(client, server) in &conns {
            let now = pair.now;
            assert_eq!(pair.hosts[0].write(client, &[7; 30_000], now), Ok(30_000));
            pair.run(now + core::time::Duration::from_millis(20));
            let mut out = vec![0; 40_000];
            let now = pair.now;
            assert_eq!(pair.hosts[1].read(server, &mut out, now), Ok(Some(30_000)));
        }
        pair.run(pair.now + core::time::Duration::from_secs(30));
        let info = pair.hosts[0].info(conns[0].0).expect("known");
        assert_eq!(info.mode == Mode::Tack, config.ack.tack().is_some());
        assert_eq!(info.buffer_memory, 0, "buffers are given back when idle");
        let own = conns.capacity() * size_of::<(ConnId, ConnId)>();
        let held = HELD.load(Ordering::Relaxed) - before - own;
        let each = held / (2 * N);
        println!("{:?}: {each} bytes per idle connection", info.mode);
        assert!(each <= 8 << 10, "{each} bytes");
    }
}
