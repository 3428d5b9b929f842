//! Every controller of the kernel's as a sender to us, and of ours to it.

use std::collections::BTreeMap;

use tack_cc::Algorithm;
use tack_interop::world::say_skipped;
use tack_interop::{Family, Seen, Setup, World, sockets};
use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::wired::{Counters, DirectionConfig};
use tack_net::ConnConfig;

use crate::support::{Opener, pair, they_send, way, we_send};

const BYTES: u64 = 12 << 20;

fn start() -> Option<World> {
    let loss = LossConfig::Bernoulli(0.001);
    Setup::over(DirectionConfig { loss, ..way(60, 10) }).start()
}

/// Packets of `end` whose text had been sent before, wholly or in part.
fn sent_again(log: &[Seen], end: End) -> u64 {
    let mut greatest: BTreeMap<u16, u32> = BTreeMap::new();
    let mut again = 0;
    let sent = log.iter().filter(|s| s.entered && s.end == end && s.payload() > 0);
    for tcp in sent.filter_map(Seen::tcp) {
        let next = greatest.entry(tcp.src_port).or_insert(tcp.seq);
        if (tcp.seq.wrapping_sub(*next) as i32) < 0 {
            again += 1;
        }
        let to = tcp.seq.wrapping_add(tcp.payload as u32);
        if (to.wrapping_sub(*next) as i32) > 0 {
            *next = to;
        }
    }
    again
}

/// What the path lost was sent again, and hardly anything else.
fn repaired_what_was_lost(log: &[Seen], end: End, lost: Counters, who: &str) {
    let (again, lost) = (sent_again(log, end), lost.dropped());
    assert!(again <= lost + lost / 10 + 10, "{who}: {lost} lost, {again} sent again");
    assert!(lost > 2, "{who}: nothing to repair");
}

async fn we_send_with(algorithm: Algorithm) {
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        let Some(world) = start() else { return };
        let conn = ConnConfig::plain().with(|it| it.congestion = Some(algorithm));
        let (mut ours, mut theirs) = pair(&world, family, opener, conn).await;
        we_send(&mut ours, &mut theirs, BYTES).await;
        let log = world.log.clone();
        drop((ours, theirs));
        let counters = world.finish().link.link().counters(End::A);
        repaired_what_was_lost(&log.all(), End::A, counters, &format!("our {algorithm}"));
    }
}

async fn the_kernel_sends_with(name: &str) {
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        let Some(world) = start() else { return };
        let (mut ours, mut theirs) = pair(&world, family, opener, ConnConfig::default()).await;
        if let Err(e) = sockets::set_congestion(&theirs, name) {
            return say_skipped(&format!("this kernel has no {name}: {e}"));
        }
        they_send(&mut theirs, &mut ours, BYTES).await;
        let log = world.log.clone();
        drop((ours, theirs));
        let counters = world.finish().link.link().counters(End::B);
        repaired_what_was_lost(&log.all(), End::B, counters, &format!("the kernel's {name}"));
    }
}

#[tokio::test]
async fn our_bbr_sends_to_the_kernel() {
    we_send_with(Algorithm::Bbr).await;
}

#[tokio::test]
async fn our_cubic_sends_to_the_kernel() {
    we_send_with(Algorithm::Cubic).await;
}

#[tokio::test]
async fn our_newreno_sends_to_the_kernel() {
    we_send_with(Algorithm::NewReno).await;
}

#[tokio::test]
async fn the_kernels_bbr_sends_to_us() {
    the_kernel_sends_with("bbr").await;
}

#[tokio::test]
async fn the_kernels_cubic_sends_to_us() {
    the_kernel_sends_with("cubic").await;
}

#[tokio::test]
async fn the_kernels_reno_sends_to_us() {
    the_kernel_sends_with("reno").await;
}
