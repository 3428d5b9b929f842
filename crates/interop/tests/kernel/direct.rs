//! The kernel we share a device with: packets up to 64 KiB, and no path between.

use tack_cc::Algorithm;
use tack_interop::{Family, Setup};
use tack_net::{ConnConfig, Mode};

use crate::support::{Opener, pair, talk};

async fn talks(offload: bool) {
    let Some(world) = (Setup { offload, ..Setup::default() }).start() else { return };
    for family in Family::BOTH {
        for (opener, algorithm) in Opener::BOTH.into_iter().zip([Algorithm::Bbr, Algorithm::Cubic])
        {
            let conn = ConnConfig::default().with(|it| it.congestion = Some(algorithm));
            let (mut ours, mut theirs) = pair(&world, family, opener, conn).await;
            talk(&mut ours, &mut theirs, 48 << 20).await;
            ours.finished().await.unwrap();
            let info = ours.info();
            assert_eq!(info.mode, Mode::Plain);
            assert_eq!(info.counters.timeouts, 0, "{info:#?}");
        }
    }
    let (io, host) = (world.endpoint.io_counters(), world.endpoint.host_counters());
    assert_eq!((io.datagrams_refused, io.receive_errors, host.malformed), (0, 0, 0));
    let merged = io.datagrams_received > 2 * io.messages_received;
    assert_eq!(merged, offload, "{io:?}");
}

#[tokio::test]
async fn both_talk_at_once_in_super_packets() {
    talks(true).await;
}

#[tokio::test]
async fn both_talk_at_once_packet_by_packet() {
    talks(false).await;
}
