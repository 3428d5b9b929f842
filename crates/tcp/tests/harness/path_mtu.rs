//! Paths narrower than the interfaces at their ends, that say so or not.

use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_cc::Algorithm;
use tack_tcp::{ConnConfig, Info, Mode, Remote};
use tack_units::{Instant, Rate};

use crate::app::{Reader, Writer};
use crate::bulk::{Bulk, PORT, path};
use crate::world::{Narrow, WorldConfig};

fn config(ipv6: bool) -> WorldConfig {
    // No queue overflows: what is lost did not fit.
    let path = path(Rate::from_mbps(50), Duration::from_millis(20), 20.0);
    WorldConfig { ip: Some(ipv6), ..WorldConfig::new(11, path) }
}

fn conn(tack: bool) -> ConnConfig {
    let algorithm = Some(Algorithm::NewReno);
    let config = if tack { ConnConfig::default() } else { ConnConfig::plain() };
    config.with(|it| {
        it.congestion = algorithm;
        it.send_buffer = 1 << 20;
    })
}

/// A transfer over a narrow link, from its start.
fn transfer(ipv6: bool, tack: bool, narrow: Narrow, len: u64) -> Bulk {
    let mut bulk = Bulk::new(config(ipv6), conn(tack), conn(tack), len);
    bulk.world.narrow[0] = Some(narrow);
    bulk
}

fn done(bulk: &Bulk, len: u64) -> Info {
    assert_eq!(bulk.reader.read, len, "{:?}", bulk.info());
    assert!(bulk.reader.at_end);
    bulk.info()
}

#[test]
fn a_router_that_tells_its_mtu_costs_one_flight_sent_again_and_no_window() {
    for (ipv6, tack) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bulk = transfer(ipv6, tack, Narrow::telling(1_400), 4 << 20);
        bulk.run(Instant::from_secs(4));
        let info = done(&bulk, 4 << 20);
        assert_eq!(info.path_mtu, 1_400);
        assert_eq!(info.mode == Mode::Tack, tack);
        let c = info.counters;
        // The initial window of ten.
        assert!(c.retransmissions <= 12, "ipv6 {ipv6}, tack {tack}: {c:?}");
        assert_eq!((c.timeouts, c.loss_episodes, c.black_holes), (0, 0, 0));
        let told = bulk.world.ends[0].host.counters().icmp;
        let dropped = bulk.world.narrow[0].expect("set").dropped;
        assert_eq!((told.heeded, told.implausible), (dropped, 0));
    }
}

#[test]
fn a_link_that_becomes_narrow_on_the_way_costs_no_timeout_and_no_window() {
    for tack in [false, true] {
        let mut bulk = Bulk::new(config(true), conn(tack), conn(tack), 8 << 20);
        bulk.run(Instant::from_millis(600));
        let before = bulk.info();
        assert_eq!(before.path_mtu, 1_500);
        bulk.world.narrow[0] = Some(Narrow::telling(1_300));
        bulk.run(Instant::from_millis(640));
        let after = bulk.info();
        assert_eq!(after.path_mtu, 1_300);
        // But for what an estimate varies by.
        let least = before.cwnd / 100 * 99;
        assert!(after.cwnd >= least, "{} fell from {}", after.cwnd, before.cwnd);
        bulk.run(Instant::from_secs(6));
        assert_eq!(done(&bulk, 8 << 20).counters.timeouts, 0);
        let (dropped, fits) = (bulk.world.narrow[0].expect("set").dropped, 1_300 / 8);
        assert!(dropped < fits, "a flight of {dropped}");
    }
}

#[test]
fn a_router_that_does_not_tell_its_mtu_is_answered_from_the_table_of_plateaus() {
    for tack in [false, true] {
        let narrow = Narrow { says: Some(None), ..Narrow::silent(1_410) };
        let mut bulk = transfer(false, tack, narrow, 1 << 20);
        bulk.run(Instant::from_secs(4));
        let info = done(&bulk, 1 << 20);
        assert_eq!(info.path_mtu, 1_400, "1492, then 1400");
        assert_eq!((info.counters.timeouts, info.counters.black_holes), (0, 0));
    }
}

#[test]
fn a_silent_black_hole_is_found_by_timeouts_and_its_size_by_probes() {
    for (ipv6, tack) in [(false, false), (false, true), (true, false), (true, true)] {
        for mtu in [1_300, 1_400, 1_450, 1_492] {
            let mut bulk = transfer(ipv6, tack, Narrow::silent(mtu), 16 << 20);
            bulk.run(Instant::from_secs(20));
            let info = done(&bulk, 16 << 20);
            let what = format!("ipv6 {ipv6}, tack {tack}, mtu {mtu}: {:?}", info.counters);
            assert_eq!(info.counters.black_holes, 1, "{what}");
            assert!(info.path_mtu <= mtu && info.path_mtu + 16 >= mtu, "{} {what}", info.path_mtu);
            assert_eq!(info.mode == Mode::Tack, tack, "{what}");
            // Two per size that does not pass; the first flight, and the timeouts' repetitions.
            assert!(info.counters.mtu_probes <= 16, "{what}");
            assert!(info.counters.timeouts <= 3, "{what}");
        }
    }
}

#[test]
fn a_path_that_takes_nearly_nothing_is_crossed_over_ipv4() {
    for tack in [false, true] {
        let mut bulk = transfer(false, tack, Narrow::silent(600), 200_000);
        bulk.run(Instant::from_secs(60));
        let info = done(&bulk, 200_000);
        assert_eq!(info.counters.black_holes, 2, "1280, then 576");
        assert!(info.path_mtu >= 576 && info.path_mtu <= 600, "{}", info.path_mtu);
    }
}

#[test]
fn lost_probes_do_not_slow_the_sender_down() {
    for tack in [false, true] {
        let mut bulk = transfer(false, tack, Narrow::silent(1_400), 8 << 20);
        bulk.run(Instant::from_secs(20));
        let info = done(&bulk, 8 << 20);
        assert!(info.counters.mtu_probes >= 4, "{:?}", info.counters);
        // Only the black hole itself was taken for congestion, by its timeouts.
        assert_eq!(info.counters.loss_episodes, 0, "{:?}", info.counters);
    }
}

/// Several are lost at the end, and leave again together, where no hole tells that they are old.
#[test]
fn messages_that_are_sent_again_are_no_full_segments() {
    for ip in [None, Some(false)] {
        let mut config = WorldConfig { ip, ..config(false) };
        config.pipes[0].blackouts.push(Instant::from_millis(4_000)..Instant::from_millis(4_070));
        config.hosts.iter_mut().for_each(|host| host.ip.segmentation_offload = ip.is_some());
        let nodelay = || conn(true).with(|it| it.nodelay = true);
        let mut bulk = Bulk::new(config, nodelay(), nodelay(), 0);
        bulk.writer.ends = false;
        let mut acks = |from, until| {
            let count = |bulk: &Bulk| bulk.server_info().counters.acks_sent.total();
            bulk.run(Instant::from_millis(from));
            let before = count(&bulk);
            for at in (from..until).step_by(5) {
                bulk.writer.len += 700;
                bulk.run(Instant::from_millis(at));
            }
            count(&bulk) - before
        };
        let before = acks(500, 4_000);
        let _lost = acks(4_000, 4_050);
        let after = acks(5_000, 8_500);
        let resent = bulk.info().counters.retransmissions;
        assert!(
            resent >= 5 && after <= before + 5,
            "{ip:?}: {resent} resent, {before} and {after}"
        );
    }
}

/// A transfer over a path one way of which is dark for seconds: packet size, and probes of it, in the end.
fn one_way_dark(pipe: usize, tack: bool) -> (u16, u64) {
    let mut config = config(false);
    config.pipes[pipe].blackouts.push(Instant::from_millis(500)..Instant::from_millis(4_000));
    let mut bulk = Bulk::new(config, conn(tack), conn(tack), 16 << 20);
    bulk.run(Instant::from_millis(3_900));
    assert!(bulk.info().path_mtu < 1_500, "it looked like a black hole");
    bulk.run(Instant::from_secs(30));
    let info = done(&bulk, 16 << 20);
    (info.path_mtu, info.counters.mtu_probes)
}

#[test]
fn a_path_that_was_only_dark_gets_its_size_back_with_the_first_probe() {
    for tack in [false, true] {
        assert_eq!(one_way_dark(0, tack), (1_500, 1));
    }
}

/// All that was outstanding had arrived, long as it was.
#[test]
fn a_path_whose_acknowledgments_were_lost_gets_its_size_back_without_a_probe() {
    assert_eq!(one_way_dark(1, true), (1_500, 0));
}

/// A second connection between the same ends, whose transfer starts now.
fn again(bulk: &mut Bulk, tack: bool, len: u64) {
    let remote = Remote { path: bulk.world.ends[1].addr, port: PORT };
    let now = bulk.world.local(0);
    let host = &mut bulk.world.ends[0].host;
    bulk.client = host.connect(remote, conn(tack), now).expect("a free port");
    bulk.server = None;
    bulk.closed = false;
    (bulk.writer, bulk.reader) = (Writer::new(7, len), Reader::new(7));
}

#[test]
fn the_next_connection_knows_what_the_last_one_learned_for_ten_minutes() {
    for tack in [false, true] {
        for narrow in [Narrow::telling(1_400), Narrow::silent(1_400)] {
            let mut bulk = transfer(true, tack, narrow, 8 << 20);
            bulk.run(Instant::from_secs(30));
            let learned = done(&bulk, 8 << 20).path_mtu;
            again(&mut bulk, tack, 1 << 20);
            bulk.run(Instant::from_secs(60));
            let info = done(&bulk, 1 << 20);
            assert_eq!((info.path_mtu, info.counters.retransmissions), (learned, 0));
            // The path is as wide as the interfaces again, and nobody says so.
            bulk.world.narrow[0] = None;
            bulk.run(Instant::from_secs(700));
            again(&mut bulk, tack, 1 << 20);
            bulk.run(Instant::from_secs(710));
            let info = done(&bulk, 1 << 20);
            assert_eq!((info.path_mtu, info.counters.retransmissions), (1_500, 0));
        }
    }
}

#[test]
fn a_connection_that_lives_on_tries_larger_packets_again_after_ten_minutes() {
    for tack in [false, true] {
        let mut bulk = transfer(true, tack, Narrow::telling(1_400), u64::MAX / 2);
        bulk.writer.ends = false;
        bulk.run(Instant::from_secs(2));
        assert_eq!(bulk.info().path_mtu, 1_400);
        // Idle until the table has forgotten: a slow writer would do the same.
        let written = bulk.writer.written;
        bulk.writer.len = written;
        bulk.run(Instant::from_secs(500));
        bulk.world.narrow[0] = None;
        bulk.run(Instant::from_secs(602));
        assert_eq!(bulk.info().path_mtu, 1_400);
        bulk.writer.len = written + (4 << 20);
        bulk.run(Instant::from_secs(610));
        let info = bulk.info();
        assert_eq!((info.path_mtu, info.counters.mtu_probes), (1_500, 1), "tack {tack}");
    }
}

#[test]
fn packets_over_udp_shrink_and_grow_without_the_hosts_table() {
    for tack in [false, true] {
        let path = path(Rate::from_mbps(50), Duration::from_millis(20), 20.0);
        let world = WorldConfig::new(11, path);
        let mut bulk = Bulk::new(world, conn(tack), conn(tack), 8 << 20);
        bulk.world.narrow[0] = Some(Narrow::silent(1_400));
        bulk.run(Instant::from_secs(20));
        let info = done(&bulk, 8 << 20);
        assert_eq!(info.counters.black_holes, 1);
        assert!(info.path_mtu <= 1_400 && info.path_mtu + 16 >= 1_400, "{}", info.path_mtu);
    }
}

/// A path with losses, reordering and a narrow link each way; whether the way there is wide.
fn rough(seed: u64) -> Bulk {
    let rng = &mut Pcg64Mcg::seed_from_u64(seed);
    let (ipv6, tack) = (rng.random_bool(0.5), rng.random_bool(0.5));
    let mut config = config(ipv6);
    for pipe in &mut config.pipes {
        pipe.loss = if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..0.03) };
        pipe.reorder = if rng.random_bool(0.7) { 0.0 } else { 0.05 };
        pipe.reorder_by = Duration::from_millis(rng.random_range(0..20));
    }
    let mut bulk = Bulk::new(config, conn(tack), conn(tack), 1 << 20);
    let least = if ipv6 { 1_280 } else { 576 };
    for narrow in &mut bulk.world.narrow {
        let mtu = rng.random_range(least..1_500);
        *narrow = match rng.random_range(0..4) {
            0 => None,
            1 => Some(Narrow::silent(mtu)),
            2 if !ipv6 => Some(Narrow { says: Some(None), ..Narrow::silent(mtu) }),
            _ => Some(Narrow::telling(mtu)),
        };
    }
    bulk
}

#[test]
fn whatever_the_path_takes_and_says_every_byte_arrives() {
    for seed in 0..200 {
        let mut bulk = rough(seed);
        bulk.run(Instant::from_secs(300));
        let (info, narrow) = (bulk.info(), bulk.world.narrow);
        assert!(
            bulk.reader.read == 1 << 20 && bulk.reader.at_end,
            "seed {seed}: {} bytes, {narrow:?}, {info:?}",
            bulk.reader.read
        );
        if let Some(narrow) = narrow[0] {
            assert!(usize::from(info.path_mtu) <= narrow.mtu, "seed {seed}: {info:?}");
        }
    }
}

#[test]
fn probing_can_be_turned_off() {
    let plain = (conn(false)).with(|it| it.probe_mtu = false);
    let mut bulk = Bulk::new(config(false), plain.clone(), plain, 1 << 20);
    bulk.world.narrow[0] = Some(Narrow::silent(1_400));
    bulk.run(Instant::from_secs(60));
    assert_eq!((bulk.reader.read, bulk.info().path_mtu), (0, 1_500));
}

/// The receiver counted them by the MSS agreed on, so that where the path takes less it waited for a third.
#[test]
fn two_full_segments_of_a_narrow_path_are_acknowledged() {
    for mtu in [1_500, 1_420, 1_400, 1_280, 600] {
        let mut bulk = transfer(false, true, Narrow::telling(mtu), 100_000);
        bulk.writer.ends = false;
        bulk.run(Instant::from_secs(4));
        assert_eq!(bulk.reader.read, 100_000);
        let acks = |bulk: &Bulk| bulk.server_info().counters.acks_sent.total();
        let (before, acks_before) = (bulk.info(), acks(&bulk));
        assert_eq!(before.path_mtu, mtu);
        for n in 0..50 {
            bulk.writer.len += 2 * u64::from(mtu - 60);
            bulk.run(Instant::from_millis(4_200 + 200 * n));
        }
        let (probes, acks) = (bulk.info().counters.probes, acks(&bulk));
        assert_eq!((probes - before.counters.probes, acks - acks_before), (0, 50), "{mtu}");
    }
}
