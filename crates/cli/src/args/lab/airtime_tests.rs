//! `tack lab airtime` on every ns-3 row, by its flags alone.

use std::path::Path;

use clap::Parser;
use tack_link::open_loop::ns3::Ns3Row;

use super::*;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: AirtimeArgs,
}

/// `mode` on `phy`, all else as nobody has said otherwise.
fn plain(phy: &str, mode: &str) -> AirtimeArgs {
    Only::parse_from(["airtime", "--phy", phy, "--mode", mode]).args
}

fn l3_mbps(args: &AirtimeArgs) -> Result<f64> {
    Ok(args.experiment()?.run()?.l3_mbps)
}

fn rows() -> Vec<Ns3Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../link/tests/data/ns3-wlan.csv");
    let table = std::fs::read_to_string(file).unwrap();
    let mut lines = table.lines().filter(|l| !l.starts_with('#'));
    let header = lines.next().unwrap();
    lines.map(|l| Ns3Row::parse(header, l).unwrap()).collect()
}

/// What a person types for a row: rates in Mbit/s, bytes, milliseconds.
fn settings(row: &Ns3Row) -> AirtimeArgs {
    let uplink_rate = match row.ul_mode.as_str() {
        "same" => None,
        "HtMcs9" => Some(60.0),
        "VhtMcs2" => Some(195.0),
        "ErpOfdmRate12Mbps" => Some(12.0),
        "DsssRate2Mbps" => Some(2.0),
        other => panic!("no rate is known for {other}"),
    };
    AirtimeArgs {
        l: Some(row.l),
        period_ms: row.period_ms,
        stations: row.n_sta,
        ap_ampdu_bytes: Some(row.max_ampdu),
        sta_ampdu_bytes: Some(row.sta_max_ampdu),
        uplink_rate,
        offered_mbps: row.offered_mbps,
        wired_delay_ms: row.wired_delay_ms,
        seconds: 2.0,
        explicit_bar: row.explicit_bar,
        rts_threshold: row.phy.aggregates().then_some(row.rts_thr),
        ..plain(row.phy.name(), row.mode.name())
    }
}

#[test]
fn flags_reach_the_experiment_of_every_ns3_row() {
    let rows = rows();
    assert!(rows.len() > 100, "{} rows", rows.len());
    for row in &rows {
        let mut ours = settings(row).experiment().unwrap();
        let mut theirs = row.experiment(Duration::from_secs(2), 1).unwrap();
        if matches!(row.mode, Mode::Udp | Mode::Up) {
            // Modes without acknowledgments ignore the rule.
            (ours.ack, theirs.ack) = (AckRule::Never, AckRule::Never);
        }
        // Two streams at half the rate or one at all of it: one name per rate is enough, as long
        // as bits per symbol are the same.
        assert_eq!(ours.wlan.uplink.kbps(), theirs.wlan.uplink.kbps(), "{row:?}");
        ours.wlan.uplink = theirs.wlan.uplink;
        assert_eq!(ours, theirs, "{row:?}");
    }
}

/// The protection of ns-3's defaults follows from its explicit BlockAckReq: nobody has to know
/// its threshold.
#[test]
fn without_a_threshold_the_rows_are_met_as_well() {
    for row in rows().iter().filter(|r| r.n_sta == 1 && r.l3_mbps > 20.0).step_by(5) {
        let settings = AirtimeArgs { rts_threshold: None, ..settings(row) };
        let got = l3_mbps(&settings).unwrap();
        let tolerance = if row.explicit_bar { 0.08 } else { 0.04 };
        assert!((got / row.l3_mbps - 1.0).abs() < tolerance, "{got} Mbit/s for {row:?}");
    }
}

#[test]
fn either_rule_of_acknowledging_may_be_left_out_or_zero() {
    let every = AckRule::EveryPackets;
    let period = AckRule::Every(Duration::from_millis(20));
    for (mode, l, period_ms, rule) in [
        ("udpack", None, 0.0, every(2)),
        ("udpack", Some(4), 0.0, every(4)),
        ("udpack", Some(0), 0.0, AckRule::Never),
        ("udpack", Some(0), 20.0, period),
        ("udpack", None, 20.0, period),
        ("relay", None, 0.0, AckRule::Never),
        ("relay", Some(1), 0.0, every(1)),
        ("udp", Some(2), 20.0, AckRule::Never),
        ("up", Some(2), 0.0, AckRule::Never),
    ] {
        let settings = AirtimeArgs { l, period_ms, ..plain("n", mode) };
        assert_eq!(settings.experiment().unwrap().ack, rule, "{mode} {l:?} {period_ms}");
    }
    let both = AirtimeArgs { l: Some(2), period_ms: 20.0, ..plain("n", "udpack") };
    assert!(l3_mbps(&both).unwrap_err().to_string().contains("--period-ms"));
}

#[test]
fn settings_out_of_range_are_named() {
    let good = || AirtimeArgs { seconds: 0.1, ..plain("n", "udp") };
    assert!(l3_mbps(&good()).unwrap() > 200.0);
    for (wrong, word) in [
        (AirtimeArgs { phy: "z".into(), ..good() }, "--phy"),
        (AirtimeArgs { preset: "z".into(), ..good() }, "--preset"),
        (AirtimeArgs { mode: "z".into(), ..good() }, "--mode"),
        (AirtimeArgs { stations: 0, ..good() }, "--stations"),
        (AirtimeArgs { uplink_rate: Some(-1.0), ..good() }, "--uplink-rate"),
        (AirtimeArgs { uplink_rate: Some(f64::NAN), ..good() }, "--uplink-rate"),
        (AirtimeArgs { offered_mbps: f64::NAN, ..good() }, "offered"),
        (AirtimeArgs { offered_mbps: -1.0, ..good() }, "offered"),
        (AirtimeArgs { period_ms: f64::NAN, ..good() }, "--period-ms"),
        (AirtimeArgs { wired_delay_ms: -1.0, ..good() }, "--wired-delay-ms"),
        (AirtimeArgs { seconds: 0.0, ..good() }, "duration"),
        (AirtimeArgs { seconds: f64::INFINITY, ..good() }, "--seconds"),
    ] {
        let error = l3_mbps(&wrong).unwrap_err().to_string();
        assert!(error.contains(word), "{error} lacks {word}");
    }
}
