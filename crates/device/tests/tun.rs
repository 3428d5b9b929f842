//! TUN devices against the kernel's own IP stack, each test in network namespaces of its own.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tack_device::{
    Clock, MAX_PACKET_BYTES, Netns, NetnsError, Offload, Prefix, Tun, TunConfig, TunError, wait,
};

/// A namespace, or `None` where we may not have one: the test says so and passes.
fn namespace() -> Option<Netns> {
    match Netns::new() {
        Ok(netns) => Some(netns),
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn tun_in(netns: &Netns, config: &TunConfig) -> Option<Tun> {
    match netns.enter(|| Tun::open(config)).unwrap() {
        Ok(tun) => Some(tun),
        Err(e) if e.is_unavailable() => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|t| t.parse().unwrap()).collect()
}

/// The next packet that is for `protocol` (IPv4: at 9, IPv6: at 6).
fn next_packet(tun: &Tun, protocol: u8) -> Vec<u8> {
    let clock = Clock::start();
    let limit = clock.now() + Duration::from_secs(10);
    let mut packet = vec![0; MAX_PACKET_BYTES];
    while clock.now() < limit {
        match tun.recv(&mut packet) {
            Ok(n) => {
                let of = if packet[0] >> 4 == 4 { packet[9] } else { packet[6] };
                if of == protocol {
                    return packet[..n].to_vec();
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                wait(&[tun], Some(limit), &clock).unwrap();
            }
            Err(e) => panic!("{e}"),
        }
    }
    panic!("no packet of protocol {protocol} came");
}

#[test]
fn a_datagram_goes_out_as_a_packet_and_its_echo_comes_back() {
    let Some(netns) = namespace() else { return };
    let config = TunConfig::default().with(|it| {
        it.addresses = prefixes(&["10.7.0.1/24", "fd07::1/64"]);
        it.routes = prefixes(&["192.0.2.0/24", "2001:db8::/32"]);
        it.mtu = 1_400;
    });
    let Some(tun) = tun_in(&netns, &config) else { return };
    assert!(tun.name().starts_with("tack"), "{}", tun.name());
    for peer in ["10.7.0.2", "192.0.2.9", "fd07::2", "2001:db8::9"] {
        let peer: IpAddr = peer.parse().unwrap();
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = netns.enter(|| bind_udp(any)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(b"over IP", (peer, 7)).unwrap();
        let mut packet = next_packet(&tun, 17);
        let (addresses, ports) = if peer.is_ipv4() { (12..20, 20) } else { (8..40, 40) };
        let half = addresses.len() / 2;
        // Swapping source and destination leaves both checksums as they are.
        packet[addresses].rotate_left(half);
        packet[ports..ports + 4].rotate_left(2);
        tun.send(&packet).unwrap();
        let mut answer = [0; 64];
        let (n, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..n], from.ip(), from.port()), (&b"over IP"[..], peer, 7));
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's end")]
fn bind_udp(any: &str) -> UdpSocket {
    UdpSocket::bind(any).unwrap()
}

/// Carries packets between two devices until told to stop; returns the longest.
fn relay(a: &Tun, b: &Tun, stop: &AtomicBool) -> usize {
    let clock = Clock::start();
    let mut packet = vec![0; MAX_PACKET_BYTES];
    let mut longest = 0;
    while !stop.load(Ordering::Relaxed) {
        wait(&[a, b], Some(clock.now() + Duration::from_millis(20)), &clock).unwrap();
        for (from, to) in [(a, b), (b, a)] {
            for _ in 0..64 {
                let (n, offload) = match from.recv_super(&mut packet) {
                    Ok(received) => received,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => panic!("{e}"),
                };
                // In two parts, because a transport has headers and payload in different places.
                let (head, tail) = packet[..n].split_at(n.min(20));
                to.send_super(&[head, tail], &offload).unwrap();
                longest = longest.max(n);
            }
        }
    }
    longest
}

/// A kernel's TCP to another's through two devices; returns the longest packet on the way.
fn tcp_through_a_relay(offload: bool) -> Option<usize> {
    let (left, right) = (namespace()?, namespace()?);
    let device = |addresses: &[&str], routes: &[&str]| {
        TunConfig::default().with(|it| {
            it.addresses = prefixes(addresses);
            it.routes = prefixes(routes);
            it.offload = offload;
        })
    };
    let a = tun_in(&left, &device(&["10.7.1.1/24", "fd07:1::1/64"], &["0.0.0.0/0", "::/0"]))?;
    let b = tun_in(&right, &device(&["10.7.2.1/24", "fd07:2::1/64"], &["0.0.0.0/0", "::/0"]))?;
    let stop = AtomicBool::new(false);
    let sent: Vec<u8> = (0..6_000_000u32).map(|i| (i * 31 + i / 509) as u8).collect();
    let longest = thread::scope(|scope| {
        let pump = scope.spawn(|| relay(&a, &b, &stop));
        for address in ["10.7.2.1", "fd07:2::1"] {
            let address: IpAddr = address.parse().unwrap();
            let listener = right.enter(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
            let to = listener.local_addr().unwrap();
            let sent = &sent;
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(sent).unwrap();
            });
            let mut stream = left.enter(|| connect_tcp(to)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert!(got == *sent, "what came is not what went, over {address}");
        }
        stop.store(true, Ordering::Relaxed);
        pump.join().unwrap()
    });
    Some(longest)
}

#[expect(clippy::disallowed_methods, reason = "the kernel's end")]
fn connect_tcp(to: std::net::SocketAddr) -> TcpStream {
    TcpStream::connect(to).unwrap()
}

#[test]
fn packets_carry_a_kernels_tcp_whole_without_offload() {
    let Some(longest) = tcp_through_a_relay(false) else { return };
    assert!((1_400..=1_500).contains(&longest), "{longest}");
}

#[test]
fn super_packets_carry_a_kernels_tcp_whole() {
    let Some(longest) = tcp_through_a_relay(true) else { return };
    assert!(longest > 3_000, "no super-packet among them: {longest} bytes at most");
}

#[test]
fn what_is_left_to_the_kernel_needs_a_header_to_say_so() {
    let Some(netns) = namespace() else { return };
    let Some(plain) = tun_in(&netns, &TunConfig::default()) else { return };
    let partial = tack_device::Checksum::Partial { start: 20, offset: 16 };
    let offload = Offload { gso: None, checksum: partial };
    let error = plain.send_super(&[&[0x45; 40]], &offload).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let Some(offloading) = tun_in(&netns, &TunConfig::default().with(|it| it.offload = true))
    else {
        return;
    };
    assert_ne!(plain.name(), offloading.name());
    assert_eq!(offloading.recv(&mut [0; 64]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_name_that_is_taken_or_impossible_is_told_apart() {
    let Some(netns) = namespace() else { return };
    let named = |name: &str| TunConfig::default().with(|it| it.name = name.to_owned());
    let Some(_first) = tun_in(&netns, &named("only0")) else { return };
    let again = netns.enter(|| Tun::open(&named("only0"))).unwrap();
    assert!(matches!(again, Err(TunError::Busy(name)) if name == "only0"));
    for bad in ["", "a/b", "sixteen-bytes-16", "two words", ".."] {
        assert!(matches!(Tun::open(&named(bad)), Err(TunError::BadName(_))), "{bad:?}");
    }
    let refused = (named("only1")).with(|it| it.mtu = 20);
    let error = netns.enter(|| Tun::open(&refused)).unwrap().unwrap_err();
    assert!(matches!(&error, TunError::Configure(_)), "{error}");
}

#[test]
fn a_persistent_interface_is_taken_as_it_is() {
    let Some(netns) = namespace() else { return };
    let lines = ["tuntap add dev mine0 mode tun", "addr add 10.9.0.1/24 dev mine0"];
    match netns.ip(&lines) {
        Ok(()) => {}
        Err(e) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            return eprintln!("skipped: {e}");
        }
    }
    netns.ip(&["link set dev mine0 up mtu 1333"]).unwrap();
    let config = TunConfig::default().with(|it| {
        it.name = "mine0".to_owned();

        // Not applied.
        it.addresses = prefixes(&["10.10.0.1/24"]);
        it.offload = true;
    });
    let Some(tun) = tun_in(&netns, &config) else { return };
    assert_eq!((tun.name(), tun.mtu()), ("mine0", 1_333));
    let bound = netns.enter(|| TcpListener::bind("10.9.0.1:0").is_ok()).unwrap();
    let unbound = netns.enter(|| TcpListener::bind("10.10.0.1:0").is_err()).unwrap();
    assert!(bound && unbound);
}

#[test]
fn cables_join_namespaces_and_processes_run_inside() {
    let (Some(a), Some(b)) = (namespace(), namespace()) else { return };
    let ends = (prefixes(&["10.1.0.1/24"]), prefixes(&["10.1.0.2/24"]));
    if let Err(e) = a.link(&b, "cable", &ends.0, &ends.1) {
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
        return eprintln!("skipped, no veth: {e}");
    }
    let listener = b.enter(|| TcpListener::bind("10.1.0.2:0").unwrap()).unwrap();
    let stream = a.enter(|| connect_tcp(listener.local_addr().unwrap())).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    a.sysctl("net.ipv4.ip_default_ttl", "77").unwrap();
    let show = |netns: &Netns| {
        let mut cat = Command::new("cat");
        cat.arg("/proc/sys/net/ipv4/ip_default_ttl").stdout(std::process::Stdio::piped());
        let output = netns.spawn(&mut cat).unwrap().wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(show(&a), "77");
    assert_ne!(show(&b), "77");
}
