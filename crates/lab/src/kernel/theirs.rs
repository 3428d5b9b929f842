//! One bulk transfer from socket to socket.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::sockopt::set_tcp_congestion;
use tack_emu::{Emulation, INTERFACE};
use tack_link::{End, Link};

use super::cell::{Cell, Controller};

const PORT: u16 = 5_001;
/// What applications read and write at once, as iperf3 does.
const CHUNK_BYTES: usize = 128 << 10;
/// Least limit of a receive buffer.
const MIN_BUFFER_BYTES: u64 = 1 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A transfer of the kernel's TCP, as much as the path takes.
pub(super) struct Theirs {
    sender: TcpStream,
    receiver: TcpStream,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Theirs {
    /// Connects from end A to end B and begins to send.
    pub(super) fn start<L>(emulation: &Emulation<L>, cell: &Cell) -> Result<Theirs>
    where
        L: Link + Send + 'static,
    {
        let cc = cell.cc;
        as_ours(emulation, cell.rate().bytes_in(cell.rtt()))?;
        let address = SocketAddr::new(tack_emu::ipv4(End::B).into(), PORT);
        let listener = emulation.server().enter(|| TcpListener::bind(address))??;
        set_tcp_congestion(&listener, cc.name()).with_context(|| no_such(cc))?;
        let sender = emulation.client().enter(|| connect(address, cc))??;
        let (receiver, _) = listener.accept()?;
        let received = Arc::new(AtomicU64::new(0));
        let threads = vec![
            spawn("kernel-send", sender.try_clone()?, send)?,
            spawn("kernel-recv", receiver.try_clone()?, {
                let received = Arc::clone(&received);
                move |stream| receive(stream, &received)
            })?,
        ];
        Ok(Theirs { sender, receiver, received, threads })
    }

    /// Bytes the receiving application has read.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        for stream in [&self.sender, &self.receiver] {
            // Fails when the connection is over already, which is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Takes from the kernel what changes how many acknowledgments two segments get, and has no
/// counterpart in a standard:
/// - Segments that leave as one super-packet end with PSH, and a full-sized segment with PSH is
///   acknowledged as soon as the application has read it: 7 % more acknowledgments on a path that
///   spaces packets. So super-packets have one segment.
/// - While a hole is open, acknowledgments are compressed to one per millisecond. So they are not.
/// - While the window it offers grows, by two segments for each that arrives, every segment is
///   acknowledged: for the whole of a slow transfer, if the limit is the machine's memory. So the
///   buffer's limit is what a slow start that overshoots may fill, and the window half of it.
///
/// `bdp`: bandwidth-delay product of the path, bytes.
pub(crate) fn as_ours<L>(emulation: &Emulation<L>, bdp: u64) -> Result<()>
where
    L: Link + Send + 'static,
{
    let buffer = (16 * bdp).max(MIN_BUFFER_BYTES);
    for end in [End::A, End::B] {
        let netns = emulation.netns(end);
        netns.ip(&[format!("link set dev {INTERFACE} gso_max_segs 1")])?;
        netns.sysctl("net.ipv4.tcp_comp_sack_nr", "0")?;
        netns.sysctl("net.ipv4.tcp_rmem", format!("4096 131072 {buffer}"))?;
    }
    Ok(())
}

pub(crate) fn no_such(cc: Controller) -> String {
    format!("this kernel has no {cc}: try `modprobe tcp_{cc}`")
}

/// The congestion control has to be chosen before the handshake: a controller that starts with the
/// first sample of the round trip would miss it.
fn connect(address: SocketAddr, cc: Controller) -> Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_tcp_congestion(&socket, cc.name()).with_context(|| no_such(cc))?;
    // Linux lets the send timeout bound connect, too.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECT_TIMEOUT))?;
    connect(&socket, &address).context("the kernel's TCP could not connect over the path")?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}

fn spawn(
    name: &str,
    stream: TcpStream,
    work: impl FnOnce(TcpStream) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || work(stream))
}

/// Until the socket is shut down.
fn send(mut stream: TcpStream) {
    let chunk = vec![0x5a; CHUNK_BYTES];
    while stream.write_all(&chunk).is_ok() {}
}

fn receive(mut stream: TcpStream, received: &AtomicU64) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(n @ 1..) = stream.read(&mut chunk) {
        received.fetch_add(n as u64, Ordering::Relaxed);
    }
}
