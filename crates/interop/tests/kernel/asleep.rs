//! A receiver that does not read for longer than a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tack_interop::segment::RST;
use tack_interop::world::within;
use tack_interop::{Family, Seen, Setup, sockets, stream};
use tack_link::End;
use tack_net::ConnConfig;
use tack_units::Instant;

use crate::support::{Opener, pair, way};

const SILENCE: Duration = Duration::from_secs(61);
const LIMIT: Duration = Duration::from_secs(120);
const BYTES: u64 = 8 << 20;

/// All at once, for a minute is long: both families, either as the receiver.
#[tokio::test]
async fn a_window_shut_for_a_minute_is_probed_and_opens_again() {
    let Some(world) = Setup::over(way(50, 5)).start() else { return };
    let conn = ConnConfig::default().with(|it| {
        it.recv_buffer = 256 << 10;
        it.initial_recv_buffer = 64 << 10;
    });
    let (mut they_read, mut we_read) = (Vec::new(), Vec::new());
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        let (ours, theirs) = pair(&world, family, opener, conn.clone()).await;
        // Takes back some of the window, and refuses what is on its way.
        sockets::set_recv_buffer(&theirs, 32 << 10).unwrap();
        they_read.push((ours, theirs));
        we_read.push(pair(&world, family, opener, conn.clone()).await);
    }
    // These never had more, and shut when it is full.
    world.set("net.ipv4.tcp_rmem", "4096 65536 65536");
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        they_read.push(pair(&world, family, opener, conn.clone()).await);
    }
    let to_the_kernel = they_read.into_iter().map(|(mut ours, mut theirs)| {
        let receiving = tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            stream::receive(&mut theirs).await.unwrap()
        });
        tokio::spawn(async move {
            let sent = stream::send_all(&mut ours, 7, BYTES).await.unwrap();
            assert_eq!(sent, receiving.await.unwrap(), "to the kernel");
            let info = ours.info();
            assert_eq!((info.path_mtu, info.counters.black_holes), (1_500, 0), "{info:#?}");
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
        })
    });
    let transfers: Vec<_> = to_the_kernel.chain(to_us).collect();
    within(LIMIT, "six shut windows", async {
        for transfer in transfers {
            transfer.await.unwrap();
        }
    })
    .await;
    let log = world.log.all();
    opened_at_once(&log, End::A, 4);
    opened_at_once(&log, End::B, 2);
    assert!(log.iter().all(|seen| !seen.has(RST)));
    for (receiver, what) in [(End::B, "the kernel's"), (End::A, "our")] {
        probed(&log, receiver, what);
    }
}

/// Whoever has something to send does so as soon as it is told of room, and waits for no timer.
fn opened_at_once(log: &[Seen], sender: End, flows: usize) {
    let awake = Instant::ZERO + SILENCE;
    let at_sender = || log.iter().filter(|s| s.end == sender && s.at > awake);
    let mut told = BTreeMap::new();
    for seen in at_sender().filter(|s| !s.entered) {
        if let Some(tcp) = seen.tcp().filter(|t| t.window > 0) {
            told.entry(tcp.dst_port).or_insert(seen.at);
        }
    }
    let waits = told.into_iter().filter_map(|(port, told)| {
        let is_ours = |s: &&Seen| s.tcp().is_some_and(|t| t.src_port == port);
        let data = |s: &&Seen| s.entered && s.payload() > 0 && s.at > told;
        Some(at_sender().filter(data).find(is_ours)?.at - told)
    });
    let waits: Vec<Duration> = waits.collect();
    println!("{sender:?} sends after {waits:?}");
    assert_eq!(waits.len(), flows, "{waits:?}");
    assert!(waits.iter().all(|waited| *waited < Duration::from_secs(5)), "{waits:?}");
}

/// What a sender does against a shut window [RFC 9293 §3.8.6.1]: it probes, less and less often.
fn probed(log: &[Seen], receiver: End, what: &str) {
    let shut = |s: &&Seen| s.tcp().is_some_and(|t| t.window == 0) && !s.has(RST);
    let shut: Vec<&Seen> =
        log.iter().filter(|s| s.entered && s.end == receiver).filter(shut).collect();
    let ports: BTreeSet<u16> = shut.iter().filter_map(|s| s.tcp()).map(|t| t.dst_port).collect();
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
