//! A listening host, cookies, and many peers who do as they like.
//!
//! Whatever comes: no panic, what is held is bounded, nobody who has not shown that it is there gets
//! more than three times what was sent in its name, and whoever is let in is heard as it spoke.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use tack_tcp::seq::SeqNum;
use tack_tcp::wire::{Codepoints, Flags, Header, Options, Segment, Timestamps};
use tack_tcp::{ConnConfig, ConnId, Ecn, Host, HostConfig, ListenConfig};
use tack_units::Instant;

use super::input::Input;

const PORT: u16 = 7;
/// UDP and IPv4 in front of a segment.
const OVERHEAD: usize = 28;
const BACKLOG: usize = 6;
const SYN_BACKLOG: usize = 4;
const MAX_OPERATIONS: usize = 400;

/// What one peer knows.
#[derive(Clone, Debug, Default)]
struct Peer {
    isn: u32,
    /// Our numbers, as the last SYN/ACK told them, and its timestamp.
    next: Option<(SeqNum, u32)>,
    /// Bytes of text sent in order.
    spoken: u32,
    /// What travelled before it showed that it is there, with headers.
    sent: usize,
    got: usize,
    shown: bool,
}

struct World {
    host: Host,
    now: Instant,
    peers: BTreeMap<u8, Peer>,
    accepted: Vec<(ConnId, u8, u32)>,
}

/// First byte: configuration; then operations of three bytes: which, who, how.
pub fn peers(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let mut world = World::new(input.byte());
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() {
            break;
        }
        let (what, who, how) = (input.byte(), input.byte(), input.byte());
        world.operate(what, who, how, &mut input);
        world.look();
    }
    let counters = world.host.counters();
    counters.cookies_sent + counters.cookies_accepted > 0 || !world.accepted.is_empty()
}

fn address(who: u8) -> SocketAddr {
    ([10, 1, who & 15, who], 1_000 + u16::from(who)).into()
}

/// Byte number `at` of what a peer says.
fn text(who: u8, at: u32) -> u8 {
    (at as u8).wrapping_mul(31) ^ who
}

impl World {
    fn new(choice: u8) -> World {
        let now = Instant::from_secs(100);
        let mut host = Host::new(HostConfig::default(), [7; 32], now);
        let listen = ListenConfig::default().with(|it| {
            it.conn = if choice & 1 == 0 { ConnConfig::default() } else { ConnConfig::plain() };
            it.backlog = BACKLOG;
            it.syn_backlog = if choice & 2 == 0 { SYN_BACKLOG } else { 0 };
            it.syn_cookies = choice & 4 == 0;
            it.any_port = choice & 8 != 0;
            it.unaccepted_bytes = 100_000;
        });
        host.listen(PORT, listen).expect("free");
        World { host, now, peers: BTreeMap::new(), accepted: Vec::new() }
    }

    fn operate(&mut self, what: u8, who: u8, how: u8, input: &mut Input<'_>) {
        match what & 15 {
            0..4 => self.syn(who, how),
            4..7 => self.answer(who, how),
            7 | 8 => self.speak(who, how),
            9 => self.pass(Duration::from_millis(u64::from(how) << (who & 7))),
            10 => {
                if let Some(conn) = self.host.accept(PORT) {
                    let peer = self.host.remote(conn).expect("known").path;
                    let who = (0..=255).find(|&who| address(who) == peer).expect("one of them");
                    self.accepted.push((conn, who, 0));
                }
            }
            11 => {
                if let Some(&(conn, ..)) = self.accepted.get(usize::from(who)) {
                    let _ended = self.host.write(conn, &[how; 300], self.now);
                }
            }
            12 if usize::from(who) < self.accepted.len() => {
                let (conn, ..) = self.accepted.swap_remove(usize::from(who));
                if how & 1 == 0 {
                    self.host.abort(conn, self.now);
                }
                self.host.close(conn, self.now);
            }
            13 => {
                // Anything at all.
                let len = usize::from(how);
                let bytes: Vec<u8> = (0..len).map(|_| input.byte()).collect();
                self.send(who, &bytes);
            }
            14 => self.other(who, how),
            _ => {}
        }
        self.drain();
    }

    fn header(&mut self, who: u8, flags: Flags) -> Header {
        let peer = self.peers.entry(who).or_default();
        let (ack, echo) = peer.next.unwrap_or((SeqNum(u32::from(who) << 20), 0));
        let val = (self.now.as_nanos() / 1_000_000) as u32;
        Header {
            src_port: 1_000 + u16::from(who),
            dst_port: PORT,
            seq: SeqNum(peer.isn).add(1).add(peer.spoken),
            ack,
            flags,
            window: 30_000,
            urgent: 0,
            options: Options {
                timestamps: Some(Timestamps { val, ecr: echo }),
                ..Options::default()
            },
        }
    }

    fn syn(&mut self, who: u8, how: u8) {
        let peer = self.peers.entry(who).or_default();
        let fresh = !peer.shown;
        if fresh {
            (peer.isn, peer.spoken) = (u32::from(how) << 24 | u32::from(who), 0);
        }
        let isn = SeqNum(peer.isn);
        let mut header = self.header(who, Flags::SYN);
        (header.seq, header.ack) = (isn, SeqNum(0));
        header.options.mss = (how & 1 == 0).then_some(1_400);
        header.options.window_scale = (how & 2 == 0).then_some(how & 15);
        header.options.sack_permitted = how & 4 == 0;
        header.options.tack_permitted = how & 8 == 0;
        if how & 16 != 0 {
            header.options = Options::default();
        }
        self.send_header(who, &header, &[]);
    }

    /// The third of the handshake, right or almost.
    fn answer(&mut self, who: u8, how: u8) {
        let mut header = self.header(who, Flags::ACK);
        match how & 7 {
            0 => header.ack = header.ack.add(1),
            1 => header.options.timestamps = None,
            _ => {}
        }
        self.send_header(who, &header, &[]);
    }

    fn speak(&mut self, who: u8, how: u8) {
        let header = self.header(who, Flags::ACK);
        let peer = self.peers.get_mut(&who).expect("just made");
        if !peer.shown {
            return;
        }
        // From where it is, so that what is not taken is said again.
        let bytes: Vec<u8> = (0..u32::from(how)).map(|i| text(who, peer.spoken + i)).collect();
        self.send_header(who, &header, &bytes);
    }

    /// Ends and resets, at its number or elsewhere.
    fn other(&mut self, who: u8, how: u8) {
        let flags = [Flags::FIN | Flags::ACK, Flags::RST, Flags::RST | Flags::ACK, Flags::SYN];
        let flags = flags[usize::from(how & 3)];
        let mut header = self.header(who, flags);
        // A SYN begins another stream, behind what it says of this one: else that would be heard as the other's.
        let behind = u32::from(flags.has(Flags::SYN));
        header.seq = header.seq.add((u32::from(how >> 4) + behind) * 1_000);
        self.send_header(who, &header, &[]);
    }

    fn send_header(&mut self, who: u8, header: &Header, text: &[u8]) {
        let peer = self.peers.entry(who).or_default();
        // Whoever names our number has heard it.
        let named = peer.next.is_some_and(|(next, _)| next == header.ack);
        peer.shown |= named && header.flags.has(Flags::ACK);
        let mut bytes = Vec::new();
        header.emit(Codepoints::Experimental, &mut bytes);
        bytes.extend_from_slice(text);
        self.send(who, &bytes);
    }

    fn send(&mut self, who: u8, bytes: &[u8]) {
        self.peers.entry(who).or_default().sent += bytes.len() + OVERHEAD;
        self.host.handle(address(who), bytes, bytes.len().max(1), Ecn::NotEct, self.now);
        self.drain();
    }

    fn pass(&mut self, long: Duration) {
        let until = self.now + long;
        while let Some(at) = self.host.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn drain(&mut self) {
        let mut buffer = Vec::new();
        while let Some(t) = self.host.poll_transmit(&mut buffer, 65_000, self.now) {
            let who = (0..=255).find(|&who| address(who) == t.to).expect("one of them");
            let peer = self.peers.entry(who).or_default();
            for datagram in buffer.chunks(t.segment_size) {
                peer.got += datagram.len() + OVERHEAD;
                let parsed = Segment::parse_datagram(datagram, Codepoints::Experimental);
                let header = parsed.expect("our own segment").header;
                if header.flags.has(Flags::SYN) && header.ack == SeqNum(peer.isn).add(1) {
                    let stamp = header.options.timestamps.map_or(0, |ts| ts.val);
                    peer.next = Some((header.seq.add(1), stamp));
                }
            }
            let forged = !peer.shown;
            assert!(!forged || peer.got <= 3 * peer.sent, "{who}: {peer:?}");
            buffer.clear();
        }
        while self.host.poll_event().is_some() {}
    }

    /// Hears whoever was let in.
    fn look(&mut self) {
        for (conn, who, heard) in &mut self.accepted {
            let mut out = [0; 512];
            while let Ok(Some(n)) = self.host.read(*conn, &mut out, self.now)
                && n > 0
            {
                for &byte in &out[..n] {
                    assert_eq!(byte, text(*who, *heard), "byte {heard} of {who}");
                    *heard += 1;
                }
                let peer = self.peers.get_mut(who).expect("it was let in");
                peer.spoken = peer.spoken.max(*heard);
            }
        }
        let most = BACKLOG + SYN_BACKLOG + self.accepted.len();
        let known = self.host.connections().count();
        assert!(known <= most, "{known} connections, {} accepted", self.accepted.len());
        self.drain();
    }
}
