//! One endpoint without a clock, one way to the network, one lock: what the driver and every handle of an endpoint share.
//!
//! Whoever holds the lock drives: applies an operation to the [`Machine`], then [`State::settle`]s, which
//! sends what became sendable, wakes whom it concerns and arms the timer. Nothing is left for
//! later except what exceeds a bound, and then the driver is woken.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use tack_device::{Clock, RecvBatch, SendOutcome, UdpSocket, is_ours};
use tack_tcp::Host;
use tack_transport::{Ecn, Figures, Transmit};
use tack_units::Instant;
use tokio::io::unix::AsyncFd;

use crate::alarm::Alarm;
use crate::arrivals::{Arrivals, Gather};
use crate::link::{Inbox, Link};
use crate::passed::{IoCounters, Received};
use crate::tap::{Direction, Gauged, Reading, Seen, Tapped};
#[cfg(all(target_os = "linux", feature = "tun"))]
use crate::tun::TunLink;
use crate::waiters::Waiters;
use crate::watch::watch_link;

/// Bytes handed to the kernel at a time: what UDP segmentation offload takes.
const BURST_BYTES: usize = 65_000;
/// Bytes sent before others get a turn.
const SEND_TURN_BYTES: usize = 1 << 20;
/// Peers of a wildcard socket whose local address is remembered.
const MAX_LOCAL_ADDRESSES: usize = 4_096;

/// What is driven: an endpoint without a clock, and what tasks wait for of it.
pub(crate) trait Machine: tack_transport::Endpoint + fmt::Debug + Send + 'static {
    /// What a task may wait for; all of one connection is a range.
    type Key: Ord + Copy + fmt::Debug + Send + 'static;
    /// Its connections go on from another address of ours.
    const MOVES: bool;

    /// Wakes whom `event` concerns.
    fn wake(&mut self, event: &Self::Event, waiters: &mut Waiters<Self::Key>);

    /// Tells what a datagram carries, where its bytes alone show it.
    fn read(direction: Direction, datagram: &[u8], tell: &mut dyn FnMut(&Seen<'_>)) {
        let _ = (direction, datagram, tell);
    }

    /// Tells what a datagram from `from` that it has handled taught it, where it notes nothing itself.
    fn learned(&mut self, from: SocketAddr, datagram: &[u8], tell: &mut dyn FnMut(&Seen<'_>)) {
        let _ = (from, datagram, tell);
    }

    /// Tells what it noted itself since it was last asked, where they do not.
    fn note(&mut self, tapped: &Tapped) {
        let _ = tapped;
    }

    /// Ends all connections at once, as far as peers can be told.
    fn end_all(&mut self, now: Instant);

    /// Connections that are not over, and what they say.
    fn figures(&self) -> Vec<(SocketAddr, Figures)>;
}

impl<M: Machine> Gauged for Weak<Shared<M>> {
    fn read(&self) -> Option<Reading> {
        let shared = self.upgrade()?;
        let state = shared.lock();
        Some(Reading { io: state.io, connections: state.host.figures() })
    }
}

/// The way to the network, and what tells of arrivals on it.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) link: AsyncFd<Link>,
    pub(crate) arrivals: Arrivals,
}

impl Way {
    fn new(link: Link) -> io::Result<Way> {
        let arrivals = Arrivals::of(&link)?;
        Ok(Way { link: watch_link(link)?, arrivals })
    }

    pub(crate) fn link(&self) -> &Link {
        self.link.get_ref()
    }
}

/// What an endpoint's handles share.
#[derive(Debug)]
pub(crate) struct Shared<M: Machine = Host> {
    pub(crate) alarm: Alarm,
    pub(crate) clock: Clock,
    /// See [`Builder::answer_each_datagram`](crate::Builder::answer_each_datagram).
    answer_each_datagram: bool,
    state: Mutex<State<M>>,
}

impl<M: Machine> Shared<M> {
    pub(crate) fn new(
        link: Link,
        host: M,
        clock: Clock,
        answer_each_datagram: bool,
        tapped: Option<Tapped>,
    ) -> io::Result<Shared<M>> {
        let wildcard = link.is_wildcard();
        let inbox = Some(Inbox::of(&link));
        let state = State {
            host,
            way: Arc::new(Way::new(link)?),
            waiters: Waiters::new(),
            driver: None,
            handles: 0,
            closed: false,
            io: IoCounters::default(),
            inbox,
            gather: Gather::default(),
            messages_looked_at: 0,
            turns_unread: 0,
            burst: Vec::with_capacity(BURST_BYTES),
            unsent: None,
            local: wildcard.then(BTreeMap::new),
            tapped,
        };
        Ok(Shared {
            alarm: Alarm::new(clock)?,
            clock,
            answer_each_datagram,
            state: Mutex::new(state),
        })
    }

    /// The state. A panic elsewhere under the lock is a bug there; the host's own assertions have
    /// already reported it, and the other connections go on.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A burst the kernel did not take yet.
#[derive(Debug)]
struct Unsent {
    transmit: Transmit,
    offset: usize,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State<M: Machine = Host> {
    pub(crate) host: M,
    /// Whoever holds the lock no longer keeps a clone: it may be exchanged.
    pub(crate) way: Arc<Way>,
    pub(crate) waiters: Waiters<M::Key>,
    /// Wakes the driver task.
    pub(crate) driver: Option<Waker>,
    /// Endpoints, listeners and streams that the application holds.
    pub(crate) handles: usize,
    /// The endpoint was closed: nothing new starts.
    pub(crate) closed: bool,
    pub(crate) io: IoCounters,
    /// Taken out while it is read.
    inbox: Option<Inbox>,
    pub(crate) gather: Gather,
    messages_looked_at: u64,
    /// Turns in a row that ended before all that had arrived was read.
    pub(crate) turns_unread: u32,
    burst: Vec<u8>,
    unsent: Option<Unsent>,
    /// Of a socket bound to the wildcard address: which of our addresses a peer talks to, so that
    /// answers come from it.
    local: Option<BTreeMap<SocketAddr, IpAddr>>,
    /// Who is told of every datagram.
    tapped: Option<Tapped>,
}

impl<M: Machine> State<M> {
    /// Receives one batch and hands it to the host.
    pub(crate) fn receive(&mut self, shared: &Shared<M>) -> Received {
        let way = self.way.clone();
        let mut inbox = self.inbox.take().unwrap_or_else(|| Inbox::of(way.link()));
        let received = match (way.link(), &mut inbox) {
            (Link::Udp(socket), Inbox::Datagrams(batch)) => {
                self.receive_datagrams(socket, batch, shared)
            }
            #[cfg(all(target_os = "linux", feature = "tun"))]
            (Link::Tun(tun), Inbox::Packet(packet)) => self.receive_packets(tun, packet, shared),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            _ => unreachable!("an inbox is of its link"),
        };
        self.inbox = Some(inbox);
        received
    }

    #[cfg(all(target_os = "linux", feature = "tun"))]
    fn receive_packets(
        &mut self,
        tun: &TunLink,
        packet: &mut [u8],
        shared: &Shared<M>,
    ) -> Received {
        let now = shared.clock.now();
        let mut io = core::mem::take(&mut self.io);
        let received = tun.receive(packet, &mut io, |incoming| {
            self.host.handle_packet(incoming, now);
            if shared.answer_each_datagram {
                self.transmit(shared, now);
            }
        });
        self.io.add(&io);
        received
    }

    fn receive_datagrams(
        &mut self,
        socket: &UdpSocket,
        batch: &mut RecvBatch,
        shared: &Shared<M>,
    ) -> Received {
        let more = match socket.recv(batch) {
            Ok(more) => more,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Received::Drained,
            Err(e) => {
                // An error the network reported about an earlier datagram. It says nothing that
                // a timeout would not, and anybody can forge it [RFC 5927].
                tracing::debug!(error = %e, "receive");
                self.io.receive_errors += 1;
                return Received::More;
            }
        };
        let now = shared.clock.now();
        for message in batch.messages_mut() {
            self.io.messages_received += 1;
            self.io.datagrams_received += message.datagrams() as u64;
            if let (Some(local), Some(to)) = (&mut self.local, message.to) {
                remember(local, message.from, to);
            }
            let (from, ecn) = (message.from, message.ecn.map_or(Ecn::NotEct, from_device));
            if let Some(tapped) = &self.tapped {
                let way = (Direction::Received, from);
                tapped.tell(way, message.bytes, message.stride, now, M::read);
            }
            if !shared.answer_each_datagram {
                self.host.handle(from, message.bytes, message.stride, ecn, now);
                self.learned(from, message.bytes.chunks(message.stride.max(1)).next_back(), now);
                continue;
            }
            for datagram in message.bytes.chunks_mut(message.stride) {
                self.host.handle(from, datagram, datagram.len().max(1), ecn, now);
                self.learned(from, Some(datagram), now);
                // What does not leave now is left to the driver, which advances after this.
                self.transmit(shared, now);
            }
        }
        if more { Received::More } else { Received::Drained }
    }

    /// All that had arrived was read: tells whether the next arrival wakes the driver, or a timer does
    /// once some have gathered.
    pub(crate) fn drained(&mut self, shared: &Shared<M>) {
        let messages = self.io.messages_received - self.messages_looked_at;
        self.messages_looked_at = self.io.messages_received;
        let leeway = self.host.leeway();
        if shared.answer_each_datagram {
            return;
        }
        let was_awake = self.gather.until().is_none();
        self.gather.on_drained(messages, leeway, shared.clock.now());
        let awake = self.gather.until().is_none();
        if awake != was_awake && !self.way.arrivals.set_awake(self.way.link(), awake) {
            self.gather = Gather::default();
        }
    }

    /// After any change by an application's task: does what follows from it.
    pub(crate) fn settle(&mut self, shared: &Shared<M>) {
        if self.advance(shared) {
            self.wake_driver();
        }
    }

    /// Something of the machine's is due.
    pub(crate) fn is_due(&self, shared: &Shared<M>) -> bool {
        self.host.deadline().is_some_and(|at| at <= shared.clock.now())
    }

    /// Runs due timers: for the driver only, once it has read what arrived. What a timer waits for in vain
    /// may lie unread where this host is late, and it would declare lost what did arrive.
    pub(crate) fn run_timers(&mut self, shared: &Shared<M>) {
        if self.is_due(shared) {
            self.host.handle_timeout(shared.clock.now());
            self.note();
        }
    }

    /// Sends, tells whom it concerns, sets the alarm. Returns whether there is more to send.
    pub(crate) fn advance(&mut self, shared: &Shared<M>) -> bool {
        let now = shared.clock.now();
        let more = self.transmit(shared, now);
        while let Some(event) = self.host.poll_event() {
            self.host.wake(&event, &mut self.waiters);
        }
        let looks = [self.host.deadline(), self.gather.until()];
        shared.alarm.set(looks.into_iter().flatten().min(), self.driver.as_ref());
        more
    }

    /// What the machine learned from the `last` datagram that it has handled is told to whoever looks on.
    fn learned(&mut self, from: SocketAddr, last: Option<&[u8]>, now: Instant) {
        if let (Some(tapped), Some(last)) = (&self.tapped, last) {
            tapped.learned(from, now, |tell| self.host.learned(from, last, tell));
        }
        self.note();
    }

    /// What the machine noted is told to whoever looks on.
    fn note(&mut self) {
        if let Some(tapped) = &self.tapped {
            self.host.note(tapped);
        }
    }

    /// Sends what may leave. Returns whether it stopped before there was nothing more to send.
    fn transmit(&mut self, shared: &Shared<M>, mut now: Instant) -> bool {
        let way = self.way.clone();
        let link = way.link();
        if !self.send_unsent(link) {
            return true;
        }
        let mut sent_bytes = 0;
        while sent_bytes < SEND_TURN_BYTES {
            self.burst.clear();
            let Some(transmit) = self.host.poll_transmit(&mut self.burst, BURST_BYTES, now) else {
                return false;
            };
            sent_bytes += transmit.bytes;
            self.unsent = Some(Unsent { transmit, offset: 0 });
            if let Some(tapped) = &self.tapped {
                let bytes = &self.burst[..transmit.bytes];
                let way = (Direction::Sent, transmit.to);
                tapped.tell(way, bytes, transmit.segment_size, now, M::read);
            }
            self.note();
            if !self.send_unsent(link) {
                return true;
            }
            now = shared.clock.now();
        }
        true
    }

    /// Gives the kernel what waits. Returns whether nothing waits any more.
    fn send_unsent(&mut self, link: &Link) -> bool {
        let Some(Unsent { transmit, offset }) = self.unsent.take() else { return true };
        let bytes = &self.burst[offset..];
        let outcome = match link {
            Link::Udp(socket) => {
                let local = self.local.as_ref().and_then(|l| l.get(&transmit.to).copied());
                socket.send(&tack_device::Transmit {
                    to: transmit.to,
                    from: transmit.from.or(local),
                    ecn: to_device(transmit.ecn),
                    bytes,
                    segment_bytes: transmit.segment_size,
                })
            }
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(tun) => tun.send(&transmit, bytes),
        };
        match outcome {
            SendOutcome::Blocked { offset: sent } => {
                self.io.sends_blocked += 1;
                self.unsent = Some(Unsent { transmit, offset: offset + sent });
                return false;
            }
            SendOutcome::Sent => {
                self.io.bursts_sent += 1;
                self.io.datagrams_sent += transmit.segments as u64;
            }
            SendOutcome::Lost | SendOutcome::TooBig => {
                self.io.datagrams_refused += transmit.segments as u64;
                tracing::debug!(to = %transmit.to, ?outcome, "not sent");
                if M::MOVES && outcome == SendOutcome::Lost {
                    self.forget_address_if_gone(transmit.to);
                }
            }
        }
        true
    }

    /// Where `peer` was answered from an address that is no longer ours, nothing would reach it from there: the
    /// kernel chooses again.
    pub(crate) fn forget_address_if_gone(&mut self, peer: SocketAddr) {
        if let Some(local) = &mut self.local
            && local.get(&peer).is_some_and(|ours| !is_ours(*ours))
        {
            local.remove(&peer);
        }
    }

    /// A burst waits for the socket to take more.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent.is_some()
    }

    /// Everything goes through another link of the same kind from now on; what waits in the old one is
    /// lost.
    #[cfg(feature = "quic")]
    pub(crate) fn exchange(&mut self, link: Link) -> io::Result<()> {
        let local = link.local_addr();
        let wildcard = link.is_wildcard();
        link.set_dscp(self.way.link().dscp());
        self.way = Arc::new(Way::new(link)?);
        self.gather = Gather::default();
        // What a peer was answered from may be no address of ours any more.
        self.local = wildcard.then(BTreeMap::new);
        if let Some(tapped) = &mut self.tapped {
            tapped.local = local;
        }
        // Its driver listens to the old one.
        self.wake_driver();
        Ok(())
    }

    /// Nobody drives any more.
    pub(crate) fn abandon(&mut self, shared: &Shared<M>) {
        self.driver = None;
        self.closed = true;
        self.host.end_all(shared.clock.now());
        self.settle(shared);
        self.waiters.wake_everyone();
    }

    /// Says once more what may be lost, if there is still somebody to send it.
    pub(crate) fn take_leave(&mut self, now: Instant) {
        if let Some(driver) = &self.driver {
            self.host.take_leave(now);
            driver.wake_by_ref();
        }
    }

    pub(crate) fn wake_driver(&self) {
        if let Some(waker) = &self.driver {
            waker.wake_by_ref();
        }
    }

    /// What [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) waits for.
    pub(crate) fn nothing_is_left(&self) -> bool {
        self.is_idle() || self.closed && self.is_delivered()
    }

    /// Whatever was written has arrived.
    pub(crate) fn is_delivered(&self) -> bool {
        self.unsent.is_none() && self.host.is_delivered()
    }

    /// Nothing the peers are owed is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none() && self.host.is_idle()
    }
}

fn remember(local: &mut BTreeMap<SocketAddr, IpAddr>, peer: SocketAddr, ours: IpAddr) {
    if local.get(&peer) == Some(&ours) {
        return;
    }
    if local.len() >= MAX_LOCAL_ADDRESSES {
        // Forgetting is harmless: the kernel chooses until the peer's next datagram.
        local.clear();
    }
    local.insert(peer, ours);
}

fn from_device(ecn: tack_device::Ecn) -> Ecn {
    match ecn {
        tack_device::Ecn::Ect0 => Ecn::Ect0,
        tack_device::Ecn::Ect1 => Ecn::Ect1,
        tack_device::Ecn::Ce => Ecn::Ce,
    }
}

fn to_device(ecn: Ecn) -> Option<tack_device::Ecn> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(tack_device::Ecn::Ect0),
        Ecn::Ect1 => Some(tack_device::Ecn::Ect1),
        Ecn::Ce => Some(tack_device::Ecn::Ce),
    }
}
