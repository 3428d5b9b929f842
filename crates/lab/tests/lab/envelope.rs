//! The envelope: a seeded sample of it, and what surrounds it.

use std::sync::Mutex;

use tack_lab::draw::{Word, Words};
use tack_lab::envelope::{
    Adversary, Draw, RANDOM, Trial, check, contest, property, scenario, shrink, trial, view,
};
use tack_lab::experiment::Experiment;
use tack_lab::results;
use tack_lab::runner::{Sink, run};

use crate::plans::items;

fn experiment() -> Experiment {
    Experiment::parse(RANDOM).unwrap()
}

fn uncommon() -> Experiment {
    Experiment::parse(include_str!("../../experiments/envelope/uncommon.toml")).unwrap()
}

#[derive(Default)]
struct Collect(Mutex<Vec<Trial>>);

impl Sink<Trial> for Collect {
    fn take(&self, _position: usize, trial: Trial) -> std::io::Result<()> {
        self.0.lock().unwrap().push(trial);
        Ok(())
    }
}

#[test]
fn the_sample_holds_what_the_experiment_expects_of_it() {
    sample(experiment());
}

#[test]
fn the_sample_of_fat_paths_holds_what_its_experiment_expects_of_it() {
    sample(Experiment::parse(include_str!("../../experiments/envelope/fat.toml")).unwrap());
}

#[test]
fn the_sample_of_uncommon_settings_holds_what_its_experiment_expects_of_it() {
    sample(uncommon());
}

/// The file says how many draws with which seed, and how many of them must hold what.
fn sample(mut experiment: Experiment) {
    let sample = experiment.sample;
    experiment.limits.packets = sample.packets;
    let draws: Vec<Draw> =
        (0..sample.draws).map(|i| Draw::new(&experiment, i, sample.seed)).collect();
    let names: Vec<&str> = experiment.property.iter().map(|p| p.name.as_str()).collect();
    let done = Collect::default();
    run(&draws, 0, &done, |draw| trial(&experiment, draw, &names)).unwrap();
    let view = view(&experiment, &done.0.into_inner().unwrap(), &names);
    println!("{}", view.table());
    assert!(view.void.is_empty(), "plain TCP stalls: {:?}", view.void);
    let blessed = results::blessed_envelope(&view, "tack lab envelope");
    assert!(blessed.starts_with("`tack lab envelope`\n\n```\n"), "{blessed}");
    assert!(blessed.contains("property") && !blessed.contains("worst"), "{blessed}");
    for (expected, got) in experiment.property.iter().zip(&view.properties) {
        assert!(got.judged > 0, "the sample says nothing of {}", expected.name);
        assert!(
            got.share() >= expected.at_least,
            "{}: {:.3} of the draws hold it, {} are expected to; worst: {:?}",
            expected.name,
            got.share(),
            expected.at_least,
            got.worst.first(),
        );
    }
}

#[test]
fn every_draw_is_a_scenario_that_the_limits_can_afford() {
    let of = |mut experiment, strategies| {
        contest(&mut experiment, strategies);
        experiment
    };
    let pairs = [["quic-tack", "tcp-l2"], ["quic-tack", "quinn"], ["tcp-l2", "tcp-l2"]];
    for pair in pairs.map(|pair| pair.map(|name| name.parse().unwrap())) {
        every_draw_can_be_afforded(&of(experiment(), pair));
    }
    let quic = ["quic-tack", "quic"].map(|name| name.parse().unwrap());
    for experiment in [experiment(), uncommon(), of(uncommon(), quic)] {
        every_draw_can_be_afforded(&experiment);
    }
}

#[test]
fn a_strategy_against_itself_starts_a_moment_later_and_so_differs() {
    let mut chance = experiment();
    chance.limits.packets = 2_000.0;
    contest(&mut chance, ["tcp-l2"; 2].map(|name| name.parse().unwrap()));
    let draws = (0..8).map(|i| Draw::new(&chance, i, 7));
    let names: Vec<&str> = chance.property.iter().map(|p| p.name.as_str()).collect();
    let pairs: Vec<_> = draws.filter_map(|d| trial(&chance, &d, &names).unwrap().pair()).collect();
    assert!(pairs.len() > 4, "{}", pairs.len());
    assert!(pairs.iter().all(|pair| pair.tack.key != pair.tcp.key));
    assert!(pairs.iter().any(|pair| pair.ratio("goodput").is_some_and(|ratio| ratio != 1.0)));
}

fn every_draw_can_be_afforded(experiment: &Experiment) {
    for index in 0..3_000 {
        let draw = Draw::new(experiment, index, 5);
        let base = draw.scenario(&experiment.limits, index % 4).unwrap();
        for variant in &experiment.variant {
            let scenario = variant.of(&base).unwrap_or_else(|e| panic!("draw {index}: {e:#}"));
            assert!(
                scenario.duration_s
                    >= experiment.limits.rtts * scenario.base_rtt().as_secs_f64() * 0.98
            );
        }
    }
}

#[test]
fn words_out_of_range_are_refused_by_name() {
    let limits = experiment().limits;
    let words = |name: &str, word: Word| -> Words {
        let path = [("rtt_ms", 10.0), ("rate_mbps", 10.0)];
        let path = path.map(|(name, v)| (name.to_owned(), Word::Number(v)));
        path.into_iter().chain([(name.to_owned(), word)]).collect()
    };
    assert!(scenario(&words("loss", Word::Number(0.1)), &limits, 1).is_ok());
    for &name in tack_cc::Algorithm::NAMES {
        let drawn = scenario(&words("cc", Word::Text(name.to_owned())), &limits, 1);
        assert_eq!(drawn.expect(name).flow[0].cc.name(), name, "every controller can be drawn");
    }
    for (name, word) in [
        ("loss", Word::Number(2.0)),
        ("loss", Word::Number(f64::NAN)),
        ("loss", Word::Text("much".to_owned())),
        ("cc", Word::Text("remy".to_owned())),
        ("outages", Word::List(vec![0.5, 1.5])),
        ("colour", Word::Number(1.0)),
    ] {
        let error = scenario(&words(name, word), &limits, 1).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn mistakes_in_an_experiment_are_told_by_line_and_key() {
    for (from, to, expected) in [
        ("rtt_ms = { log_uniform = [0.2", "rtt_ms = { log_uniform = [0.0", "`draw.rtt_ms`"),
        ("packets = 100000", "packets = 1", "`limits.packets` is 1"),
        ("name = \"tcp\"", "name = \"tack\"", "`variant.1.name`"),
        ("id = \"random\"", "id = \"random\"\ncolour = 1", "line 5"),
        ("share = 0.4", "share = 4", "`draw.loss` has share 4"),
    ] {
        assert!(RANDOM.contains(from), "{from}");
        let error = Experiment::parse(&RANDOM.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    // The words themselves, before any of them is drawn.
    for (from, to, expected) in [
        ("load = {", "lode = {", "`draw.lode` is no word of an envelope: wifi, stations"),
        ("load = { log_uniform = [0.01, 1.2]", "load = { uniform = [0.5, 9]", "from 0.001 to 2"),
        (
            "[\"both\", \"down\"",
            "[\"both\", \"donw\"",
            "`draw.outage_way` must be one of both, down, up",
        ),
        (
            "outages = { uniform = [0.05",
            "outages = { uniform = [-1",
            "`draw.outages` must be numbers",
        ),
    ] {
        assert!(RANDOM.contains(from), "{from}");
        let text = RANDOM.replacen(from, to, 1);
        let error = check(&Experiment::parse(&text).unwrap(), &text).unwrap_err().to_string();
        assert!(error.contains("line ") && error.contains(expected), "{to}: {error}");
    }
    let plain = "id = \"x\"\n[base]\nduration_s = 1\n";
    let error = check(&Experiment::parse(plain).unwrap(), plain).unwrap_err().to_string();
    assert!(error.contains("line 2: `base`") && error.contains("tack lab run"), "{error}");
}

/// Whose results would be taken for each other's.
#[test]
fn a_draw_with_other_limits_or_strategies_is_another_though_its_words_are_the_same() {
    let (usual, mut small, mut quic) = (experiment(), experiment(), experiment());
    small.limits.packets = 2_000.0;
    contest(&mut quic, ["quic-tack", "tcp-l2"].map(|name| name.parse().unwrap()));
    let draw = |of: &Experiment| Draw::new(of, 0, 1);
    assert_eq!(draw(&usual), draw(&experiment()));
    assert_eq!(draw(&usual).words, draw(&small).words);
    assert!(draw(&usual) != draw(&small) && draw(&usual) != draw(&quic));
}

#[test]
fn every_experiment_of_the_repository_draws_words_and_names_properties_that_there_are() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/envelope");
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|path| path.extension().is_some_and(|e| e == "toml")) {
        let text = std::fs::read_to_string(file).unwrap();
        let experiment = Experiment::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        check(&experiment, &text).unwrap();
        for expected in &experiment.property {
            assert!(property(&expected.name).is_some(), "{}", expected.name);
        }
    }
}

/// A bar that everything breaks, so that the test does not depend on what is broken today.
#[test]
fn what_breaks_a_property_is_shrunk_to_a_file_that_runs() {
    let mut experiment = experiment();
    (experiment.limits.packets, experiment.limits.reruns) = (2_000.0, 0);
    // Plain TCP acknowledging all it gets, against a stack that acknowledges a 16th.
    for (variant, strategy) in experiment.variant.iter_mut().zip(["tcp-l1", "tcp-l16"]) {
        variant.set.insert("flow.0.strategy".to_owned(), strategy.into());
    }
    let broken = (0..20).find_map(|index| {
        let draw = Draw::new(&experiment, index, 3);
        let trial = trial(&experiment, &draw, &[]).unwrap();
        let broken = !trial.pair()?.broken(["acks"].into_iter()).is_empty();
        (broken && draw.words.len() > 20).then_some(draw)
    });
    let draw = broken.expect("one of the draws acknowledges more");
    let case = shrink(&experiment, &draw, "acks").unwrap().expect("it breaks the property");
    assert!(case.excess > 0.0 && case.smallest.words.len() < 8, "{:?}", case.smallest.words);
    let strategies: Vec<String> =
        items(&case.toml).iter().map(|i| i.scenario.flow[0].strategy.to_string()).collect();
    assert_eq!(strategies, ["tcp-l1", "tcp-l16"], "{}", case.toml);
    assert_eq!(shrink(&experiment, &draw, "acks").unwrap(), Some(case), "the same again");
}

#[test]
fn an_adversary_finds_worse_than_it_began_with_and_the_same_every_time() {
    let mut experiment = experiment();
    (experiment.limits.packets, experiment.limits.reruns) = (1_000.0, 0);
    let search = |generations: usize| {
        let mut adversary = Adversary::new(&experiment, 1, &["acks"]);
        for _ in 0..generations {
            let trials: Vec<Trial> = adversary
                .generation()
                .iter()
                .map(|draw| trial(&experiment, draw, &[]).unwrap())
                .collect();
            adversary.learn(&trials);
        }
        adversary.worst()["acks"].clone()
    };
    let (one, four) = (search(1), search(4));
    assert!(four[0].excess > one[0].excess, "{:?} {:?}", four[0], one[0]);
    assert_eq!(search(4), four);
}
