use super::*;

fn figures(goodput_bps: f64, data_packets: u64, ack_packets: u64) -> Figures {
    Figures {
        goodput_bps,
        data_packets,
        ack_packets,
        lost: 0,
        tail_dropped: 0,
        late_p99_us: 60,
        late_p999_us: 200,
        late_max_us: 900,
        void: None,
    }
}

fn rows_of(plan: &KernelPlan) -> Vec<KernelRow> {
    let figures_of = |run: &KernelRun| match run.stack {
        Stack::Kernel => figures(9e6, 15_000, 7_500),
        // A ratio of 0.99, 0.98, 0.97 by seed.
        Stack::Ours => figures(9e6 * (1.0 - 0.01 * run.seed as f64), 15_000, 8_250),
    };
    plan.runs().into_iter().map(|run| KernelRow { figures: figures_of(&run), run }).collect()
}

#[test]
fn the_full_plan_has_every_combination_once_per_seed_and_stack() {
    let plan = KernelPlan::full();
    assert_eq!(plan.cells.len(), 3 * 2 * 2 * 3);
    assert_eq!(KernelPlan::heavy().cells.len(), 3 * 2 * 2 * 3);
    assert!(KernelPlan::heavy().cells.iter().all(|cell| !plan.cells.contains(cell)));
    let runs = plan.runs();
    assert_eq!(runs.len(), plan.cells.len() * 3 * 2);
    for (i, run) in runs.iter().enumerate() {
        assert!(runs[..i].iter().all(|other| other != run));
        assert!(run.seconds >= 15.0);
    }
    // Both stacks of one seed follow each other: they meet the same state of the machine.
    for pair in runs.chunks(2) {
        assert_eq!((pair[0].cell, pair[0].seed), (pair[1].cell, pair[1].seed));
        assert_eq!((pair[0].stack, pair[1].stack), (Stack::Kernel, Stack::Ours));
    }
}

#[test]
fn ratios_are_taken_seed_by_seed() {
    let plan = KernelPlan { seeds: 3, ..KernelPlan::quick() };
    let report = report(&plan.cells, &rows_of(&plan));
    let cells = &report.rows;
    assert_eq!(cells.len(), plan.cells.len());
    assert!(report.voided.is_empty() && report.missing.is_empty());
    let row = &cells[0];
    assert_eq!(row.seeds, 3);
    assert!((row.goodput_ratio - 0.98).abs() < 1e-9);
    // s = 0.01, t(2) = 4.303.
    assert!((row.goodput_ratio_ci95.unwrap() - 4.303 * 0.01 / 3_f64.sqrt()).abs() < 1e-6);
    assert!((row.acks_ratio - 1.1).abs() < 1e-9);
    assert!((row.kernel_data_per_ack - 2.0).abs() < 1e-9);
    assert!(!row.agrees());
    let text = table(&report);
    assert!(text.contains("0.980 ± 0.025") && text.contains("1.100 ± 0.000"), "{text}");
    assert!(text.contains("goodput 9 of 9, ACKs 0 of 9"), "{text}");
}

#[test]
fn void_runs_count_for_nothing_and_are_run_again() {
    let plan = KernelPlan { seeds: 2, ..KernelPlan::quick() };
    let mut rows = rows_of(&plan);
    rows[1].figures.void = Some("late".to_owned());
    let report = report(&plan.cells, &rows);
    let cells = &report.rows;
    assert_eq!((cells[0].seeds, cells[0].void_runs), (1, 1));
    assert_eq!(report.voided.len(), 1);
    let text = table(&report);
    let named = "left out: ours reno, 10 Mbit/s, 20 ms, 0 % loss, seed 1: late";
    assert!(text.contains(named), "{text}");
    assert!((cells[0].goodput_ratio - 0.98).abs() < 1e-9, "the second seed alone");
    assert_eq!(cells[0].goodput_ratio_ci95, None);
    let mut store = KernelStore::new();
    rows.iter().for_each(|row| store.add(row.clone()).unwrap());
    let runs = plan.runs();
    assert_eq!(store.missing(&runs), [runs[1]]);
    store.add(KernelRow { run: runs[1], figures: figures(8e6, 1, 1) }).unwrap();
    assert!(store.missing(&runs).is_empty());
    assert_eq!(store.rows().len(), runs.len());
}

#[test]
fn a_cell_without_a_sound_pair_is_named_and_an_empty_report_has_no_rows() {
    let plan = KernelPlan::quick();
    let mut rows = rows_of(&plan);
    rows[1].figures.void = Some("late".to_owned());
    let some = report(&plan.cells, &rows);
    assert_eq!((some.rows.len(), some.missing.as_slice()), (8, &plan.cells[..1]));
    let text = table(&some);
    assert!(text.contains("no sound pair of runs: reno, 10 Mbit/s, 20 ms, 0 % loss"), "{text}");
    rows.iter_mut().for_each(|row| row.figures.void = Some("late".to_owned()));
    let none = report(&plan.cells, &rows);
    assert!(none.rows.is_empty());
    assert_eq!((none.missing.len(), none.voided.len()), (9, 18));
}

/// One heavy cell, goodputs of both stacks in Mbit/s by seed.
fn scattered(kernel: [f64; 7], ours: [f64; 7]) -> Report {
    let cells = vec![Cell { cc: Controller::Bbr, mbps: 100, rtt_ms: 400, loss_percent: 10.0 }];
    let plan = KernelPlan { cells, ..KernelPlan::heavy() };
    let row = |run: KernelRun| {
        let of = if run.stack == Stack::Kernel { kernel } else { ours };
        let mbps = of[run.seed as usize - 1];
        let data = (mbps * 1_000.0) as u64;
        KernelRow { figures: figures(mbps * 1e6, data, data * 2 / 3), run }
    };
    report(&plan.cells, &plan.runs().into_iter().map(row).collect::<Vec<_>>())
}

#[test]
fn where_runs_scatter_distributions_are_compared_and_not_means() {
    let kernel = [70.0, 4.0, 71.0, 14.0, 72.0, 9.0, 5.0];
    // The same modes, on other seeds: the mean ratio is far off, and says nothing.
    let same = scattered(kernel, [5.1, 71.2, 69.8, 13.0, 4.2, 8.0, 72.3]);
    let row = &same.rows[0];
    assert!(row.scattered && row.goodput_ratio > 2.0 && row.agrees(), "{row:?}");
    assert_eq!((row.distribution.kernel.min, row.distribution.kernel.median), (4e6, 14e6));
    let text = table(&same);
    assert!(text.contains("scattered") && text.contains("in 1 of 1 cells"), "{text}");
    let line = text.lines().find(|line| line.contains("4.00")).expect("the distribution");
    assert!(line.contains("72.00") && !line.ends_with('*'), "{line}");
    // One mode where the kernel has two: seven runs are too few to say that the modes are gone.
    let other = scattered(kernel, [35.0, 35.1, 34.9, 36.0, 35.5, 34.0, 33.0]);
    assert!((0.2..0.3).contains(&other.rows[0].distribution.p_value), "{:?}", other.rows[0]);
    let better = scattered(kernel, [75.0, 75.1, 74.9, 76.0, 75.5, 74.0, 73.0]);
    assert!(better.rows[0].distribution.p_value < 0.01 && !better.rows[0].agrees());
    assert_eq!(better.rows[0].distribution.ours_greater, 1.0);
    assert!(table(&better).lines().any(|line| line.contains("72.00") && line.ends_with('*')));
}

#[test]
fn an_interrupted_table_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernel.jsonl");
    let plan = KernelPlan::quick();
    let (rows, runs) = (rows_of(&plan), plan.runs());
    let mut store = KernelStore::open(&path, true).unwrap();
    rows[..5].iter().for_each(|row| store.add(row.clone()).unwrap());
    drop(store);
    // The sixth line was torn.
    let mut text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 5);
    let torn = text.lines().next().unwrap()[..40].to_owned();
    text.push_str(&torn);
    std::fs::write(&path, text).unwrap();
    let mut store = KernelStore::open(&path, true).unwrap();
    assert_eq!(store.rows(), &rows[..5]);
    assert_eq!(store.missing(&runs), runs[5..]);
    store.add(rows[5].clone()).unwrap();
    drop(store);
    assert_eq!(KernelStore::open(&path, true).unwrap().rows(), &rows[..6]);
    // Longer runs are other runs.
    let longer = KernelPlan { seconds: 9.0, ..plan }.runs();
    assert_eq!(KernelStore::open(&path, true).unwrap().missing(&longer).len(), longer.len());
    std::fs::write(&path, "{}\n").unwrap();
    let error = format!("{:#}", KernelStore::open(&path, true).unwrap_err());
    assert!(error.contains("kernel.jsonl") && error.contains("line 1"), "{error}");
    assert!(KernelStore::open(&path, false).unwrap().rows().is_empty());
}

#[test]
fn names_of_controllers_are_the_kernels() {
    for cc in Controller::ALL {
        assert_eq!(cc.name().parse(), Ok(cc));
    }
    assert!("vegas".parse::<Controller>().unwrap_err().contains("cubic"));
}

/// The same path and settings in the simulator: goodput and acknowledgments of our stack.
fn simulated(cell: &Cell, seed: u64, time: core::time::Duration) -> (f64, u64, u64) {
    use tack_link::End;
    use tack_sim::{FlowConfig, Seed, Simulation, Site};
    let mut sim = Simulation::new(Seed(seed));
    let link = sim.add_link(cell.path(seed));
    let (client, server) =
        (sim.add_host(Site { link, end: End::A }), sim.add_host(Site { link, end: End::B }));
    let mut config =
        FlowConfig::bulk(client, server, &tack_sim::Transport::new(tack_tcp::AckStrategy::PLAIN));
    (config.from_conn, config.to_conn) = (ours::conn_config(cell.cc), ours::conn_config(cell.cc));
    let flow = sim.add_flow(config);
    let counts = |sim: &Simulation<_>| {
        let (from, to) = sim.flow(flow);
        let sent = |side: &tack_sim::SideReport<'_>| side.info.as_ref().map(|i| i.counters);
        let data = sent(&from).map_or(0, |c| c.data_segments_sent);
        (to.received, data, sent(&to).map_or(0, |c| c.acks_sent.total()))
    };
    sim.run_until(tack_units::Instant::ZERO + time.mul_f64(run::WARMUP));
    let (_, data, acks) = counts(&sim);
    sim.run_until(tack_units::Instant::ZERO + time);
    let (received, all_data, all_acks) = counts(&sim);
    (received as f64 * 8.0 / time.as_secs_f64(), all_data - data, all_acks - acks)
}

#[test]
fn real_time_and_the_simulator_agree() {
    let cell = Cell { cc: Controller::Reno, mbps: 10, rtt_ms: 20, loss_percent: 0.0 };
    let one = KernelRun { cell, seed: 1, stack: Stack::Ours, seconds: 2.5 };
    let row = match run(&one, None) {
        Ok(row) => row,
        Err(e) => match e.downcast_ref::<tack_emu::EmulationError>() {
            Some(e) if e.is_unavailable() => return println!("skipped: {e}"),
            _ => panic!("{e:#}"),
        },
    };
    if let Some(why) = row.figures.void {
        return println!("skipped, the machine is busy: {why}");
    }
    let (goodput, data, acks) = simulated(&cell, 1, core::time::Duration::from_secs_f64(2.5));
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    let real = &row.figures;
    assert!(near(real.goodput_bps, goodput), "{} {goodput}", real.goodput_bps);
    assert!(near(real.data_packets as f64, data as f64), "{} {data}", real.data_packets);
    assert!(near(real.ack_packets as f64, acks as f64), "{} {acks}", real.ack_packets);
}

#[test]
fn the_kernels_tcp_runs_on_the_same_path() {
    let cell = Cell { cc: Controller::Cubic, mbps: 10, rtt_ms: 20, loss_percent: 0.1 };
    let one = KernelRun { cell, seed: 1, stack: Stack::Kernel, seconds: 1.5 };
    match run(&one, None) {
        Err(e) if e.to_string().contains("no cubic") => println!("skipped: {e:#}"),
        Err(e) => match e.downcast_ref::<tack_emu::EmulationError>() {
            Some(e) if e.is_unavailable() => println!("skipped: {e}"),
            _ => panic!("{e:#}"),
        },
        Ok(row) => {
            let Figures { goodput_bps, data_packets, ack_packets, .. } = row.figures;
            // Whatever the machine does besides, the path has no more than its rate.
            assert!(goodput_bps > 1e5 && goodput_bps < 10e6, "{goodput_bps}");
            assert!(ack_packets > 10 && data_packets > ack_packets, "{data_packets}");
        }
    }
}
