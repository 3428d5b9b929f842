//! TACK among peers that do not know it, and among those that do.

use std::time::Duration;

use tack_interop::segment::{ACK, SYN, Seen};
use tack_interop::world::within;
use tack_interop::{Family, Setup, World, stream};
use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::wired::DirectionConfig;
use tack_net::{ConnConfig, ListenConfig, Mode};

use crate::support::{LIMIT, Opener, pair, roomy, talk, they_send, way, we_send};

const BYTES: u64 = 6 << 20;

/// What a connection cost, as seen on the path.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Packets with data, from us and from the kernel.
    packets: [usize; 2],
    /// From our SYN to the answer.
    handshake: Duration,
    /// From our first data to the last of the kernel's.
    transfer: Duration,
}

impl Cost {
    /// What is left of two runs when each loses what a busy machine added.
    fn least(self, other: Option<Cost>) -> Cost {
        let other = other.unwrap_or(self);
        let packets = [0, 1].map(|i| self.packets[i].min(other.packets[i]));
        let handshake = self.handshake.min(other.handshake);
        Cost { packets, handshake, transfer: self.transfer.min(other.transfer) }
    }

    /// Whether one is as dear as the other, to a tenth of the time.
    fn is_like(&self, other: &Cost) -> bool {
        let packets = (0..2).all(|i| self.packets[i].abs_diff(other.packets[i]) < 50);
        let handshake = self.handshake.abs_diff(other.handshake) < Duration::from_millis(3);
        let ratio = self.transfer.as_secs_f64() / other.transfer.as_secs_f64();
        packets && handshake && (0.9..1.1).contains(&ratio)
    }
}

/// One connection, its data both ways in turn; `None` if this machine cannot have it.
async fn cost_of(offers: bool, family: Family) -> Option<Cost> {
    let world = Setup::over(roomy(50, 10)).start()?;
    let conn = if offers { ConnConfig::default() } else { ConnConfig::plain() };
    let (mut ours, mut theirs) = pair(&world, family, Opener::We, conn).await;
    we_send(&mut ours, &mut theirs, BYTES).await;
    they_send(&mut theirs, &mut ours, BYTES).await;
    within(LIMIT, "closing", ours.finished()).await.unwrap();
    assert_eq!(ours.info().mode, Mode::Plain);
    assert_eq!(ours.info().counters.retransmissions, 0, "{:#?}", ours.info());
    let log = world.log.all();
    check_options(&log, offers);
    Some(measure(&log))
}

fn check_options(log: &[Seen], offers: bool) {
    let syns: Vec<&Seen> = log.iter().filter(|s| s.entered && s.has(SYN)).collect();
    let [syn, answer] = syns[..] else { panic!("a SYN, a SYN/ACK: {syns:?}") };
    assert!(!syn.has(ACK) && syn.end == End::A && answer.has(ACK) && answer.end == End::B);
    assert_eq!(syn.tcp().unwrap().has_tack(), offers, "{syn:?}");
    let others = log.iter().filter(|s| !s.has(SYN) || s.has(ACK));
    assert!(others.filter_map(Seen::tcp).all(|t| !t.has_tack()), "nothing of TACK after a SYN");
}

fn measure(log: &[Seen]) -> Cost {
    let sent = |end| log.iter().filter(move |s| s.entered && s.end == end);
    let at = |end, flags| log.iter().find(|s| s.end == End::A && s.entered == end && s.has(flags));
    let handshake = at(false, SYN | ACK).unwrap().at - at(true, SYN).unwrap().at;
    let data = |s: &&Seen| s.payload() > 0;
    let first = log.iter().find(data).unwrap().at;
    let last = log.iter().rfind(data).unwrap().at;
    Cost {
        packets: [End::A, End::B].map(|end| sent(end).filter(data).count()),
        handshake,
        transfer: last - first,
    }
}

#[tokio::test]
async fn tack_permitted_is_ignored_by_the_kernel_and_costs_nothing() {
    const ATTEMPTS: u32 = 6;
    for family in Family::BOTH {
        let (mut with, mut without) = (None, None);
        for attempt in 1.. {
            let Some(run) = cost_of(true, family).await else { return };
            let w = run.least(with);
            let Some(run) = cost_of(false, family).await else { return };
            let wo = run.least(without);
            if w.is_like(&wo) {
                break;
            }
            println!("{family:?}, attempt {attempt}: {w:?} with the offer, {wo:?} without");
            assert!(attempt < ATTEMPTS, "{w:?} with the offer, {wo:?} without");
            (with, without) = (Some(w), Some(wo));
        }
    }
}

#[tokio::test]
async fn nothing_of_tack_is_said_to_a_kernel_that_connects() {
    let Some(world) = Setup::over(way(50, 1)).start() else { return };
    for family in Family::BOTH {
        let (mut ours, mut theirs) =
            pair(&world, family, Opener::Kernel, ConnConfig::default()).await;
        talk(&mut ours, &mut theirs, 300_000).await;
        assert_eq!(ours.info().mode, Mode::Plain);
    }
    assert!(world.log.all().iter().filter_map(Seen::tcp).all(|t| !t.has_tack()));
}

/// Both kernels between us only forward.
async fn through_two_routers(world: &World, family: Family, bytes: u64) {
    let Some((far, ip)) = world.far_endpoint(ConnConfig::default(), family) else { return };
    let listener = far.listen_plain_with(443, ListenConfig::default()).unwrap();
    let opening =
        async { tokio::join!(world.endpoint.connect_plain((ip, 443)), listener.accept()) };
    let (near, far) = within(LIMIT, "opening", opening).await;
    let (mut near, (mut far, _)) = (near.unwrap(), far.unwrap());
    let talking =
        async { tokio::join!(stream::send_all(&mut near, 1, bytes), stream::receive(&mut far)) };
    let (sent, got) = within(LIMIT, "one way", talking).await;
    assert_eq!(sent.unwrap(), got.unwrap());
    let talking =
        async { tokio::join!(stream::send_all(&mut far, 2, bytes), stream::receive(&mut near)) };
    let (sent, got) = within(LIMIT, "and the other", talking).await;
    assert_eq!(sent.unwrap(), got.unwrap());
    for end in [&near, &far] {
        within(LIMIT, "closing", end.finished()).await.unwrap();
        let info = end.info();
        assert_eq!(info.mode, Mode::Tack, "{info:#?}");
        assert!(info.counters.acks_sent.plain < 10, "{:?}", info.counters.acks_sent);
    }
}

/// The last byte of the option on a TACK; on loss IACKs it is another.
const TACK: u8 = 1;

/// Per second while the second half of the data from A came, when the sender has long known the
/// path: TACKs, other acknowledgments of TACK's, segments of data.
fn steady_rates(log: &[Seen]) -> [f64; 3] {
    let kind = |s: &Seen| match s.tcp()?.option(253)? {
        [_, _, kind] => Some(*kind),
        _ => None,
    };
    let from = |end| log.iter().filter(move |s| s.entered && s.end == end);
    let is_data = |s: &&Seen| s.payload() > 1_000 && kind(s).is_none();
    let data: Vec<&Seen> = from(End::A).filter(is_data).collect();
    let (start, end) = (data[data.len() / 2].at, data[data.len() - 1].at);
    let during = |s: &&Seen| (start..end).contains(&s.at);
    let kinds: Vec<u8> = from(End::B).filter(during).filter_map(kind).collect();
    let tacks = kinds.iter().filter(|kind| **kind == TACK).count();
    let data = data.into_iter().filter(during).count();
    let seconds = (end - start).as_secs_f64();
    [tacks, kinds.len() - tacks, data].map(|count| count as f64 / seconds)
}

#[tokio::test]
async fn tack_crosses_two_routers_over_a_lossy_path() {
    let loss = LossConfig::Bernoulli(0.002);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(100, 10) }).start() else { return };
    for family in Family::BOTH {
        world.log.clear();
        through_two_routers(&world, family, 12 << 20).await;
        let rates @ [tacks, iacks, data] = steady_rates(&world.log.all());
        println!("{family:?}: TACKs, IACKs and segments per second: {rates:.0?}");
        // Eq. 4 gives 4 per 20 ms. A busy machine is late with the path, whose queue then loses
        // more than it should: each loss is told at once. Plain TCP's would be half the segments.
        assert!((20.0..300.0).contains(&tacks), "{rates:.0?}");
        assert!(tacks + iacks < data / 6.0, "{rates:.0?}");
    }
}
