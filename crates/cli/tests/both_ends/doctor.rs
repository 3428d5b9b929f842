//! `tack doctor` over the loopback.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::ChildStdout;

use tempfile::tempdir;

use crate::support::{Listening, succeeded, tack};

/// A server that measures, its port, and what else it says.
fn measuring(home: &Path) -> (Listening, String, Lines<BufReader<ChildStdout>>) {
    let mut server = Listening(tack(home, "perf -s -p 0 -B 127.0.0.1 --open").spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("Server listening on ")?.split(' ').next()?.to_owned())
    });
    (server, port.unwrap(), lines)
}

#[test]
fn both_ways_are_measured_and_judged_with_the_numbers_behind() {
    let home = tempdir().unwrap();
    let (server, port, lines) = measuring(home.path());
    // Whatever else it says must find a reader.
    let draining = std::thread::Builder::new().spawn(move || lines.map_while(Result::ok).count());
    let line = format!("doctor 127.0.0.1 -p {port} -t 4");
    let asked = tack(home.path(), &line).output().unwrap();
    succeeded(&asked);
    let said = String::from_utf8(asked.stdout).unwrap();
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    for way in ["From here to there: ", "From there to here: "] {
        assert_eq!(said.lines().filter(|line| line.starts_with(way)).count(), 1, "{said}");
    }
    assert_eq!((count("  TACK "), count("  plain ")), (4, 4), "{said}");
    drop(server);
    draining.unwrap().join().unwrap();
}

#[test]
fn what_the_measuring_fails_of_is_said_with_the_host() {
    let home = tempdir().unwrap();
    let (_server, port, mut lines) = measuring(home.path());
    let line = format!("perf -c 127.0.0.1 -p {port} -t 60 -b 1M");
    let _busy = Listening(tack(home.path(), &line).spawn().unwrap());
    assert!(lines.any(|line| line.unwrap().contains("connected to")));
    let line = format!("doctor 127.0.0.1 -p {port} -t 4");
    let asked = tack(home.path(), &line).output().unwrap();
    let said = String::from_utf8(asked.stderr).unwrap();
    let told = format!("tack: 127.0.0.1:{port}: the server refused the test");
    assert!(said.contains(&told), "{said}");
}

#[test]
fn a_server_that_is_told_to_end_has_failed_the_measuring_and_nobody_stopped_it_here() {
    let home = tempdir().unwrap();
    let (server, port, mut lines) = measuring(home.path());
    let mut asking = tack(home.path(), &format!("doctor 127.0.0.1 -p {port} -t 60"));
    let asking = asking.spawn().unwrap();
    assert!(lines.any(|line| line.unwrap().contains("connected to")));
    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let asked = asking.wait_with_output().unwrap();
    let said = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(1), "{said}");
    let told = format!("tack: 127.0.0.1:{port}: the server has terminated");
    assert!(said.contains(&told), "{said}");
}

/// What one run says of itself.
#[derive(Debug)]
struct Run {
    goodput: f64,
    acks: f64,
    packets: f64,
}

/// A way's three lines of judgment, and its runs: two with TACK, two without.
#[derive(Debug)]
struct Way {
    verdict: [String; 3],
    tack: Vec<Run>,
    plain: Vec<Run>,
}

fn ways(said: &str) -> Vec<Way> {
    let lines: Vec<&str> = said.lines().collect();
    let run = |line: &&str| {
        // `TACK  95.4 Mbits/sec  310 ACKs for 12345 packets …`
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| -> f64 { words[i].parse().unwrap_or_else(|_| panic!("{line}")) };
        let unit = match words[2] {
            "Gbits/sec" => 1e9,
            "Mbits/sec" => 1e6,
            "Kbits/sec" => 1e3,
            other => panic!("{other}"),
        };
        assert_eq!((words[4], words[5], words[7]), ("ACKs", "for", "packets"), "{line}");
        Run { goodput: unit * number(1), acks: number(3), packets: number(6) }
    };
    let way = |lines: &[&str]| Way {
        verdict: [0, 1, 2].map(|i| lines[i].to_owned()),
        tack: lines[3..5].iter().map(run).collect(),
        plain: lines[5..7].iter().map(run).collect(),
    };
    lines.chunks(7).map(way).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// What they lie apart.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().fold(f64::MIN, f64::max) - values.fold(f64::MAX, f64::min)
}

/// The verdict follows from the numbers that stand below it.
fn is_judged_by_its_numbers(way: &Way) {
    let per_packet = |runs: &[Run]| mean(runs.iter().map(|run| run.acks / run.packets));
    let fewer = 100.0 * (1.0 - per_packet(&way.tack) / per_packet(&way.plain));
    let (_, first) = way.verdict[0].split_once(": ").unwrap();
    let (acks, goodput) = first.split_once(" ACK packets; goodput ").unwrap();
    let (said, word) = acks.split_once(" % ").unwrap();
    assert_eq!(word, if fewer < 0.0 { "more" } else { "fewer" }, "{way:?}");
    // Rounded there.
    assert!((said.parse::<f64>().unwrap() - fewer.abs()).abs() <= 0.51, "{fewer}: {way:?}");
    let rates = |runs: &[Run]| runs.iter().map(|run| run.goodput).collect::<Vec<_>>();
    let (tack, plain) = (rates(&way.tack), rates(&way.plain));
    let gain = mean(tack.iter().copied()) / mean(plain.iter().copied()) - 1.0;
    let noise = spread(tack.iter().copied()) + spread(plain.iter().copied());
    let apart = (gain * mean(plain.iter().copied())).abs() / noise.max(1.0);
    let told = goodput.strip_suffix(" %").map(|percent| percent.parse::<f64>().unwrap() / 100.0);
    match (told, goodput) {
        // The rates have three digits there.
        (Some(told), _) => {
            assert!((told - gain).abs() < 0.02 && apart > 0.9, "{gain}, {apart}: {way:?}");
        }
        (None, "the same") => assert!(gain.abs() < 0.02, "{gain}: {way:?}"),
        (None, said) => {
            assert!(said.starts_with("no difference") && apart < 1.1, "{apart}: {way:?}");
        }
    }
    let advice = &way.verdict[2];
    let expected = match told.unwrap_or(0.0) {
        gain if gain >= 0.055 => "Worth it here: more goodput.",
        gain if gain <= -0.055 => "Not worth it here: plain TCP is faster",
        // Next to the bar, rounding decides.
        gain if gain.abs() > 0.045 => "",
        _ if fewer >= 50.5 => "Not worth it for speed here: fewer ACKs count where both ways share",
        _ if fewer < 49.5 => "Not worth it here: nothing is saved",
        _ => "",
    };
    assert!(advice.contains(expected), "{expected} is not: {way:?}");
}

/// On the air of 802.11n at 20 ms, both ways: what it says is what passed the path, and what it advises follows.
#[cfg(target_os = "linux")]
#[test]
fn over_emulated_wifi_the_verdict_counts_what_the_path_counted_and_follows_from_its_numbers() {
    use tack_lab::emulate::{Emulated, EmulatedPath};
    use tack_lab::scenario::Scenario;
    use tack_link::End;

    let path = "duration_s = 1.0\nflow = [{ strategy = \"tack\" }]\n[wifi]\nphy = \"n\"\n\
                [wan]\ndelay_ms = 10.0\n";
    let path = EmulatedPath::of(&Scenario::parse(path).unwrap());
    let emulated = match Emulated::start(&path, Emulated::config()) {
        Err(e) => {
            let must = std::env::var_os("TACK_INTEROP_REQUIRED").is_some();
            assert!(!must, "{e:#}");
            return println!("skipped: {e:#}");
        }
        Ok(emulated) => emulated,
    };
    let home = tempdir().unwrap();
    let mut serve = tack(home.path(), "perf -s -B 10.77.0.2 --open");
    let server = Listening(emulated.netns(End::B).spawn(&mut serve).unwrap());
    // A client that comes too early tries again.
    let mut ask = tack(home.path(), "doctor 10.77.0.2 -t 12");
    let asked = emulated.netns(End::A).spawn(&mut ask).unwrap().wait_with_output().unwrap();
    succeeded(&asked);
    drop(server);
    let account = emulated.finish().unwrap();
    let said = String::from_utf8(asked.stdout).unwrap();
    println!("{said}{account}");
    let ways = ways(&said);
    assert_eq!(ways.len(), 2, "{said}");
    for (way, (there, back)) in
        ways.iter().zip([(account.up, account.down), (account.down, account.up)])
    {
        is_judged_by_its_numbers(way);
        let sum = |of: fn(&Run) -> f64| way.tack.iter().chain(&way.plain).map(of).sum::<f64>();
        // The first quarter of a run is not counted, nor is what both ends say to each other beside.
        let share = |counted: f64, passed: u64| counted / passed as f64;
        let packets = share(sum(|run| run.packets), there.data_packets);
        let acks = share(sum(|run| run.acks), back.ack_packets);
        assert!((0.4..=1.0).contains(&packets), "{packets} of {there:?}: {said}");
        assert!((0.3..=1.0).contains(&acks), "{acks} of {back:?}: {said}");
        // Not how fast, but by how few acknowledgments: that is TACK's, however busy the machine.
        for run in &way.tack {
            assert!(run.acks < 0.1 * run.packets, "{run:?}: {said}");
        }
        assert!(way.verdict[0].contains(" % fewer ACK packets"), "{said}");
    }
}
