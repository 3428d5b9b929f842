//! A peer that does the handshake as it should and then says what a test wants, and one of ours with it.

use std::net::SocketAddr;
use std::time::Duration;

use rustls::Side;
use rustls::quic::{
    ClientConnection, Connection as Tls, DirectionalKeys, KeyChange, Keys, PacketKeySet, Secrets,
    ServerConnection, Version as TlsVersion,
};
use tack_quic::protection::{SealKeys, initial_keys, open, seal};
use tack_quic::wire::{
    Ack, ConnectionId, Frame, Header, LongKind, PacketNumber, Parameters, Protected, Reader,
    Sender, Version,
};
use tack_quic::{Accept, Config, Connect, Connection, ConnectionError};
use tack_units::Instant;

use super::tls::{self, Sessions};

/// Packet number spaces, as indices.
pub(crate) const INITIAL: usize = 0;
pub(crate) const HANDSHAKE: usize = 1;
pub(crate) const DATA: usize = 2;
/// Not a space: packets of it with 0-RTT keys.
pub(crate) const EARLY: usize = 3;

fn space_of(space: usize) -> usize {
    space.min(DATA)
}

const CID_LEN: usize = 8;
/// Where the puppet is.
pub(crate) fn home() -> SocketAddr {
    ([192, 0, 2, 1], 443).into()
}

pub(crate) fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; CID_LEN]).expect("8 bytes")
}

/// What the puppet's transport parameters are unless a test wants others: without TACK.
pub(crate) fn usual() -> Parameters {
    Parameters {
        max_data: 1 << 20,
        max_stream_data_bidi_local: 1 << 20,
        max_stream_data_bidi_remote: 1 << 20,
        max_stream_data_uni: 1 << 20,
        max_streams_bidi: 10,
        max_streams_uni: 10,
        active_cid_limit: 4,
        ..Parameters::default()
    }
}

/// A frame of ours that the puppet read.
pub(crate) type Heard = (usize, Vec<u8>);

pub(crate) struct Puppet {
    side: Side,
    version: Version,
    tls: Tls,
    /// Ours, and its own.
    pub(crate) dcid: ConnectionId,
    pub(crate) scid: ConnectionId,
    keys: [Option<Keys>; 3],
    /// Of 0-RTT packets, whoever sends them.
    early: Option<DirectionalKeys>,
    secrets: Option<Secrets>,
    /// After an update: the keys in force, the headers' being the first ones.
    updated: Option<PacketKeySet>,
    key_phase: bool,
    next: [u64; 3],
    /// One past the largest number of ours.
    pub(crate) heard: [u64; 3],
    /// Numbers of ours in 1-RTT packets, in the order in which they came.
    pub(crate) numbers: Vec<u64>,
    said: [u64; 3],
    /// What TLS wants to say, and where.
    unsaid: Vec<(usize, Vec<u8>)>,
    /// Payloads of ours.
    pub(crate) payloads: Vec<Heard>,
}

impl Puppet {
    fn new(side: Side, tls: Tls, original: ConnectionId, dcid: ConnectionId) -> Puppet {
        let keys = [Some(initial_keys(Version::V1, &original, side)), None, None];
        let early = tls.zero_rtt_keys().filter(|_| side == Side::Client);
        Puppet {
            side,
            version: Version::V1,
            tls,
            early,
            dcid,
            scid: id(2),
            keys,
            secrets: None,
            updated: None,
            key_phase: false,
            next: [0; 3],
            heard: [0; 3],
            numbers: Vec::new(),
            said: [0; 3],
            unsaid: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// A packet with these frames; Initial ones of a client fill a datagram.
    pub(crate) fn packet(&mut self, space: usize, mut frames: Vec<u8>) -> Vec<u8> {
        if space == INITIAL && self.side == Side::Client {
            frames.resize(frames.len().max(1_200), 0);
        }
        self.packet_to(self.dcid, space, &frames, &[])
    }

    pub(crate) fn packet_to(
        &mut self,
        dcid: ConnectionId,
        space: usize,
        frames: &[u8],
        token: &[u8],
    ) -> Vec<u8> {
        let number = self.next[space_of(space)];
        self.next[space_of(space)] += 1;
        self.numbered(dcid, space, number, frames, token)
    }

    pub(crate) fn numbered(
        &self,
        dcid: ConnectionId,
        space: usize,
        number: u64,
        frames: &[u8],
        token: &[u8],
    ) -> Vec<u8> {
        let scid = self.scid;
        let long = |kind| Header::Long { version: self.version, kind, dcid, scid, token };
        let header = match space {
            INITIAL => long(LongKind::Initial),
            HANDSHAKE => long(LongKind::Handshake),
            EARLY => long(LongKind::ZeroRtt),
            _ => Header::Short { dcid, key_phase: self.key_phase },
        };
        let known = self.keys.get(space).and_then(Option::as_ref).map(|keys| &keys.local);
        let keys = known.or(self.early.as_ref()).expect("the handshake is that far");
        let packet = match &self.updated {
            Some(updated) if space == DATA => &*updated.local,
            _ => &*keys.packet,
        };
        let keys = SealKeys { header: &*keys.header, packet };
        let mut out = Vec::new();
        seal(keys, &header, number, PacketNumber::in_bytes(number, 4), frames, &mut out);
        out
    }

    /// What it says from now on is of another version, and so is what it hears.
    pub(crate) fn go_on_in(&mut self, version: Version, original: &ConnectionId) {
        self.keys[INITIAL] = Some(initial_keys(version, original, self.side));
        self.version = version;
    }

    /// What ours, which is the `sender`, said of itself.
    pub(crate) fn peer_parameters(&self, sender: Sender) -> Parameters {
        let bytes = self.tls.quic_transport_parameters().expect("the handshake is that far");
        Parameters::parse(bytes, sender).expect("ours says what can be")
    }

    /// The number of the next packet.
    pub(crate) fn next(&self, space: usize) -> u64 {
        self.next[space]
    }

    /// Of all 1-RTT packets that came.
    pub(crate) fn acknowledgment(&self) -> Frame<'static> {
        let ranges = self.numbers.iter().rev().map(|number| *number..*number + 1);
        let mut joined: Vec<core::ops::Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(above) if above.start == range.end => above.start = range.start,
                _ => joined.push(range),
            }
        }
        Frame::Ack(Ack { delay: 0, ranges: joined, ecn: None })
    }

    /// Bytes of the handshake that it said in a space.
    pub(crate) fn said(&self, space: usize) -> u64 {
        self.said[space]
    }

    /// Another generation of keys for what it says; it goes on reading with the first.
    pub(crate) fn update_keys(&mut self) {
        let secrets = self.secrets.as_mut().expect("the handshake is done");
        self.updated = Some(secrets.next_packet_keys());
        self.key_phase = !self.key_phase;
    }

    /// Takes what TLS wants to say, and its keys.
    fn drive_tls(&mut self) {
        loop {
            let space = self.keys.iter().rposition(Option::is_some).expect("Initial keys");
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            if !bytes.is_empty() {
                self.unsaid.push((space, bytes));
            }
            match change {
                Some(KeyChange::Handshake { keys }) => self.keys[HANDSHAKE] = Some(keys),
                Some(KeyChange::OneRtt { keys, next }) => {
                    (self.keys[DATA], self.secrets) = (Some(keys), Some(next));
                }
                None => return,
            }
        }
    }

    /// What a client's TLS says first; the test is to send it.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        self.drive_tls();
        self.unsaid.pop().expect("TLS begins").1
    }

    /// What TLS wants to say, in packets.
    pub(crate) fn speak(&mut self) -> Vec<Vec<u8>> {
        self.drive_tls();
        let mut packets = Vec::new();
        for (space, bytes) in core::mem::take(&mut self.unsaid) {
            for chunk in bytes.chunks(1_000) {
                let mut frames = Vec::new();
                Frame::Crypto { offset: self.said[space], data: chunk }.emit(&mut frames);
                self.said[space] += chunk.len() as u64;
                packets.push(self.packet(space, frames));
            }
        }
        packets
    }

    /// Reads a datagram of ours, of which nothing is lost.
    fn hear(&mut self, datagram: &mut [u8]) {
        let mut at = 0;
        while let Ok(Protected { header, number_at: Some(number_at), end }) =
            Protected::parse(&datagram[at..], self.scid.as_bytes().len())
        {
            let (space, scid) = match header {
                Header::Long { kind: LongKind::Initial, scid, .. } => (INITIAL, Some(scid)),
                Header::Long { kind: LongKind::ZeroRtt, scid, .. } => (EARLY, Some(scid)),
                Header::Long { scid, .. } => (HANDSHAKE, Some(scid)),
                _ => (DATA, None),
            };
            self.dcid = scid.unwrap_or(self.dcid);
            let packet = &mut datagram[at..at + end];
            at += end;
            let known = self.keys.get(space).map(|keys| keys.as_ref().map(|keys| &keys.remote));
            let Some(keys) = known.unwrap_or(self.early.as_ref()) else { continue };
            let expected = self.heard[space_of(space)];
            let Some((number, frames)) = self.open(keys, packet, number_at, expected) else {
                continue;
            };
            self.heard[space_of(space)] = expected.max(number + 1);
            self.numbers.extend((space_of(space) == DATA).then_some(number));
            let mut reader = Reader::new(&frames);
            while let Ok(frame) = Frame::parse(&mut reader) {
                if let Frame::Crypto { data, .. } = frame {
                    // What is repeated TLS would take for more.
                    let _ = self.tls.read_hs(data);
                    self.drive_tls();
                    self.early = self.early.take().or_else(|| self.tls.zero_rtt_keys());
                }
            }
            self.payloads.push((space, frames));
        }
    }

    fn open(
        &self,
        keys: &DirectionalKeys,
        packet: &mut [u8],
        number_at: usize,
        expected: u64,
    ) -> Option<(u64, Vec<u8>)> {
        let opened = open(keys, packet, number_at, expected).ok()?;
        Some((opened.number, opened.frames.to_vec()))
    }
}

/// One of ours, and a puppet.
pub(crate) struct Met {
    pub(crate) ours: Connection,
    pub(crate) puppet: Puppet,
    pub(crate) now: Instant,
    /// Datagrams of ours: to whom, and how long.
    pub(crate) sent: Vec<(SocketAddr, usize)>,
    /// The puppet does not get what goes elsewhere than here.
    pub(crate) at: SocketAddr,
    /// What the client's first packet went to.
    pub(crate) original: ConnectionId,
}

pub(crate) fn emitted(parameters: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.emit(&mut bytes);
    bytes
}

impl Met {
    /// Our server meets a client with these parameters.
    pub(crate) fn server_with(config: Config, parameters: Vec<u8>) -> Met {
        Met::server_of(id(2), config, parameters, Sessions::none())
    }

    /// The same, and the client is called so, and TLS goes by `sessions`.
    pub(crate) fn server_of(
        scid: ConnectionId,
        config: Config,
        parameters: Vec<u8>,
        sessions: Sessions,
    ) -> Met {
        Met::server_in(TlsVersion::V1, scid, config, parameters, sessions)
    }

    /// The same, and TLS of the client, whose first packets are of version 1, is of version `v`.
    pub(crate) fn server_in(
        v: TlsVersion,
        scid: ConnectionId,
        config: Config,
        parameters: Vec<u8>,
        sessions: Sessions,
    ) -> Met {
        let name = tls::NAME.try_into().unwrap();
        let tls = ClientConnection::new(sessions.client, v, name, parameters).unwrap();
        let mut puppet = Puppet::new(Side::Client, tls.into(), id(1), id(1));
        puppet.scid = scid;
        let accept = Accept {
            remote: home(),
            is_validated: false,
            version: Version::V1,
            original_dcid: id(1),
            retry_scid: None,
            remote_cid: puppet.scid,
            tls: sessions.server,
            config,
            seed: [7; 32],
        };
        let ours = Connection::accept(accept, Instant::ZERO).unwrap();
        let (now, original) = (Instant::ZERO, id(1));
        Met { ours, puppet, now, sent: Vec::new(), at: home(), original }
    }

    /// A handshake of our server with a client of usual parameters.
    pub(crate) fn server(config: Config) -> Met {
        let parameters = Parameters { initial_scid: Some(id(2)), ..usual() };
        let mut met = Met::server_with(config, emitted(&parameters));
        met.exchange();
        assert!(met.ours.is_established(), "{:?}", met.ours.closed());
        met
    }

    /// The same with a client that has no connection ID.
    pub(crate) fn server_of_nobody(config: Config) -> Met {
        let nobody = ConnectionId::default();
        let parameters = Parameters { initial_scid: Some(nobody), ..usual() };
        let mut met = Met::server_of(nobody, config, emitted(&parameters), Sessions::none());
        met.exchange();
        assert!(met.ours.is_established(), "{:?}", met.ours.closed());
        met
    }

    /// Our server in the midst of a handshake: it has said all of its own, and the client has the keys of
    /// Initial and Handshake packets.
    pub(crate) fn server_in_handshake() -> Met {
        let parameters = Parameters { initial_scid: Some(id(2)), ..usual() };
        let mut met = Met::server_with(Config::default(), emitted(&parameters));
        for packet in met.puppet.speak() {
            met.deliver(packet);
        }
        met.listen();
        assert!(met.ours.is_handshaking() && met.puppet.keys[HANDSHAKE].is_some());
        met
    }

    /// Our client and a server that has not answered; `change` changes its parameters.
    pub(crate) fn client_with(config: Config, change: impl FnOnce(&mut Parameters)) -> Met {
        Met::client_of(config, change, &Sessions::none())
    }

    pub(crate) fn client_of(
        config: Config,
        change: impl FnOnce(&mut Parameters),
        sessions: &Sessions,
    ) -> Met {
        let connect = Connect {
            remote: home(),
            name: tls::NAME.try_into().unwrap(),
            tls: sessions.client.clone(),
            config,
            seed: [8; 32],
        };
        let mut ours = Connection::connect(connect, Instant::ZERO).unwrap();
        let mut first = Vec::new();
        ours.poll_transmit(&mut first, Instant::ZERO).expect("a first packet");
        let header = Protected::parse(&first, CID_LEN).unwrap().header;
        let Header::Long { dcid: original, scid, .. } = header else { panic!("{header:?}") };
        let mut parameters = Parameters {
            original_dcid: Some(original),
            initial_scid: Some(id(2)),
            reset_token: Some([9; 16]),
            ..usual()
        };
        change(&mut parameters);
        let server = sessions.server.clone();
        let tls = ServerConnection::new(server, TlsVersion::V1, emitted(&parameters));
        let puppet = Puppet::new(Side::Server, tls.unwrap().into(), original, scid);
        let (now, sent, at) = (Instant::ZERO, Vec::new(), home());
        let mut met = Met { ours, puppet, now, sent, at, original };
        met.puppet.hear(&mut first);
        met
    }

    /// A handshake of our client with a server of usual parameters.
    pub(crate) fn client(config: Config) -> Met {
        let mut met = Met::client_with(config, |_| {});
        met.exchange();
        let mut frames = Vec::new();
        Frame::HandshakeDone.emit(&mut frames);
        met.say_bytes(DATA, frames);
        assert!(met.ours.is_established(), "{:?}", met.ours.closed());
        met
    }

    /// Both say what they have to say at this time.
    pub(crate) fn exchange(&mut self) {
        for _ in 0..100 {
            let packets = self.puppet.speak();
            let spoke = !packets.is_empty();
            for packet in packets {
                self.deliver(packet);
            }
            if !self.listen() && !spoke {
                return;
            }
        }
        panic!("it does not come to an end");
    }

    /// The puppet hears what ours says now; true if it said something.
    pub(crate) fn listen(&mut self) -> bool {
        let before = self.sent.len();
        let mut datagram = Vec::new();
        while let Some(sent) = self.ours.poll_transmit(&mut datagram, self.now) {
            self.sent.push((sent.to, datagram.len()));
            if sent.to == self.at {
                self.puppet.hear(&mut datagram);
            }
            datagram.clear();
        }
        self.sent.len() > before
    }

    /// Ours gets a datagram from where the puppet is.
    pub(crate) fn deliver(&mut self, mut datagram: Vec<u8>) {
        self.ours.handle(self.at, 0, &mut datagram, self.now);
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        self.listen();
        while let Some(at) = self.ours.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.ours.handle_timeout(self.now);
            self.listen();
        }
        self.now = end;
    }

    pub(crate) fn say_bytes(&mut self, space: usize, frames: Vec<u8>) {
        let packet = self.puppet.packet(space, frames);
        self.deliver(packet);
        self.listen();
    }

    /// The puppet says these frames in a packet.
    pub(crate) fn say(&mut self, space: usize, frames: &[Frame<'_>]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut bytes));
        self.say_bytes(space, bytes);
    }

    /// The puppet pings in packet `number`.
    pub(crate) fn say_at(&mut self, space: usize, number: u64) {
        let packet = self.puppet.numbered(self.puppet.dcid, space, number, &[1], &[]);
        self.puppet.next[space] = self.puppet.next[space].max(number + 1);
        self.deliver(packet);
        self.listen();
    }

    /// What ours said is acknowledged, so that it may update its keys, and it does; false: it does not.
    pub(crate) fn settle_and_update(&mut self) -> bool {
        self.listen();
        let acknowledgment = self.puppet.acknowledgment();
        self.say(DATA, &[acknowledgment]);
        self.ours.update_keys()
    }

    /// The code that ours closed with because of a breach; `None`: it is open.
    pub(crate) fn breach(&self) -> Option<u64> {
        match self.ours.closed() {
            Some(ConnectionError::Violation { code, .. }) => Some(*code),
            Some(other) => panic!("it ended otherwise: {other}"),
            None => None,
        }
    }

    /// Whether ours has said a frame that `is_it`.
    pub(crate) fn heard(&self, is_it: impl Fn(&Frame<'_>) -> bool) -> bool {
        self.puppet.payloads.iter().any(|(_, frames)| {
            let mut reader = Reader::new(frames);
            while let Ok(frame) = Frame::parse(&mut reader) {
                if is_it(&frame) {
                    return true;
                }
                if reader.is_empty() {
                    break;
                }
            }
            false
        })
    }
}
