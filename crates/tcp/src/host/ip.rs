//! From an IP packet to what is in it.
//!
//! ```text
//! unreadable, wrong checksum, fragment  -> counted
//! impossible source, not for us, too far -> counted
//! ICMP -> `icmp`
//! TCP  -> checksum, unless the device vouches for it -> the connection, or an answer without one
//! else -> counted
//! ```
//!
//! Deviation: a source that is a subnet's broadcast address is not known for one, since no prefix
//! lengths are [RFC 1122 §3.2.1.3].

use std::net::{IpAddr, SocketAddr};

use tack_units::Instant;

use crate::config::Encapsulation;
use crate::conn::Carriage;
use crate::host::dispatch::Located;
use crate::host::{ConnId, Host, Incoming};
use crate::wire::Segment;
use crate::wire::checksum::{PROTOCOL_TCP, tcp_is_valid};
use crate::wire::ip::{IpError, IpPacket};

impl Host {
    /// Takes an IP packet from a device; over UDP, nothing does.
    pub fn handle_packet(&mut self, packet: Incoming<'_>, now: Instant) {
        if let Some(index) = self.dispatch_packet(packet, now) {
            self.settle(index, now);
        }
    }

    /// The local address of a connection; `None` over UDP, where the socket's is not known here,
    /// and for an unknown id.
    pub fn local_ip(&self, conn: ConnId) -> Option<IpAddr> {
        let entry = self.slots.at(self.slots.find(conn)?)?;
        Some(entry.key.local_ip).filter(|ip| !ip.is_unspecified())
    }

    /// Hands a packet on; returns the slot of the connection it changed.
    pub(super) fn dispatch_packet(&mut self, incoming: Incoming<'_>, now: Instant) -> Option<u32> {
        let packet = match IpPacket::parse(incoming.bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.counters.malformed += 1;
                let ip = &mut self.counters.ip;
                *match error {
                    IpError::Checksum { .. } => &mut ip.bad_header_checksum,
                    IpError::Fragment { .. } => &mut ip.fragments,
                    _ => &mut ip.bad_header,
                } += 1;
                return None;
            }
        };
        if !self.admits(&packet) {
            return None;
        }
        match packet.protocol {
            PROTOCOL_TCP => self.dispatch_tcp(&packet, &incoming, now),
            protocol if Host::is_icmp(protocol, packet.src.is_ipv6()) => {
                self.dispatch_icmp(&packet, &incoming, now)
            }
            _ => {
                self.counters.ip.other_protocols += 1;
                None
            }
        }
    }

    fn admits(&mut self, packet: &IpPacket<'_>) -> bool {
        let Encapsulation::Ip { local } = &self.config.encapsulation else { return false };
        let ip = &mut self.counters.ip;
        let refused = if !local.contains(&packet.dst) {
            &mut ip.not_ours
        } else if is_martian(packet.src, packet.dst) || local.contains(&packet.src) {
            &mut ip.martians
        } else if packet.hop_limit < self.config.ip.min_hop_limit {
            &mut ip.too_far
        } else {
            return true;
        };
        *refused += 1;
        false
    }

    fn dispatch_tcp(
        &mut self,
        packet: &IpPacket<'_>,
        incoming: &Incoming<'_>,
        now: Instant,
    ) -> Option<u32> {
        let vouched = incoming.checksum_valid || self.config.ip.unchecked;
        let valid = vouched || tcp_is_valid(packet.src, packet.dst, packet.payload);
        if !valid {
            self.counters.malformed += 1;
            self.counters.ip.bad_tcp_checksum += 1;
            return None;
        }
        let Ok(segment) = Segment::parse(packet.payload, self.config.codepoints) else {
            self.counters.malformed += 1;
            self.counters.ip.bad_segment += 1;
            return None;
        };
        let segments = incoming.gso_size.map_or(1, |size| {
            segment.payload.len().div_ceil(usize::from(size.max(1))).max(1) as u32
        });
        let carriage = Carriage { ecn: packet.ecn, segments, repeats: false };
        let path = SocketAddr::new(packet.src, 0);
        let located = Located { segment: &segment, path, local_ip: packet.dst, carriage };
        self.dispatch_segment(&located, now)
    }
}

/// Nobody sends from there [RFC 1122 §3.2.1.3, RFC 6890 §2.2].
fn is_martian(src: IpAddr, dst: IpAddr) -> bool {
    match src {
        IpAddr::V4(v4) => {
            let net = v4.octets()[0];
            net == 0 || net >= 224 || v4.is_loopback() && !dst.is_loopback()
        }
        IpAddr::V6(v6) => {
            v6.is_multicast()
                || v6.is_unspecified()
                || v6.is_loopback() && !dst.is_loopback()
                || v6.to_ipv4_mapped().is_some()
        }
    }
}
