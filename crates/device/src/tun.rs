//! Real IP packets: a TUN device.
//!
//! ```text
//!   applications      this process
//!   kernel's TCP/IP   packets in and out
//!        |                 |
//!   10.7.0.1 --- tack0 --- Tun: answers for 10.7.0.2, or for whatever is routed here
//! ```
//!
//! With [`TunConfig::offload`] each packet travels with a `virtio_net_hdr`: the kernel hands over
//! TCP segments by the dozen as one super-packet and leaves their checksum out, and takes the same.
//! A packet costs a system call and a walk through the IP layer either way, so that is worth a
//! factor of three and more in speed.

mod virtio;

use core::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::iproute::{self, ConfigureError};
use crate::prefix::Prefix;
use crate::sys;
use virtio::HEADER_BYTES;
pub use virtio::{Checksum, Gso, GsoKind, Offload};

const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_TSO6: u32 = 0x04;
const TUN_F_TSO_ECN: u32 = 0x08;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;

const DEVICE: &str = "/dev/net/tun";

/// A buffer this long takes every packet, super-packets included.
pub const MAX_PACKET_BYTES: usize = 1 << 16;

/// How to make an interface, and how to configure the kernel's end of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TunConfig {
    /// Name of the interface, at most 15 bytes; `%d` becomes the first free number. A persistent
    /// interface of this name that exists already (`ip tuntap add`) is used as it is configured,
    /// which its owner may do without privileges.
    pub name: String,
    /// Addresses of the kernel's end. Ours are other addresses of these networks.
    pub addresses: Vec<Prefix>,
    /// Further networks behind us.
    pub routes: Vec<Prefix>,
    /// Largest packet in bytes, at least 68 and, with IPv6, 1280.
    pub mtu: u16,
    /// Packets that wait for us in the kernel; what does not fit is lost. A super-packet is one.
    pub queue_packets: u32,
    /// Exchange super-packets; see [`Tun::recv_super`].
    pub offload: bool,
}

impl Default for TunConfig {
    fn default() -> Self {
        TunConfig {
            name: "tack%d".to_owned(),
            addresses: Vec::new(),
            routes: Vec::new(),
            mtu: 1_500,
            queue_packets: 1_000,
            offload: false,
        }
    }
}

impl TunConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Why there is no TUN.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel has no TUN driver, or the container was not given it.
    #[error("{DEVICE} is missing: load the module tun, or pass the device to the container")]
    NoDriver,
    /// This user may not open the device: no namespace helps.
    #[error(
        "{DEVICE} is closed to this user: it needs root, or root may open it to all, which only \
         lets them make interfaces in namespaces of their own: `chmod 666 {DEVICE}`"
    )]
    NoAccess,
    /// Making an interface takes `CAP_NET_ADMIN` in the owner of the network namespace.
    #[error(
        "making a TUN interface needs root (CAP_NET_ADMIN), or an unprivileged user namespace: \
         try `unshare -Urn COMMAND`; or have root make one for you: \
         `ip tuntap add dev NAME mode tun user $USER`"
    )]
    NotPermitted,
    /// Too long, or with a character no interface has.
    #[error("{0:?} is no interface name: 1 to 15 bytes without slash or space")]
    BadName(String),
    /// Another process has it.
    #[error("interface {0} is in use")]
    Busy(String),
    /// The kernel refused otherwise.
    #[error("cannot open a TUN interface: {0}")]
    Open(#[source] io::Error),
    /// The interface is there, but without addresses or routes.
    #[error(transparent)]
    Configure(#[from] ConfigureError),
}

impl From<TunError> for io::Error {
    fn from(e: TunError) -> io::Error {
        let kind = match &e {
            TunError::NoDriver => io::ErrorKind::NotFound,
            TunError::NoAccess | TunError::NotPermitted => io::ErrorKind::PermissionDenied,
            TunError::BadName(_) => io::ErrorKind::InvalidInput,
            TunError::Busy(_) => io::ErrorKind::ResourceBusy,
            TunError::Open(e) => e.kind(),
            TunError::Configure(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, e)
    }
}

/// One queue of packets between the kernel and us, non-blocking. The interface goes with it.
pub struct Tun {
    fd: OwnedFd,
    name: String,
    mtu: u16,
    offload: bool,
}

impl Tun {
    /// Makes the interface, configures it and brings it up, in the network namespace of the
    /// calling thread; it stays there wherever its packets are read.
    ///
    /// # Errors
    /// [`TunError`].
    pub fn open(config: &TunConfig) -> Result<Tun, TunError> {
        check_name(&config.name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(DEVICE, flags, Mode::empty())
            .map_err(|e| TunError::from_device(e.into()))?;
        let existed = interface_exists(&config.name);
        let vnet = if config.offload { sys::IFF_VNET_HDR } else { 0 };
        let flags = sys::IFF_TUN | sys::IFF_NO_PI | vnet;
        let name = sys::tun_set_interface(&fd, config.name.as_bytes(), flags)
            .map_err(|e| TunError::from_interface(e, &config.name))?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        if config.offload {
            sys::tun_set_header_bytes(&fd, HEADER_BYTES as core::ffi::c_int)
                .map_err(TunError::Open)?;
        }
        ask_for_offloads(&fd, config.offload).map_err(TunError::Open)?;
        let mut mtu = config.mtu;
        if existed {
            mtu = interface_mtu(&name).map_err(TunError::Open)?;
        } else {
            configure(&name, config)?;
        }
        Ok(Tun { fd, name, mtu, offload: config.offload })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Largest packet in bytes when the interface was opened.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Super-packets are exchanged.
    pub fn is_offloading(&self) -> bool {
        self.offload
    }

    /// Reads one packet and returns its length; what does not fit into `packet` is cut off.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; `InvalidInput` with offload, where the packet alone would say
    /// too little.
    pub fn recv(&self, packet: &mut [u8]) -> io::Result<usize> {
        if self.offload {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        retry(|| rustix::io::read(&self.fd, &mut *packet))
    }

    /// Reads one packet, which may stand for several of one connection; returns its length and
    /// what was left to us. [`MAX_PACKET_BYTES`] suffice. Without [`TunConfig::offload`] nothing
    /// is left to us.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; `InvalidData` for one that makes no sense to us: read on.
    pub fn recv_super(&self, packet: &mut [u8]) -> io::Result<(usize, Offload)> {
        if !self.offload {
            return Ok((self.recv(packet)?, Offload::default()));
        }
        let mut header = [0; HEADER_BYTES];
        let n = retry(|| {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut *packet)];
            rustix::io::readv(&self.fd, &mut parts)
        })?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let len = n.checked_sub(HEADER_BYTES).ok_or_else(invalid)?;
        Ok((len, Offload::decode(&header).ok_or_else(invalid)?))
    }

    /// Hands the kernel one complete packet.
    ///
    /// # Errors
    /// The kernel refuses it: no IP packet, no memory, or the interface is down (`EIO`). The
    /// packet is lost, the interface stays usable.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.send_super(&[packet], &Offload::default())
    }

    /// Hands the kernel one packet in parts, at most eight, with what is left to it.
    ///
    /// # Errors
    /// As [`Tun::send`]; `InvalidInput` if something is left to the kernel without
    /// [`TunConfig::offload`], or with more parts.
    pub fn send_super(&self, parts: &[&[u8]], offload: &Offload) -> io::Result<()> {
        const MAX_PARTS: usize = 8;
        let plain = offload.gso.is_none() && !matches!(offload.checksum, Checksum::Partial { .. });
        if (!self.offload && !plain) || parts.len() > MAX_PARTS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let header = offload.encode();
        let mut slices = [IoSlice::new(&[]); MAX_PARTS + 1];
        slices[0] = IoSlice::new(if self.offload { &header } else { &[] });
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        // The driver takes all of a packet or none.
        retry(|| rustix::io::writev(&self.fd, &slices[..=parts.len()])).map(drop)
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn check_name(name: &str) -> Result<(), TunError> {
    let allowed = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    let fits = (1..sys::NAME_BYTES).contains(&name.len()) && name != "." && name != "..";
    if fits && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(TunError::BadName(name.to_owned()))
}

/// A socket to ask about interfaces with.
fn any_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

fn interface_exists(name: &str) -> bool {
    any_socket().is_ok_and(|socket| netdevice::name_to_index(socket, name).is_ok())
}

fn interface_mtu(name: &str) -> io::Result<u16> {
    sys::interface_mtu(any_socket()?, name.as_bytes())
}

/// All the kernel knows, from the most it may know to the least that is worth a header.
fn ask_for_offloads(fd: &OwnedFd, offload: bool) -> io::Result<()> {
    if !offload {
        // A persistent interface may still have those of its last user.
        return sys::tun_set_offload(fd, 0);
    }
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    let choices = [tcp | TUN_F_TSO_ECN | TUN_F_USO4 | TUN_F_USO6, tcp | TUN_F_TSO_ECN, tcp];
    let mut result = Ok(());
    for offloads in choices {
        result = sys::tun_set_offload(fd, offloads);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// In the network namespace of this thread.
fn configure(name: &str, config: &TunConfig) -> Result<(), ConfigureError> {
    let (mtu, queue) = (config.mtu, config.queue_packets);
    iproute::run(&[format!("link set dev {name} mtu {mtu} txqueuelen {queue}")])?;
    iproute::bring_up(name, &config.addresses)?;
    let routes = config.routes.iter();
    iproute::run(&routes.map(|r| format!("route replace {r} dev {name}")).collect::<Vec<_>>())
}

impl TunError {
    /// This process may not have one, or the machine has none: nothing is wrong with what was
    /// asked for.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, TunError::NoDriver | TunError::NoAccess | TunError::NotPermitted)
    }

    fn from_device(e: io::Error) -> TunError {
        match Errno::from_io_error(&e) {
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => TunError::NoDriver,
            Some(Errno::PERM | Errno::ACCESS) => TunError::NoAccess,
            _ => TunError::Open(e),
        }
    }

    fn from_interface(e: io::Error, name: &str) -> TunError {
        match Errno::from_io_error(&e) {
            Some(Errno::PERM | Errno::ACCESS) => TunError::NotPermitted,
            Some(Errno::BUSY) => TunError::Busy(name.to_owned()),
            _ => TunError::Open(e),
        }
    }
}

/// Where the kernel's end of a TUN is, given ours: `addr` within its network if told, else the
/// first other address of it.
pub fn kernel_end(ours: Prefix, addr: Option<IpAddr>) -> Option<Prefix> {
    let addr = match addr {
        Some(addr) => ours.contains(addr).then_some(addr).filter(|a| *a != ours.addr()),
        None => ours.first_other(),
    }?;
    let unusable = addr == IpAddr::V4(Ipv4Addr::BROADCAST) || addr.is_multicast();
    Prefix::new(addr, ours.bits()).filter(|_| !unusable)
}

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tun").field("name", &self.name).field("mtu", &self.mtu).finish()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_device_and_a_forbidden_interface_are_told_apart() {
        for errno in [Errno::PERM, Errno::ACCESS] {
            let closed = TunError::from_device(errno.into());
            assert!(matches!(closed, TunError::NoAccess) && closed.is_unavailable());
            // There a user namespace would not help.
            assert!(!closed.to_string().contains("unshare"), "{closed}");
            let forbidden = TunError::from_interface(errno.into(), "tack0");
            assert!(matches!(forbidden, TunError::NotPermitted) && forbidden.is_unavailable());
            assert!(forbidden.to_string().contains("unshare"), "{forbidden}");
        }
        let missing = TunError::from_device(Errno::NOENT.into());
        assert!(matches!(missing, TunError::NoDriver) && missing.is_unavailable());
        let busy = TunError::from_interface(Errno::BUSY.into(), "tack0");
        assert!(matches!(&busy, TunError::Busy(name) if name == "tack0"));
        assert!(
            !busy.is_unavailable() && !TunError::from_device(Errno::MFILE.into()).is_unavailable()
        );
    }
}
