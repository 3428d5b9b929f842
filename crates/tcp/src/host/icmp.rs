//! ICMP: errors to the connections they are about, answers to echo requests.
//!
//! ```text
//! echo request    answered, so many per second
//! quench, others  counted
//! error           about a connection of ours, its SEQ in flight? [RFC 5927 §4.1]
//!                 too big -> path MTU of the destination, for all connections there
//!                 else    -> the connection: see `conn/path.rs`
//! ```
//!
//! An error without a connection, or with a SEQ that is not in flight, is forged or late: counted.
//!
//! Deviation: [RFC 5927 §7.2] would hold "too big" back until a timeout shows that something is
//! lost. Whoever guesses a 4-tuple and a SEQ in flight could also reset the connection; what he
//! gains here is a path MTU no smaller than [`least_mtu`] until probes find the larger one again.

use std::net::SocketAddr;

use tack_units::Instant;

use crate::conn::Verdict;
use crate::host::demux::Key;
use crate::host::path_mtu::plateau_below;
use crate::host::{Host, Incoming};
use crate::wire::icmp::{Icmp, PROTOCOL_ICMPV4, PROTOCOL_ICMPV6, Quote, Report, emit_echo_reply};
use crate::wire::ip::{Ecn, IpHeader, IpPacket};
use crate::wire::{ipv4, ipv6};

/// Smallest path MTU that is believed, bytes.
///
/// IPv6: every link takes 1280, and routers that claim less are not heeded [RFC 8201 §4].
/// IPv4: every link takes 68 [RFC 791 §3.1], but no real one so little. A claim of less than 552 is
/// taken for 552, the plateau above which real links begin [RFC 1191 §7.1]: with 68, a forged
/// error would have us send twelve bytes at a time. A real path that takes less does not get our
/// packets: they must not be fragmented.
pub(super) const fn least_mtu(ipv6: bool) -> u16 {
    if ipv6 { 1_280 } else { 552 }
}

impl Host {
    pub(super) fn is_icmp(protocol: u8, ipv6: bool) -> bool {
        protocol == if ipv6 { PROTOCOL_ICMPV6 } else { PROTOCOL_ICMPV4 }
    }

    /// Returns the slot of the connection that an error changed.
    pub(super) fn dispatch_icmp(
        &mut self,
        packet: &IpPacket<'_>,
        incoming: &Incoming<'_>,
        now: Instant,
    ) -> Option<u32> {
        let (src, dst) = (packet.src, packet.dst);
        let icmp = &mut self.counters.icmp;
        match Icmp::parse(src, dst, packet.payload, incoming.checksum_valid) {
            Err(_) => icmp.malformed += 1,
            Ok(Icmp::EchoRequest(rest)) => self.answer_echo(packet, rest, now),
            Ok(Icmp::ForeignError) => icmp.implausible += 1,
            Ok(Icmp::Other | Icmp::Error(Report::Quench, _)) => icmp.ignored += 1,
            Ok(Icmp::Error(report, quote)) => {
                if self.icmp_errors.admit(now) {
                    return self.on_icmp_error(report, &quote, now);
                }
                icmp.suppressed += 1;
            }
        }
        None
    }

    fn on_icmp_error(&mut self, report: Report, quote: &Quote, now: Instant) -> Option<u32> {
        let key = Key {
            path: SocketAddr::new(quote.dst, 0),
            remote_port: quote.dst_port,
            local_port: quote.src_port,
            local_ip: quote.src,
        };
        let found = self.demux.find(&key);
        let icmp = &mut self.counters.icmp;
        let Some((index, entry)) = found.and_then(|i| Some((i, self.slots.at_mut(i)?))) else {
            icmp.implausible += 1;
            return None;
        };
        let ipv6 = quote.dst.is_ipv6();
        let verdict = match report {
            Report::TooBig { mtu } => {
                let claimed = mtu.map_or_else(
                    || plateau_below(quote.total_len),
                    |mtu| u16::try_from(mtu).unwrap_or(u16::MAX),
                );
                // Too big for a link that takes as much? And IPv6 links take 1280.
                let lies =
                    usize::from(claimed) >= quote.total_len || ipv6 && claimed < least_mtu(true);
                let mtu = claimed.max(least_mtu(ipv6));
                if lies { Verdict::Implausible } else { entry.conn.on_too_big(mtu, quote.seq, now) }
            }
            Report::Failed(error) => entry.conn.on_path_error(error, quote.seq, now),
            Report::Quench => Verdict::Implausible,
        };
        match verdict {
            Verdict::Implausible => {
                icmp.implausible += 1;
                return None;
            }
            Verdict::Heeded => icmp.heeded += 1,
            Verdict::Learned(mtu) => {
                icmp.heeded += 1;
                self.path_mtus.learn(quote.dst, mtu, now);
            }
        }
        Some(index)
    }

    /// [RFC 1122 §3.2.2.6, RFC 4443 §4.2]. What would need fragments is not answered; a request
    /// that long had come in fragments.
    fn answer_echo(&mut self, packet: &IpPacket<'_>, rest: &[u8], now: Instant) {
        let icmp = &mut self.counters.icmp;
        icmp.echo_requests += 1;
        let headers = if packet.src.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let total = headers + packet.payload.len();
        let fits = total <= usize::from(self.config.ip.mtu);
        if !fits || !self.echo_replies.admit(now) {
            icmp.suppressed += 1;
            return;
        }
        let (src, dst, protocol) = (packet.dst, packet.src, packet.protocol);
        let (hop_limit, flow_label) = (self.config.ip.hop_limit, 0);
        // The service class of the request, as asked for by [RFC 1122 §3.2.2.6] of its TOS.
        let (dscp, ecn) = (packet.dscp, Ecn::NotEct);
        let header = IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label };
        let mut bytes = Vec::with_capacity(total);
        header.emit(packet.payload.len(), &mut bytes).expect("it fits the interface");
        emit_echo_reply(src, dst, rest, &mut bytes);
        if self.strays.push_packet(src, dst, bytes) {
            icmp.echo_replies += 1;
        } else {
            icmp.suppressed += 1;
        }
    }
}
