//! A host of a simulation: the real TCP stack, the applications on it, and open-loop traffic.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tack_link::{HostId, Packet, PacketKind};
use tack_tcp::wire::ipv4;
use tack_tcp::wire::{Codepoints, Segment};
use tack_tcp::{
    ConnConfig, ConnId, Encapsulation, Event, EventKind, Host, HostConfig, HostCounters, Incoming,
    Info, ListenConfig,
};
use tack_units::{Instant, Timers, earliest};

use crate::app::{App, Client, Pattern};
use crate::endpoint::{Endpoint, Outgoing, Spare};
use crate::flow::FlowId;
use crate::guest::{Guest, GuestEnd, udp};
use crate::guests::Guests;
use crate::open_loop::{AckRule, Blast, OpenLoop, Received};
use crate::record::SampledEnd;
use crate::report::SideReport;
use crate::side::{Role, Side};
use crate::stall::EndCounts;
use crate::video::{Arrival, Cast};

/// The port that flow 0 listens on; flow `n` has the `n`-th after it.
const FIRST_PORT: u16 = 1_024;
/// Most flows in one simulation: each has a port of its own below the ephemeral ones.
pub const MAX_FLOWS: u32 = 48_000;
/// Most bytes asked of the stack at once: a burst of full segments.
const BURST_BYTES: usize = 65_535;

/// A simulated host. Its address is `10.0.0.1` plus its number.
#[derive(Debug)]
pub struct Node {
    tcp: Host,
    codepoints: Codepoints,
    pattern: Arc<Pattern>,
    sides: Vec<Side>,
    by_flow: BTreeMap<FlowId, usize>,
    by_conn: BTreeMap<ConnId, usize>,
    /// When the application of each side wants to be woken.
    timers: Timers<usize>,
    open_loop: OpenLoop,
    /// Ends of flows that foreign stacks carry.
    guests: Guests,
    /// Segments of the last burst that were not sent on yet.
    outbox: VecDeque<Outgoing>,
    burst: Vec<u8>,
    /// Packets whose bytes are not what they should be; the stack counts them too.
    damaged: u64,
}

impl Node {
    /// A host without traffic. `secret` keys the stack's hidden numbers.
    pub(crate) fn new(
        id: HostId,
        codepoints: Codepoints,
        pattern: Arc<Pattern>,
        unchecked: bool,
        secret: [u8; 32],
        now: Instant,
    ) -> Self {
        let config = HostConfig::default().with(|it| {
            it.encapsulation = Encapsulation::Ip { local: vec![IpAddr::V4(address(id))] };
            it.codepoints = codepoints;
            it.ip.unchecked = unchecked;
        });
        Node {
            tcp: Host::new(config, secret, now),
            codepoints,
            pattern,
            sides: Vec::new(),
            by_flow: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            timers: Timers::default(),
            open_loop: OpenLoop::new(),
            guests: Guests::default(),
            outbox: VecDeque::new(),
            burst: Vec::new(),
            damaged: 0,
        }
    }

    /// The stack, to look at.
    pub fn tcp(&self) -> &Host {
        &self.tcp
    }

    /// The stack's counters of what belongs to no connection.
    pub fn tcp_counters(&self) -> HostCounters {
        self.tcp.counters()
    }

    /// What this end of a flow did; `None` if the flow does not end here.
    pub fn flow(&self, flow: FlowId) -> Option<SideReport<'_>> {
        if let Some(guest) = self.guests.get(flow) {
            return Some(SideReport { guest: guest.info(), ..guest.side.report(None) });
        }
        let side = &self.sides[*self.by_flow.get(&flow)?];
        Some(side.report(side.conn().and_then(|conn| self.tcp.info(conn))))
    }

    /// What a sample takes of a flow that ends here: some thousand times a run, so no more than that.
    pub(crate) fn sampled(&self, flow: FlowId) -> Option<SampledEnd> {
        if let Some(guest) = self.guests.get(flow) {
            let received = guest.side.counts().received;
            return Some(SampledEnd { received, ours: None, guest: guest.info() });
        }
        let side = &self.sides[*self.by_flow.get(&flow)?];
        let ours = side.conn().and_then(|conn| self.tcp.glance(conn));
        Some(SampledEnd { received: side.counts().received, ours, guest: None })
    }

    /// What tells whether a flow that ends here moves.
    pub(crate) fn flow_counts(&self, flow: FlowId) -> Option<EndCounts> {
        if let Some(guest) = self.guests.get(flow) {
            return Some(guest.side.counts());
        }
        Some(self.sides[*self.by_flow.get(&flow)?].counts())
    }

    /// What the stack says of a flow; `None` before there is a connection.
    pub(crate) fn flow_info(&self, flow: FlowId) -> Option<Info> {
        self.tcp.info(self.sides[*self.by_flow.get(&flow)?].conn()?)
    }

    /// A flow of this host, with the stack that carries it; `hosts` are this one and the far one.
    pub(crate) fn add_guest(
        &mut self,
        flow: FlowId,
        role: Role,
        stack: Box<dyn Guest>,
        hosts: [HostId; 2],
    ) {
        let [local, peer] = hosts;
        let pattern = Arc::clone(&self.pattern);
        let peer = (peer, address(peer));
        let end = GuestEnd::new((flow, port(flow)), role, pattern, stack, address(local), peer);
        self.guests.add(flow, end);
    }

    /// Gives a UDP packet to the guest that it is for; false: it is for none.
    fn handle_guest(&mut self, packet: &Packet, now: Instant) -> bool {
        if self.guests.is_empty() {
            return false;
        }
        let Some((port, payload)) = udp(&packet.bytes) else { return false };
        let flow = port.checked_sub(FIRST_PORT).map(|n| FlowId(u32::from(n)));
        flow.is_some_and(|flow| self.guests.handle(flow, packet, payload, now))
    }

    /// Data packets of open-loop traffic for `dst` that left.
    pub fn open_loop_to(&self, dst: HostId) -> u64 {
        self.open_loop.sent_to(dst)
    }

    /// What arrived of `src`'s open-loop traffic.
    pub fn open_loop_from(&self, src: HostId) -> Received {
        self.open_loop.received_from(src)
    }

    /// Packets that arrived and could not be told to belong to a flow: damaged on the way.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    pub(crate) fn add_blast(&mut self, blast: Blast) {
        self.open_loop.add(blast);
    }

    pub(crate) fn add_cast(&mut self, cast: Cast) {
        self.open_loop.add_cast(cast);
    }

    /// `src` will send this here.
    pub(crate) fn expect_cast(&mut self, src: HostId, cast: Cast) {
        self.open_loop.expect_cast(src, cast);
    }

    /// Frames of a video that `src` sends as datagrams, in order.
    pub fn frames_from(&self, src: HostId) -> &[Arrival] {
        self.open_loop.frames_from(src)
    }

    pub(crate) fn set_ack_rule(&mut self, rule: AckRule, ack_ip_bytes: u32) {
        self.open_loop.acknowledge(rule, ack_ip_bytes);
    }

    pub(crate) fn connect_at(
        &mut self,
        flow: FlowId,
        to: HostId,
        client: Client,
        config: ConnConfig,
    ) {
        let remote = SocketAddr::new(IpAddr::V4(address(to)), port(flow));
        self.add_side(flow, Role::Client { client, config: Some((remote, Box::new(config))) });
    }

    pub(crate) fn listen(&mut self, flow: FlowId, app: App, conn: ConnConfig) {
        let config = ListenConfig::default().with(|it| {
            it.conn = conn;
            it.backlog = 1;
            it.syn_backlog = 1;
        });
        self.tcp.listen(port(flow), config).expect("each flow has a port of its own");
        self.add_side(flow, Role::Server { app });
    }

    fn add_side(&mut self, flow: FlowId, role: Role) {
        let index = self.sides.len();
        let side = Side::new(flow, role, Arc::clone(&self.pattern));
        self.sides.push(side);
        self.by_flow.insert(flow, index);
        self.arm(index);
    }

    /// Runs the application of one side and keeps its timer.
    fn run_side(&mut self, index: usize, now: Instant) {
        if let Some(conn) = self.sides[index].run(&mut self.tcp, now) {
            self.by_conn.insert(conn, index);
        }
        self.arm(index);
    }

    /// Sets the timer that the application of a side wants now.
    fn arm(&mut self, index: usize) {
        self.timers.set(index, self.sides[index].timer());
    }

    fn run_events(&mut self, now: Instant) {
        while let Some(Event { conn, kind }) = self.tcp.poll_event() {
            if let EventKind::Accepted { listener } = kind {
                self.accept(listener, now);
            } else if let Some(index) = self.by_conn.get(&conn).copied() {
                self.sides[index].on_event(kind);
                self.run_side(index, now);
            }
        }
    }

    fn accept(&mut self, listener: u16, now: Instant) {
        while let Some(conn) = self.tcp.accept(listener) {
            let flow = FlowId(u32::from(listener - FIRST_PORT));
            let index = self.by_flow[&flow];
            self.by_conn.insert(conn, index);
            self.sides[index].accepted(conn);
            self.run_side(index, now);
        }
    }

    fn account(&mut self, packet: &Packet, now: Instant) {
        match flow_of(&packet.bytes).and_then(|flow| self.by_flow.get(&flow)) {
            Some(&index) => self.sides[index].account(packet, now),
            None => self.damaged += 1,
        }
    }

    /// Cuts the stack's next burst into packets.
    fn fill_outbox(&mut self, spare: &mut Spare, now: Instant) {
        self.burst.clear();
        let Some(transmit) = self.tcp.poll_transmit(&mut self.burst, BURST_BYTES, now) else {
            return;
        };
        let dst = match transmit.to.ip() {
            IpAddr::V4(to) => host_of(to),
            IpAddr::V6(_) => None,
        };
        // A burst is of one connection.
        let flow = flow_of(&self.burst).and_then(|flow| self.by_flow.get(&flow)).copied();
        for (n, bytes) in self.burst.chunks(transmit.segment_size).enumerate() {
            let ip_bytes = bytes.len() as u32;
            // The body of a TACK goes alone: what follows a first segment is text, or a bare FIN.
            let kind = match n {
                0 => kind_of(bytes, self.codepoints),
                _ if has_payload(bytes) => PacketKind::Data,
                _ => PacketKind::Ack,
            };
            if let Some(index) = flow {
                self.sides[index].account_departure(kind, ip_bytes);
            }
            let mut packet = spare.take();
            packet.extend_from_slice(bytes);
            self.outbox.push_back(Outgoing {
                // The stack answers only addresses it was told or heard from; a damaged packet
                // that slipped through the checksum may carry one outside this world.
                dst: dst.unwrap_or(HostId::MAX),
                ip_bytes,
                kind,
                bytes: packet,
                ecn: transmit.ecn.bits(),
            });
        }
        if let Some(index) = flow {
            self.sides[index].refill(&mut self.tcp, now);
            self.arm(index);
        }
    }
}

impl Endpoint for Node {
    fn handle(&mut self, packet: &Packet, now: Instant) {
        if packet.bytes.is_empty() {
            self.open_loop.handle(packet, now);
            return;
        }
        if self.handle_guest(packet, now) {
            return;
        }
        self.account(packet, now);
        self.tcp.handle_packet(Incoming::new(&packet.bytes), now);
        self.run_events(now);
    }

    fn poll_transmit(&mut self, spare: &mut Spare, now: Instant) -> Option<Outgoing> {
        if self.outbox.is_empty() {
            self.fill_outbox(spare, now);
            // Sending frees nothing an application waits for, but a failed retry ends it.
            self.run_events(now);
        }
        self.outbox
            .pop_front()
            .or_else(|| self.guests.poll_transmit(spare, now))
            .or_else(|| self.open_loop.poll_transmit(now))
    }

    fn deadline(&self) -> Option<Instant> {
        let ours = earliest(self.tcp.deadline(), self.timers.earliest());
        earliest(ours, earliest(self.open_loop.deadline(), self.guests.deadline()))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.tcp.deadline().is_some_and(|at| at <= now) {
            self.tcp.handle_timeout(now);
        }
        while let Some(index) = self.timers.pop_due(now) {
            self.run_side(index, now);
        }
        self.guests.handle_timeout(now);
        self.run_events(now);
    }
}

/// Which flow a packet belongs to, by the listening end's port.
fn flow_of(packet: &[u8]) -> Option<FlowId> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let ports = packet.get(header..header + 4)?;
    let source = u16::from_be_bytes([ports[0], ports[1]]);
    let destination = u16::from_be_bytes([ports[2], ports[3]]);
    // The connecting end's port is ephemeral, hence the greater one.
    source.min(destination).checked_sub(FIRST_PORT).map(|n| FlowId(u32::from(n)))
}

/// Whether a packet of ours carries stream data. A TACK's body is no stream data.
fn kind_of(bytes: &[u8], codepoints: Codepoints) -> PacketKind {
    if !has_payload(bytes) {
        return PacketKind::Ack;
    }
    let segment = bytes.get(ipv4::HEADER_LEN..).map(|tcp| Segment::parse(tcp, codepoints));
    match segment {
        Some(Ok(s)) if !s.payload.is_empty() && s.header.options.ack_type.is_none() => {
            PacketKind::Data
        }
        _ => PacketKind::Ack,
    }
}

/// Whether there is anything behind the TCP header of a packet of ours.
fn has_payload(bytes: &[u8]) -> bool {
    let tcp = bytes.get(ipv4::HEADER_LEN..).unwrap_or_default();
    tcp.get(12).is_some_and(|offset| usize::from(offset >> 4) * 4 < tcp.len())
}

fn port(flow: FlowId) -> u16 {
    assert!(flow.0 < MAX_FLOWS, "at most {MAX_FLOWS} flows");
    FIRST_PORT + flow.0 as u16
}

/// The address of a host.
pub fn address(host: HostId) -> Ipv4Addr {
    assert!(host < (1 << 24) - 2, "10.0.0.0/8 has room for no more hosts");
    Ipv4Addr::from(0x0a00_0001 + host)
}

fn host_of(address: Ipv4Addr) -> Option<HostId> {
    u32::from(address).checked_sub(0x0a00_0001).filter(|host| *host < (1 << 24) - 2)
}
