//! TACK between two endpoints of ours, with a machine between them that knows nothing of it.

use tack_interop::world::within;
use tack_interop::{Family, Routed, stream};
use tack_net::{ConnConfig, ListenConfig, Mode, TackInfo, TackStream};

use crate::support::LIMIT;

const BYTES: u64 = 32 << 20;

/// 32 MiB from left to right, then from right to left; what each end says of the connection.
async fn there_and_back(routed: &Routed, family: Family) -> [TackInfo; 2] {
    let to = routed.right_address(family, 443);
    let listener = routed.right.listen_plain_with(443, ListenConfig::default()).unwrap();
    let opening = async { tokio::join!(routed.left.connect_plain(to), listener.accept()) };
    let (left, right) = within(LIMIT, "opening", opening).await;
    let (mut left, (mut right, _)) = (left.unwrap(), right.unwrap());
    one_way(&mut left, &mut right, "to the right").await;
    one_way(&mut right, &mut left, "to the left").await;
    for end in [&left, &right] {
        within(LIMIT, "closing", end.finished()).await.unwrap();
    }
    [left.info(), right.info()]
}

/// Ends the sender's half.
async fn one_way(from: &mut TackStream, to: &mut TackStream, what: &str) {
    let both = async { tokio::join!(stream::send_all(from, 31, BYTES), stream::receive(to)) };
    let (sent, got) = within(LIMIT, what, both).await;
    assert_eq!(sent.unwrap(), got.unwrap(), "{what}");
}

async fn crosses(narrow_mtu: u16, offload: bool) {
    let conn = ConnConfig::default();
    let Some(routed) = Routed::start(&conn, narrow_mtu, offload) else { return };
    for family in Family::BOTH {
        let before = routed.routing();
        for info in there_and_back(&routed, family).await {
            assert_eq!(info.mode, Mode::Tack, "{info:#?}");
            assert_eq!(info.path_mtu, narrow_mtu, "{info:#?}");
            assert_eq!(info.counters.black_holes, 0, "the router spoke: {info:#?}");
            let (acks, received) = (info.counters.acks_sent, info.counters.data_segments_received);
            assert!(acks.plain < 10, "{acks:?}");
            // How many TACKs fall due hangs on how long this machine takes: of every two segments
            // TCP acknowledges one, and no kind of TACK's comes near to that.
            assert!(acks.tack > 0 && 10 * acks.total() < received, "{acks:?} of {received}");
        }
        let after = routed.routing();
        // No packet is longer than 64 KiB, and both ways took this one.
        assert!(after.forwarded - before.forwarded >= 2 * (BYTES >> 16), "{before:?} {after:?}");
        let errors = match family {
            Family::V4 => after.unreachable - before.unreachable,
            Family::V6 => after.too_big - before.too_big,
        };
        println!("{family:?}: {errors} errors from the router");
        // As few as its own limit lets through: one to begin with is enough.
        assert_eq!(errors > 0, narrow_mtu < 1_500, "{before:?} {after:?}");
    }
}

#[tokio::test]
async fn tack_crosses_a_plain_router_whole() {
    crosses(1_500, true).await;
}

#[tokio::test]
async fn tack_fits_itself_to_what_is_behind_a_plain_router() {
    crosses(1_280, true).await;
}

#[tokio::test]
async fn tack_fits_itself_packet_by_packet_to_what_is_behind_a_plain_router() {
    crosses(1_280, false).await;
}
