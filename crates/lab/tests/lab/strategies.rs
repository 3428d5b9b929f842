//! Acknowledgment strategies on wires: the arena, fairness, and the papers' figures, shortened.

use std::time::Duration;

use tack_cc::Algorithm;
use tack_lab::acks::{Arena, ArenaRow, table};
use tack_lab::batch::run_all;
use tack_lab::dumbbell::Queue;
use tack_lab::fairness::{Fairness, FairnessRow, Paced, figures};
use tack_lab::reproduce::{Claim, Extent, Finding, draw, judge, scenarios};
use tack_lab::scenario::Strategy;
use tack_lab::{custura, fairness, landstrom};

fn arena() -> Arena {
    Arena {
        wifi: None,
        rate_mbps: Some(20.0),
        rtt: Duration::from_millis(50),
        loss: 0.0,
        ack_loss: 0.0,
        queue: Queue::DropTail(1.0),
        strategies: Strategy::all().collect(),
        cc: Algorithm::NewReno,
        paced: true,
        seeds: 1,
        duration_s: 12.0,
        warmup_s: 4.0,
    }
}

fn run(arena: &Arena) -> Vec<ArenaRow> {
    arena.summarise(&run_all(arena.scenarios(), 0, &|| {}).unwrap())
}

#[test]
fn every_strategy_fills_a_clean_path_and_acknowledges_as_often_as_its_formula_says() {
    let rows = run(&arena());
    for row in &rows {
        assert!(row.goodput_bps > 18e6, "{row:?}");
        // Every hole of the one loss episode in it is acknowledged at once, which so rare
        // strategies as 2W show: they are held to the lower side alone.
        let formula = row.formula_per_s.unwrap();
        let low = row.ack_packets_per_s / formula;
        let above = row.ack_packets_per_s - formula;
        assert!(low > 0.9 && above < 0.1 * formula + 60.0, "{row:?}");
    }
    assert_eq!(table(&rows).lines().count(), rows.len() + 1);
}

#[test]
fn the_arena_is_deterministic_by_its_seed() {
    let few = |seeds| Arena {
        strategies: vec!["4waf".parse().unwrap(), Strategy::TACK],
        loss: 0.01,
        ack_loss: 0.01,
        seeds,
        ..arena()
    };
    assert_eq!(run(&few(2)), run(&few(2)));
}

fn shares(fairness: &Fairness) -> Vec<FairnessRow> {
    fairness.summarise(&run_all(fairness.scenarios(), 0, &|| {}).unwrap())
}

/// [Landström & Larzon §4.6]: behind RED everybody gets a fair share, and what is missing of it is
/// the longer round of who is acknowledged later: windows grow and fall alike.
#[test]
fn behind_red_shares_are_fair_and_rounds_and_reductions_explain_them() {
    let strategies = ["ae", "tcp-l2", "a4l4", "a8l8", "2waf", "4waf", "srt", "tack"];
    let rows = shares(&Fairness {
        queues: vec![Queue::Red],
        flows: vec![16],
        strategies: strategies.map(|s| s.parse().unwrap()).to_vec(),
        seeds: 2,
        duration_s: 60.0,
        warmup_s: 10.0,
        ..Fairness::default()
    });
    for row in &rows {
        assert!(row.is_fair(), "seeds 1 and 2: {row:?}");
        assert!(row.utilisation > 0.9 && row.loss > 0.0, "seeds 1 and 2: {row:?}");
        assert!((row.why.rest - 1.0).abs() < 0.06, "seeds 1 and 2: {row:?}");
        assert!((row.why.predicted_share() - row.share).abs() < 0.04, "seeds 1 and 2: {row:?}");
    }
    let (every, others) = rows.split_first().unwrap();
    assert!((every.why.round - 1.0).abs() < 0.02, "{every:?}");
    for row in others {
        assert!(row.why.round < 0.98, "whoever waits for acknowledgments: {row:?}");
        assert!(row.acks_per_packet < every.acks_per_packet * 0.7, "{row:?}");
    }
    assert_eq!(figures(&rows)[0].lines.len(), strategies.len());
    assert!(fairness::table(&rows).contains("4waf"));
    assert_eq!(fairness::why_table(&rows).lines().count(), 3 + strategies.len() + 3);
}

/// What strategies with timers lose at a drop-tail queue is no matter of acknowledgments: a half
/// that acknowledges every segment loses it, too, if its packets alone are spread over the round
/// trip. It meets losses one by one, and windows fall by the event. RED, which does not look at who
/// arrives when the queue is full, takes most of that away.
#[test]
fn spread_packets_meet_more_loss_events_at_a_drop_tail_queue_than_clumps_do() {
    let rows = shares(&Fairness {
        queues: vec![Queue::DropTail(1.0), Queue::Red],
        flows: vec![16],
        strategies: vec![Strategy::every_segment()],
        paced: vec![Paced::Nobody, Paced::Others],
        seeds: 3,
        duration_s: 60.0,
        warmup_s: 10.0,
        ..Fairness::default()
    });
    let [alike, spread, alike_red, spread_red] = &rows[..] else { panic!("{rows:?}") };
    for row in [alike, alike_red] {
        assert!((row.share - 1.0).abs() < 0.05, "seeds 1 to 3: {row:?}");
    }
    assert!(spread.share < 0.94 && spread.why.events < 0.92, "seeds 1 to 3: {spread:?}");
    assert!(spread.why.round > 0.93, "its round trip is not what it loses by: {spread:?}");
    let (own, every) = (spread.lived, spread.lived_every_segment);
    assert!(own.lost_per_event < 0.8 * every.lost_per_event, "seeds 1 to 3: {spread:?}");
    assert!(spread_red.why.events > spread.why.events + 0.04, "seeds 1 to 3: {rows:?}");
}

fn findings(claims: &[Box<dyn Claim>]) -> Vec<Finding> {
    let results = run_all(scenarios(claims), 0, &|| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    draw(claims, &results, dir.path()).unwrap();
    let drawn = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(drawn, claims.iter().filter(|c| c.row() == "L8" || c.row() == "L10").count());
    judge(claims, &results)
}

/// What agrees with [Landström & Larzon] must stay so; L1 is exact.
#[test]
fn counts_per_window_are_those_of_landstrom_and_larzon_and_delayed_acks_cost_files_nothing() {
    let mut claims = landstrom::claims(Extent::Short);
    claims.retain(|c| ["L1", "L3", "L8"].contains(&c.row()));
    let findings = findings(&claims);
    let settled = |f: &&Finding| f.row == "L1" || f.what.starts_with("DAL2's throughput");
    assert_eq!(findings.iter().filter(settled).count(), 7);
    for finding in findings.iter().filter(settled) {
        assert!(finding.agrees, "seed 1: {finding:?}");
    }
}

/// [Custura et al. §V]: volumes of acknowledgments.
#[test]
fn the_satellite_of_custura_and_others_comes_out_as_they_measured() {
    let findings = findings(&custura::claims(Extent::Short));
    let settled = |f: &&Finding| ["C2", "C3", "C4"].contains(&f.row);
    assert_eq!(findings.iter().filter(settled).count(), 5);
    for finding in findings.iter().filter(settled) {
        assert!(finding.agrees, "seed 1: {finding:?}");
    }
}
