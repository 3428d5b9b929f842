//! Every knob of a connection, and the reason for its default.

use core::time::Duration;

use tack_cc::Algorithm;

use crate::wire::Version;

/// How a connection is to behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// The version that a client begins with.
    pub version: Version,
    /// Bytes of each stream that the peer may send at first.
    pub initial_window: u64,
    /// Most that autotuning may make of it, bytes; if that is less than `initial_window`, nothing. Where TACK governs,
    /// what waits for one is allowed beyond each of these windows, 1/beta of it.
    pub max_window: u64,
    /// Bytes of all streams that the peer may send at first, and the most of it; as many as fill a packet if fewer are
    /// to begin with.
    pub initial_connection_window: u64,
    /// See `initial_connection_window`.
    pub max_connection_window: u64,
    /// Bytes of each stream that wait here for an acknowledgment, at most.
    pub send_buffer: usize,
    /// Streams of each direction that the peer may have open at a time.
    pub max_streams_bidi: u64,
    /// See `max_streams_bidi`.
    pub max_streams_uni: u64,
    /// The connection ends after so long a silence, or three probe timeouts if those are longer; `None`: never on our account. While bytes wait that the peer's
    /// limits hold back it is asked for a sign of life after half of it: who does not read is not gone.
    pub idle_timeout: Option<Duration>,
    /// A peer from which nothing came for so long is asked for a sign of life, which keeps the
    /// connection from ending by silence; `None`: never.
    pub keep_alive: Option<Duration>,
    /// Congestion controller.
    pub congestion: Algorithm,
    /// TACK, offered to the peer; `None`: plain RFC 9000. The MSS is the path's.
    pub tack: Option<tack::Params>,
    /// A peer without TACK that knows ACK_FREQUENCY is asked for Eq. 4 by it.
    pub ask_frequency: bool,
    /// Largest UDP payload that is tried, bytes, 1200 at least.
    pub max_udp_payload: u16,
    /// Packets are marked ECN-capable.
    pub ecn: bool,
    /// Bytes of 0-RTT packets that a server takes of a client in a connection; 0: none.
    ///
    /// **Whoever has recorded such packets can send them again**, and what they say may be carried out more
    /// than once. A ticket is good for one connection to one endpoint, so one that takes them has them once at
    /// most; but an attacker who keeps the server's answer from a client makes it say the same again, after
    /// the handshake or to another server. To be used only where what a client may say at first does no harm
    /// when it is done twice [RFC 8446 §8, RFC 9001 §9.2]. Beyond the bound packets are dropped, which clients
    /// send again when the handshake is done. TLS whose tickets are stateless gives none for it.
    pub max_early_data: u64,
    /// Bytes of received DATAGRAM frames that are kept for the application; 0: none are taken.
    pub datagram_buffer: usize,
}

/// No window is larger, bytes: what was read and a window beyond it is a number that can be told.
const MOST_WINDOW: u64 = 1 << 61;
/// No connection's window that may grow is smaller, bytes.
const LEAST_WINDOW: u64 = 1_200;
/// Streams of a direction, in all [RFC 9000 §4.6].
pub(crate) const MOST_STREAMS: u64 = 1 << 60;

impl Config {
    /// The same, with limits that can be told, for whoever wants none asks for the greatest number, and kept.
    pub(crate) fn bounded(mut self) -> Config {
        for window in [
            &mut self.initial_window,
            &mut self.max_window,
            &mut self.initial_connection_window,
            &mut self.max_connection_window,
        ] {
            *window = (*window).min(MOST_WINDOW);
        }
        // What the peer is told at first has to be taken.
        self.max_window = self.max_window.max(self.initial_window);
        self.max_connection_window = self.max_connection_window.max(self.initial_connection_window);
        // It follows what arrives, which has to begin.
        let least = LEAST_WINDOW.min(self.max_connection_window);
        self.initial_connection_window = self.initial_connection_window.max(least);
        self.max_streams_bidi = self.max_streams_bidi.min(MOST_STREAMS);
        self.max_streams_uni = self.max_streams_uni.min(MOST_STREAMS);
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            version: Version::V1,
            // What a LAN needs; autotuning does the rest.
            initial_window: 256 << 10,
            max_window: 16 << 20,
            initial_connection_window: 384 << 10,
            max_connection_window: 32 << 20,
            send_buffer: 16 << 20,
            max_streams_bidi: 100,
            max_streams_uni: 100,
            idle_timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            congestion: Algorithm::default(),
            tack: Some(tack::Params::DEFAULT),
            ask_frequency: true,
            // An Ethernet frame less IPv6 and UDP headers.
            max_udp_payload: 1_452,
            ecn: true,
            max_early_data: 0,
            datagram_buffer: 64 << 10,
        }
    }
}
