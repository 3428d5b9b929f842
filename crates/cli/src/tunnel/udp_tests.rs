use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use tokio::io::duplex;
use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_secs(30);

async fn local() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn named(name: &str) -> Target {
    Target { host: Host::Name(name.to_owned()), port: 53 }
}

#[tokio::test]
async fn a_name_that_nobody_answers_for_holds_up_no_datagram_but_its_own() {
    let ((socket, _), (peer, at)) = (local().await, local().await);
    let (mut client, server) = duplex(1 << 20);
    let resolving = move |target: Target| async move {
        match target.host {
            Host::Name(name) if name.starts_with("slow") => std::future::pending().await,
            Host::Name(_) => Ok(Some(at)),
            Host::Ip(ip) => Ok(Some((ip, target.port).into())),
        }
    };
    let serving = tokio::spawn(serve_by(server, socket, resolving));
    // Nearly as many names as are asked for at once, and more datagrams.
    for number in 0..100 {
        let target = named(&format!("slow{}.test", number % 30));
        send(&Datagram { target, data: b"never" }, &mut client).await.unwrap();
    }
    let mut got = [0; 64];
    for target in [Target::from(at), named("quick.test"), named("quick.test")] {
        send(&Datagram { target, data: b"at once" }, &mut client).await.unwrap();
        let (length, _) =
            timeout(SOON, peer.recv_from(&mut got)).await.expect("it is held up").unwrap();
        assert_eq!(&got[..length], b"at once");
    }
    drop(client);
    timeout(SOON, serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_waits_for_a_name_is_bounded_and_leaves_in_order() {
    let mut names = Names::default();
    let (found, here) =
        (Arc::new(tokio::sync::Notify::new()), SocketAddr::from(([10, 0, 0, 1], 53)));
    let told = found.clone();
    let resolving = |_: Target| {
        let told = told.clone();
        async move {
            told.notified().await;
            Ok(Some(here))
        }
    };
    for number in 0..100 {
        assert_eq!(names.look_up(named("a.test"), vec![number], &resolving).await, None);
    }
    for number in 0..100 {
        assert_eq!(
            names.look_up(named(&format!("{number}.test")), vec![0], &resolving).await,
            None
        );
    }
    assert_eq!(names.waiting.len(), MOST_ASKED);
    tokio::task::yield_now().await;
    found.notify_waiters();
    let first: Vec<_> = (0..MOST_WAITING as u8).map(|number| vec![number]).collect();
    let mut all = Vec::new();
    while let Some((to, waiting)) = names.found().await {
        assert_eq!(to, here);
        all.push(waiting);
    }
    assert!(all.len() == MOST_ASKED && all.contains(&first), "{all:?}");
    assert_eq!(names.look_up(named("a.test"), vec![0], &resolving).await, Some(here));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_is_broken_for_good_ends_it_and_is_not_asked_without_end() {
    // It is none of UDP, and has ended: each attempt fails at once.
    let (ended, other) = UnixStream::pair().unwrap();
    drop(other);
    ended.set_nonblocking(true).unwrap();
    let broken = UdpSocket::from_std(OwnedFd::from(ended).into()).unwrap();
    let (_client, server) = duplex(1_000);
    let serving = serve_by(server, broken, |_| async { Ok(None) });
    timeout(SOON, serving).await.expect("an end").unwrap_err();
}

#[tokio::test]
async fn what_waits_for_names_is_bounded_in_bytes_as_well() {
    let mut names = Names::default();
    let resolving = |_: Target| std::future::pending();
    for number in 0..100 {
        let target = named(&format!("slow{}.test", number % 30));
        assert_eq!(names.look_up(target, vec![0; 60_000], resolving).await, None);
    }
    let waiting: usize = names.waiting.values().flatten().map(Vec::len).sum();
    assert!((200_000..=MOST_WAITING_BYTES).contains(&waiting), "{waiting}");
}
