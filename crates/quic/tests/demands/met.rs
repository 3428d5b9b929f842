//! One of ours, and a [puppet](super::puppet) with it.

use std::net::SocketAddr;
use std::time::Duration;

use rustls::Side;
use rustls::quic::{ClientConnection, ServerConnection, Version as TlsVersion};
use tack_quic::wire::{ConnectionId, Frame, Header, Parameters, Protected, Reader, Version};
use tack_quic::{Accept, Config, Connect, Connection, ConnectionError};
use tack_units::Instant;

use super::puppet::{CID_LEN, DATA, HANDSHAKE, Puppet, emitted, home, id, usual};
use super::tls::{self, Sessions};

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
        assert!(met.ours.is_handshaking() && met.puppet.has_keys(HANDSHAKE));
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
        let packet = self.puppet.ping(space, number);
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
