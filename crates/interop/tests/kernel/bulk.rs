//! A gigabyte each way over a path that loses, reorders, duplicates and damages.

use std::time::Duration;

use tack_interop::world::within;
use tack_interop::{Family, Setup, World, sockets, stream};
use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{Corruption, DirectionConfig, Reordering};
use tack_net::{ConnConfig, Mode};
use tack_units::Rate;

const GIB: u64 = 1 << 30;
const LIMIT: Duration = Duration::from_secs(110);

/// 1 Gbit/s, 8 ms there and back, and everything that can happen to a packet.
///
/// One bit at a time is damaged: that much every checksum sees. Two flips in one column of 16-bit
/// words undo each other in the sum, and in a gigabyte some would.
fn rough() -> DirectionConfig {
    let ms = Duration::from_millis;
    let clean = DirectionConfig::clean(Rate::from_mbps(1_000), ms(4), Limit::Bytes(2 << 20));
    DirectionConfig {
        loss: LossConfig::bursts(0.002, 2.0),
        reordering: Reordering { probability: 0.001, min: ms(1), max: ms(2) },
        duplication: 0.001,
        corruption: Corruption { probability: 0.000_5, max_flips: 1 },
        ..clean
    }
}

/// The path did to the sender's packets all that it should, and hardly more was sent again than
/// what it kept or spoiled: each end tells the other well what it has.
fn everything_happened_and_little_was_needless(world: World, sender: End, family: Family) {
    let report = world.finish();
    let c = report.link.link().counters(sender);
    let least = [c.lost, c.reordered, c.duplicated, c.corrupted].into_iter().min();
    assert!(least > Some(100), "{c:?}");
    // Timestamps take 12 bytes of each segment.
    let segments = GIB.div_ceil(u64::from(1_500 - family.header_bytes() - 12));
    let useful = segments + c.dropped() + c.corrupted;
    let needless = c.offered.packets.saturating_sub(useful);
    println!("{needless} of {} packets were needless", c.offered.packets);
    assert!(needless < c.offered.packets / 200, "{needless} packets were needless: {c:?}");
}

#[tokio::test]
async fn a_gigabyte_to_the_kernel_arrives_whole_over_a_rough_path() {
    let Some(world) = (Setup { log: false, ..Setup::over(rough()) }).start() else { return };
    let to = world.kernel(Family::V4, 7_000);
    let listener = sockets::listen(world.far(), to).unwrap();
    let ours = async {
        let mut ours = world.endpoint.connect_plain(to).await.unwrap();
        let sent = stream::send_all(&mut ours, 11, GIB).await.unwrap();
        ours.finished().await.unwrap();
        (sent, ours.info())
    };
    let theirs = async {
        let (mut kernels, _) = listener.accept().await.unwrap();
        stream::receive(&mut kernels).await.unwrap()
    };
    let ((sent, info), received) =
        within(LIMIT, "1 GiB", async { tokio::join!(ours, theirs) }).await;
    assert_eq!(sent, received);
    assert_eq!(info.mode, Mode::Plain);
    everything_happened_and_little_was_needless(world, End::A, Family::V4);
}

#[tokio::test]
async fn a_gigabyte_from_the_kernel_arrives_whole_over_a_rough_path() {
    let Some(world) = (Setup { log: false, ..Setup::over(rough()) }).start() else { return };
    let listener = world.listen(7_000, ConnConfig::default());
    let to = world.ours(Family::V6, 7_000);
    let theirs = async {
        let mut kernels = sockets::connect(world.far(), to).await.unwrap();
        sockets::set_congestion(&kernels, "bbr").unwrap();
        stream::send_all(&mut kernels, 12, GIB).await.unwrap()
    };
    let ours = async {
        let (mut ours, _) = listener.accept().await.unwrap();
        stream::receive(&mut ours).await.unwrap()
    };
    let (sent, received) = within(LIMIT, "1 GiB", async { tokio::join!(theirs, ours) }).await;
    assert_eq!(sent, received);
    everything_happened_and_little_was_needless(world, End::B, Family::V6);
}
