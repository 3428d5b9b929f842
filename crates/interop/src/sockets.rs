//! The kernel's sockets inside a namespace, for an async test.
//!
//! A socket belongs to the namespace of the thread that makes it, wherever it is used.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tack_device::Netns;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

/// Longest a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A socket inside, of the family of `address`.
///
/// # Errors
/// The namespace cannot be entered, or no descriptor is left.
pub fn socket(netns: &Netns, address: SocketAddr) -> io::Result<TcpSocket> {
    let make = || match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = netns.enter(make)??;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Listens inside.
///
/// # Errors
/// As [`socket`]; the port is taken.
pub fn listen(netns: &Netns, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(netns, address)?;
    socket.bind(address)?;
    socket.listen(1_024)
}

/// Connects from inside.
///
/// # Errors
/// As [`socket`]; refused, or no answer within 20 s.
pub async fn connect(netns: &Netns, to: SocketAddr) -> io::Result<TcpStream> {
    let connecting = socket(netns, to)?.connect(to);
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Takes datagrams inside.
///
/// # Errors
/// As [`socket`]; the port is taken.
pub fn datagrams(netns: &Netns, address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = netns.enter(|| Socket::new(Domain::for_address(address), Type::DGRAM, None))??;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Ends a connection with RST: lingers for no time.
///
/// # Errors
/// The socket does not take the option.
pub fn reset(stream: TcpStream) -> io::Result<()> {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))
}

/// Binds the receive buffer, in bytes; the kernel doubles it for its own needs.
///
/// # Errors
/// The socket does not take the option.
pub fn set_recv_buffer(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    SockRef::from(stream).set_recv_buffer_size(bytes)
}

/// Chooses who controls congestion for a socket; a namespace may not change its default to most.
///
/// # Errors
/// The kernel has none of that name.
pub fn set_congestion(stream: &TcpStream, name: &str) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_congestion(stream, name)?)
}
