//! What goes around segments over IP, and how long they may be.

use std::net::SocketAddr;

use tack_units::Instant;

use crate::config::{Encapsulation, HostConfig};
use crate::conn::{BurstBuilder, BurstLimits, Framing, IpFraming, PathLimits};
use crate::host::demux::Key;
use crate::host::secret::Use;
use crate::host::stray::Stray;
use crate::host::{Ecn, Host, Transmit};

/// Headers of a connection's packets, and which packets surely pass.
pub(super) fn path_limits(config: &HostConfig, ipv6: bool) -> PathLimits {
    let udp = if config.encapsulation == Encapsulation::Udp { 8 } else { 0 };
    let (ip, sure) = if ipv6 { (40, 1_280) } else { (20, 576) };
    PathLimits { headers: ip + udp + 20, sure }
}

impl Host {
    /// The framing of a connection's segments, for as long as it lives.
    pub(super) fn framing_of(&self, key: &Key, dscp: u8) -> Framing {
        match key.framing(&self.config, self.flow_label(key)) {
            Framing::Bare => Framing::Bare,
            Framing::Ip(ip) => {
                let offload = self.config.ip.segmentation_offload;
                let partial = offload || self.config.ip.unchecked;
                Framing::Ip(IpFraming { offload, partial, dscp: dscp & 0x3f, ..ip })
            }
        }
    }

    /// The same for every packet of a connection, telling nothing of it, and not 0, which means
    /// that a router may choose [RFC 6437 §2, §3].
    fn flow_label(&self, key: &Key) -> u32 {
        (self.secret.hash(Use::FlowLabel, key, 0) as u32 & 0x000f_ffff).max(1)
    }

    pub(super) fn transmit_stray(&self, stray: Stray, out: &mut Vec<u8>) -> Transmit {
        let (key, header) = match stray {
            Stray::Segment(key, header) => (key, header),
            Stray::Packet { src, dst, bytes } => {
                out.extend_from_slice(&bytes);
                return Transmit {
                    to: SocketAddr::new(dst, 0),
                    from: Some(src),
                    segment_size: bytes.len(),
                    bytes: bytes.len(),
                    segments: 1,
                    ecn: Ecn::NotEct,
                    offload: None,
                };
            }
        };
        let framing = key.framing(&self.config, self.flow_label(&key));
        let limits = BurstLimits { bytes: usize::MAX, segments: 1 };
        let (mut scratch, codepoints) = (Vec::new(), self.config.codepoints);
        let mut burst = BurstBuilder::new(out, &mut scratch, framing, codepoints, limits);
        burst.push(&header, Ecn::NotEct, (&[], &[]));
        let to = key.address(&self.config.encapsulation);
        super::types::transmit_of(&mut burst, to, framing).expect("one segment was added")
    }

    /// Tells a connection that is about to send what became known of its path.
    pub(super) fn tell_path_mtu(&mut self, index: u32, now: Instant) {
        let generation = self.path_mtus.generation();
        if let Some(entry) = self.slots.at_mut(index)
            && core::mem::replace(&mut entry.path_generation, generation) != generation
        {
            entry.conn.on_path_mtu(self.path_mtus.get(entry.key.path.ip()), now);
        }
    }

    /// What a connection found out by itself holds for its destination. Over UDP the kernel knows
    /// more of the path than one connection does.
    pub(super) fn settle_path_mtu(&mut self, index: u32, mtu: Option<u16>, now: Instant) {
        if let Some(mtu) = mtu
            && let Some(entry) = self.slots.at(index)
            && self.config.encapsulation != Encapsulation::Udp
        {
            self.path_mtus.learn(entry.key.path.ip(), mtu, now);
        }
    }
}
