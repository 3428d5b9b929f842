//! Queues per flow against naive oracles.

use core::time::Duration;
use std::collections::BTreeMap;

use super::*;
use crate::draw;

fn packet(id: u64, flow: u32, ip_bytes: u32) -> Packet {
    Packet { id, src: flow, dst: 1_000_000, ip_bytes, ..Packet::default() }
}

/// No CoDel: a target that nothing reaches.
fn patient(flows: u32) -> FqCodelConfig {
    let codel =
        CodelConfig { target: Duration::from_secs(1_000_000), ..FqCodelConfig::default().codel };
    FqCodelConfig { flows, codel, ..FqCodelConfig::default() }
}

#[test]
fn backlogged_flows_share_bytes_to_within_a_quantum_and_a_packet() {
    for quantum_bytes in [300, 1_514, 9_000] {
        let config = FqCodelConfig { quantum_bytes, ..patient(65_536) };
        let mut fq = Fq::new(config, Limit::Packets(1_000_000), 1, 1);
        let sizes = [40, 300, 576, 1_500, 1_500];
        for (flow, ip_bytes) in sizes.iter().enumerate() {
            for _ in 0..400_000 / ip_bytes {
                fq.push(0, packet(0, flow as u32, *ip_bytes), Instant::ZERO);
            }
        }
        let mut served = [0u64; 5];
        for _ in 0..5_000 {
            let packet = fq.pop(0, Instant::ZERO).expect("all are backlogged");
            served[packet.src as usize] += u64::from(packet.ip_bytes);
            let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
            assert!(
                most - least <= u64::from(quantum_bytes) + 1_500,
                "{quantum_bytes}: {served:?}"
            );
        }
    }
}

type Waiting = (u64, u32);

/// Deficit round robin as [RFC 8290 §4] tells it, a list for everything.
#[derive(Default)]
struct Oracle {
    /// Per group: new and old, each a list of flows.
    lists: [[Vec<u32>; 2]; 2],
    /// By group and flow: packets (number, bytes) and deficit.
    flows: BTreeMap<(usize, u32), (Vec<Waiting>, i64)>,
    dropped: u64,
}

impl Oracle {
    fn push(&mut self, group: usize, flow: u32, id: u64, ip_bytes: u32, limit: usize) {
        let listed = self.lists[group].iter().any(|l| l.contains(&flow));
        let entry = self.flows.entry((group, flow)).or_default();
        entry.0.push((id, ip_bytes));
        if !listed {
            entry.1 = 500;
            self.lists[group][0].push(flow);
        }
        if self.flows.values().map(|f| f.0.len()).sum::<usize>() > limit {
            let bytes = |f: &[Waiting]| f.iter().map(|p| u64::from(p.1)).sum::<u64>();
            let fattest = self.flows.values_mut().max_by_key(|f| bytes(&f.0)).unwrap();
            let (half, mut freed, mut count) = (bytes(&fattest.0) / 2, 0, 0);
            while count < 4 && !fattest.0.is_empty() && (count == 0 || freed < half) {
                freed += u64::from(fattest.0.remove(0).1);
                count += 1;
            }
            self.dropped += count;
        }
    }

    fn pop(&mut self, group: usize) -> Option<u64> {
        loop {
            let from = usize::from(self.lists[group][0].is_empty());
            let flow = *self.lists[group][from].first()?;
            let (packets, deficit) = self.flows.get_mut(&(group, flow)).unwrap();
            self.lists[group][from].remove(0);
            if *deficit <= 0 {
                *deficit += 500;
                self.lists[group][1].push(flow);
            } else if packets.is_empty() {
                if from == 0 && !self.lists[group][1].is_empty() {
                    self.lists[group][1].push(flow);
                }
            } else {
                let (id, ip_bytes) = packets.remove(0);
                *deficit -= i64::from(ip_bytes);
                self.lists[group][from].insert(0, flow);
                return Some(id);
            }
        }
    }
}

#[test]
fn random_operations_agree_with_lists_and_lose_nothing_unseen() {
    for seed in 0..30 {
        let mut rng = draw::stream(seed, 4);
        let config = FqCodelConfig { quantum_bytes: 500, drop_batch: 4, ..patient(65_536) };
        let mut fq = Fq::new(config, Limit::Packets(60), 2, seed);
        let mut oracle = Oracle::default();
        let (mut pushed, mut popped) = (0, 0);
        for id in 0..4_000u64 {
            let group = draw::below(&mut rng, 2) as usize;
            if draw::chance(&mut rng, 0.55) {
                // Sizes that no two sums share, so that the longest flow is one.
                let ip_bytes = 40 + draw::below(&mut rng, 1_000_000) as u32 % 1_461;
                let flow = group as u32 * 100 + draw::below(&mut rng, 6) as u32;
                fq.push(group, packet(id, flow, ip_bytes), Instant::ZERO);
                oracle.push(group, flow, id, ip_bytes, 60);
                pushed += 1;
            } else {
                let got = fq.pop(group, Instant::ZERO).map(|p| p.id);
                assert_eq!(got, oracle.pop(group), "seed {seed} id {id}");
                popped += u64::from(got.is_some());
            }
            let waiting = oracle.flows.values().map(|f| f.0.len()).sum::<usize>();
            assert_eq!(fq.len(), waiting, "seed {seed}");
            assert_eq!(fq.len(), fq.group_len(0) + fq.group_len(1), "seed {seed}");
            assert_eq!(fq.counters().tail_dropped, oracle.dropped, "seed {seed}");
            assert_eq!(pushed, popped + oracle.dropped + waiting as u64, "seed {seed}");
        }
        assert!(oracle.dropped > 10, "seed {seed}");
    }
}

#[test]
fn any_operations_at_any_time_conserve_packets_and_bytes() {
    for seed in 0..40 {
        let mut rng = draw::stream(seed, 6);
        // Few queues, so that flows and groups collide; CoDel at work; both limits.
        let codel = CodelConfig {
            target: Duration::from_millis(1),
            interval: Duration::from_millis(10),
            ecn: seed % 2 == 0,
        };
        let config = FqCodelConfig {
            flows: 1 + draw::below(&mut rng, 8) as u32,
            quantum_bytes: 1 + draw::below(&mut rng, 3_000) as u32,
            memory_bytes: 200_000,
            drop_batch: 1 + draw::below(&mut rng, 64) as u32,
            codel,
        };
        config.validate().unwrap();
        let limit = if seed % 3 == 0 { Limit::Bytes(90_000) } else { Limit::Packets(100) };
        let mut fq = Fq::new(config, limit, 3, seed);
        let (mut pushed, mut popped, mut now) = (0u64, 0u64, Instant::ZERO);
        for id in 0..5_000 {
            now += Duration::from_micros(draw::below(&mut rng, 400));
            let group = draw::below(&mut rng, 3) as usize;
            if draw::chance(&mut rng, 0.6) {
                let ip_bytes = draw::below(&mut rng, 3_000) as u32;
                let flow = draw::below(&mut rng, 20) as u32;
                let ecn = draw::below(&mut rng, 4) as u8;
                fq.push(group, Packet { ecn, ..packet(id, flow, ip_bytes) }, now);
                pushed += 1;
            } else {
                popped += u64::from(fq.pop(group, now).is_some());
            }
            let c = fq.counters();
            let dropped = c.tail_dropped + c.aqm_dropped;
            assert_eq!(pushed, popped + dropped + fq.len() as u64, "seed {seed}");
            assert_eq!(fq.flows.iter().map(|f| f.fifo.bytes).sum::<u64>(), fq.bytes());
            assert!(!fq.is_over());
        }
        for group in 0..3 {
            while fq.pop(group, now).is_some() {}
        }
        assert_eq!((fq.len(), fq.bytes()), (0, 0), "seed {seed}");
        assert!(fq.flows.iter().all(|f| f.group.is_none()), "seed {seed}: nothing is listed");
    }
}

#[test]
fn a_sparse_flow_goes_before_bulk_and_a_returning_one_does_again() {
    let mut fq = Fq::new(patient(1_024), FqCodelConfig::LIMIT, 1, 1);
    (0..300).for_each(|id| fq.push(0, packet(id, 1, 1_500), Instant::ZERO));
    let mut behind = Vec::new();
    for round in 0..50 {
        fq.push(0, packet(1_000 + round, 2, 100), Instant::ZERO);
        let mut waited = 0;
        while fq.pop(0, Instant::ZERO).expect("bulk").id < 1_000 {
            waited += 1;
        }
        behind.push(waited);
        // Bulk goes on until the sparse flow has left the lists.
        (0..2).for_each(|_| assert!(fq.pop(0, Instant::ZERO).is_some()));
    }
    // Bulk is new itself at first.
    assert!(behind[0] <= 2 && behind[1..].iter().all(|n| *n == 0), "{behind:?}");
}

#[test]
fn a_flow_that_empties_at_every_turn_does_not_starve_the_old_ones() {
    let mut fq = Fq::new(patient(1_024), FqCodelConfig::LIMIT, 1, 1);
    (0..200).for_each(|id| fq.push(0, packet(id, 1, 1_500), Instant::ZERO));
    let mut bulk = 0;
    for id in 0..300 {
        fq.push(0, packet(1_000 + id, 2, 1_500), Instant::ZERO);
        bulk += u64::from(fq.pop(0, Instant::ZERO).expect("both wait").id < 1_000);
    }
    assert!((100..=200).contains(&bulk), "{bulk}");
}

#[test]
fn codel_marks_what_can_bear_it_and_drops_the_rest_flow_by_flow() {
    let mut fq = Fq::new(FqCodelConfig::default(), FqCodelConfig::LIMIT, 1, 1);
    let mut marked = [0u32; 3];
    for ms in 0..3_000 {
        let now = Instant::from_millis(ms);
        for (flow, ecn) in [(0, 2), (1, 0)] {
            // 1.2 packets of each per 2 ms, and one served per millisecond.
            for _ in 0..1 + u64::from(ms % 5 == 0) {
                if ms % 2 == 0 {
                    fq.push(0, Packet { ecn, ..packet(ms, flow, 1_500) }, now);
                }
            }
        }
        // A sparse flow that can bear marks too: it stands no queue and gets none.
        if ms % 50 == 0 {
            fq.push(0, Packet { ecn: 2, ..packet(ms, 2, 100) }, now);
        }
        if let Some(packet) = fq.pop(0, now) {
            marked[packet.src as usize] += u32::from(packet.ecn == 3);
        }
    }
    let c = *fq.counters();
    assert!(marked[0] > 20 && c.aqm_dropped > 20, "{marked:?} {c:?}");
    assert_eq!((marked[1], marked[2], u64::from(marked[0])), (0, 0, c.ce_marked));
    assert_eq!(c.tail_dropped, 0);
}

#[test]
fn ten_thousand_flows_stay_within_the_limits_and_the_longest_pays() {
    for (limit, memory_bytes) in
        [(Limit::Packets(8_192), 64 << 20), (Limit::Packets(u32::MAX), 4 << 20)]
    {
        let config = FqCodelConfig { memory_bytes, drop_batch: 32, ..patient(4_096) };
        let mut fq = Fq::new(config, limit, 4, 9);
        for id in 0..60_000u64 {
            let flow = (id % 10_000) as u32;
            fq.push((flow % 4) as usize, packet(id, flow, 1_500), Instant::ZERO);
            // One flow that sends as much as all others.
            fq.push(0, packet(id, 77_777, 1_500), Instant::ZERO);
        }
        assert!(fq.flows.len() <= 4_096 + 4, "{}", fq.flows.len());
        assert!(fq.len() <= 8_192 && fq.bytes() + fq.len() as u64 * 768 <= memory_bytes);
        let dropped = fq.counters().tail_dropped;
        assert_eq!(dropped + fq.len() as u64, 120_000);
        let heavy = fq.flows.iter().map(|f| f.fifo.bytes).max().unwrap();
        assert!(heavy < fq.bytes() / 100, "{heavy} of {}", fq.bytes());
    }
}

#[test]
fn a_flow_whose_queue_another_group_has_goes_to_its_groups_own() {
    let mut fq = Fq::new(patient(1), FqCodelConfig::LIMIT, 2, 1);
    fq.push(0, packet(1, 1, 100), Instant::ZERO);
    fq.push(1, packet(2, 2, 100), Instant::ZERO);
    assert_eq!((fq.group_len(0), fq.group_len(1), fq.flows.len()), (1, 1, 2));
    assert_eq!(fq.pop(1, Instant::ZERO).map(|p| p.id), Some(2));
    assert_eq!(fq.pop(1, Instant::ZERO), None);
    assert_eq!(fq.pop(0, Instant::ZERO).map(|p| p.id), Some(1));
}

#[test]
fn settings_that_cannot_run_are_refused() {
    let good = FqCodelConfig::default();
    assert!(good.validate().is_ok());
    for bad in [
        FqCodelConfig { flows: 0, ..good },
        FqCodelConfig { flows: 65_537, ..good },
        FqCodelConfig { quantum_bytes: 0, ..good },
        FqCodelConfig { drop_batch: 0, ..good },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
}
