//! The path between client and server: a relay that loses, damages and delays datagrams, changes the client's
//! address as a NAT does, and counts what it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Versions of QUIC.
pub(crate) const V1: u32 = 1;
pub(crate) const V2: u32 = 0x6b33_43cf;

/// Datagrams that may be under way, in each direction.
const QUEUE: usize = 10_000;
const MAX_DATAGRAM: usize = 65_536;

/// What happens to datagrams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Each way.
    pub(crate) delay: Duration,
    /// Share that is lost.
    pub(crate) loss: f64,
    /// Share in which one bit is another.
    pub(crate) damage: f64,
    /// After so many datagrams of the client its port is another, at the host with this last number.
    pub(crate) rebinds: Vec<(u64, u8)>,
    /// After so many datagrams of the client nothing passes for so long.
    pub(crate) hole: Option<(u64, Duration)>,
    /// Where clients but the first are served.
    pub(crate) later: Option<SocketAddr>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) retries: u64,
    pub(crate) negotiations: u64,
    /// Packets with 0-RTT keys.
    pub(crate) early: u64,
    pub(crate) versions: BTreeSet<u32>,
    /// Of what version a client's first packet was, and of what other one its server's.
    pub(crate) changes: BTreeSet<(u32, u32)>,
    /// Addresses of clients.
    pub(crate) flows: usize,
    pub(crate) rebinds: u64,
    pub(crate) datagrams: u64,
}

impl Seen {
    /// Walks through the packets of a datagram, as far as headers tell.
    fn look(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        let mut rest = datagram;
        while let Some(len) = self.look_at_packet(rest) {
            rest = rest.get(len..).unwrap_or_default();
        }
    }

    /// The length of a packet that another may follow.
    fn look_at_packet(&mut self, packet: &[u8]) -> Option<usize> {
        let (first, version) = (*packet.first()?, version(packet)?);
        if version == 0 {
            self.negotiations += 1;
            return None;
        }
        self.versions.insert(version);
        // Version 2 counts kinds from Retry on [RFC 9369 §3.2].
        let kind = match (version, first >> 4 & 3) {
            (V2, kind) => (kind + 3) & 3,
            (_, kind) => kind,
        };
        let mut at = 5;
        for _ in 0..2 {
            at += 1 + usize::from(*packet.get(at)?);
        }
        match kind {
            3 => {
                self.retries += 1;
                return None;
            }
            0 => {
                let token = integer(packet, &mut at)?;
                at += usize::try_from(token).ok()?;
            }
            1 => self.early += 1,
            _ => {}
        }
        let len = integer(packet, &mut at)?;
        at.checked_add(usize::try_from(len).ok()?)
    }
}

/// What a long header names [RFC 8999 §5.1].
fn version(packet: &[u8]) -> Option<u32> {
    packet.first().filter(|first| **first & 0x80 > 0)?;
    Some(u32::from_be_bytes(packet.get(1..5)?.try_into().ok()?))
}

/// A variable-length integer [RFC 9000 §16].
fn integer(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    let len = 1 << (first >> 6);
    let all = bytes.get(*at..*at + len)?;
    *at += len;
    let rest =
        all[1..].iter().fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte));
    Some(rest)
}

/// Random numbers of no great quality, the same in each run.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn happens(&mut self, share: f64) -> bool {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64 <= share && share > 0.0
    }
}

/// Shared by the directions.
#[derive(Debug)]
struct State {
    seen: Seen,
    /// The version of each client's first packet.
    began: BTreeMap<SocketAddr, u32>,
    dice: Dice,
    shut_until: Option<Instant>,
}

/// A datagram that is due at a time, and how it leaves.
type Due = (Instant, Vec<u8>, Arc<UdpSocket>, SocketAddr);

/// A relay at work; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) at: SocketAddr,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

/// One direction of all flows.
#[derive(Clone, Debug)]
struct Way {
    conditions: Conditions,
    state: Arc<Mutex<State>>,
    queue: mpsc::Sender<Due>,
}

impl Way {
    fn carry(&self, mut datagram: Vec<u8>, socket: &Arc<UdpSocket>, to: SocketAddr) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.look(&datagram);
        // Back to a client.
        if let (Some(first), Some(other)) = (state.began.get(&to).copied(), version(&datagram))
            && other != first
            && other != 0
        {
            state.seen.changes.insert((first, other));
        }
        let is_shut = state.shut_until.is_some_and(|until| now < until);
        if is_shut || state.dice.happens(self.conditions.loss) {
            return;
        }
        if state.dice.happens(self.conditions.damage) && !datagram.is_empty() {
            let bit = state.dice.draw() as usize % (datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        // What does not fit is lost, as in any router.
        let _ = self.queue.try_send((now + self.conditions.delay, datagram, socket.clone(), to));
    }
}

async fn deliver(mut queue: mpsc::Receiver<Due>) {
    while let Some((at, datagram, socket, to)) = queue.recv().await {
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let _ = socket.send_to(&datagram, to).await;
    }
}

/// A client's way out.
struct Flow {
    socket: Arc<UdpSocket>,
    server: SocketAddr,
    reader: tokio::task::AbortHandle,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr, conditions: Conditions) -> Result<Relay> {
        let inside = Arc::new(UdpSocket::bind(host(1)).await?);
        let at = inside.local_addr()?;
        let dice = Dice(0x9e37_79b9_7f4a_7c15);
        let state = State { seen: Seen::default(), began: BTreeMap::new(), dice, shut_until: None };
        let state = Arc::new(Mutex::new(state));
        let mut tasks = JoinSet::new();
        let mut way = || {
            let (queue, receiver) = mpsc::channel(QUEUE);
            tasks.spawn(deliver(receiver));
            Way { conditions: conditions.clone(), state: state.clone(), queue }
        };
        let (out, back) = (way(), way());
        let own = state.clone();
        tasks.spawn(async move {
            if let Err(error) = relay(server, inside, own, &out, &back).await {
                eprintln!("relay: {error:#}");
            }
        });
        Ok(Relay { at, state, _tasks: tasks })
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }
}

fn host(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0)
}

async fn relay(
    server: SocketAddr,
    inside: Arc<UdpSocket>,
    state: Arc<Mutex<State>>,
    out: &Way,
    back: &Way,
) -> Result<()> {
    let conditions = &out.conditions;
    // Its end is that of who reads the way back.
    let mut readers = JoinSet::new();
    let mut flows: BTreeMap<SocketAddr, Flow> = BTreeMap::new();
    let (mut buffer, mut count) = (vec![0; MAX_DATAGRAM], 0);
    loop {
        let (n, client) = inside.recv_from(&mut buffer).await?;
        count += 1;
        let moved = conditions.rebinds.iter().find(|(after, _)| *after == count);
        if moved.is_some() || !flows.contains_key(&client) {
            let server = match (flows.get(&client), conditions.later) {
                (Some(flow), _) => flow.server,
                (None, Some(later)) if !flows.is_empty() => later,
                _ => server,
            };
            let socket = Arc::new(UdpSocket::bind(host(moved.map_or(1, |(_, host)| *host))).await?);
            let reader =
                readers.spawn(read_back(socket.clone(), inside.clone(), client, back.clone()));
            if let Some(old) = flows.insert(client, Flow { socket, server, reader }) {
                old.reader.abort();
            }
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(version) = version(&buffer[..n]) {
                state.began.entry(client).or_insert(version);
            }
            state.seen.flows = flows.len();
            state.seen.rebinds += u64::from(moved.is_some());
        }
        if let Some((after, length)) = conditions.hole
            && after == count
        {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.shut_until = Some(Instant::now() + length);
        }
        if let Some(Flow { socket, server, .. }) = flows.get(&client) {
            out.carry(buffer[..n].to_vec(), socket, *server);
        }
    }
}

async fn read_back(outside: Arc<UdpSocket>, inside: Arc<UdpSocket>, client: SocketAddr, back: Way) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        // An error is about an earlier datagram: the server may not be there yet, or any more.
        if let Ok((n, _)) = outside.recv_from(&mut buffer).await {
            back.carry(buffer[..n].to_vec(), &inside, client);
        }
    }
}
