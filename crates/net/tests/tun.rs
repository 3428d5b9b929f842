//! Endpoints over TUN devices against the kernel's TCP, each test in network namespaces of its own.
#![cfg(all(target_os = "linux", feature = "tun"))]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tack_device::{Netns, NetnsError, Prefix, Tun};
use tack_net::{ConnConfig, Endpoint, ListenConfig, ListenError, Mode, TackStream, TunConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinHandle, spawn_blocking};

const KERNEL: [&str; 2] = ["10.7.0.1", "fd07::1"];
const OURS: [&str; 2] = ["10.7.0.2", "fd07::2"];
/// More than any buffer on the way holds.
const BYTES: usize = 24 << 20;

/// A namespace, or `None` where we may not have one: the test says so and passes.
fn namespace() -> Option<Arc<Netns>> {
    match Netns::new() {
        Ok(netns) => Some(Arc::new(netns)),
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// An endpoint whose kernel's end is in `netns`.
fn endpoint_in(netns: &Netns, config: &TunConfig, conn: ConnConfig) -> Option<Endpoint> {
    match netns.enter(|| Tun::open(&config.device)).unwrap() {
        Ok(tun) => Some(Endpoint::builder().conn(conn).from_tun(tun, &config.local).unwrap()),
        Err(e) if e.is_unavailable() => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn config(ours: &[&str], offload: bool) -> TunConfig {
    let bits = |text: &str| if text.contains(':') { 64 } else { 24 };
    let ours: Vec<Prefix> =
        ours.iter().map(|text| Prefix::new(text.parse().unwrap(), bits(text)).unwrap()).collect();
    let mut config = TunConfig::new(&ours).unwrap();
    config.device.offload = offload;
    config
}

/// Bytes that differ everywhere and from the other direction's.
fn pattern(salt: u32) -> Vec<u8> {
    let mut x = salt;
    let next = |_| {
        x = x.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        x.to_le_bytes()
    };
    (0..BYTES / 4).flat_map(next).collect()
}

/// A kernel's socket in `netns`, connected to `to`.
fn kernel_connect(netns: &Arc<Netns>, to: SocketAddr) -> JoinHandle<io::Result<TcpStream>> {
    let netns = netns.clone();
    spawn_blocking(move || {
        let limit = Duration::from_secs(20);
        let stream = netns.enter(|| TcpStream::connect_timeout(&to, limit)).unwrap()?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    })
}

/// The kernel's end of a conversation: sends all while it receives, then ends its half.
fn kernel_talks(stream: TcpStream, ours: Vec<u8>, theirs: Vec<u8>) -> JoinHandle<()> {
    let mut writer = stream.try_clone().unwrap();
    let writing = spawn_blocking(move || {
        writer.write_all(&ours).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    spawn_blocking(move || {
        let mut got = Vec::new();
        let mut stream = stream;
        stream.read_to_end(&mut got).unwrap();
        assert!(got == theirs, "the kernel read {} bytes that are not ours", got.len());
        tokio::runtime::Handle::current().block_on(writing).unwrap();
    })
}

/// Our end of it.
async fn we_talk(stream: &mut TackStream, ours: Vec<u8>, theirs: Vec<u8>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        writer.write_all(&ours).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let read = async {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        assert!(got == theirs, "we read {} bytes that are not theirs", got.len());
    };
    tokio::join!(write, read);
}

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

async fn the_kernel_connects(offload: bool) {
    let Some(netns) = namespace() else { return };
    let tun = config(&OURS, offload);
    let Some(endpoint) = endpoint_in(&netns, &tun, ConnConfig::default()) else { return };
    let listener = endpoint.listen_plain_with(80, ListenConfig::default()).unwrap();
    for (ours, kernels) in OURS.into_iter().zip(KERNEL) {
        let connecting = kernel_connect(&netns, at(ours, 80));
        let (mut stream, peer) = listener.accept().await.unwrap();
        let socket = connecting.await.unwrap().unwrap();
        assert_eq!(peer.ip(), at(kernels, 0).ip());
        assert_eq!(stream.peer_addr(), socket.local_addr().unwrap());
        assert_eq!(stream.local_addr(), at(ours, 80));
        let kernel_done = kernel_talks(socket, pattern(1), pattern(2));
        we_talk(&mut stream, pattern(2), pattern(1)).await;
        kernel_done.await.unwrap();
        assert_eq!(stream.info().mode, Mode::Plain, "the kernel does not know TACK");
        stream.finished().await.unwrap();
    }
}

async fn we_connect(offload: bool) {
    let Some(netns) = namespace() else { return };
    let tun = config(&OURS, offload);
    let Some(endpoint) = endpoint_in(&netns, &tun, ConnConfig::default()) else { return };
    for (ours, kernels) in OURS.into_iter().zip(KERNEL) {
        let listener = netns.enter(|| TcpListener::bind(at(kernels, 0)).unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let accepting = spawn_blocking(move || listener.accept().unwrap());
        let mut stream = endpoint.connect_plain(to).await.unwrap();
        let (socket, from) = accepting.await.unwrap();
        assert_eq!(from.ip(), at(ours, 0).ip());
        assert_eq!(stream.local_addr(), from);
        let kernel_done = kernel_talks(socket, pattern(3), pattern(4));
        we_talk(&mut stream, pattern(4), pattern(3)).await;
        kernel_done.await.unwrap();
    }
}

#[tokio::test]
async fn the_kernel_connects_and_both_talk_at_once() {
    the_kernel_connects(false).await;
}

#[tokio::test]
async fn the_kernel_connects_and_both_talk_at_once_in_super_packets() {
    the_kernel_connects(true).await;
}

#[tokio::test]
async fn we_connect_and_both_talk_at_once() {
    we_connect(false).await;
}

#[tokio::test]
async fn we_connect_and_both_talk_at_once_in_super_packets() {
    we_connect(true).await;
}

/// The kernel's TCP on both sides of the hop is not asked to do anything: it forwards.
#[tokio::test]
async fn two_endpoints_behind_forwarding_kernels_speak_tack() {
    for offload in [false, true] {
        let (Some(left), Some(right)) = (namespace(), namespace()) else { return };
        let conn = ConnConfig::default;
        let Some(a) = endpoint_in(&left, &config(&["10.8.1.2", "fd08:1::2"], offload), conn())
        else {
            return;
        };
        let Some(b) = endpoint_in(&right, &config(&["10.8.2.2", "fd08:2::2"], offload), conn())
        else {
            return;
        };
        join(&left, &right);
        let listener = b.listen_plain_with(443, ListenConfig::default()).unwrap();
        for to in [at("10.8.2.2", 443), at("fd08:2::2", 443)] {
            let (connected, accepted) = tokio::join!(a.connect_plain(to), listener.accept());
            let (mut near, (mut far, _)) = (connected.unwrap(), accepted.unwrap());
            tokio::join!(
                we_talk(&mut near, pattern(5), pattern(6)),
                we_talk(&mut far, pattern(6), pattern(5)),
            );
            assert_eq!((near.info().mode, far.info().mode), (Mode::Tack, Mode::Tack));
        }
    }
}

/// A cable between the kernels, which route over it what is for the other's device.
fn join(left: &Netns, right: &Netns) {
    let prefixes = |texts: [&str; 2]| texts.map(|t| t.parse::<Prefix>().unwrap());
    let ends = (prefixes(["10.8.0.1/24", "fd08::1/64"]), prefixes(["10.8.0.2/24", "fd08::2/64"]));
    left.link(right, "cable", &ends.0, &ends.1).unwrap();
    for (netns, next, network) in [(left, 2, 2), (right, 1, 1)] {
        netns.sysctl("net.ipv4.ip_forward", "1").unwrap();
        netns.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
        netns
            .ip(&[
                format!("route add 10.8.{network}.0/24 via 10.8.0.{next}"),
                format!("route add fd08:{network}::/64 via fd08::{next}"),
            ])
            .unwrap();
    }
    // Neighbours have to be found first, which may take longer than a SYN's patience; a SYN that
    // is sent again offers no TACK.
    for there in ["10.8.0.2", "fd08::2"] {
        let reach = || TcpStream::connect_timeout(&at(there, 9), Duration::from_secs(20));
        let error = left.enter(reach).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses_either_way() {
    let Some(netns) = namespace() else { return };
    let tun = config(&OURS, true);
    let Some(endpoint) = endpoint_in(&netns, &tun, ConnConfig::default()) else { return };
    for (ours, kernels) in OURS.into_iter().zip(KERNEL) {
        let error = io::Error::from(endpoint.connect_plain(at(kernels, 9)).await.unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
        let error = kernel_connect(&netns, at(ours, 9)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    }
    assert_eq!(endpoint.host_counters().resets_sent, 2);
}

#[tokio::test]
async fn a_device_has_no_port_of_its_own() {
    let Some(netns) = namespace() else { return };
    let tun = config(&OURS, true);
    let Some(endpoint) = endpoint_in(&netns, &tun, ConnConfig::default()) else { return };
    assert_eq!(endpoint.local_addr(), at(OURS[0], 0));
    assert!(matches!(endpoint.listen_plain(), Err(ListenError::NoPort)));
}

#[tokio::test]
async fn segments_fit_a_device_of_small_packets() {
    let Some(netns) = namespace() else { return };
    for offload in [false, true] {
        let mut tun = config(&OURS, offload);
        tun.device.mtu = 1_280;
        let Some(endpoint) = endpoint_in(&netns, &tun, ConnConfig::default()) else { return };
        for kernels in KERNEL {
            let listener = netns.enter(|| TcpListener::bind(at(kernels, 0)).unwrap()).unwrap();
            let to = listener.local_addr().unwrap();
            let accepting = spawn_blocking(move || listener.accept().unwrap());
            let mut stream = endpoint.connect_plain(to).await.unwrap();
            let (socket, _) = accepting.await.unwrap();
            let kernel_done = kernel_talks(socket, pattern(7), pattern(8));
            we_talk(&mut stream, pattern(8), pattern(7)).await;
            kernel_done.await.unwrap();
            let headers = if to.is_ipv4() { 40 } else { 60 };
            assert!(stream.info().mss <= 1_280 - headers, "{}", stream.info().mss);
        }
        assert_eq!(endpoint.io_counters().datagrams_refused, 0);
    }
}
