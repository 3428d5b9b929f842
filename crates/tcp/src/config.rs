//! What a host, a listener and a connection may be told, with defaults and their reasons.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::net::IpAddr;

use tack_cc::{Algorithm, Factory, Pacing, WindowRules};

use crate::recovery::LossDetection;
use crate::wire::Codepoints;
use tack_strategies::AckStrategy;
use tack_transport::allowed_for_tacks;

/// What the bytes handed to and from a host are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encapsulation {
    /// A bare TCP segment is the payload of a UDP datagram. The path's address is that of the
    /// datagram; TCP ports tell connections apart inside. The TCP checksum field is zero and not
    /// looked at: UDP's covers the same bytes. Between ends that agreed on it (see
    /// [`HostConfig::compact`]), data goes with a short header, which says the same in less.
    #[default]
    Udp,
    /// Whole IPv4 and IPv6 packets, with checksums.
    Ip {
        /// Addresses packets are accepted for; a connection starts from the first of its family.
        local: Vec<IpAddr>,
    },
}

/// Configuration of a [`Host`](crate::Host).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostConfig {
    /// What travels.
    pub encapsulation: Encapsulation,
    /// Which option kinds carry TACK.
    pub codepoints: Codepoints,
    /// Offer, or answer an offer of, short headers for data under TACK: 18 bytes in front of the
    /// text instead of 40 (see [`wire::compact`](crate::wire::compact)). Only over UDP: on an IP
    /// path everybody reads TCP headers.
    pub compact: bool,
    /// Most segments in one transmit. 44 full Ethernet segments are what fits UDP segmentation
    /// offload's 64 KiB.
    pub max_burst_segments: usize,
    /// Most connections at once, half-open ones included.
    pub max_connections: usize,
    /// How long TIME-WAIT lasts: twice the maximum segment lifetime [RFC 9293 §3.6.1].
    pub time_wait: Duration,
    /// Most connections in TIME-WAIT; beyond it the oldest is forgotten.
    pub max_time_wait: usize,
    /// RST segments per second in answer to segments that belong to no connection.
    pub resets_per_s: u32,
    /// Where local ports of outgoing connections come from [RFC 6335 §6].
    pub ephemeral_ports: RangeInclusive<u16>,
    /// What a host does that speaks IP itself.
    pub ip: IpConfig,
}

/// What a host that speaks IP itself does beyond TCP. Nothing of it matters over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IpConfig {
    /// Largest packet of the interface in bytes, IP header included. What is smaller than a family
    /// allows (68 for IPv4 [RFC 791 §3.1], 1280 for IPv6 [RFC 8200 §5]) is taken for that.
    pub mtu: u16,
    /// The device cuts packets and fills checksums in: see [`Transmit::offload`](crate::Transmit). TACK
    /// then offers to number its packets in [`series`](crate::wire::series).
    pub segmentation_offload: bool,
    /// TCP's checksums are not looked at, and of those of connections only what offload starts from is
    /// written, the sum over the pseudo-header. For simulated links that damage nothing.
    pub unchecked: bool,
    /// TTL or hop limit of what is sent.
    pub hop_limit: u8,
    /// What arrives with less is dropped. 255 for peers one hop away keeps everybody else out
    /// [RFC 5082]; 0 takes everything, as a host must by default [RFC 1122 §3.2.1.7].
    pub min_hop_limit: u8,
    /// How long a path MTU that was learned holds; then larger packets are tried again
    /// [RFC 1191 §6.3, RFC 8201 §4].
    pub path_mtu_age: Duration,
    /// Most destinations whose path MTU is remembered; beyond it the oldest is forgotten.
    pub max_path_mtus: usize,
    /// Echo requests answered per second.
    pub echo_replies_per_s: u32,
    /// ICMP errors looked at per second.
    pub icmp_errors_per_s: u32,
}

impl IpConfig {
    /// Largest packet of a family.
    pub(crate) fn mtu_of(&self, ipv6: bool) -> u16 {
        self.mtu.max(if ipv6 { 1_280 } else { 68 })
    }
}

impl Default for IpConfig {
    fn default() -> Self {
        IpConfig {
            mtu: 1_500,
            segmentation_offload: false,
            unchecked: false,
            hop_limit: 64,
            min_hop_limit: 0,
            path_mtu_age: Duration::from_secs(600),
            max_path_mtus: 4_096,
            echo_replies_per_s: 1_000,
            icmp_errors_per_s: 1_000,
        }
    }
}

impl IpConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            encapsulation: Encapsulation::Udp,
            codepoints: Codepoints::Experimental,
            compact: true,
            max_burst_segments: 44,
            max_connections: 1 << 20,
            time_wait: Duration::from_secs(60),
            max_time_wait: 1 << 16,
            resets_per_s: 1_000,
            ephemeral_ports: 49_152..=65_535,
            ip: IpConfig::default(),
        }
    }
}

impl HostConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Probes that find out whether a silent peer still lives [RFC 9293 §3.8.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection ends.
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 }
    }
}

/// Configuration of one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnConfig {
    /// When we acknowledge, and how we send to a peer that acknowledges so. A strategy that both
    /// ends must know is offered in the SYN and taken up when the peer's answers; with a peer that
    /// does not, it is [`AckStrategy::PLAIN`]. `mss` in TACK's parameters is set by the connection.
    pub ack: AckStrategy,
    /// Congestion control; `None` is BBR, which takes its samples from the receiver under TACK
    /// and from the sender under plain TCP.
    pub congestion: Option<Algorithm>,
    /// A controller of your own, in place of what `congestion` names.
    pub controller: Option<Factory>,
    /// How a window-based controller counts acknowledgments and falls.
    pub window_rules: WindowRules,
    /// Who waits for the pacer: everybody, or only controllers that think in rates.
    pub pacing: Pacing,
    /// Largest segment in bytes as the MSS option says it: TCP header and options not counted
    /// [RFC 9293 §3.7.1]. `None`: what fits Ethernet's 1500 bytes under the encapsulation.
    pub mss: Option<u16>,
    /// Bound on the send buffer in bytes.
    pub send_buffer: usize,
    /// Bound on the receive buffer in bytes, to which autotuning grows it.
    pub recv_buffer: usize,
    /// Receive buffer offered at first, at least what the scaled window can say: 1 KiB with the default
    /// `recv_buffer`. It is allocated only as data comes.
    pub initial_recv_buffer: usize,
    /// Send short segments at once. Off: the Nagle algorithm [RFC 9293 §3.7.4].
    pub nodelay: bool,
    /// Offer or accept selective acknowledgment.
    pub sack: bool,
    /// How plain TCP with SACK finds losses. TACK's receiver finds them itself.
    pub loss_detection: LossDetection,
    /// Full segments that leave before the first acknowledgment, at least 1; `None`: ten of at most
    /// 14 600 bytes together [RFC 6928 §2].
    pub initial_window_segments: Option<u32>,
    /// Offer or accept timestamps. TACK needs them.
    pub timestamps: bool,
    /// Offer or accept explicit congestion notification [RFC 3168].
    pub ecn: bool,
    /// Find out without ICMP how large packets may be [RFC 4821]: shorter ones after timeouts in a
    /// row, longer ones tried one at a time.
    pub probe_mtu: bool,
    /// Differentiated services codepoint of packets over IP, 6 bits [RFC 2474].
    pub dscp: u8,
    /// Probe a silent peer.
    pub keepalive: Option<Keepalive>,
    /// End the connection when data stays unacknowledged this long [RFC 9293 §3.9.1.8], sent or waiting
    /// for a closed window to open; `None`: after `max_retransmissions`.
    pub user_timeout: Option<Duration>,
    /// Timeouts in a row after which the connection ends (R2 [RFC 9293 §3.8.3]). Also how often a window
    /// that stays closed is probed for a connection that was given up: with the default for 8 minutes.
    pub max_retransmissions: u32,
    /// SYNs or SYN/ACKs sent before the attempt is given up.
    pub max_syn_transmissions: u32,
    /// Local port of an outgoing connection; `None` takes an ephemeral one.
    pub local_port: Option<u16>,
    /// Initial sequence number instead of that of [RFC 6528]; for tests.
    pub initial_seq: Option<u32>,
    /// Low 32 bits of the first PKT.SEQ; both ends start at this number. For tests.
    pub first_pkt_seq: u32,
}

impl Default for ConnConfig {
    fn default() -> Self {
        ConnConfig {
            ack: AckStrategy::TACK,
            congestion: None,
            controller: None,
            window_rules: WindowRules::default(),
            pacing: Pacing::default(),
            mss: None,
            // 500 Mbit/s over 200 ms are 12.5 MB in flight; the receiver also holds what waits
            // behind a hole for a repair or two.
            send_buffer: 16 << 20,
            recv_buffer: 32 << 20,
            initial_recv_buffer: 256 << 10,
            nodelay: true,
            sack: true,
            loss_detection: LossDetection::default(),
            initial_window_segments: None,
            timestamps: true,
            ecn: false,
            probe_mtu: true,
            dscp: 0,
            keepalive: None,
            user_timeout: None,
            max_retransmissions: 15,
            max_syn_transmissions: 7,
            local_port: None,
            initial_seq: None,
            first_pkt_seq: 1,
        }
    }
}

impl ConnConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl ConnConfig {
    /// The most that a connection may announce: `recv_buffer`, and under TACK what waits for one.
    pub(crate) fn greatest_window(&self) -> usize {
        let bytes = self.recv_buffer as u64;
        let most = self.ack.tack().map_or(bytes, |params| allowed_for_tacks(bytes, params.beta));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Plain TCP of the same stack with Linux's delayed acknowledgment: never offers nor answers
    /// TACK.
    pub fn plain() -> Self {
        ConnConfig { ack: AckStrategy::PLAIN, ..ConnConfig::default() }
    }
}

/// Configuration of a listening port.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenConfig {
    /// For each accepted connection.
    pub conn: ConnConfig,
    /// Connections that wait for `accept`; a handshake beyond it is not completed.
    pub backlog: usize,
    /// Handshakes that hold state; beyond it SYN cookies take over, or SYNs are dropped.
    pub syn_backlog: usize,
    /// Answer SYNs beyond `syn_backlog` with cookies [RFC 4987 §3.6].
    pub syn_cookies: bool,
    /// What connections that nobody has accepted may hold of received data together, in bytes.
    /// Each offers its initial window as long as that fits, and 8 KiB beyond: with the defaults a
    /// port holds 80 MiB for strangers at most.
    pub unaccepted_bytes: usize,
    /// Over UDP, take connections to any TCP port, unless somebody else listens there. Peers take
    /// the UDP port that they know for the TCP port, and behind a port forwarding that is not ours.
    pub any_port: bool,
}

impl Default for ListenConfig {
    fn default() -> Self {
        ListenConfig {
            conn: ConnConfig::default(),
            backlog: 1_024,
            syn_backlog: 1_024,
            syn_cookies: true,
            unaccepted_bytes: 64 << 20,
            any_port: false,
        }
    }
}

impl ListenConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
