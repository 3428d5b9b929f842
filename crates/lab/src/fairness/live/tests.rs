use super::*;
use crate::fairness::Fairness;

fn cell(stack: Stack, flows: u32) -> LiveCell {
    let cells = LivePlan { flows: vec![flows], ..LivePlan::default() }.cells();
    *cells.iter().find(|cell| cell.stack == stack).expect("both stacks are in the plan")
}

fn figures(every_bps: f64, others_bps: f64) -> LiveFigures {
    let half = |goodput_bps| LiveHalf { flows: 2, goodput_bps, ..LiveHalf::default() };
    LiveFigures {
        every: half(every_bps),
        others: half(others_bps),
        reverse: half(1e6),
        reverse_in_flight_max: 20_000,
        late_max_us: 300,
        emulator_cores: 0.1,
        void: None,
    }
}

#[test]
fn every_setting_is_run_with_both_stacks_and_only_ours_with_every_strategy() {
    let strategies = vec![AckStrategy::PLAIN, AckStrategy::TACK];
    let plan = LivePlan { strategies, seeds: 3, ..LivePlan::default() };
    let cells = plan.cells();
    assert_eq!(cells.len(), 3 * (1 + 2));
    let runs = plan.runs();
    assert_eq!(runs.len(), 3 * cells.len());
    for (i, run) in runs.iter().enumerate() {
        assert!(runs[..i].iter().all(|other| other != run), "{}", run.describe());
        let is_linux = run.cell.stack == Stack::Kernel;
        assert!(!is_linux || run.cell.strategy == AckStrategy::PLAIN);
    }
    // The simulator has a row for each.
    let simulated = plan.simulated(10.0);
    assert_eq!(simulated.strategies.len(), 2);
    let ours = LivePlan { stacks: vec![Stack::Ours], ..plan };
    assert_eq!(ours.cells().len(), 3 * 2);
}

#[test]
fn flows_start_when_the_simulators_do() {
    let cell = cell(Stack::Ours, 4);
    let run = LiveRun { cell, seed: 7, duration_s: 30.0, warmup_s: 20.0 };
    let starts = run.starts();
    let classes: Vec<Class> = starts.iter().map(|s| s.class).collect();
    let (every, others, reverse) = (Class::Every, Class::Others, Class::Reverse);
    assert_eq!(classes[..4], [every, others, every, others]);
    assert_eq!(classes[4..], [reverse; 4]);
    assert!(starts.iter().all(|s| s.after < Duration::from_secs_f64(START_JITTER_S)));
    assert_eq!(starts, LiveRun { cell: self::cell(Stack::Kernel, 4), ..run }.starts());
    assert_ne!(starts, LiveRun { seed: 8, ..run }.starts());
    // More flows leave the first ones where they were.
    assert_eq!(starts[..4], LiveRun { cell: self::cell(Stack::Ours, 16), ..run }.starts()[..4]);
    let hasty = LiveRun { warmup_s: 0.5, ..run }.starts();
    assert!(hasty.iter().all(|s| s.after < Duration::from_millis(500)));
}

#[test]
fn a_port_says_whose_flow_it_is() {
    for class in Class::ALL {
        assert_eq!(Class::of_port(class.port()), Some(class));
    }
    assert_eq!(Class::of_port(Class::FIRST_PORT - 1), None);
    assert_eq!(Class::of_port(Class::FIRST_PORT + 3), None);
}

#[test]
fn shares_are_of_the_mean_flow_and_void_runs_are_left_out_by_name() {
    assert!((figures(6e6, 4e6).share() - 0.8).abs() < 1e-9);
    assert_eq!(figures(0.0, 0.0).share(), 0.0);
    let plan = LivePlan { flows: vec![4], seeds: 3, ..LivePlan::default() };
    let result = |run: LiveRun| {
        let mut figures = figures(5e6, 5e6 * (1.0 - 0.1 * run.seed as f64));
        if run.seed == 3 && run.cell.stack == Stack::Kernel {
            figures.void = Some("the machine was busy".to_owned());
        }
        LiveResult { run, figures }
    };
    let results: Vec<LiveResult> = plan.runs().into_iter().map(result).collect();
    let rows = rows(&plan, &results, &[]);
    assert_eq!(rows.len(), 2);
    let (kernel, ours) = (&rows[0], &rows[1]);
    assert_eq!((kernel.seeds, ours.seeds), (2, 3));
    // 2 * 0.9 / 1.9, 2 * 0.8 / 1.8 and 2 * 0.7 / 1.7.
    let is = |row: &LiveRow, share: f64| (row.share.unwrap() - share).abs() < 1e-5;
    assert!(is(kernel, (0.947_368 + 0.888_889) / 2.0), "{kernel:?}");
    assert!(is(ours, (0.947_368 + 0.888_889 + 0.823_529) / 3.0), "{ours:?}");
    let text = table(&rows);
    assert!(text.contains("0.89 ± 0.15") && text.contains("tcp-l2"), "{text}");
    assert!(
        text.contains("kernel tcp-l2, 4 flows, seed 3, share 0.82: the machine was busy"),
        "{text}"
    );
    // With nothing left there is no share, and every run says why.
    let busy = |mut result: LiveResult| {
        result.figures.void = Some("the machine was busy".to_owned());
        result
    };
    let results: Vec<LiveResult> = results.into_iter().map(busy).collect();
    let rows = super::rows(&plan, &results, &[]);
    assert!(rows.iter().all(|row| row.share.is_none() && row.void.len() == 3), "{rows:?}");
    assert_eq!(table(&rows).matches("left out").count(), 6);
}

#[test]
fn the_simulators_share_stands_beside_that_of_its_setting() {
    let plan = LivePlan { flows: vec![2, 4], seeds: 1, ..LivePlan::default() };
    let simulated = Fairness { seeds: 1, duration_s: 2.0, warmup_s: 1.0, ..plan.simulated(10.0) };
    let results: Vec<_> = simulated
        .scenarios()
        .iter()
        .map(|s| crate::simulate(s).expect("it can be built"))
        .collect();
    let simulated = simulated.summarise(&results);
    let results: Vec<LiveResult> =
        plan.runs().into_iter().map(|run| LiveResult { run, figures: figures(5e6, 5e6) }).collect();
    for row in rows(&plan, &results, &simulated) {
        let twin = simulated.iter().find(|s| s.flows == row.cell.flows).expect("it was simulated");
        assert_eq!(row.simulated_share, Some(twin.share));
    }
}

/// Some seconds of four flows; `None`, with the reason printed, where that cannot be had.
fn short_run(stack: Stack) -> Option<LiveFigures> {
    let rtt = Duration::from_millis(20);
    let cell = LiveCell { rate_mbps: 10.0, rtt, ..cell(stack, 4) };
    // A SYN that the full queue drops comes again after 1, 3 and 7 s.
    let run = LiveRun { cell, seed: 1, duration_s: 8.0, warmup_s: 1.5 };
    match super::run(&run, None) {
        Ok(result) => Some(result.figures),
        Err(e) if e.to_string().contains("no reno") => {
            println!("skipped: {e:#}");
            None
        }
        Err(e) => match e.downcast_ref::<tack_emu::EmulationError>() {
            Some(e) if e.is_unavailable() => {
                println!("skipped: {e}");
                None
            }
            _ => panic!("{e:#}"),
        },
    }
}

#[test]
fn both_stacks_move_bytes_in_both_halves_and_only_one_half_acknowledges_every_segment() {
    for stack in [Stack::Kernel, Stack::Ours] {
        let Some(figures) = short_run(stack) else { continue };
        let LiveFigures { every, others, reverse, .. } = &figures;
        for half in [every, others, reverse] {
            // Whatever the machine does besides, the path has no more than its rate.
            assert!((1e4..10e6).contains(&half.goodput_bps), "{stack}: {figures:?}");
        }
        assert!((0.95..1.1).contains(&every.acks_per_packet), "{stack}: {figures:?}");
        assert!(others.acks_per_packet < 0.85 * every.acks_per_packet, "{stack}: {figures:?}");
        let window = figures.reverse_in_flight_max;
        assert!((15_000..=21_000).contains(&window), "{stack}: {figures:?}");
    }
}
