//! Opening and closing when packets of the handshakes are lost, and the same ports once more.

use std::collections::BTreeSet;
use std::time::Duration;

use tack_interop::segment::{ACK, FIN, RST, SYN};
use tack_interop::world::within;
use tack_interop::{Family, Seen, Setup, sockets};
use tack_link::End;
use tack_net::ConnConfig;

use crate::support::{LIMIT, Opener, pair, roomy, talk};

/// Loses the first packet of each kind that opens or closes, once per connection and end.
fn first_of_each_kind() -> impl FnMut(&Seen) -> bool + Send {
    let mut lost = BTreeSet::new();
    move |seen| {
        let Some(tcp) = seen.tcp() else { return true };
        let kind = tcp.flags & (SYN | FIN) | if tcp.flags & SYN > 0 { tcp.flags & ACK } else { 0 };
        // Either end's port tells the connection.
        kind == 0 || !lost.insert((seen.end, kind, tcp.src_port, tcp.dst_port))
    }
}

#[tokio::test]
async fn lost_syns_and_fins_are_sent_again_by_whoever_owes_them() {
    let mut setup = Setup::over(roomy(100, 5));
    setup.filter = Some(Box::new(first_of_each_kind()));
    let Some(world) = setup.start() else { return };
    for family in Family::BOTH {
        for opener in Opener::BOTH {
            let (mut ours, mut theirs) = pair(&world, family, opener, ConnConfig::default()).await;
            talk(&mut ours, &mut theirs, 100_000).await;
            within(LIMIT, "closing", ours.finished()).await.unwrap();
        }
    }
    assert!(world.log.all().iter().all(|seen| !seen.has(RST)));
}

/// [RFC 6191]: who closed first waits, and a SYN with later timestamps begins anew all the same.
#[tokio::test]
async fn the_same_ports_serve_again_while_the_one_who_closed_first_still_waits() {
    let Some(world) = Setup::over(roomy(100, 5)).start() else { return };
    let listener = world.listen(6_100, ConnConfig::default());
    for family in Family::BOTH {
        for we_close_first in [true, false] {
            let from = world.kernel(family, if we_close_first { 6_101 } else { 6_102 });
            for round in 0..3 {
                let socket = sockets::socket(world.far(), from).unwrap();
                socket.bind(from).unwrap();
                let to = world.ours(family, 6_100);
                let opening = async { tokio::join!(socket.connect(to), listener.accept()) };
                let what = format!("{family:?}, {we_close_first}, round {round}");
                let (theirs, ours) = within(LIMIT, &what, opening).await;
                let (mut theirs, (mut ours, _)) = (theirs.unwrap(), ours.unwrap());
                if we_close_first {
                    crate::support::we_send(&mut ours, &mut theirs, 20_000).await;
                    crate::support::they_send(&mut theirs, &mut ours, 10_000).await;
                } else {
                    crate::support::they_send(&mut theirs, &mut ours, 10_000).await;
                    crate::support::we_send(&mut ours, &mut theirs, 20_000).await;
                }
                within(LIMIT, &what, ours.finished()).await.unwrap();
                // The timestamp clock of either has to move on.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test]
async fn we_connect_from_the_same_port_while_the_kernel_still_waits() {
    let Some(world) = Setup::over(roomy(100, 5)).start() else { return };
    for family in Family::BOTH {
        let to = world.kernel(family, 6_200);
        let listener = sockets::listen(world.far(), to).unwrap();
        for round in 0..3 {
            let conn = ConnConfig::default().with(|it| it.local_port = Some(6_201));
            let opening = async {
                tokio::join!(world.endpoint.connect_plain_with(to, conn), listener.accept())
            };
            let what = format!("{family:?}, round {round}");
            let (ours, theirs) = within(LIMIT, &what, opening).await;
            let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap().0);
            crate::support::they_send(&mut theirs, &mut ours, 10_000).await;
            crate::support::we_send(&mut ours, &mut theirs, 20_000).await;
            within(LIMIT, &what, ours.finished()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let resets = world.log.sent_by(End::B).iter().filter(|s| s.has(RST)).count();
    assert_eq!(resets, 0);
}
