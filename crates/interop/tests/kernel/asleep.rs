//! A receiver that does not read for longer than a minute.

use std::time::Duration;

use tack_interop::segment::RST;
use tack_interop::world::within;
use tack_interop::{Family, Seen, Setup, sockets, stream};
use tack_link::End;
use tack_net::ConnConfig;

use crate::support::{Opener, pair, way};

const SILENCE: Duration = Duration::from_secs(61);
const LIMIT: Duration = Duration::from_secs(120);
const BYTES: u64 = 8 << 20;

/// All four at once, for a minute is long: both families, either as the receiver.
#[tokio::test]
async fn a_window_shut_for_a_minute_is_probed_and_opens_again() {
    let Some(world) = Setup::over(way(50, 5)).start() else { return };
    let conn = ConnConfig {
        recv_buffer: 256 << 10,
        initial_recv_buffer: 64 << 10,
        ..ConnConfig::default()
    };
    let (mut they_read, mut we_read) = (Vec::new(), Vec::new());
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        let (ours, theirs) = pair(&world, family, opener, conn.clone()).await;
        sockets::set_recv_buffer(&theirs, 32 << 10).unwrap();
        they_read.push((ours, theirs));
        we_read.push(pair(&world, family, opener, conn.clone()).await);
    }
    let to_the_kernel = they_read.into_iter().map(|(mut ours, mut theirs)| {
        let receiving = tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            stream::receive(&mut theirs).await.unwrap()
        });
        tokio::spawn(async move {
            let sent = stream::send_all(&mut ours, 7, BYTES).await.unwrap();
            assert_eq!(sent, receiving.await.unwrap(), "to the kernel");
            ours.info().counters.timeouts
        })
    });
    let to_us = we_read.into_iter().map(|(mut ours, mut theirs)| {
        let receiving = tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            stream::receive(&mut ours).await.unwrap()
        });
        tokio::spawn(async move {
            let sent = stream::send_all(&mut theirs, 8, BYTES).await.unwrap();
            assert_eq!(sent, receiving.await.unwrap(), "to us");
            0
        })
    });
    let transfers: Vec<_> = to_the_kernel.chain(to_us).collect();
    within(LIMIT, "four shut windows", async {
        for transfer in transfers {
            transfer.await.unwrap();
        }
    })
    .await;
    let log = world.log.all();
    assert!(log.iter().all(|seen| !seen.has(RST)));
    for (receiver, what) in [(End::B, "the kernel's"), (End::A, "our")] {
        probed(&log, receiver, what);
    }
}

/// What a sender does against a shut window [RFC 9293 §3.8.6.1]: it probes, less and less often.
fn probed(log: &[Seen], receiver: End, what: &str) {
    let shut = |s: &&Seen| s.tcp().is_some_and(|t| t.window == 0) && !s.has(RST);
    let shut: Vec<&Seen> =
        log.iter().filter(|s| s.entered && s.end == receiver).filter(shut).collect();
    let ports: std::collections::BTreeSet<u16> =
        shut.iter().filter_map(|s| s.tcp()).map(|t| t.dst_port).collect();
    assert!(ports.len() >= 2, "{what} windows shut: {ports:?}");
    for port in ports {
        let of_flow = |s: &&&Seen| s.tcp().is_some_and(|t| t.dst_port == port);
        let (first, last) =
            (shut.iter().find(of_flow).unwrap().at, shut.iter().rfind(of_flow).unwrap().at);
        let waited = last - first;
        assert!(waited > SILENCE / 3, "{what} window was probed for {waited:?} only");
        let probes = log.iter().filter(|s| {
            s.entered
                && s.end != receiver
                && s.at > first
                && s.at <= last
                && s.tcp().is_some_and(|t| t.src_port == port)
        });
        let probes = probes.count();
        assert!((4..=60).contains(&probes), "{what} window: {probes} probes in {waited:?}");
    }
}
