//! Prints the model's rate beside ns-3's for every row of `tests/data/ns3-wlan.csv`.

use std::time::Duration;

use tack_link::open_loop::ns3::Ns3Row;

fn main() {
    let table = include_str!("../tests/data/ns3-wlan.csv");
    let mut lines = table.lines().filter(|l| !l.starts_with('#'));
    let header = lines.next().expect("a header");
    let seconds = std::env::args().nth(1).map_or(5.0, |s| s.parse().expect("seconds"));
    for line in lines {
        let row = Ns3Row::parse(header, line).expect("a row");
        let run = row.experiment(Duration::from_secs_f64(seconds), 1).expect("a known rate");
        let report = run.run().expect("a valid experiment");
        assert!(report.ledger.balances(), "{:?}", report.ledger);
        println!(
            "{:+6.2} %  ns-3 {:7.3}  model {:7.3}  {:>2} {:>6} L={:<2} {:>2} ms n={:<2} ap {:>7} sta {:>7} \
             bar {} {} {} | {:.2} {:.2} | coll ap {:.3} sta {:.3} acks {}/{}",
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
            row.rts_thr,
            report.ap.mpdus_per_ppdu(),
            report.stations.mpdus_per_ppdu(),
            report.ap.collision_probability(),
            report.stations.collision_probability(),
            report.acks_sent,
            report.acks_delivered,
        );
    }
}
