//! Every acknowledgment strategy towards a peer that knows nothing of it.

use tack_interop::segment::SYN;
use tack_interop::{Family, Setup};
use tack_link::End;
use tack_net::{AckStrategy, ConnConfig};

use crate::support::{Opener, pair, talk, way};

/// The first of the reserved bits.
const POLL_MARK: u8 = 0x08;

#[tokio::test]
async fn every_strategy_talks_to_the_kernel_and_polls_end_with_the_syn() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for (i, ack) in AckStrategy::ALL.iter().enumerate() {
        let conn = ConnConfig::default().with(|it| it.ack = *ack);
        for opener in Opener::BOTH {
            world.log.clear();
            let family = Family::BOTH[i % 2];
            let (mut ours, mut theirs) = pair(&world, family, opener, conn.clone()).await;
            talk(&mut ours, &mut theirs, 500_000).await;
            let agreed = ours.info().ack;
            assert!(agreed == *ack || agreed == AckStrategy::PLAIN, "{ack} became {agreed}");
            ours.finished().await.unwrap();
            for seen in world.log.all().iter().filter(|seen| seen.entered) {
                let Some(tcp) = seen.tcp() else { continue };
                let marked = tcp.reserved & POLL_MARK != 0;
                let may = seen.end == End::A && opener == Opener::We && seen.has(SYN);
                assert!(!marked || may, "{ack}: {seen:?}");
            }
        }
    }
}
