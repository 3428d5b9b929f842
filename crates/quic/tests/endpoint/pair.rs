//! Two endpoints and a wire between them, in virtual time.

use std::net::SocketAddr;
use std::time::Duration;

use tack_quic::streams::Dir;
use tack_quic::{Config, ConnId, Connection, Endpoint, Event, Listen};
use tack_transport::Ecn;
use tack_units::Instant;

use super::tls;

/// What becomes of ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    TakenOff,
    Kept,
    /// Packets that have one are lost.
    Dropped,
}

const DELAY: Duration = Duration::from_millis(10);

/// Two endpoints and a wire between them.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [Endpoint; 2],
    /// As the other sees each.
    pub(crate) addresses: [SocketAddr; 2],
    /// Where the client was before.
    pub(crate) left: Vec<SocketAddr>,
    /// To whom, when, with which ECN field, what.
    pub(crate) wire: Vec<(usize, Instant, Ecn, Vec<u8>)>,
    pub(crate) marks: Marks,
    pub(crate) events: [Vec<(ConnId, Event)>; 2],
    /// Bytes that each has sent.
    pub(crate) sent: [usize; 2],
    /// Longer ones are lost, bytes.
    pub(crate) most: usize,
    /// This one's datagrams are lost.
    pub(crate) mute: Option<usize>,
    /// Of the client's datagrams, one in so many is lost.
    pub(crate) one_lost_in: Option<u64>,
    datagrams: u64,
}

impl Pair {
    pub(crate) fn new(listen: Listen) -> Pair {
        Pair {
            now: Instant::ZERO,
            ends: [Endpoint::new([1; 32], None), Endpoint::new([2; 32], Some(listen))],
            addresses: [([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 443).into()],
            left: Vec::new(),
            wire: Vec::new(),
            marks: Marks::TakenOff,
            events: [Vec::new(), Vec::new()],
            sent: [0; 2],
            most: usize::MAX,
            mute: None,
            one_lost_in: None,
            datagrams: 0,
        }
    }

    pub(crate) fn connect(&mut self, config: Config) -> ConnId {
        let name = tls::NAME.try_into().unwrap();
        self.ends[0].connect(self.addresses[1], name, tls::client(), config, self.now).unwrap()
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send();
            let arrival = self.wire.iter().map(|(_, at, ..)| *at).min();
            let timers = self.ends.iter().map(Endpoint::deadline);
            let next = timers.chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let due: Vec<_>;
            (due, self.wire) = self.wire.drain(..).partition(|(_, at, ..)| *at <= self.now);
            for (to, _, ecn, mut datagram) in due {
                self.ends[to].handle(self.addresses[1 - to], ecn.bits(), &mut datagram, self.now);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
    }

    pub(crate) fn send(&mut self) {
        for who in 0..2 {
            let mut bytes = Vec::new();
            while let Some(burst) = self.ends[who].poll_transmit(&mut bytes, 20_000, self.now) {
                let is_there = burst.to == self.addresses[1 - who];
                assert!(is_there || self.left.contains(&burst.to), "{burst:?}");
                for datagram in bytes.chunks(burst.segment_size) {
                    self.sent[who] += datagram.len();
                    let ecn = match self.marks {
                        Marks::TakenOff => Ecn::NotEct,
                        Marks::Kept => burst.ecn,
                        Marks::Dropped if burst.ecn == Ecn::NotEct => burst.ecn,
                        Marks::Dropped => continue,
                    };
                    self.datagrams += u64::from(who == 0);
                    let lost = |n| who == 0 && self.datagrams.is_multiple_of(n);
                    if self.one_lost_in.is_some_and(lost) {
                        continue;
                    }
                    if self.mute != Some(who) && is_there && datagram.len() <= self.most {
                        self.wire.push((1 - who, self.now + DELAY, ecn, datagram.to_vec()));
                    }
                }
                bytes.clear();
            }
            while let Some(event) = self.ends[who].poll_event() {
                self.events[who].push(event);
            }
        }
    }

    pub(crate) fn client(&mut self, id: ConnId) -> &mut Connection {
        self.ends[0].connection(id).unwrap()
    }

    pub(crate) fn server(&mut self) -> &mut Connection {
        let id = self.ends[1].connections().last().unwrap();
        self.ends[1].connection(id).unwrap()
    }

    pub(crate) fn connected(&self, who: usize) -> bool {
        self.events[who].iter().any(|(_, event)| *event == Event::Connected)
    }

    /// `len` bytes from the client arrive whole.
    pub(crate) fn transfer(&mut self, id: ConnId, len: usize) {
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
