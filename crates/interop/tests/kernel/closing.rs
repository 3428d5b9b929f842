//! Ends of connections: one half at a time, all at once, and by force.

use std::io::ErrorKind;
use std::time::Duration;

use tack_interop::segment::{FIN, RST};
use tack_interop::world::within;
use tack_interop::{Family, Setup, World, sockets, stream};
use tack_link::End;
use tack_net::{ConnConfig, TackStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{LIMIT, Opener, pair, they_send, way, we_send};

async fn each_pair(world: &World) -> Vec<(TackStream, TcpStream, String)> {
    let mut pairs = Vec::new();
    for family in Family::BOTH {
        for opener in Opener::BOTH {
            let (ours, theirs) = pair(world, family, opener, ConnConfig::default()).await;
            pairs.push((ours, theirs, format!("{family:?}, opened by {opener:?}")));
        }
    }
    pairs
}

#[tokio::test]
async fn either_goes_on_sending_after_the_other_has_ended_its_half() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for (number, (mut ours, mut theirs, what)) in each_pair(&world).await.into_iter().enumerate() {
        // Each sends only once it has seen the end of the other's stream.
        if number % 3 == 0 {
            we_send(&mut ours, &mut theirs, 1 << 20).await;
            they_send(&mut theirs, &mut ours, 2 << 20).await;
        } else {
            they_send(&mut theirs, &mut ours, 1 << 20).await;
            we_send(&mut ours, &mut theirs, 2 << 20).await;
        }
        within(LIMIT, "closing", ours.finished()).await.unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    assert!(world.log.all().iter().all(|seen| !seen.has(RST)));
}

#[tokio::test]
async fn the_kernels_reset_with_data_in_flight_ends_our_reads_and_writes() {
    let Some(world) = Setup::over(way(20, 5)).start() else { return };
    for (mut ours, mut theirs, what) in each_pair(&world).await {
        let sending = stream::send(&mut ours, 5, 64 << 20);
        let resetting = async {
            stream::receive_at_most(&mut theirs, 500_000).await.unwrap();
            sockets::reset(theirs).unwrap();
        };
        let (sent, ()) = within(LIMIT, &what, async { tokio::join!(sending, resetting) }).await;
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::ConnectionReset, "{what}");
        let read = ours.read(&mut [0]).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset, "{what}");
    }
}

#[tokio::test]
async fn our_reset_with_data_in_flight_ends_the_kernels_reads_and_writes() {
    let Some(world) = Setup::over(way(20, 5)).start() else { return };
    for (mut ours, mut theirs, what) in each_pair(&world).await {
        let sending = stream::send(&mut theirs, 5, 64 << 20);
        let resetting = async {
            stream::receive_at_most(&mut ours, 500_000).await.unwrap();
            ours.abort();
        };
        let (sent, ()) = within(LIMIT, &what, async { tokio::join!(sending, resetting) }).await;
        let kind = sent.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
    }
    // And with data of ours in flight, which the kernel then discards [RFC 9293 §3.10.7.4].
    for (mut ours, mut theirs, what) in each_pair(&world).await {
        stream::send(&mut ours, 6, 300_000).await.unwrap();
        ours.abort();
        let read = within(LIMIT, &what, stream::receive(&mut theirs)).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset, "{what}");
    }
}

/// [RFC 9293 §3.6.1]: who closes without having read all tells the other that data was lost.
#[tokio::test]
async fn closing_with_unread_data_resets_the_kernel_and_the_reverse() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for (ours, mut theirs, what) in each_pair(&world).await {
        theirs.write_all(b"unread").await.unwrap();
        let arrived = async {
            while ours.info().recv_buffered < 6 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(LIMIT, "six bytes", arrived).await;
        drop(ours);
        let read = within(LIMIT, &what, theirs.read(&mut [0])).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset, "{what}");
    }
    for (mut ours, theirs, what) in each_pair(&world).await {
        ours.write_all(b"unread").await.unwrap();
        within(LIMIT, "six bytes", theirs.peek(&mut [0])).await.unwrap();
        drop(theirs);
        let read = within(LIMIT, &what, ours.read(&mut [0])).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset, "{what}");
    }
}

#[tokio::test]
async fn fins_that_cross_close_both_ends() {
    let Some(world) = Setup::over(way(100, 50)).start() else { return };
    for (mut ours, mut theirs, what) in each_pair(&world).await {
        // The handshake's last ACK is still on its way.
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.log.clear();
        let ending = async {
            tokio::join!(stream::exchange(&mut ours, 1, 500), stream::exchange(&mut theirs, 2, 700))
        };
        let (left, right) = within(LIMIT, &what, ending).await;
        let (left, right) = (left.unwrap(), right.unwrap());
        assert_eq!((left.0, left.1), (right.1, right.0), "{what}");
        within(LIMIT, &what, ours.finished()).await.unwrap();
        let log = world.log.all();
        let at = |end, entered| {
            log.iter().find(|s| s.end == end && s.entered == entered && s.has(FIN)).unwrap().at
        };
        assert!(at(End::A, true) < at(End::A, false), "{what}: they did not cross");
        assert!(at(End::B, true) < at(End::B, false), "{what}: they did not cross");
        assert!(log.iter().all(|seen| !seen.has(RST)), "{what}");
    }
}

/// [RFC 9293 §3.5 Fig. 7]: neither listens, and both SYNs are on the path at once.
#[tokio::test]
async fn syns_that_cross_open_one_connection() {
    let Some(world) = Setup::over(way(100, 50)).start() else { return };
    for (family, tack) in Family::BOTH.into_iter().zip([true, false]) {
        let (theirs, ours) = (world.kernel(family, 6_001), world.ours(family, 6_002));
        let socket = sockets::socket(world.far(), theirs).unwrap();
        socket.bind(theirs).unwrap();
        let base = if tack { ConnConfig::default() } else { ConnConfig::plain() };
        let conn = base.with(|it| it.local_port = Some(ours.port()));
        let opening = async {
            tokio::join!(world.endpoint.connect_plain_with(theirs, conn), socket.connect(ours))
        };
        let (ours, theirs) = within(LIMIT, "opening", opening).await;
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        let mut syns = world.log.all();
        syns.retain(|s| s.entered && s.has(tack_interop::segment::SYN));
        let bare = |end| syns.iter().any(|s| s.end == end && !s.has(tack_interop::segment::ACK));
        assert!(bare(End::A) && bare(End::B), "{syns:?}");
        crate::support::talk(&mut ours, &mut theirs, 1 << 20).await;
        within(LIMIT, "closing", ours.finished()).await.unwrap();
        world.log.clear();
    }
}
