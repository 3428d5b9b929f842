//! Check 4: every open-loop row of the ns-3 measurements in `tests/data/ns3-wlan.csv`.

use std::fmt::Write;
use std::time::Duration;

use tack_link::open_loop::Mode;
use tack_link::open_loop::ns3::{Ns3Row, RowError};

use crate::snapshot::{check, percent, run};

const TABLE: &str = include_str!("../data/ns3-wlan.csv");

/// A kind of row and its tolerances in percent.
struct Class {
    name: &'static str,
    mean: f64,
    each: f64,
    errors: Vec<f64>,
}

fn classes() -> Vec<Class> {
    let class = |name, mean, each| Class { name, mean, each, errors: Vec::new() };
    vec![
        class("1 station", 1.5, 4.0),
        class("1 station, explicit BAR", 8.0, 8.0),
        class("5 stations", 3.0, 6.0),
        class("relay", 5.0, 5.0),
        class("up to 10 senders", 3.0, 3.0),
        class("20 senders", 6.0, 6.0),
    ]
}

/// The place of `row`'s class.
fn class_of(row: &Ns3Row) -> usize {
    match row.mode {
        Mode::Relay => 3,
        Mode::Up if row.n_sta <= 10 => 4,
        Mode::Up => 5,
        _ if row.n_sta > 1 => 2,
        _ if row.explicit_bar && row.phy.aggregates() => 1,
        _ => 0,
    }
}

/// Long enough for the spread over seeds to be small beside the tolerances.
fn duration(row: &Ns3Row) -> Duration {
    let seconds = match row.n_sta {
        _ if row.l3_mbps < 10.0 => 40,
        1 => 3,
        _ => 4,
    };
    Duration::from_secs(seconds)
}

fn describe(row: &Ns3Row, model: f64) -> String {
    format!(
        "{:2} {:6} {:17} L {:2} {:2} ms n {:2} ap {:7} sta {:7} bar {} rts {:7} {:6} Mb/s  \
         {:7.3} {model:7.3} {:+.2} %",
        row.phy.name(),
        row.mode.name(),
        row.ul_mode,
        row.l,
        row.period_ms,
        row.n_sta,
        row.max_ampdu,
        row.sta_max_ampdu,
        u8::from(row.explicit_bar),
        row.rts_thr,
        row.offered_mbps,
        row.l3_mbps,
        percent(model, row.l3_mbps),
    )
}

#[test]
fn check_4_the_model_agrees_with_ns3() {
    let mut lines = TABLE.lines().filter(|l| !l.starts_with('#'));
    let header = lines.next().expect("a header");
    let mut table = String::from("# ns-3 Mb/s, model Mb/s, error\n");
    let mut classes = classes();
    let mut failures = Vec::new();
    for line in lines {
        let row = Ns3Row::parse(header, line).expect("a row");
        let experiment = row.experiment(duration(&row), 1).expect("a known rate");
        let report = run(&experiment);
        let described = describe(&row, report.l3_mbps);
        writeln!(table, "{described}").unwrap();
        let error = percent(report.l3_mbps, row.l3_mbps).abs();
        let class = &mut classes[class_of(&row)];
        class.errors.push(error);
        if error > class.each {
            failures.push(format!("{}: {described}", class.name));
        }
    }
    for class in &classes {
        let n = class.errors.len();
        assert!(n > 0, "no rows of {}", class.name);
        let mean = class.errors.iter().sum::<f64>() / n as f64;
        let worst = class.errors.iter().fold(0.0f64, |worst, e| worst.max(*e));
        writeln!(table, "{}: {n} rows, mean {mean:.2} %, worst {worst:.2} %", class.name).unwrap();
        if mean > class.mean {
            failures.push(format!("{}: mean {mean:.2} %", class.name));
        }
    }
    check("ns3", &table);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_row_that_makes_no_sense_names_its_column() {
    let header = "phy,ul_mode,mode,L,period_ms,n_sta,max_ampdu,sta_max_ampdu,explicit_bar,rts_thr,\
                  offered_mbps,wired_delay_ms,l3_mbps";
    let good = "n,HtMcs9,udpack,2,0,1,65535,65535,0,65535,330,0.5,164.2";
    let row = Ns3Row::parse(header, good).expect("a row");
    assert_eq!((row.l, row.n_sta, row.explicit_bar), (2, 1, false));
    let column = |line: &str| match Ns3Row::parse(header, line) {
        Err(RowError::BadValue { column, .. } | RowError::NoColumn(column)) => column,
        Ok(row) => panic!("{row:?}"),
    };
    assert_eq!(column(&good.replace("n,Ht", "be,Ht")), "phy");
    assert_eq!(column(&good.replace("udpack", "tcp")), "mode");
    assert_eq!(column(&good.replace("udpack,2", "udpack,x")), "L");
    assert_eq!(column("n,same,udp,0,0,1"), "max_ampdu");
    assert_eq!(Ns3Row::parse("phy", "n"), Err(RowError::NoColumn("ul_mode")));
    let odd = Ns3Row { ul_mode: "VhtMcs2".into(), ..row };
    let error = odd.experiment(Duration::from_secs(1), 1).expect_err("not an HT rate");
    assert_eq!(error, RowError::BadValue { column: "ul_mode", text: "VhtMcs2".into() });
}
