//! Real IP packets through a TUN device: the same streams, for peers that speak TCP.
//!
//! ```text
//!   applications, kernel's TCP/IP            this process
//!            |                                    |
//!        10.7.0.1/24  ---- interface tack0 ---- 10.7.0.2: this endpoint
//!            |
//!     other interfaces: only if the kernel forwards
//! ```
//!
//! The interface joins two machines: the kernel, with its end's address, and this endpoint, with an
//! address of its own (and another network if there are two such endpoints). Programs on this machine reach a listener at `10.7.0.2` without further ado,
//! and the endpoint reaches what the kernel serves at `10.7.0.1`. To reach others, the kernel has
//! to forward and, unless they know the way back, to translate addresses. Both are the
//! administrator's affair, because they concern all of the machine:
//!
//! ```text
//! sysctl -w net.ipv4.ip_forward=1
//! iptables -t nat -A POSTROUTING -s 10.7.0.0/24 ! -o tack0 -j MASQUERADE
//! # or: nft add table ip tack
//! #     nft add chain ip tack post '{ type nat hook postrouting priority srcnat; }'
//! #     nft add rule ip tack post ip saddr 10.7.0.0/24 oifname != tack0 masquerade
//!
//! # to let others in, to port 5201 say:
//! iptables -t nat -A PREROUTING -p tcp --dport 5201 -j DNAT --to-destination 10.7.0.2
//!
//! # the same for IPv6 is net.ipv6.conf.all.forwarding and ip6tables
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use tack_device::{Checksum, Gso, GsoKind, Prefix, SendOutcome, Tun, kernel_end};
use tack_tcp::{Encapsulation, HostConfig, Incoming, Transmit};

use crate::passed::{IoCounters, Received};

/// Packets read before anything is answered: enough for a batch to share its acknowledgments, few
/// enough for these to be in time.
const BATCH_PACKETS: usize = 64;
/// The same in bytes, for super-packets.
const BATCH_BYTES: usize = 128 << 10;

/// A TUN device and whom its endpoint answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TunConfig {
    /// The interface and the kernel's end of it.
    pub device: tack_device::TunConfig,
    /// Our end: addresses packets are accepted for; connections start from the first of their
    /// family. The kernel must route them to the interface, as it does for those of the networks
    /// of [`tack_device::TunConfig::addresses`].
    pub local: Vec<IpAddr>,
}

/// Why addresses cannot be given to the two ends of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TunConfigError {
    /// An endpoint without an address reaches nobody.
    #[error("a TUN endpoint needs an address of its own")]
    NoAddress,
    /// There is no second address in the network, such as in a /32.
    #[error("{0} leaves no address for the kernel's end: use a shorter prefix")]
    NoRoom(Prefix),
}

impl TunConfig {
    /// An interface whose kernel's end has, in each network of `ours`, the first address that is
    /// not ours: with `10.7.0.2/24` the kernel is `10.7.0.1`. Offload is on.
    ///
    /// # Errors
    /// No address, or a network of one.
    pub fn new(ours: &[Prefix]) -> Result<TunConfig, TunConfigError> {
        if ours.is_empty() {
            return Err(TunConfigError::NoAddress);
        }
        let kernels = |p: &Prefix| kernel_end(*p, None).ok_or(TunConfigError::NoRoom(*p));
        let addresses = ours.iter().map(kernels).collect::<Result<_, _>>()?;
        let device = tack_device::TunConfig::default().with(|it| {
            it.addresses = addresses;
            it.offload = true;
        });
        Ok(TunConfig { device, local: ours.iter().map(Prefix::addr).collect() })
    }
}

/// The host's configuration for a device.
pub(crate) fn host_config(base: &HostConfig, tun: &Tun, local: &[IpAddr]) -> HostConfig {
    base.clone().with(|it| {
        it.encapsulation = Encapsulation::Ip { local: local.to_vec() };
        it.ip = base.ip.clone().with(|it| {
            it.mtu = tun.mtu();
            it.segmentation_offload = tun.is_offloading();
        });
    })
}

/// A device as an endpoint uses it.
#[derive(Debug)]
pub(crate) struct TunLink(pub(crate) Tun);

impl TunLink {
    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    /// Reads a batch and delivers each packet as it is read.
    pub(crate) fn receive(
        &self,
        packet: &mut [u8],
        io: &mut IoCounters,
        mut deliver: impl FnMut(Incoming<'_>),
    ) -> Received {
        let mut bytes = 0;
        for _ in 0..BATCH_PACKETS {
            let (len, offload) = match self.0.recv_super(packet) {
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Received::Drained,
                Err(e) => {
                    tracing::debug!(error = %e, "receive");
                    io.receive_errors += 1;
                    match e.kind() {
                        // One packet made no sense.
                        io::ErrorKind::InvalidData => continue,
                        // The interface was taken away: reading on would not end.
                        _ => return Received::Drained,
                    }
                }
            };
            let len = len.min(packet.len());
            let gso_size = offload.gso.map(|gso| gso.segment_bytes);
            io.messages_received += 1;
            io.datagrams_received +=
                gso_size.map_or(1, |size| len.div_ceil(usize::from(size)) as u64);
            deliver(Incoming {
                bytes: &packet[..len],
                checksum_valid: offload.checksum != Checksum::Complete,
                gso_size,
            });
            bytes += len;
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        Received::More
    }

    /// Hands the kernel a burst, packet by packet; what it refuses is lost, as on any link.
    pub(crate) fn send(&self, transmit: &Transmit, burst: &[u8]) -> SendOutcome {
        let offload = describe(transmit);
        let (mut outcome, mut offset) = (SendOutcome::Sent, 0);
        for packet in burst.chunks(transmit.segment_size.max(1)) {
            match self.0.send_super(&[packet], &offload) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return SendOutcome::Blocked { offset };
                }
                Err(e) => {
                    tracing::debug!(error = %e, to = %transmit.to, "not sent");
                    outcome = SendOutcome::Lost;
                }
            }
            offset += packet.len();
        }
        outcome
    }
}

/// What the kernel has to do with each packet of a burst.
fn describe(transmit: &Transmit) -> tack_device::Offload {
    let Some(left) = transmit.offload else { return tack_device::Offload::default() };
    let kind = match transmit.to {
        SocketAddr::V4(_) => GsoKind::TcpV4,
        SocketAddr::V6(_) => GsoKind::TcpV6,
    };
    tack_device::Offload {
        gso: left.gso_size.map(|segment_bytes| Gso {
            kind,
            segment_bytes,
            header_bytes: left.header_len,
            cwr: left.cwr,
        }),
        checksum: Checksum::Partial { start: left.checksum_start, offset: left.checksum_offset },
    }
}

impl AsRawFd for TunLink {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_the_first_other_address_of_each_network() {
        let ours: Vec<Prefix> =
            ["10.7.0.2/24", "fd07::1/64"].map(|text| text.parse().unwrap()).into();
        let config = TunConfig::new(&ours).unwrap();
        let kernels: Vec<String> = config.device.addresses.iter().map(|p| p.to_string()).collect();
        assert_eq!(kernels, ["10.7.0.1/24", "fd07::2/64"]);
        assert_eq!(config.local, [ours[0].addr(), ours[1].addr()]);
        assert_eq!(TunConfig::new(&[]), Err(TunConfigError::NoAddress));
        let lonely = "10.7.0.2/32".parse().unwrap();
        assert_eq!(TunConfig::new(&[lonely]), Err(TunConfigError::NoRoom(lonely)));
    }
}
