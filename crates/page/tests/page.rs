//! What the page offers, and that what it gives is what the command gives.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_lab::experiment::Extent;
use tack_lab::reproduce::Loaded;
use tack_lab::{backend, plan};
use tack_page::{CHOICES, Choice, Kind, STEPS, Session, Settings};

/// Any answer that the form allows.
fn drawn(choice: &Choice, rng: &mut Pcg64Mcg) -> String {
    match choice.kind {
        Kind::Words(all) => {
            let all = all();
            all[rng.random_range(0..all.len())].0.clone()
        }
        Kind::Number { least, most, step } => {
            let steps = ((most - least) / step).round() as u64;
            // The ends more often than by chance.
            let n = match rng.random_range(0..6) {
                0 => 0,
                1 => steps,
                _ => rng.random_range(0..=steps),
            };
            format!("{:.4}", least + n as f64 * step)
        }
    }
}

fn random_link(rng: &mut Pcg64Mcg) -> String {
    let answers: Vec<String> =
        CHOICES.iter().map(|c| format!("{}={}", c.key, drawn(c, rng))).collect();
    answers.join("&")
}

/// What `tack lab run FILE --json` prints, by the calls that the command makes.
fn as_the_command(file: &str) -> String {
    let experiment = plan::experiment_or_scenario(file, "page").unwrap();
    let loaded = Loaded::of(experiment, file, Extent::Usual).unwrap();
    let runs = loaded.plan.items.iter().map(|item| (item.id.clone(), backend::run(item).unwrap()));
    let records: BTreeMap<_, _> = runs.collect();
    let json = loaded.json(&loaded.report(&records).unwrap(), &records);
    serde_json::to_string_pretty(&json).unwrap() + "\n"
}

#[test]
fn every_answer_of_the_form_makes_an_experiment_that_can_run() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for n in 0..2_000 {
        let link = random_link(&mut rng);
        let (settings, problems) = Settings::from_link(&link);
        assert_eq!(problems, [""; 0], "{n}: {link}");
        let (again, problems) = Settings::from_link(&settings.to_string());
        assert!(again == settings && problems.is_empty(), "{n}: {link}: a link says it all");
        let file = settings.experiment();
        let experiment = plan::experiment_or_scenario(&file, "page").unwrap();
        let loaded = Loaded::of(experiment, &file, Extent::Usual);
        let loaded = loaded.unwrap_or_else(|e| panic!("{n}: {link}: {e}\n{file}"));
        assert_eq!(loaded.plan.items.len(), 2, "{file}");
        let names: Vec<_> =
            loaded.plan.items.iter().map(|i| i.key["variant"].to_string()).collect();
        assert!(names[0].starts_with("A: ") && names[1].starts_with("B: "), "{names:?}");
    }
}

#[test]
fn a_link_that_asks_for_what_there_is_not_is_explained_and_the_rest_of_it_counts() {
    let link = "#phy=g&rtt=20.4&rate=0.4&ack_loss=7e-2&preset=lab&stations=17&loss=x&colour=red&seed=-0&seed";
    let (settings, problems) = Settings::from_link(link);
    assert_eq!((settings.get("phy"), settings.get("rtt")), ("g", "20"), "to the nearest step");
    assert_eq!((settings.get("preset"), settings.get("stations")), ("textbook", "1"));
    assert_eq!((settings.get("ack_loss"), settings.get("seed")), ("0.07", "0"));
    assert_eq!(
        problems,
        [
            "Path, Round trip of the wire, ms: `20.4` is taken for 20, in steps of 1",
            "Path, Its rate, Mbit/s (0: no limit): `0.4` is taken for 0, in steps of 1",
            "Air, Preset: there is no `lab`, only textbook, paper-a, paper-b",
            "Air, Stations: `17` is no number from 1 to 16",
            "Path, Loss to stations, %: `x` is no number from 0 to 10",
            "the link asks for `colour`, which is not on this page",
            "Traffic, Seed: `` is no number from 0 to 1000000",
        ]
    );
    let (settings, problems) = Settings::from_link(&("k&".repeat(1_000) + "phy=g"));
    assert_eq!((settings.get("phy"), problems.len()), ("g", 17), "nobody reads a thousand");
    assert_eq!(problems[16], "and 984 more of the link cannot be used");
    let (settings, problems) = Settings::from_link(&"phy=g&".repeat(10_000));
    assert!(settings == Settings::default() && problems[0].contains("longer"), "{problems:?}");
}

#[test]
fn a_run_in_slices_gives_the_commands_bytes_whatever_the_setting() {
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    for n in 0..10 {
        // Short, and not so many stations that it takes long.
        let short = format!("&seconds=1&stations={}", 1 + n % 3);
        let link = random_link(&mut rng) + &short;
        let file = Settings::from_link(&link).0.experiment();
        let mut session = Session::open(&file).unwrap();
        let mut steps = 0;
        while session.step().is_some() {
            steps += 1;
        }
        assert_eq!(steps, STEPS);
        assert_eq!(session.finish().unwrap(), as_the_command(&file), "{n}: {link}");
    }
}

#[test]
fn slices_account_for_all_of_the_air() {
    let link = "phy=g&rtt=20&seconds=1&a=tcp-l1&b=tack";
    let mut session = Session::open(&Settings::from_link(link).0.experiment()).unwrap();
    let (mut acks, mut goodput) = ([0.0; 2], [0.0; 2]);
    let strip_ns = serde_json::to_value(session.opening()).unwrap()["strip_ns"].as_u64().unwrap();
    let mut steps = 0;
    while let Some(step) = session.step() {
        steps += 1;
        let step = serde_json::to_value(&step).unwrap();
        for (n, run) in step["runs"].as_array().unwrap().iter().enumerate() {
            let air = run["air"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
            let air: Vec<f64> = air.collect();
            assert!((air.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{air:?}");
            acks[n] += air[1] / f64::from(STEPS);
            goodput[n] += run["goodput_bps"].as_f64().unwrap() / f64::from(STEPS);
            let strip = run["strip"].as_array().unwrap();
            let shown: u64 = strip.iter().map(|span| span[1].as_u64().unwrap()).sum();
            // 5 ms a slice: the first three end before there are 20 ms.
            assert_eq!(shown, strip_ns.min(steps * 5_000_000), "no gap in slice {steps}");
        }
    }
    let rows: serde_json::Value = serde_json::from_str(&session.finish().unwrap()).unwrap();
    assert!(acks[0] > acks[1] * 5.0 && goodput[1] > goodput[0], "{acks:?} {goodput:?}: {rows}");
}

#[test]
fn a_file_that_cannot_run_is_explained() {
    let wrong = Session::open("id = \"x\"\n[base]\nduration_s = -1\nflow = []\n").err().unwrap();
    assert!(wrong.contains("line 3") && wrong.contains("duration_s"), "{wrong}");
    let file = Settings::default().experiment();
    let many = file.clone() + "[sweep]\nseed = [1, 2, 3, 4, 5]\n";
    assert!(Session::open(&many).err().unwrap().contains("asks for 10 runs, at most 8"));
    let real_time = file.replace("id = ", "backend = \"open-loop\"\nid = ");
    assert!(Session::open(&real_time).err().unwrap().contains("can be watched"));
}
