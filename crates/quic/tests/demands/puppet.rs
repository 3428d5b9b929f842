//! A peer that does the handshake as it should and then says what a test wants.

use std::net::SocketAddr;

use rustls::Side;
use rustls::quic::{Connection as Tls, DirectionalKeys, KeyChange, Keys, PacketKeySet, Secrets};
use tack_quic::protection::{SealKeys, initial_keys, open, seal};
use tack_quic::wire::{
    Ack, ConnectionId, Frame, Header, LongKind, PacketNumber, Parameters, Protected, Reader,
    Sender, Version,
};

/// Packet number spaces, as indices.
pub(crate) const INITIAL: usize = 0;
pub(crate) const HANDSHAKE: usize = 1;
pub(crate) const DATA: usize = 2;
/// Not a space: packets of it with 0-RTT keys.
pub(crate) const EARLY: usize = 3;

fn space_of(space: usize) -> usize {
    space.min(DATA)
}

pub(crate) const CID_LEN: usize = 8;
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
    pub(crate) fn new(side: Side, tls: Tls, original: ConnectionId, dcid: ConnectionId) -> Puppet {
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

    /// A PING behind a first byte with bits that it should not have.
    pub(crate) fn with_first_bits(&mut self, space: usize, bits: u8) -> Vec<u8> {
        let keys = &self.keys[space].as_ref().expect("the handshake is that far").local;
        let number = self.next[space] as u32;
        self.next[space] += 1;
        let mut head = vec![if space == DATA { 0x43 } else { 0xc3 | (space as u8) << 5 } | bits];
        let mut payload = vec![1, 0, 0, 0];
        // Of a client a datagram with Initial packets is full-sized.
        payload.resize(if space == INITIAL { 1_200 } else { 4 }, 0);
        if space != DATA {
            head.extend_from_slice(&self.version.number().to_be_bytes());
            head.push(self.dcid.as_bytes().len() as u8);
        }
        head.extend_from_slice(self.dcid.as_bytes());
        if space != DATA {
            head.push(self.scid.as_bytes().len() as u8);
            head.extend_from_slice(self.scid.as_bytes());
            head.extend((space == INITIAL).then_some(0));
            let length = 4 + payload.len() + keys.packet.tag_len();
            head.extend_from_slice(&(0x4000 | length as u16).to_be_bytes());
        }
        let number_at = head.len();
        head.extend_from_slice(&number.to_be_bytes());
        let tag = keys.packet.encrypt_in_place(number.into(), &head, &mut payload).unwrap();
        let mut packet = [&head[..], &payload, tag.as_ref()].concat();
        let sample_at = number_at + 4;
        let sample = packet[sample_at..sample_at + keys.header.sample_len()].to_vec();
        let (first, rest) = packet.split_first_mut().expect("a first byte");
        let numbers = &mut rest[number_at - 1..number_at + 3];
        keys.header.encrypt_in_place(&sample, first, numbers).unwrap();
        packet
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

    /// A PING in packet `number`.
    pub(crate) fn ping(&mut self, space: usize, number: u64) -> Vec<u8> {
        self.next[space] = self.next[space].max(number + 1);
        self.numbered(self.dcid, space, number, &[1], &[])
    }

    pub(crate) fn has_keys(&self, space: usize) -> bool {
        self.keys[space].is_some()
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
    pub(crate) fn hear(&mut self, datagram: &mut [u8]) {
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

pub(crate) fn emitted(parameters: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.emit(&mut bytes);
    bytes
}
