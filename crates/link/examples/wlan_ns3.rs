//! Prints the model's rate and speed beside ns-3's for every row of `tests/data/ns3-wlan.csv`
//! (wlan-model checks 4 and 10). The argument is how many seconds to simulate of each, 5 without.

use std::time::{Duration, Instant};

use tack_link::open_loop::ns3::Ns3Row;
use tack_link::open_loop::{OpenLoop, Report};

fn main() {
    let table = include_str!("../tests/data/ns3-wlan.csv");
    let mut lines = table.lines().filter(|l| !l.starts_with('#'));
    let header = lines.next().expect("a header");
    let speed_column = header.split(',').position(|c| c == "sim_per_wall").expect("a speed");
    let seconds = std::env::args().nth(1).map_or(5.0, |s| s.parse().expect("seconds"));
    let mut least = f64::INFINITY;
    for line in lines {
        let row = Ns3Row::parse(header, line).expect("a row");
        let run = row.experiment(Duration::from_secs_f64(seconds), 1).expect("a known rate");
        let (report, speed) = timed(&run);
        let ns3_speed = line.split(',').nth(speed_column).and_then(|s| s.parse::<f64>().ok());
        let faster = speed / ns3_speed.expect("a number");
        least = least.min(faster);
        println!(
            "{:+6.2} %  {:8.3} {:8.3} Mb/s  {faster:6.0} times faster  {:>2} {:>6} L={:<2} {:>2} ms \
             n={:<2} ap {:>7} sta {:>7} bar {} {}",
            (report.l3_mbps / row.l3_mbps - 1.0) * 100.0,
            row.l3_mbps,
            report.l3_mbps,
            row.phy.name(),
            row.mode.name(),
            row.l,
            row.period_ms,
            row.n_sta,
            row.max_ampdu,
            row.sta_max_ampdu,
            u8::from(row.explicit_bar),
            row.ul_mode,
        );
    }
    println!("at least {least:.0} times faster than ns-3 was when the rows were recorded");
}

/// The best of five runs: other work on the machine only ever makes one slower.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]
fn timed(run: &OpenLoop) -> (Report, f64) {
    let simulated = (run.warm_up + run.duration).as_secs_f64();
    let mut speed = 0.0f64;
    let mut repeat = || {
        let start = Instant::now();
        let report = run.run().expect("a valid experiment");
        speed = speed.max(simulated / start.elapsed().as_secs_f64());
        report
    };
    let report = repeat();
    for _ in 0..4 {
        assert_eq!(repeat(), report, "the same seed gives the same run");
    }
    assert!(report.ledger.balances(), "{:?}", report.ledger);
    (report, speed)
}
