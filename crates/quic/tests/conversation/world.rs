//! Two ends, what they have to say, and a path that does to datagrams what its fate is, in virtual time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tack_units::Instant;

use super::end::{End, Read, Written};
use super::speech::{Hearing, Script, Speech};

const MAX_STEPS: usize = 400_000;
/// Virtual time after which a conversation has failed.
const PATIENCE: Duration = Duration::from_secs(300);
/// With which streams are given up, by whoever does it.
const QUIT: u64 = 40;
/// Datagrams that wait for an end that is asleep; of more, the last are lost.
const SOCKET: usize = 64;
/// Of datagrams there is one stream, so to speak, in each direction.
const DATAGRAMS: u64 = 1 << 40;

/// Where the server is, always.
pub(crate) const SERVER: SocketAddr = at(1, 443);

const fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// What an end does beside talking on its streams.
#[allow(dead_code, reason = "where all follows from a seed, nothing else is done")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// It uses other keys.
    UpdateKeys,
    /// A client moves to another address, at this host, and knows it.
    Move(u8),
    /// It sends a datagram as long as that.
    Datagram(usize),
}

/// What decides what the path does, both ways.
pub(crate) trait Fate: std::fmt::Debug {
    /// The client's address becomes another before its next datagram, at this host, as by a NAT.
    fn moves(&mut self) -> Option<u8>;
    /// The copies that arrive of a datagram for `to`, and after how long each.
    fn carry(&mut self, to: usize, datagram: Vec<u8>, now: Instant) -> Vec<(Duration, Vec<u8>)>;
    /// What an end does now.
    fn acts(&mut self) -> Option<(usize, Act)> {
        None
    }
    /// Until when an end's host is asleep: it runs no timer, and what arrives waits for it.
    fn sleeps(&self, _who: usize, _now: Instant) -> Option<Instant> {
        None
    }
    /// How much longer than others a conversation may take.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

struct Speaker {
    end: Box<dyn End>,
    opened: u64,
    speeches: BTreeMap<u64, Speech>,
    hearings: BTreeMap<u64, Hearing>,
    /// Datagrams sent, and received.
    datagrams: [u64; 2],
}

pub(crate) struct World<F> {
    script: Script,
    fate: F,
    speakers: [Speaker; 2],
    /// By time and order of sending: to whom, from where, and the bytes.
    wire: BTreeMap<(Instant, u64), (usize, SocketAddr, Vec<u8>)>,
    /// Where the client is, as the server sees it.
    client: SocketAddr,
    sent: u64,
}

impl<F: Fate> World<F> {
    /// The first end connects.
    pub(crate) fn new(script: Script, fate: F, ends: [Box<dyn End>; 2]) -> World<F> {
        let speaker = |end| {
            let (speeches, hearings) = (BTreeMap::new(), BTreeMap::new());
            Speaker { end, opened: 0, speeches, hearings, datagrams: [0; 2] }
        };
        let mut speakers = ends.map(speaker);
        for (who, speaker) in speakers.iter_mut().enumerate() {
            let ids = script.heard_by(who).into_iter();
            speaker.hearings = ids.map(|id| (id, Hearing::default())).collect();
        }
        World { script, fate, speakers, wire: BTreeMap::new(), client: at(2, 1_000), sent: 0 }
    }

    /// Runs until both ends have heard everything.
    pub(crate) fn run(&mut self) -> Instant {
        let mut now = Instant::ZERO;
        self.speakers[0].end.connect(now);
        for _ in 0..MAX_STEPS {
            while let Some((who, act)) = self.fate.acts() {
                self.act(who, act, now);
            }
            for who in 0..2 {
                if self.fate.sleeps(who, now).is_none() {
                    self.talk(who, now);
                    self.send(who, now);
                }
            }
            if self.speakers.iter().all(|s| s.hearings.values().all(|h| h.ended)) {
                return now;
            }
            now = self.step(now);
            let patience = PATIENCE + self.fate.patience();
            assert!(now < Instant::ZERO + patience, "it takes too long\n{}", self.describe());
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
        self.wait_for_sleepers(now);
        let woken = [0, 1].map(|who| self.fate.sleeps(who, now));
        let [a, b] = &mut self.speakers;
        let later = |at: Option<Instant>, until: Option<Instant>| at.max(until);
        let timers = [later(a.end.deadline(), woken[0]), later(b.end.deadline(), woken[1])];
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let next = timers.into_iter().chain([arrival]).flatten().min();
        let Some(next) = next else { panic!("nothing will ever happen\n{}", self.describe()) };
        let now = now.max(next);
        self.wait_for_sleepers(now);
        while let Some(first) = self.wire.first_entry().filter(|e| e.key().0 <= now) {
            let (to, from, mut datagram) = first.remove();
            self.speakers[to].end.handle(from, &mut datagram, now);
        }
        for (who, speaker) in self.speakers.iter_mut().enumerate() {
            let is_awake = self.fate.sleeps(who, now).is_none();
            if is_awake && speaker.end.deadline().is_some_and(|at| at <= now) {
                speaker.end.handle_timeout(now);
            }
        }
        now
    }

    /// What has arrived for an end that is asleep is read when it wakes, as much as a socket keeps.
    fn wait_for_sleepers(&mut self, now: Instant) {
        for who in 0..2 {
            let Some(until) = self.fate.sleeps(who, now) else { continue };
            let due = self.wire.range(..=(now, u64::MAX)).filter(|(_, (to, ..))| *to == who);
            let due: Vec<_> = due.map(|(key, _)| *key).collect();
            for key in due {
                let arrived = self.wire.remove(&key).expect("it was found");
                let waits = self.wire.range((until, 0)..=(until, u64::MAX)).count();
                if waits < SOCKET {
                    self.wire.insert((until, key.1), arrived);
                }
            }
        }
    }

    fn send(&mut self, who: usize, now: Instant) {
        for _ in 0..10_000 {
            let mut datagram = Vec::new();
            let Some(to) = self.speakers[who].end.poll_transmit(&mut datagram, now) else { return };
            // A server that is in its handshake knows its client by the address.
            if who == 0
                && self.are_connected()
                && let Some(host) = self.fate.moves()
            {
                self.go(host);
            }
            // Where the client was, nobody is any more.
            if to == [SERVER, self.client][who] {
                let from = [self.client, SERVER][who];
                for (takes, copy) in self.fate.carry(1 - who, datagram, now) {
                    self.sent += 1;
                    self.wire.insert((now + takes, self.sent), (1 - who, from, copy));
                }
            }
        }
        panic!("an end does not stop sending\n{}", self.describe());
    }

    fn are_connected(&self) -> bool {
        self.speakers.iter().all(|speaker| speaker.end.is_connected())
    }

    fn go(&mut self, host: u8) {
        self.client = at(host, self.client.port() + 1);
    }

    fn act(&mut self, who: usize, act: Act, now: Instant) {
        if !self.are_connected() || self.speakers[who].end.ended().is_some() {
            return;
        }
        match act {
            Act::UpdateKeys => self.speakers[who].end.update_keys(),
            Act::Move(host) => {
                if self.speakers[0].end.migrate(now) {
                    self.go(host);
                }
            }
            Act::Datagram(len) => {
                let data: Vec<u8> =
                    (0..len).map(|at| self.script.byte(who, DATAGRAMS, at)).collect();
                let sent = self.speakers[who].end.send_datagram(&data);
                self.speakers[who].datagrams[0] += u64::from(sent);
            }
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
        while self.speakers[who].opened < 2 * self.script.streams {
            let bidi = self.speakers[who].opened.is_multiple_of(2);
            let Some(id) = self.speakers[who].end.open(bidi, now) else { break };
            self.speakers[who].opened += 1;
            self.speakers[who].speeches.insert(id, Speech::new(self.script.plan(who, id)));
        }
        for id in self.script.heard_by(who) {
            self.hear(who, id);
        }
        self.hear_datagrams(who);
        self.speak(who);
    }

    fn hear(&mut self, who: usize, id: u64) {
        let script = self.script;
        let plan = script.plan(1 - who, id);
        let Speaker { end, speeches, hearings, .. } = &mut self.speakers[who];
        let hearing = hearings.get_mut(&id).expect("it was made with the world");
        if hearing.ended {
            return;
        }
        let before = hearing.bytes.len();
        let read = end.read(id, &mut hearing.bytes);
        for (i, byte) in hearing.bytes[before..].iter().enumerate() {
            assert_eq!(*byte, script.byte(1 - who, id, before + i), "byte {i} of {id}");
        }
        let heard = hearing.bytes.len();
        match read {
            Read::End => {
                hearing.ended = true;
                assert_eq!((heard, None), (plan.len, plan.resets), "length of {id}");
            }
            Read::Reset(code) => {
                hearing.ended = true;
                assert_eq!(code, QUIT);
                assert!(plan.resets.is_some_and(|at| heard <= at), "{id} was not to be reset");
            }
            Read::Nothing => {
                let is_enough = plan.stops.is_some_and(|at| heard >= at.max(1));
                if is_enough {
                    hearing.ended = true;
                    end.stop(id, QUIT);
                }
            }
        }
        // Whoever is spoken to answers.
        let is_theirs = (id & 1) as usize != who;
        if is_theirs && id & 2 == 0 && (hearing.ended || heard > before) {
            speeches.entry(id).or_insert(Speech::new(script.plan(who, id)));
        }
    }

    fn hear_datagrams(&mut self, who: usize) {
        while let Some(data) = self.speakers[who].end.recv_datagram() {
            for (at, byte) in data.iter().enumerate() {
                assert_eq!(*byte, self.script.byte(1 - who, DATAGRAMS, at), "byte {at}");
            }
            self.speakers[who].datagrams[1] += 1;
            let sent = self.speakers[1 - who].datagrams[0];
            assert!(self.speakers[who].datagrams[1] <= sent, "a datagram came twice");
        }
    }

    fn speak(&mut self, who: usize) {
        let script = self.script;
        let Speaker { end, speeches, .. } = &mut self.speakers[who];
        for (id, speech) in speeches {
            while speech.sent < speech.upto() && !speech.finished {
                let upto = speech.upto().min(speech.sent + 2_000);
                let data: Vec<u8> =
                    (speech.sent..upto).map(|at| script.byte(who, *id, at)).collect();
                match end.write(*id, &data) {
                    Written::Bytes(taken) => speech.sent += taken,
                    Written::Stopped => speech.finished = true,
                }
                if speech.sent < upto {
                    break;
                }
            }
            if speech.sent == speech.upto() && !speech.finished {
                match speech.plan.resets {
                    Some(_) => end.reset(*id, QUIT),
                    None => end.finish(*id),
                }
                speech.finished = true;
            }
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("{:?}, {:?}\n", self.script, self.fate);
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
