//! What goes around segments over IP.

use crate::conn::{BurstBuilder, BurstLimits, Connection, Framing, IpFraming};
use crate::host::demux::Key;
use crate::host::secret::Use;
use crate::host::{Ecn, Host, Transmit};
use crate::wire::Header;

impl Host {
    /// The framing of a connection's segments, for as long as it lives.
    pub(super) fn framing_of(&self, key: &Key, _conn: &Connection) -> Framing {
        match key.framing(&self.config, self.flow_label(key)) {
            Framing::Bare => Framing::Bare,
            Framing::Ip(ip) => {
                let offload = self.config.ip.segmentation_offload;
                Framing::Ip(IpFraming { offload, ..ip })
            }
        }
    }

    /// The same for every packet of a connection, telling nothing of it, and not 0, which means
    /// that a router may choose [RFC 6437 §2, §3].
    fn flow_label(&self, key: &Key) -> u32 {
        (self.secret.hash(Use::FlowLabel, key, 0) as u32 & 0x000f_ffff).max(1)
    }

    pub(super) fn transmit_stray(&self, key: &Key, header: &Header, out: &mut Vec<u8>) -> Transmit {
        let framing = key.framing(&self.config, self.flow_label(key));
        let limits = BurstLimits { bytes: usize::MAX, segments: 1 };
        let mut burst = BurstBuilder::new(out, framing, self.config.codepoints, limits);
        burst.push(header, Ecn::NotEct, (&[], &[]));
        let to = key.address(&self.config.encapsulation);
        Transmit::of(&mut burst, to, framing).expect("one segment was added")
    }
}
