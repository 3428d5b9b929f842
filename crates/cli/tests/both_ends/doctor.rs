//! `tack doctor` over the loopback.

use std::io::{BufRead, BufReader};

use tempfile::tempdir;

use crate::support::{Listening, succeeded, tack};

#[test]
fn both_ways_are_measured_and_judged_with_the_numbers_behind() {
    let home = tempdir().unwrap();
    let mut server =
        Listening(tack(home.path(), "perf -s -p 0 -B 127.0.0.1 --open").spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("Server listening on ")?.split(' ').next()?.to_owned())
    });
    // Whatever else it says must find a reader.
    let draining = std::thread::Builder::new().spawn(move || lines.map_while(Result::ok).count());
    let line = format!("doctor 127.0.0.1 -p {} -t 4", port.unwrap());
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
