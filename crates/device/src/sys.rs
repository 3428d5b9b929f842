//! The system calls no safe wrapper exists for: the only unsafe code of the project.
//!
//! `tun-rs` would spare us the two ioctls, but brings forty crates of address and route handling,
//! fixes the offloads it asks for (no ECN) and hides the virtio header behind its own
//! segmentation and coalescing, which is the work the transport is here to save.
#![allow(unsafe_code, reason = "ioctl and unshare; each call says why it is sound")]

use core::ffi::{c_int, c_short};
use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};

/// Length of an interface name with its terminating zero.
pub(crate) const NAME_BYTES: usize = 16;

/// Packets, no Ethernet frames.
pub(crate) const IFF_TUN: c_short = 0x0001;
/// No four bytes of flags and protocol before each packet.
pub(crate) const IFF_NO_PI: c_short = 0x1000;
/// A `virtio_net_hdr` before each packet.
pub(crate) const IFF_VNET_HDR: c_short = 0x4000;

/// `struct ifreq` as `TUNSETIFF` reads it: a name and flags in 40 bytes (32 where pointers have
/// four bytes: the union behind the name is as large as a `struct ifmap`). Where others have a
/// number, it begins where the flags are.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: c_short,
    rest: [u8; 22],
}

// The kernel copies `sizeof(struct ifreq)` bytes, which is 40 at most: ours never ends earlier.
const _: () = assert!(core::mem::size_of::<InterfaceRequest>() == 40);

const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<core::ffi::c_uint>(b'T', 208);
/// Older than the scheme of the others.
const SIOCGIFMTU: Opcode = 0x8921;
const TUNSETVNETHDRSZ: Opcode = opcode::write::<c_int>(b'T', 216);

/// Makes `fd`, an open `/dev/net/tun`, the interface of this name, and returns the name it got:
/// `%d` in it is replaced by a number.
pub(crate) fn tun_set_interface(
    fd: impl AsFd,
    name: &[u8],
    flags: c_short,
) -> io::Result<[u8; NAME_BYTES]> {
    let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags, rest: [0; 22] };
    let len = name.len().min(NAME_BYTES - 1);
    request.name[..len].copy_from_slice(&name[..len]);
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq` at its argument, whose size and layout
    // `InterfaceRequest` has; any bytes are a valid value of it.
    unsafe { ioctl(fd, Updater::<TUNSETIFF, _>::new(&mut request)) }?;
    Ok(request.name)
}

/// The MTU of the interface of this name in bytes; `socket` is any in its network namespace.
pub(crate) fn interface_mtu(socket: impl AsFd, name: &[u8]) -> io::Result<u16> {
    let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags: 0, rest: [0; 22] };
    let len = name.len().min(NAME_BYTES - 1);
    request.name[..len].copy_from_slice(&name[..len]);
    // SAFETY: SIOCGIFMTU reads and writes one `struct ifreq` at its argument, as above.
    unsafe { ioctl(socket, Updater::<SIOCGIFMTU, _>::new(&mut request)) }?;
    let [a, b] = request.flags.to_ne_bytes();
    let mtu = c_int::from_ne_bytes([a, b, request.rest[0], request.rest[1]]);
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// What the kernel may leave to the reader, as `TUN_F_*`.
pub(crate) fn tun_set_offload(fd: impl AsFd, offloads: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours.
    let request = unsafe { IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads as usize) };
    // SAFETY: as above.
    Ok(unsafe { ioctl(fd, request) }?)
}

/// Bytes of the `virtio_net_hdr`.
pub(crate) fn tun_set_header_bytes(fd: impl AsFd, bytes: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one `int` at its argument.
    Ok(unsafe { ioctl(fd, Setter::<TUNSETVNETHDRSZ, c_int>::new(bytes)) }?)
}

/// Moves the calling thread into a network namespace of its own, which is new and empty.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: only `UnshareFlags::FILES` makes this unsafe, by splitting the descriptor table.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?)
}
