//! One host against a peer that is written by hand, segment by segment.

use core::time::Duration;
use std::net::SocketAddr;

use tack_tcp::seq::SeqNum;
use tack_tcp::wire::{
    AckType, Codepoints, CompactHeader, Flags, Form, Header, Options, Segment, Timestamps,
};
use tack_tcp::{ConnConfig, ConnId, Ecn, Host, HostConfig, Info, ListenConfig};
use tack_units::Instant;

pub(crate) const PORT: u16 = 80;
const CODEPOINTS: Codepoints = Codepoints::Experimental;

/// A segment the host sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) form: Form,
}

/// The host, and what the hand-written peer knows.
pub(crate) struct Raw {
    pub(crate) host: Host,
    pub(crate) now: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) port: u16,
    pub(crate) conn: Option<ConnId>,
    /// Our next sequence number, and what we acknowledge.
    pub(crate) seq: SeqNum,
    pub(crate) ack: SeqNum,
    pub(crate) pkt_seq: u32,
    /// The host's latest TSval.
    pub(crate) echo: u32,
    tack: bool,
    /// Our SYN offers short headers.
    compact: bool,
}

impl Raw {
    pub(crate) fn new(listen: ListenConfig) -> Raw {
        let now = Instant::from_secs(1);
        let mut host = Host::new(HostConfig::default(), [9; 32], now);
        host.listen(PORT, listen).expect("free");
        Raw {
            host,
            now,
            from: ([10, 0, 0, 9], 999).into(),
            port: 40_000,
            conn: None,
            seq: SeqNum(1_000),
            ack: SeqNum(0),
            pkt_seq: 1,
            echo: 0,
            tack: false,
            compact: false,
        }
    }

    /// A peer that has shaken hands.
    pub(crate) fn connected(config: ConnConfig) -> Raw {
        Raw::connected_with(config, false)
    }

    /// The same, and its SYN offers short headers or does not.
    pub(crate) fn connected_with(config: ConnConfig, compact: bool) -> Raw {
        let tack = config.ack.tack().is_some();
        let mut raw = Raw::new(ListenConfig::default().with(|it| it.conn = config));
        (raw.tack, raw.compact) = (tack, compact);
        let answer = raw.syn();
        assert_eq!(answer.header.options.tack_permitted, tack);
        assert_eq!(answer.header.options.compact_permitted, tack && compact);
        raw.seq = raw.seq.add(1);
        raw.ack = answer.header.seq.add(1);
        raw.send(raw.header(), &[]);
        raw.conn = Some(raw.host.accept(PORT).expect("established"));
        raw
    }

    /// A peer that has shaken hands and agreed to polls.
    pub(crate) fn offering_polls(config: ConnConfig) -> Raw {
        let mut raw = Raw::new(ListenConfig::default().with(|it| it.conn = config));
        let mut syn = raw.syn_header();
        syn.flags = syn.flags | Flags::POLL;
        let answer = raw.send(syn, &[]).remove(0);
        assert!(answer.header.flags.has(Flags::POLL), "it agrees");
        raw.now += Duration::from_millis(80);
        raw.seq = raw.seq.add(1);
        raw.ack = answer.header.seq.add(1);
        raw.send(raw.header(), &[]);
        raw.conn = Some(raw.host.accept(PORT).expect("established"));
        raw
    }

    /// From here on SYNs offer TACK and data is numbered.
    pub(crate) fn speak_tack(&mut self) {
        self.tack = true;
    }

    pub(crate) fn syn_header(&self) -> Header {
        let mut syn = self.header();
        syn.flags = Flags::SYN;
        syn.ack = SeqNum(0);
        syn.options = Options {
            mss: Some(1_460),
            window_scale: Some(8),
            sack_permitted: true,
            tack_permitted: self.tack,
            compact_permitted: self.compact,
            ..syn.options
        };
        syn
    }

    /// Sends a SYN and returns the SYN/ACK.
    pub(crate) fn syn(&mut self) -> Sent {
        let mut answers = self.send(self.syn_header(), &[]);
        assert_eq!(answers.len(), 1, "a SYN has one answer");
        answers.remove(0)
    }

    pub(crate) fn stamp(&self) -> u32 {
        self.now.as_micros() as u32
    }

    /// A bare ACK with everything as it should be.
    pub(crate) fn header(&self) -> Header {
        Header {
            src_port: self.port,
            dst_port: PORT,
            seq: self.seq,
            ack: self.ack,
            flags: Flags::ACK,
            window: 2_000,
            urgent: 0,
            options: Options {
                timestamps: Some(Timestamps { val: self.stamp(), ecr: self.echo }),
                ..Options::default()
            },
        }
    }

    /// The header of a body of `len` bytes.
    pub(crate) fn body_header(&self, kind: AckType, len: usize) -> Header {
        let mut header = self.header();
        header.seq = SeqNum(self.seq.0.wrapping_sub(len as u32));
        header.options.ack_type = Some(kind);
        header
    }

    /// The header of a data segment, with the next PKT.SEQ under TACK.
    pub(crate) fn data_header(&mut self) -> Header {
        let mut header = self.header();
        if self.tack {
            header.options.pkt_seq = Some(self.pkt_seq);
            self.pkt_seq = self.pkt_seq.wrapping_add(1);
        }
        header
    }

    /// The short header of text at our next sequence number, with the next PKT.SEQ.
    pub(crate) fn short_header(&mut self) -> CompactHeader {
        let pkt_seq = self.pkt_seq;
        self.pkt_seq = self.pkt_seq.wrapping_add(1);
        CompactHeader {
            src_port: self.port,
            dst_port: PORT,
            seq: self.seq,
            pkt_seq,
            flags: Flags::ACK,
            ts_val: self.stamp(),
        }
    }

    /// Sends a segment with a short header and returns what the host answers at once.
    pub(crate) fn send_short(&mut self, header: CompactHeader, text: &[u8]) -> Vec<Sent> {
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        bytes.extend_from_slice(text);
        self.host.handle(self.from, &bytes, bytes.len(), Ecn::NotEct, self.now);
        self.drain()
    }

    /// Sends a segment and returns what the host answers at once.
    pub(crate) fn send(&mut self, header: Header, payload: &[u8]) -> Vec<Sent> {
        self.send_quietly(header, payload);
        self.drain()
    }

    /// Sends a segment and looks at nothing.
    pub(crate) fn send_quietly(&mut self, header: Header, payload: &[u8]) {
        let mut bytes = Vec::new();
        header.emit(CODEPOINTS, &mut bytes);
        bytes.extend_from_slice(payload);
        self.host.handle(self.from, &bytes, bytes.len(), Ecn::NotEct, self.now);
    }

    /// Everything the host sends now.
    pub(crate) fn drain(&mut self) -> Vec<Sent> {
        let mut out = Vec::new();
        let mut buffer = Vec::new();
        while let Some(t) = self.host.poll_transmit(&mut buffer, 65_000, self.now) {
            for bytes in buffer.chunks(t.segment_size) {
                let segment = Segment::parse_datagram(bytes, CODEPOINTS).expect("our own segment");
                if let Some(ts) = segment.header.options.timestamps {
                    self.echo = ts.val;
                }
                let Segment { header, payload, form } = segment;
                out.push(Sent { header, payload: payload.to_vec(), form });
            }
            buffer.clear();
        }
        while self.host.poll_event().is_some() {}
        out
    }

    /// Lets time pass; returns what the host sends meanwhile.
    pub(crate) fn wait(&mut self, long: Duration) -> Vec<Sent> {
        let until = self.now + long;
        let mut out = self.drain();
        while let Some(at) = self.host.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
            out.extend(self.drain());
        }
        self.now = until;
        out
    }

    pub(crate) fn conn(&self) -> ConnId {
        self.conn.expect("connected")
    }

    pub(crate) fn info(&self) -> Info {
        self.host.info(self.conn()).expect("known")
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Vec<Sent> {
        let (conn, now) = (self.conn(), self.now);
        self.host.write(conn, bytes, now).expect("open");
        self.drain()
    }

    pub(crate) fn read(&mut self) -> Vec<u8> {
        let (conn, now) = (self.conn(), self.now);
        let mut out = vec![0; 1 << 20];
        let n = self.host.read(conn, &mut out, now).expect("open").unwrap_or(0);
        out.truncate(n);
        out
    }
}
