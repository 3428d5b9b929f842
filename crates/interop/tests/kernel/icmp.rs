//! What the network itself answers.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tack_device::{Netns, Prefix};
use tack_interop::world::within;
use tack_interop::{Family, Setup, World, sockets, stream};
use tack_link::End;
use tack_net::{ConnConfig, TackStream};
use tokio::net::TcpStream;

use crate::support::{LIMIT, Opener, pair, roomy, they_send, way, we_send};

#[tokio::test]
async fn a_port_without_listener_refuses_either_way() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for family in Family::BOTH {
        let error =
            within(LIMIT, "refusal", world.endpoint.connect_plain(world.kernel(family, 9))).await;
        assert_eq!(io::Error::from(error.unwrap_err()).kind(), ErrorKind::ConnectionRefused);
        let error = sockets::connect(world.far(), world.ours(family, 9)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn an_unreachable_host_ends_the_attempt_as_soon_as_the_network_says_so_twice() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    let routes = ["route add unreachable 10.99.0.0/16", "route add unreachable fd99::/16"];
    world.far().ip(&routes).unwrap();
    for host in ["10.99.0.1", "fd99::1"] {
        let to = (host.parse::<std::net::IpAddr>().unwrap(), 80);
        let clock = tack_device::Clock::start();
        let error = within(LIMIT, host, world.endpoint.connect_plain(to)).await.unwrap_err();
        let took = clock.now() - tack_units::Instant::ZERO;
        assert!(error.to_string().contains("unreachable"), "{error}");
        // A SYN, a second later another one [RFC 6298 §5.7]; connecting alone would take 15 s.
        assert!(took < Duration::from_secs(8), "{error} after {took:?}");
    }
}

/// Behind the far machine, over a cable that takes 1500 bytes, as our interface does.
struct Site {
    netns: Netns,
}

impl Site {
    fn behind(world: &World) -> Site {
        let netns = Netns::new().expect("the others were made");
        let prefixes = |texts: [&str; 2]| texts.map(|t| t.parse::<Prefix>().unwrap());
        let far = prefixes(["10.76.0.1/24", "fd76::1/64"]);
        let here = prefixes(["10.76.0.2/24", "fd76::2/64"]);
        netns.sysctl("net.ipv6.conf.default.accept_dad", "0").unwrap();
        world.far().link(&netns, "cable", &far, &here).unwrap();
        world.far().sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
        let routes = ["route add default via 10.76.0.1", "route add default via fd76::1"];
        netns.ip(&routes).unwrap();
        Site { netns }
    }

    async fn pair(&self, world: &World, family: Family) -> (TackStream, TcpStream) {
        let ip = match family {
            Family::V4 => "10.76.0.2",
            Family::V6 => "fd76::2",
        };
        let address = (ip.parse::<std::net::IpAddr>().unwrap(), 80).into();
        let listener = sockets::listen(&self.netns, address).unwrap();
        let opening =
            async { tokio::join!(world.endpoint.connect_plain(address), listener.accept()) };
        let (ours, theirs) = within(LIMIT, "opening", opening).await;
        (ours.unwrap(), theirs.unwrap().0)
    }
}

#[tokio::test]
async fn a_narrow_place_is_found_by_what_its_router_says() {
    for offload in [false, true] {
        let setup = Setup { path_mtu: 1_280, offload, ..Setup::over(way(100, 5)) };
        let Some(world) = setup.start() else { return };
        let site = Site::behind(&world);
        for family in Family::BOTH {
            world.log.clear();
            let (mut ours, mut theirs) = site.pair(&world, family).await;
            we_send(&mut ours, &mut theirs, 4 << 20).await;
            assert_eq!(ours.info().path_mtu, 1_280, "{:#?}", ours.info());
            assert_eq!(ours.info().counters.timeouts, 0, "{:#?}", ours.info());
            they_send(&mut theirs, &mut ours, 4 << 20).await;
            for end in [End::A, End::B] {
                let sent = world.log.sent_by(end);
                let longest = sent.iter().map(|s| s.ip_bytes).max().unwrap();
                assert!((1_270..=1_280).contains(&longest), "{longest} from {end:?}");
            }
        }
    }
}

/// [RFC 4821]: the same without a word from the router.
#[tokio::test]
async fn a_narrow_place_that_says_nothing_is_found_by_silence() {
    for family in Family::BOTH {
        let filter = Box::new(|seen: &tack_interop::Seen| seen.ip_bytes <= 1_280);
        let setup = Setup { filter: Some(filter), ..Setup::over(way(100, 5)) };
        let Some(world) = setup.start() else { return };
        world.set("net.ipv4.tcp_mtu_probing", "1");
        world.set("net.ipv4.tcp_base_mss", "1024");
        let (mut ours, mut theirs) = pair(&world, family, Opener::We, ConnConfig::default()).await;
        we_send(&mut ours, &mut theirs, 4 << 20).await;
        let info = ours.info();
        assert!(info.counters.black_holes >= 1 && info.path_mtu <= 1_280, "{info:#?}");
        they_send(&mut theirs, &mut ours, 1 << 20).await;
        within(LIMIT, "closing", ours.finished()).await.unwrap();
    }
}

#[tokio::test]
async fn a_path_without_a_narrow_place_costs_discovery_nothing() {
    let Some(world) = Setup::over(roomy(100, 5)).start() else { return };
    let site = Site::behind(&world);
    let (mut ours, mut theirs) = site.pair(&world, Family::V4).await;
    let both = async {
        tokio::join!(stream::send_all(&mut ours, 3, 8 << 20), stream::receive(&mut theirs))
    };
    let (sent, got) = within(LIMIT, "8 MiB", both).await;
    assert_eq!(sent.unwrap(), got.unwrap());
    let info = ours.info();
    assert_eq!((info.path_mtu, info.counters.black_holes), (1_500, 0), "{info:#?}");
    assert_eq!(info.counters.retransmissions, 0, "{info:#?}");
}
