//! A path between two processes that does to datagrams what a network in trouble does: another address, silence,
//! damage.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::support::rng;

/// What a path does to datagrams, beside carrying them to another port.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// After so many, all that comes later has another address towards the server.
    pub(crate) rebinds_after: usize,
    /// For how long nothing passes then, either way.
    pub(crate) silent: Duration,
    /// One in so many of those with data has a few bits turned, and a checksum that is right.
    pub(crate) damages: Option<usize>,
    /// After so many, one with data is lost, and acknowledged all the same: a number was damaged.
    pub(crate) forges_after: Option<usize>,
    pub(crate) seed: u64,
}

pub(crate) const STEADY: Course = Course {
    rebinds_after: usize::MAX,
    silent: Duration::ZERO,
    damages: None,
    forges_after: None,
    seed: 1,
};

/// What a path is told while it carries.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    over: AtomicBool,
    rebind: AtomicBool,
    garble: AtomicUsize,
}

impl Orders {
    /// To carry no more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// To take another address towards the server, and to be silent as long as the course has it.
    pub(crate) fn rebind(&self) {
        self.rebind.store(true, Ordering::Relaxed);
    }

    /// To damage so many of the next datagrams with which the server says much: where it only receives,
    /// its flights of handshakes.
    pub(crate) fn garble(&self, datagrams: usize) {
        self.garble.store(datagrams, Ordering::Relaxed);
    }

    /// How many of them are to come.
    pub(crate) fn to_garble(&self) -> usize {
        self.garble.load(Ordering::Relaxed)
    }
}

/// Carries datagrams between a port of its own, which it returns, and `server`.
pub(crate) fn forward(server: u16, path: Course, orders: &Arc<Orders>) -> u16 {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = front.local_addr().unwrap().port();
    front.set_nonblocking(true).unwrap();
    let orders = Arc::clone(orders);
    thread::spawn(move || {
        let mut carrier = Carrier {
            back: towards(),
            front,
            server: ([127, 0, 0, 1], server).into(),
            client: None,
            passed: 0,
            with_data: 0,
            silent_until: Instant::now(),
            forgery: Forgery::Waits,
            rng: rng(path.seed),
            path,
            orders: Arc::clone(&orders),
        };
        while !orders.over.load(Ordering::Relaxed) {
            if orders.rebind.swap(false, Ordering::Relaxed) {
                carrier.rebind();
            }
            if !carrier.carry() {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    port
}

fn towards() -> UdpSocket {
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.set_nonblocking(true).unwrap();
    back
}

struct Carrier {
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    passed: usize,
    with_data: usize,
    silent_until: Instant,
    path: Course,
    forgery: Forgery,
    rng: Pcg64,
    orders: Arc<Orders>,
}

/// How far an acknowledgment of what never arrived has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forgery {
    Waits,
    /// A datagram was lost that began here.
    Lost(u32),
    /// What is sent next begins here, beyond the hole.
    Beyond(u32),
    Done,
}

/// Headers are no longer, and what is longer than twice that carries much.
const HEADERS: usize = 200;

/// SEG.SEQ and SEG.ACK, of a header of TCP.
const SEQ_AT: usize = 4;
const ACK_AT: usize = 8;

fn number(datagram: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(datagram[at..at + 4].try_into().unwrap())
}

fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Carrier {
    /// Whether a datagram to the server is lost, so that its acknowledgment can be forged.
    fn loses(&mut self, datagram: &[u8]) -> bool {
        let due = self.path.forges_after.is_some_and(|after| self.passed > after);
        if !due || datagram.len() < 1_000 {
            return false;
        }
        let seq = number(datagram, SEQ_AT);
        match self.forgery {
            Forgery::Waits => {
                self.forgery = Forgery::Lost(seq);
                true
            }
            Forgery::Lost(lost) if is_before(lost, seq) => {
                self.forgery = Forgery::Beyond(seq);
                false
            }
            // Not even repeated in time.
            Forgery::Lost(_) => true,
            Forgery::Beyond(_) | Forgery::Done => false,
        }
    }

    /// Acknowledges what was lost.
    fn forge(&mut self, datagram: &mut [u8]) {
        let Forgery::Beyond(seq) = self.forgery else { return };
        // A short header acknowledges nothing.
        let whole = datagram.get(12).is_some_and(|form| form >> 4 >= 5);
        if whole && is_before(number(datagram, ACK_AT), seq) {
            datagram[ACK_AT..ACK_AT + 4].copy_from_slice(&seq.to_be_bytes());
            self.forgery = Forgery::Done;
        }
    }

    fn rebind(&mut self) {
        self.back = towards();
        self.silent_until = Instant::now() + self.path.silent;
    }

    /// Carries one datagram each way. Whether there was one.
    fn carry(&mut self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let mut busy = false;
        if let Ok((n, from)) = self.front.recv_from(&mut buffer) {
            (self.client, busy) = (Some(from), true);
            self.passed += 1;
            if self.passed.is_multiple_of(self.path.rebinds_after) {
                self.rebind();
            }
            if Instant::now() >= self.silent_until && !self.loses(&buffer[..n]) {
                self.damage(&mut buffer[..n]);
                let _ = self.back.send_to(&buffer[..n], self.server);
            }
        }
        if let (Ok((n, _)), Some(client)) = (self.back.recv_from(&mut buffer), self.client) {
            busy = true;
            if Instant::now() >= self.silent_until {
                self.damage(&mut buffer[..n]);
                self.garble(&mut buffer[..n]);
                self.forge(&mut buffer[..n]);
                let _ = self.front.send_to(&buffer[..n], client);
            }
        }
        busy
    }

    /// Behind the headers: what is turned there, TLS alone can notice.
    fn damage(&mut self, datagram: &mut [u8]) {
        if datagram.len() <= 2 * HEADERS {
            return;
        }
        self.with_data += 1;
        if self.path.damages.is_some_and(|one_in| self.with_data.is_multiple_of(one_in)) {
            self.turn_bits(datagram);
        }
    }

    /// What a server sends of much size, where it receives: flights of a handshake.
    fn garble(&mut self, datagram: &mut [u8]) {
        let (order, relaxed) = (Arc::clone(&self.orders), Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        if datagram.len() > 2 * HEADERS
            && order.garble.fetch_update(relaxed, relaxed, one_less).is_ok()
        {
            self.turn_bits(datagram);
        }
    }

    fn turn_bits(&mut self, datagram: &mut [u8]) {
        for _ in 0..self.rng.random_range(1..4) {
            let at = self.rng.random_range(HEADERS..datagram.len());
            datagram[at] ^= 1 << self.rng.random_range(0..8);
        }
    }
}
