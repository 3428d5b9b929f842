//! Two ends, what they have to say, and a path that loses, doubles, delays and damages datagrams, in
//! virtual time. Everything follows from a seed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_units::Instant;

use super::end::{End, Read};

/// Virtual time after which a conversation has failed.
const PATIENCE: Duration = Duration::from_secs(300);
const MAX_STEPS: usize = 400_000;

/// Where the server is, always.
pub(crate) const SERVER: SocketAddr = at(1, 443);

const fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// Beside the server's: addresses that the client has.
const HOSTS: u8 = 3;

/// The path, both ways alike.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    pub(crate) double: f64,
    pub(crate) late: f64,
    pub(crate) damage: f64,
    /// Of the client's datagrams, before how many of which its address becomes another, as by a NAT.
    pub(crate) rebind: f64,
}

impl Path {
    /// On which nothing happens to anything.
    pub(crate) fn clean() -> Path {
        let delay = Duration::from_millis(5);
        Path { delay, loss: 0.0, double: 0.0, late: 0.0, damage: 0.0, rebind: 0.0 }
    }

    /// Anything from a clean LAN to a bad day.
    pub(crate) fn of(rng: &mut Pcg64) -> Path {
        let mut share = |most: f64| if rng.random() { rng.random_range(0.0..most) } else { 0.0 };
        let (loss, double, late, damage) = (share(0.15), share(0.1), share(0.2), share(0.1));
        let rebind = share(0.01);
        let delay = Duration::from_micros(rng.random_range(200..60_000));
        Path { delay, loss, double, late, damage, rebind }
    }
}

/// What one end sends on a stream, and has sent.
#[derive(Debug)]
struct Speech {
    len: usize,
    sent: usize,
    finished: bool,
}

/// What an end has heard of a stream.
#[derive(Debug, Default)]
struct Hearing {
    bytes: Vec<u8>,
    ended: bool,
}

struct Speaker {
    end: Box<dyn End>,
    opened: u64,
    speeches: BTreeMap<u64, Speech>,
    hearings: BTreeMap<u64, Hearing>,
}

pub(crate) struct World {
    seed: u64,
    rng: Pcg64,
    path: Path,
    speakers: [Speaker; 2],
    /// By time and order of sending: to whom, from where, and the bytes.
    wire: BTreeMap<(Instant, u64), (usize, SocketAddr, Vec<u8>)>,
    /// Where the client is, as the server sees it.
    client: SocketAddr,
    sent: u64,
    streams: u64,
    most: usize,
}

impl World {
    /// The first end connects.
    pub(crate) fn new(
        seed: u64,
        path: Path,
        streams: u64,
        most: usize,
        ends: [Box<dyn End>; 2],
    ) -> World {
        let speaker = |end| {
            let (speeches, hearings) = (BTreeMap::new(), BTreeMap::new());
            Speaker { end, opened: 0, speeches, hearings }
        };
        let mut world = World {
            seed,
            rng: Pcg64::seed_from_u64(seed),
            path,
            speakers: ends.map(speaker),
            wire: BTreeMap::new(),
            client: at(2, 1_000),
            sent: 0,
            streams,
            most,
        };
        for who in 0..2 {
            for id in world.heard_by(who) {
                world.speakers[who].hearings.insert(id, Hearing::default());
            }
        }
        world
    }

    /// Streams that `who` hears the other on.
    fn heard_by(&self, who: usize) -> Vec<u64> {
        let ids = (0..4 * self.streams).filter(|id| {
            let (opener, one_way) = ((id & 1) as usize, id & 2 > 0);
            !one_way || opener != who
        });
        ids.collect()
    }

    /// How much `who` says on a stream: both ends know.
    fn len(&self, who: usize, id: u64) -> usize {
        let mut rng = Pcg64::seed_from_u64(self.seed ^ (id << 8 | who as u64) << 20);
        match rng.random_range(0..4) {
            0 => rng.random_range(0..3),
            1 => rng.random_range(0..3_000),
            _ => rng.random_range(0..self.most),
        }
    }

    /// Runs until both ends have heard everything; then the first closes.
    pub(crate) fn run(&mut self) -> Instant {
        let mut now = Instant::ZERO;
        self.speakers[0].end.connect(now);
        for _ in 0..MAX_STEPS {
            for who in 0..2 {
                self.talk(who, now);
                self.send(who, now);
            }
            if self.speakers.iter().all(|s| s.hearings.values().all(|h| h.ended)) {
                return now;
            }
            now = self.step(now);
            assert!(now < Instant::ZERO + PATIENCE, "it takes too long\n{}", self.describe());
        }
        panic!("it does not come to an end\n{}", self.describe());
    }

    /// What became of what the first end said before it was connected.
    pub(crate) fn was_taken_early(&self) -> Option<bool> {
        self.speakers[0].end.was_taken_early()
    }

    /// The first end closes, and the other hears of it, or gives up.
    pub(crate) fn close(&mut self, mut now: Instant) {
        self.speakers[0].end.close(now);
        for _ in 0..MAX_STEPS {
            (0..2).for_each(|who| self.send(who, now));
            if self.speakers.iter().all(|s| s.end.ended().is_some()) {
                return;
            }
            now = self.step(now);
        }
        panic!("an end does not hear of the end");
    }

    /// The next thing happens.
    fn step(&mut self, now: Instant) -> Instant {
        let [a, b] = &mut self.speakers;
        let timers = [a.end.deadline(), b.end.deadline()];
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let next = timers.into_iter().chain([arrival]).flatten().min();
        let Some(next) = next else { panic!("nothing will ever happen\n{}", self.describe()) };
        let now = now.max(next);
        while let Some(first) = self.wire.first_entry().filter(|e| e.key().0 <= now) {
            let (to, from, mut datagram) = first.remove();
            self.speakers[to].end.handle(from, &mut datagram, now);
        }
        for speaker in &mut self.speakers {
            if speaker.end.deadline().is_some_and(|at| at <= now) {
                speaker.end.handle_timeout(now);
            }
        }
        now
    }

    fn send(&mut self, who: usize, now: Instant) {
        for _ in 0..10_000 {
            let mut datagram = Vec::new();
            let Some(to) = self.speakers[who].end.poll_transmit(&mut datagram, now) else { return };
            // A server that is in its handshake knows its client by the address.
            let are_connected = self.speakers.iter().all(|speaker| speaker.end.is_connected());
            if who == 0 && are_connected && self.rng.random_bool(self.path.rebind) {
                let host = self.rng.random_range(2..2 + HOSTS);
                self.client = at(host, self.client.port() + 1);
            }
            // Where the client was, nobody is any more.
            if to == [SERVER, self.client][who] {
                self.carry(1 - who, datagram, now);
            }
        }
        panic!("an end does not stop sending\n{}", self.describe());
    }

    fn carry(&mut self, to: usize, datagram: Vec<u8>, now: Instant) {
        let from = [SERVER, self.client][to];
        let copies = 1 + u32::from(self.rng.random_bool(self.path.double));
        for _ in 0..copies {
            if self.rng.random_bool(self.path.loss) {
                continue;
            }
            let mut datagram = datagram.clone();
            if self.rng.random_bool(self.path.damage) {
                let at = self.rng.random_range(0..datagram.len());
                datagram[at] ^= 1 << self.rng.random_range(0..8);
            }
            let mut at = now + self.path.delay;
            if self.rng.random_bool(self.path.late) {
                at += self.path.delay.mul_f64(self.rng.random_range(0.0..2.0));
            }
            self.sent += 1;
            self.wire.insert((at, self.sent), (to, from, datagram));
        }
    }

    fn talk(&mut self, who: usize, now: Instant) {
        if let Some(why) = self.speakers[who].end.ended() {
            panic!("end {who} ended: {why}\n{}", self.describe());
        }
        if !self.speakers[who].end.may_talk() {
            return;
        }
        if self.speakers[who].end.has_to_begin_anew() {
            self.speakers[who].opened = 0;
            self.speakers[who].speeches.clear();
        }
        while self.speakers[who].opened < 2 * self.streams {
            let bidi = self.speakers[who].opened.is_multiple_of(2);
            let Some(id) = self.speakers[who].end.open(bidi, now) else { break };
            self.speakers[who].opened += 1;
            let speech = Speech { len: self.len(who, id), sent: 0, finished: false };
            self.speakers[who].speeches.insert(id, speech);
        }
        let (lens, seed) = (self.heard_by(who), self.seed);
        for id in lens {
            let answer = self.len(who, id);
            let expected = self.len(1 - who, id);
            let Speaker { end, speeches, hearings, .. } = &mut self.speakers[who];
            let hearing = hearings.get_mut(&id).expect("it was made with the world");
            if hearing.ended {
                continue;
            }
            let before = hearing.bytes.len();
            let read = end.read(id, &mut hearing.bytes);
            for (i, byte) in hearing.bytes[before..].iter().enumerate() {
                assert_eq!(*byte, content(seed, 1 - who, id, before + i), "byte {i} of {id}");
            }
            if matches!(read, Read::End) {
                hearing.ended = true;
                assert_eq!(hearing.bytes.len(), expected, "length of {id}");
            }
            // Whoever is spoken to answers.
            let is_theirs = (id & 1) as usize != who;
            if is_theirs && id & 2 == 0 && (hearing.ended || hearing.bytes.len() > before) {
                speeches.entry(id).or_insert(Speech { len: answer, sent: 0, finished: false });
            }
        }
        let Speaker { end, speeches, .. } = &mut self.speakers[who];
        for (id, speech) in speeches {
            while speech.sent < speech.len {
                let upto = speech.len.min(speech.sent + 2_000);
                let data: Vec<u8> =
                    (speech.sent..upto).map(|at| content(seed, who, *id, at)).collect();
                let taken = end.write(*id, &data);
                speech.sent += taken;
                if taken < data.len() {
                    break;
                }
            }
            if speech.sent == speech.len && !speech.finished {
                end.finish(*id);
                speech.finished = true;
            }
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("seed {}, {:?}\n", self.seed, self.path);
        for (who, speaker) in self.speakers.iter().enumerate() {
            let heard: Vec<_> =
                speaker.hearings.iter().map(|(id, h)| (id, h.bytes.len(), h.ended)).collect();
            text += &format!(
                "end {who}: connected {}, ended {:?}, opened {}, heard {heard:?}\n",
                speaker.end.is_connected(),
                speaker.end.ended(),
                speaker.opened
            );
        }
        text
    }
}

/// Byte `at` of what `who` says on a stream.
fn content(seed: u64, who: usize, id: u64, at: usize) -> u8 {
    let x = seed.wrapping_add(id << 3 | who as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 32) as u8 ^ (at as u64).wrapping_mul(0x2545_f491).to_le_bytes()[1]
}
