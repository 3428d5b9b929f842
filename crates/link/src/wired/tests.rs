//! Wired links against naive oracles.

use core::time::Duration;

use tack_units::Rate;

use super::*;
use crate::draw;
use crate::loss::LossConfig;
use crate::queue::{Discipline, FqCodelConfig, Limit, QueueConfig};
use crate::trace::DeliveryTrace;

const MS: Duration = Duration::from_millis(1);

fn packet(id: u64, ip_bytes: u32, now: Instant) -> Packet {
    Packet { id, dst: 1, ip_bytes, sent_at: now, ..Packet::default() }
}

/// Offers packets at their times and polls at every deadline until `end`.
fn run(link: &mut dyn Link, offers: &[(Instant, u32)], end: Instant) -> Vec<(Instant, Packet)> {
    let mut out = Vec::new();
    let mut offers = offers.iter().enumerate().peekable();
    let mut deadline = None;
    loop {
        let next_offer = offers.peek().map(|(_, o)| o.0);
        let Some(now) = earliest(deadline, next_offer).filter(|t| *t <= end) else { return out };
        while let Some((id, (at, ip_bytes))) = offers.next_if(|(_, o)| o.0 == now) {
            link.offer(End::A, packet(id as u64, *ip_bytes, *at), now);
        }
        deadline = loop {
            match link.poll(now) {
                Output::Deliver { end, packet } => {
                    assert_eq!(end, End::B);
                    out.push((now, packet));
                }
                Output::Wait(at) => break at,
            }
        };
        assert!(deadline.is_none_or(|at| at > now), "a deadline lies ahead");
    }
}

fn link(config: DirectionConfig) -> Wired {
    Wired::symmetric(config, 1).unwrap()
}

fn all_at_start(n: usize, ip_bytes: u32) -> Vec<(Instant, u32)> {
    vec![(Instant::ZERO, ip_bytes); n]
}

fn unbounded() -> QueueConfig {
    QueueConfig::drop_tail(Limit::Packets(u32::MAX))
}

#[test]
fn a_packet_takes_its_serialisation_and_propagation_time() {
    let config = DirectionConfig::clean(Rate::from_mbps(12), 10 * MS, Limit::Packets(10));
    let out = run(&mut link(config), &all_at_start(2, 1_500), Instant::MAX);
    let times: Vec<_> = out.iter().map(|(t, _)| *t).collect();
    assert_eq!(times, [Instant::from_millis(11), Instant::from_millis(12)]);
}

#[test]
fn an_odd_rate_is_exact_to_the_packet_over_long_runs() {
    for bps in [7, 999_983, 54_000_001, 1_000_000_007, 123_456_789_011] {
        let config = DirectionConfig {
            capacity: Capacity::Constant(Rate::from_bps(bps)),
            queue: unbounded(),
            ..DirectionConfig::default()
        };
        let n = 100_000u64;
        let out = run(&mut link(config), &all_at_start(n as usize, 1_499), Instant::MAX);
        for (i, (t, _)) in out.iter().enumerate() {
            let exact = u128::from(i as u64 + 1) * 1_499 * 8_000_000_000;
            assert_eq!(u128::from(t.as_nanos()), exact.div_ceil(u128::from(bps)), "{bps} {i}");
        }
    }
}

#[test]
fn rate_steps_and_holds_serve_what_their_integral_says() {
    let step = |ms, kbps| RateStep { at: Instant::from_millis(ms), rate: Rate::from_kbps(kbps) };
    let steps = vec![step(0, 1_000), step(10, 12_000), step(20, 0), step(35, 3_333)];
    let holds = vec![
        (Instant::from_millis(4), Instant::from_millis(7)),
        (Instant::from_millis(15), Instant::from_millis(22)),
    ];
    for period in [None, Some(50 * MS)] {
        let capacity = match period {
            None => Capacity::Steps(steps.clone()),
            Some(period) => Capacity::Cycle { steps: steps.clone(), period },
        };
        let config = DirectionConfig {
            capacity,
            holds: Outages::At(holds.clone()),
            queue: unbounded(),
            ..DirectionConfig::default()
        };
        let out = run(&mut link(config), &all_at_start(200, 300), Instant::from_millis(300));
        // The naive oracle adds up bits microsecond by microsecond.
        let mut bits = 0u128;
        let mut served = Vec::new();
        for us in 0..300_000u64 {
            let t = Instant::from_micros(us);
            let within = period.map_or(us, |p| us % p.as_micros() as u64);
            let rate = steps.iter().rfind(|s| s.at.as_micros() <= within).unwrap().rate;
            let held = holds.iter().any(|(from, to)| (*from..*to).contains(&t));
            bits += if held { 0 } else { u128::from(rate.as_bps()) };
            while bits >= (served.len() as u128 + 1) * 300 * 8 * 1_000_000 && served.len() < 200 {
                served.push(us + 1);
            }
        }
        let got: Vec<u64> = out.iter().map(|(t, _)| t.as_nanos().div_ceil(1_000)).collect();
        assert_eq!(got, served);
        assert!(served.len() > 50);
    }
}

#[test]
fn a_trace_delivers_a_full_packet_per_line_and_several_small_ones() {
    let trace = DeliveryTrace::parse("2\n2\n5\n10\n").unwrap();
    let config = DirectionConfig {
        capacity: Capacity::Trace(trace),
        queue: unbounded(),
        ..DirectionConfig::default()
    };
    let full = run(&mut link(config.clone()), &all_at_start(9, 1_500), Instant::MAX);
    let ms: Vec<u64> = full.iter().map(|(t, _)| t.as_micros() / 1_000).collect();
    assert_eq!(ms, [2, 2, 5, 10, 12, 12, 15, 20, 22]);
    // 44 bytes with framing: 34 fit into 1504 bytes, and the 35th crosses into the next line.
    let small = run(&mut link(config.clone()), &all_at_start(70, 40), Instant::MAX);
    let at = |ms| small.iter().filter(|(t, _)| *t == Instant::from_millis(ms)).count();
    assert_eq!((at(2), at(5)), (68, 2));
    // 3004 bytes with framing take two lines, and the first is half used by the packet before.
    let mixed = [(Instant::ZERO, 748), (Instant::ZERO, 2_252)];
    let mixed = run(&mut link(config.clone()), &mixed, Instant::MAX);
    assert_eq!(mixed[1].0, Instant::from_millis(2));
    // Opportunities that nobody waits for are lost: offered at 3 ms, served at 5 and at 10.
    let late = vec![(Instant::from_millis(3), 1_500); 2];
    let late: Vec<_> = run(&mut link(config), &late, Instant::MAX).iter().map(|p| p.0).collect();
    assert_eq!(late, [Instant::from_millis(5), Instant::from_millis(10)]);
}

#[test]
fn a_busy_trace_delivers_exactly_its_lines_over_a_long_run() {
    let lines: Vec<u64> = {
        let mut rng = draw::stream(5, 0);
        let mut t = 1;
        (0..5_000)
            .map(|_| {
                t += draw::below(&mut rng, 4);
                t
            })
            .collect()
    };
    let text: String = lines.iter().map(|t| format!("{t}\n")).collect();
    let trace = DeliveryTrace::parse(&text).unwrap();
    let period = trace.period();
    let config = DirectionConfig {
        capacity: Capacity::Trace(trace),
        queue: unbounded(),
        ..DirectionConfig::default()
    };
    let end = Instant::ZERO + 3 * period;
    let out = run(&mut link(config), &all_at_start(20_000, 1_500), end);
    assert_eq!(out.len(), 3 * 5_000);
    for (i, (t, _)) in out.iter().enumerate() {
        let cycle = (i / 5_000) as u32;
        assert_eq!(*t, Instant::from_millis(lines[i % 5_000]) + period * cycle);
    }
}

#[test]
fn jitter_keeps_the_order_and_its_bounds() {
    let laws = [
        Jitter::Uniform { max: 20 * MS },
        Jitter::HalfNormal { deviation: 5 * MS },
        Jitter::Exponential { mean: 5 * MS },
        Jitter::Wander { max: 20 * MS, period: 100 * MS },
    ];
    for jitter in laws {
        let config = DirectionConfig { delay: 30 * MS, jitter, ..DirectionConfig::default() };
        let delays = |spacing_us: u64| {
            let offers: Vec<_> =
                (0..10_000u64).map(|n| (Instant::from_micros(n * spacing_us), 1_000)).collect();
            let out = run(&mut link(config.clone()), &offers, Instant::MAX);
            assert!(out.iter().map(|(_, p)| p.id).eq(0..10_000), "{jitter:?}");
            out.iter().map(|(t, p)| *t - p.sent_at).collect::<Vec<_>>()
        };
        // Close together, packets wait for those before them; far apart, the law alone counts.
        assert!(delays(700).iter().all(|d| *d >= 30 * MS));
        let apart = delays(100_000);
        let (least, greatest) = (apart.iter().min().unwrap(), apart.iter().max().unwrap());
        assert!((30 * MS..31 * MS).contains(least), "{jitter:?} {least:?}");
        assert!(*greatest > 48 * MS, "{jitter:?} {greatest:?}");
    }
}

#[test]
fn reordering_holds_back_its_share_and_leaves_the_rest_in_order() {
    let config = DirectionConfig {
        delay: 10 * MS,
        reordering: Reordering { probability: 0.05, min: 2 * MS, max: 4 * MS },
        ..DirectionConfig::default()
    };
    let offers: Vec<_> = (0..20_000).map(|n| (Instant::from_micros(n * 100), 1_000)).collect();
    let mut link = link(config);
    let out = run(&mut link, &offers, Instant::MAX);
    let (held, prompt): (Vec<_>, Vec<_>) =
        out.iter().map(|(t, p)| (*t - p.sent_at, p.id)).partition(|(delay, _)| *delay > 10 * MS);
    assert!(prompt.iter().map(|p| p.1).is_sorted());
    assert!(held.iter().all(|(delay, _)| (12 * MS..=14 * MS).contains(delay)));
    assert!((900..1_100).contains(&held.len()), "{}", held.len());
    assert_eq!(link.counters(End::A).reordered, held.len() as u64);
}

#[test]
fn copies_and_damage_come_in_their_shares() {
    let config = DirectionConfig {
        duplication: 0.1,
        corruption: Corruption { probability: 0.2, max_flips: 3 },
        ..DirectionConfig::default()
    };
    let mut link = link(config);
    let clean: Vec<u8> = (0..100).collect();
    let mut damaged = 0;
    for id in 0..10_000 {
        let offered = Packet { bytes: clean.clone(), ..packet(id, 100, Instant::ZERO) };
        link.offer(End::A, offered, Instant::ZERO);
        while let Output::Deliver { packet, .. } = link.poll(Instant::ZERO) {
            let flips: u32 =
                packet.bytes.iter().zip(&clean).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!(flips <= 3 && packet.bytes.len() == 100);
            damaged += u64::from(flips > 0);
        }
    }
    let c = link.counters(End::A);
    assert!((850..1_150).contains(&c.duplicated), "{c:?}");
    assert!((1_800..2_200).contains(&c.corrupted), "{c:?}");
    // A damaged packet that is copied counts once but arrives twice.
    assert!(damaged >= c.corrupted);
    assert_eq!(c.delivered.packets, 10_000 + c.duplicated);
}

#[test]
fn damaged_packets_without_bytes_are_dropped() {
    let config = DirectionConfig {
        corruption: Corruption { probability: 0.5, max_flips: 1 },
        ..DirectionConfig::default()
    };
    let mut link = link(config);
    let out = run(&mut link, &all_at_start(2_000, 100), Instant::MAX);
    let c = link.counters(End::A);
    assert_eq!(out.len() as u64 + c.corrupt_dropped, 2_000);
    assert!((900..1_100).contains(&out.len()));
}

#[test]
fn a_blackout_loses_what_passes_and_a_hold_only_delays_it() {
    let window = vec![(Instant::from_millis(10), Instant::from_millis(20))];
    let offers: Vec<_> = (0..30).map(|n| (Instant::from_millis(n), 100)).collect();
    let cut =
        DirectionConfig { blackouts: Outages::At(window.clone()), ..DirectionConfig::default() };
    let out = run(&mut link(cut), &offers, Instant::MAX);
    assert!(out.iter().map(|(_, p)| p.id).eq((0..10).chain(20..30)));
    let held = DirectionConfig { holds: Outages::At(window), ..DirectionConfig::default() };
    let out = run(&mut link(held), &offers, Instant::MAX);
    assert!(out.iter().map(|(_, p)| p.id).eq(0..30));
    for (t, p) in out {
        let expected = if (10..20).contains(&p.id) { 20 } else { p.id };
        assert_eq!(t, Instant::from_millis(expected));
    }
}

#[test]
fn directions_have_their_own_settings_and_do_not_disturb_each_other() {
    let down = DirectionConfig::clean(Rate::from_mbps(100), 10 * MS, Limit::Packets(10));
    let up = DirectionConfig {
        loss: LossConfig::Bernoulli(1.0),
        ..DirectionConfig::clean(Rate::from_mbps(1), 30 * MS, Limit::Packets(10))
    };
    let mut link = Wired::new(down, up, 1).unwrap();
    link.offer(End::A, packet(1, 1_250, Instant::ZERO), Instant::ZERO);
    link.offer(End::B, packet(2, 1_250, Instant::ZERO), Instant::ZERO);
    assert_eq!(link.poll(Instant::ZERO), Output::Wait(Some(Instant::from_micros(100))));
    let Output::Deliver { end: End::B, packet } = link.poll(Instant::from_micros(10_100)) else {
        panic!("the packet from A is due");
    };
    assert_eq!(packet.id, 1);
    assert_eq!(link.poll(Instant::from_millis(50)), Output::Wait(None));
    assert_eq!(link.counters(End::B).lost, 1);
}

/// Everything at once, for the tests that compare whole runs.
fn rough() -> DirectionConfig {
    DirectionConfig {
        capacity: Capacity::Constant(Rate::from_mbps(10)),
        queue: QueueConfig::drop_tail(Limit::Packets(20)),
        holds: Outages::Every {
            first: Instant::from_millis(100),
            period: 300 * MS,
            min: 20 * MS,
            max: 40 * MS,
        },
        blackouts: Outages::At(vec![(Instant::from_millis(900), Instant::from_millis(950))]),
        loss: LossConfig::bursts(0.02, 4.0),
        duplication: 0.02,
        delay: 20 * MS,
        jitter: Jitter::Uniform { max: 3 * MS },
        reordering: Reordering { probability: 0.02, min: MS, max: 5 * MS },
        ..DirectionConfig::default()
    }
}

fn random_offers(seed: u64, n: usize) -> Vec<(Instant, u32)> {
    let mut rng = draw::stream(seed, 99);
    let mut t = Instant::ZERO;
    (0..n)
        .map(|_| {
            t += draw::exponential(&mut rng, Duration::from_micros(900));
            (t, 40 + draw::below(&mut rng, 1_461) as u32)
        })
        .collect()
}

#[test]
fn every_packet_is_accounted_for_at_every_instant() {
    // `Counters::assert_conserved` runs at each offer and delivery; here the ends are compared.
    for seed in 0..20 {
        let offers = random_offers(seed, 3_000);
        let mut config = rough();
        if seed % 2 == 1 {
            config.queue.discipline = Discipline::FqCodel(FqCodelConfig::default());
        }
        let mut link = Wired::symmetric(config, seed).unwrap();
        let out = run(&mut link, &offers, Instant::MAX);
        let c = link.counters(End::A);
        assert_eq!((c.offered.packets, c.resident), (3_000, 0), "seed {seed}");
        assert_eq!(c.delivered.packets, out.len() as u64, "seed {seed}");
        assert_eq!(c.delivered.bytes, out.iter().map(|(_, p)| u64::from(p.ip_bytes)).sum::<u64>());
        assert_eq!(c.offered.packets + c.duplicated, c.delivered.packets + c.dropped());
        for fate in [c.lost, c.duplicated, c.reordered, c.blacked_out, c.tail_dropped] {
            assert!(fate > 0, "seed {seed}: {c:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let offers = random_offers(1, 2_000);
    let go = |seed| run(&mut Wired::symmetric(rough(), seed).unwrap(), &offers, Instant::MAX);
    assert_eq!(go(1), go(1));
    assert_ne!(go(1), go(2));
}

#[test]
fn switching_one_impairment_on_leaves_the_luck_of_the_others() {
    let offers: Vec<_> = (0..2_000).map(|n| (Instant::from_millis(n), 1_000)).collect();
    let lost = |duplication| {
        let config = DirectionConfig {
            loss: LossConfig::Bernoulli(0.1),
            duplication,
            ..DirectionConfig::default()
        };
        let out = run(&mut link(config), &offers, Instant::MAX);
        (0..2_000).filter(|id| out.iter().all(|(_, p)| p.id != *id)).collect::<Vec<_>>()
    };
    assert_eq!(lost(0.0), lost(0.5));
}

#[test]
fn a_link_polled_for_arrivals_alone_delivers_the_same_at_the_same_times() {
    let delay_steps = [(200, 3), (900, 60), (1_400, 10)].map(|(at_ms, delay_ms)| DelayStep {
        at: Instant::from_millis(at_ms),
        delay: delay_ms * MS,
    });
    let config = DirectionConfig { delay_steps: delay_steps.to_vec(), ..rough() };
    for (seed, config) in [(1, rough()), (2, rough()), (3, config.clone()), (4, config)] {
        let offers = random_offers(seed, 3_000);
        let mut always = Wired::symmetric(config.clone(), seed).unwrap();
        let mut seldom = Wired::symmetric(config, seed).unwrap().for_arrivals();
        let expected = run(&mut always, &offers, Instant::MAX);
        assert_eq!(run(&mut seldom, &offers, Instant::MAX), expected, "seed {seed}");
        assert_eq!(seldom.counters(End::A), always.counters(End::A), "seed {seed}");
    }
}

#[test]
fn a_link_polled_late_releases_the_same_packets_in_the_same_order() {
    // A driver in real time asks at any time after the deadline, and offers in between.
    let offers = random_offers(3, 3_000);
    let mut exact = Wired::symmetric(rough(), 7).unwrap();
    let expected = run(&mut exact, &offers, Instant::MAX);
    let mut late = Wired::symmetric(rough(), 7).unwrap();
    let mut rng = draw::stream(8, 0);
    let mut got = Vec::new();
    let mut drain = |link: &mut Wired, now| {
        while let Output::Deliver { packet, .. } = link.poll(now) {
            got.push((now, packet));
        }
    };
    for (id, (at, ip_bytes)) in offers.iter().enumerate() {
        late.offer(End::A, packet(id as u64, *ip_bytes, *at), *at);
        if draw::chance(&mut rng, 0.05) {
            drain(&mut late, *at);
        }
    }
    drain(&mut late, Instant::from_secs(100));
    assert_eq!(got.len(), expected.len());
    for ((late_at, packet), (exact_at, expected)) in got.iter().zip(&expected) {
        assert_eq!(packet, expected);
        assert!(late_at >= exact_at, "never early");
    }
    assert_eq!(late.counters(End::A), exact.counters(End::A));
}

#[test]
fn a_rate_of_zero_for_ever_keeps_its_packets() {
    let config = DirectionConfig {
        capacity: Capacity::Constant(Rate::ZERO),
        queue: QueueConfig::drop_tail(Limit::Packets(2)),
        ..DirectionConfig::default()
    };
    let mut link = link(config);
    let out = run(&mut link, &all_at_start(5, 100), Instant::MAX);
    let c = link.counters(End::A);
    assert_eq!((out.len(), c.resident, c.tail_dropped), (0, 3, 2));
}

#[test]
fn time_that_runs_backwards_is_taken_as_standing_still() {
    let mut link = link(DirectionConfig { delay: MS, ..DirectionConfig::default() });
    assert_eq!(link.poll(Instant::from_secs(5)), Output::Wait(None));
    link.offer(End::A, packet(1, 100, Instant::ZERO), Instant::from_secs(1));
    assert_eq!(link.poll(Instant::from_secs(2)), Output::Wait(Some(Instant::from_millis(5_001))));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |config: DirectionConfig| Wired::symmetric(config, 1).unwrap_err();
    let base = DirectionConfig::default;
    assert_eq!(
        refused(DirectionConfig { duplication: 2.0, ..base() }),
        ConfigError::Probability("duplication")
    );
    let twice = [1, 1].map(|s| DelayStep { at: Instant::from_secs(s), delay: MS }).to_vec();
    assert_eq!(
        refused(DirectionConfig { delay_steps: twice, ..base() }),
        ConfigError::Unsorted("delay steps")
    );
    assert_eq!(
        refused(DirectionConfig { capacity: Capacity::Steps(vec![]), ..base() }),
        ConfigError::NotPositive("the number of rate steps")
    );
    assert_eq!(
        refused(DirectionConfig {
            jitter: Jitter::Wander { max: MS, period: Duration::ZERO },
            ..base()
        }),
        ConfigError::NotPositive("the jitter's period")
    );
    assert_eq!(
        refused(DirectionConfig {
            reordering: Reordering { probability: 0.1, min: 2 * MS, max: MS },
            ..base()
        }),
        ConfigError::EmptyRange("reordering")
    );
}

#[test]
fn another_route_takes_its_own_time_and_no_packet_overtakes_one_of_the_route_before() {
    let at = Instant::from_millis;
    let steps = [(100, 90 * MS), (200, 5 * MS)];
    let config = DirectionConfig {
        delay: 10 * MS,
        delay_steps: steps.map(|(ms, delay)| DelayStep { at: at(ms), delay }).to_vec(),
        ..DirectionConfig::default()
    };
    let mut link = link(config);
    let offers = [0, 99, 100, 199, 200, 250, 300].map(|ms| (at(ms), 100));
    let out = run(&mut link, &offers, Instant::MAX);
    let arrived: Vec<_> = out.iter().map(|(now, packet)| (packet.id, *now)).collect();
    // 4 and 5 left behind 3, which was still under way.
    let due = [10, 109, 190, 289, 289, 289, 305];
    assert_eq!(arrived, (0..).zip(due.map(at)).collect::<Vec<_>>());
}
