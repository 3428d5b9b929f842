//! UDP sockets: bursts out, batches in.

#[cfg(target_os = "linux")]
mod marked;

use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ecn::Ecn;
use crate::recv::RecvBatch;

/// How a socket is made. The kernel caps its buffers silently (`net.core.rmem_max`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketConfig {
    /// Bytes that may wait for us to read. What does not fit is lost, so this has to hold the
    /// arrivals of the longest time we may be off the processor.
    pub recv_buffer_bytes: usize,
    /// Bytes that may wait to leave.
    pub send_buffer_bytes: usize,
    /// Bound to the IPv6 wildcard address, it takes no IPv4, and leaves the port to a socket that does.
    pub v6_only: bool,
}

impl Default for SocketConfig {
    fn default() -> Self {
        // 8 MiB is 6 ms at 10 Gbit/s and 640 ms at 100 Mbit/s.
        SocketConfig { recv_buffer_bytes: 8 << 20, send_buffer_bytes: 4 << 20, v6_only: false }
    }
}

impl SocketConfig {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Datagrams to one peer that leave in one system call.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// Local address to send from; `None` lets the kernel choose.
    pub from: Option<IpAddr>,
    /// Congestion marking.
    pub ecn: Option<Ecn>,
    /// The payloads, one behind the other.
    pub bytes: &'a [u8],
    /// Bytes per datagram, all but the last; at least 1.
    pub segment_bytes: usize,
}

/// What became of a [`Transmit`]. Only `Blocked` asks for another try: UDP may lose what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The kernel has all of it.
    Sent,
    /// The socket's buffer is full. Datagrams before byte `offset` left; wait until writable and
    /// send the rest.
    Blocked {
        /// First byte that has not left.
        offset: usize,
    },
    /// The kernel would not send (a full device queue, no route, a filter): as good as lost.
    Lost,
    /// Larger than the path takes: lost, and larger ones will be.
    TooBig,
}

/// A non-blocking UDP socket with segmentation offload and receive coalescing where there are any.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Datagrams the kernel refused.
    refused: AtomicU64,
    /// IP may split what is too large for an interface.
    fragments: AtomicBool,
    /// It may not, ever.
    whole: bool,
    /// Segmentation offload failed where quinn-udp does not see it.
    unsegmented: AtomicBool,
    /// Codepoint of what leaves.
    dscp: AtomicU8,
}

impl UdpSocket {
    /// Binds to `local`. An IPv6 wildcard address takes IPv4 as well, unless that is not wanted.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub fn bind(local: SocketAddr, config: &SocketConfig) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        if local.is_ipv6() && local.ip().is_unspecified() {
            // Refused where the system has no dual-stack sockets; then it is IPv6 only.
            let _ = socket.set_only_v6(config.v6_only);
        }
        socket.bind(&local.into())?;
        grow_buffers(&socket, config);
        UdpSocket::from_std(socket.into())
    }

    /// Takes over a bound socket, which becomes non-blocking.
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        no_receive_timestamps(&socket);
        let local = socket.local_addr()?;
        Ok(UdpSocket {
            socket,
            state,
            local,
            refused: AtomicU64::new(0),
            fragments: AtomicBool::new(false),
            whole: false,
            unsegmented: AtomicBool::new(false),
            dscp: AtomicU8::new(0),
        })
    }

    /// The same, and IP never splits what leaves, as QUIC has it [RFC 9000 §14]: what is too large for an
    /// interface is [`SendOutcome::TooBig`].
    #[must_use]
    pub fn without_fragments(self) -> UdpSocket {
        UdpSocket { whole: true, ..self }
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Marks what is sent from now on with a differentiated services codepoint, 6 bits [RFC 2474].
    /// Returns whether that can be done here: on Linux, or where it is 0.
    pub fn set_dscp(&self, dscp: u8) -> bool {
        self.dscp.store(dscp & 0x3f, Ordering::Relaxed);
        cfg!(target_os = "linux") || dscp == 0
    }

    /// The codepoint of what is sent.
    pub fn dscp(&self) -> u8 {
        self.dscp.load(Ordering::Relaxed)
    }

    /// Datagrams one system call can carry now; 1 without segmentation offload.
    pub fn max_segments(&self) -> usize {
        if self.unsegmented.load(Ordering::Relaxed) { 1 } else { self.state.max_gso_segments() }
    }

    /// Datagrams that the kernel refused to send so far.
    pub fn refused_datagrams(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Kernel receive buffer in bytes, as granted.
    pub fn recv_buffer_bytes(&self) -> io::Result<usize> {
        self.state.recv_buffer_size(UdpSockRef::from(&self.socket))
    }

    /// Sends a burst: in one system call where the kernel can split it, else one by one.
    pub fn send(&self, transmit: &Transmit<'_>) -> SendOutcome {
        let (mut offset, mut one_by_one) = (0, false);
        while offset < transmit.bytes.len() {
            let rest = &transmit.bytes[offset..];
            let step = match one_by_one {
                true => rest.len().min(transmit.segment_bytes.max(1)),
                false => self.step_bytes(rest.len(), transmit.segment_bytes),
            };
            match self.send_step(transmit, &rest[..step]) {
                Ok(()) => offset += step,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return SendOutcome::Blocked { offset };
                }
                // Offload has just been found broken and switched off: once more, one by one.
                Err(_) if step > transmit.segment_bytes && self.max_segments() == 1 => {}
                // Offload takes no segments that IP would have to split.
                Err(e) if quinn_udp::is_msg_size_err(&e) && step > transmit.segment_bytes => {
                    one_by_one = true;
                }
                Err(e) if quinn_udp::is_msg_size_err(&e) && self.allow_fragments(step) => {}
                Err(e) => {
                    let lost = rest.len().div_ceil(transmit.segment_bytes.max(1));
                    self.refused.fetch_add(lost as u64, Ordering::Relaxed);
                    let too_big = quinn_udp::is_msg_size_err(&e);
                    return if too_big { SendOutcome::TooBig } else { SendOutcome::Lost };
                }
            }
        }
        SendOutcome::Sent
    }

    /// How much of `len` bytes goes into one system call.
    fn step_bytes(&self, len: usize, segment_bytes: usize) -> usize {
        let segment = segment_bytes.max(1);
        let fits = (usize::from(u16::MAX) - crate::UDP_IPV6_OVERHEAD) / segment;
        len.min(segment * self.max_segments().min(fits).max(1))
    }

    /// A datagram of `len` bytes was too large for the way out. Lets IP fragment from now on, where
    /// that can help: slower than segments that fit, but the peer is reached. Returns whether to
    /// try again.
    fn allow_fragments(&self, len: usize) -> bool {
        let fits = len + crate::UDP_IPV4_OVERHEAD <= usize::from(u16::MAX);
        if self.whole || !fits || self.fragments.swap(true, Ordering::Relaxed) {
            return false;
        }
        #[cfg(target_os = "linux")]
        {
            use nix::sys::socket::{setsockopt, sockopt::Ipv6DontFrag};
            use rustix::net::sockopt::{
                Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover,
                set_ipv6_mtu_discover,
            };
            let v4 = set_ip_mtu_discover(&self.socket, Ipv4PathMtuDiscovery::DONT).is_ok();
            let v6 = self.local.is_ipv6()
                && set_ipv6_mtu_discover(&self.socket, Ipv6PathMtuDiscovery::DONT).is_ok()
                && setsockopt(&self.socket, Ipv6DontFrag, &false).is_ok();
            v4 || v6
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    fn send_step(&self, transmit: &Transmit<'_>, bytes: &[u8]) -> io::Result<()> {
        let segmented = bytes.len() > transmit.segment_bytes;
        #[cfg(target_os = "linux")]
        if let dscp @ 1.. = self.dscp.load(Ordering::Relaxed) {
            let ecn = transmit.ecn.map_or(0, |ecn| EcnCodepoint::from(ecn) as u8);
            let sent = marked::send(self.socket.as_fd(), transmit, bytes, dscp << 2 | ecn);
            if segmented && sent.as_ref().is_err_and(marked::is_without_offload) {
                self.unsegmented.store(true, Ordering::Relaxed);
            }
            return sent;
        }
        self.state.try_send(
            UdpSockRef::from(&self.socket),
            &quinn_udp::Transmit {
                destination: transmit.to,
                ecn: transmit.ecn.map(EcnCodepoint::from),
                contents: bytes,
                segment_size: segmented.then_some(transmit.segment_bytes),
                src_ip: transmit.from,
            },
        )
    }

    /// Receives what waits, up to what `batch` holds; see [`RecvBatch::messages`].
    ///
    /// Returns whether more may be waiting.
    ///
    /// # Errors
    /// `WouldBlock` when nothing waits. Other errors concern single datagrams (an ICMP error) or
    /// the interface; the socket stays usable.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<bool> {
        let offered = batch.offered();
        let filled = batch
            .fill(|buffers, meta| self.state.recv(UdpSockRef::from(&self.socket), buffers, meta))?;
        Ok(filled == offered)
    }
}

/// Whether `address` is still one of this machine's, as far as the calling thread's network namespace tells.
pub fn is_ours(address: IpAddr) -> bool {
    let at = SocketAddr::new(address.to_canonical(), 0);
    let tried = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))
        .and_then(|socket| socket.bind(&at.into()));
    !tried.is_err_and(|e| e.kind() == io::ErrorKind::AddrNotAvailable)
}

/// quinn-udp asks the kernel for receive timestamps, and with them its control buffer is 8 bytes
/// short of the ECN field on an IPv4 socket that coalesces. Nobody here reads them.
fn no_receive_timestamps(socket: &std::net::UdpSocket) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
        // Cannot fail where setting it succeeded; where it failed there is nothing to do.
        let _ = setsockopt(socket, ReceiveTimestampns, &false);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Beyond the system's limit where we are privileged, up to it otherwise.
fn grow_buffers(socket: &Socket, config: &SocketConfig) {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt;
        let send = config.send_buffer_bytes;
        if sockopt::set_socket_recv_buffer_size_force(socket, config.recv_buffer_bytes).is_ok()
            && sockopt::set_socket_send_buffer_size_force(socket, send).is_ok()
        {
            return;
        }
    }
    // Best effort: a small buffer costs speed, not correctness.
    let _ = socket.set_recv_buffer_size(config.recv_buffer_bytes);
    let _ = socket.set_send_buffer_size(config.send_buffer_bytes);
}

#[cfg(unix)]
impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(unix)]
impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{Clock, wait};

    fn bound() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &SocketConfig::default()).unwrap()
    }

    fn receive(socket: &UdpSocket, want: usize) -> Vec<(SocketAddr, Option<Ecn>, Vec<u8>)> {
        let clock = Clock::start();
        let limit = clock.now() + Duration::from_secs(10);
        let mut batch = RecvBatch::new();
        let mut got = Vec::new();
        while got.len() < want && clock.now() < limit {
            wait(&[socket], Some(limit), &clock).unwrap();
            match socket.recv(&mut batch) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) => panic!("{e}"),
            }
            for message in batch.messages() {
                let (from, ecn) = (message.from, message.ecn);
                got.extend(message.map(|d| (from, ecn, d.to_vec())));
            }
        }
        got
    }

    #[test]
    fn a_burst_arrives_as_the_datagrams_it_was_made_of() {
        let (a, b) = (bound(), bound());
        let bytes: Vec<u8> = (0..44 * 1_400 + 77u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let burst = Transmit {
            to: b.local_addr(),
            from: None,
            ecn: Some(Ecn::Ect0),
            bytes: &bytes,
            segment_bytes: 1_400,
        };
        assert_eq!(a.send(&burst), SendOutcome::Sent);
        let got = receive(&b, 45);
        assert_eq!(got.len(), 45);
        for ((from, ecn, datagram), sent) in got.iter().zip(bytes.chunks(1_400)) {
            assert_eq!((*from, *ecn), (a.local_addr(), Some(Ecn::Ect0)));
            assert_eq!(datagram, sent);
        }
    }

    #[test]
    fn bursts_beyond_one_system_call_are_split_between_datagrams() {
        let (a, b) = (bound(), bound());
        let bytes = vec![3; 150_000];
        let burst = Transmit {
            to: b.local_addr(),
            from: None,
            ecn: None,
            bytes: &bytes,
            segment_bytes: 999,
        };
        assert_eq!(a.send(&burst), SendOutcome::Sent);
        let got = receive(&b, 151);
        assert_eq!(got.iter().map(|d| d.2.len()).sum::<usize>(), bytes.len());
        assert!(got[..150].iter().all(|d| d.2.len() == 999 && d.1.is_none()));
    }

    #[test]
    fn a_datagram_beyond_the_paths_mtu_is_reported_and_counted() {
        let a = bound();
        let bytes = vec![0; 65_530];
        let burst = Transmit {
            to: a.local_addr(),
            from: None,
            ecn: None,
            bytes: &bytes,
            segment_bytes: bytes.len(),
        };
        assert_eq!(a.send(&burst), SendOutcome::TooBig);
        assert_eq!(a.refused_datagrams(), 1);
    }

    #[test]
    fn reading_an_empty_socket_would_block() {
        let error = bound().recv(&mut RecvBatch::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
