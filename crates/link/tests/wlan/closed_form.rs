//! Check 2: one saturated sender against
//! `12000·N / (AIFS + CWmin/2·slot + T_data + SIFS + T_response)`.

use std::fmt::Write;
use std::time::Duration;

use tack_link::open_loop::{Mode, OpenLoop};
use tack_link::wlan::{
    AmpduLimits, DataRate, DsssPreamble, Preset, Protection, Standard, WlanConfig,
};

use crate::snapshot::{check, percent, run};

/// Closed form in Mb/s for PPDUs of `n` packets of 1500 bytes.
fn closed_form(c: &WlanConfig, n: u32) -> f64 {
    let mpdu: u32 = 1_500 + if c.qos { 38 } else { 36 };
    let psdu = if n == 1 { mpdu } else { n * (4 + mpdu.next_multiple_of(4)) };
    let t = &c.timing;
    let response_rate = t.response_rate(c.downlink);
    let response =
        if n == 1 { t.ack(response_rate) } else { t.block_ack(response_rate, c.block_ack_window) };
    let protection = match c.protection {
        Protection::CtsToSelf { .. } => t.ack(DataRate::Ofdm { mbps: 6 }) + t.sifs,
        _ => Duration::ZERO,
    };
    let edca = c.ap_edca[1];
    let backoff = t.slot * edca.cw_min / 2;
    let data = c.downlink.ppdu(psdu, t.band);
    let cycle = t.aifs(edca.aifsn) + backoff + protection + data + t.sifs + response;
    12_000.0 * f64::from(n) / (cycle.as_secs_f64() * 1e6)
}

fn with_mpdus(standard: Standard, n: u16) -> WlanConfig {
    let mut config = WlanConfig::preset(Preset::Textbook, standard);
    config.ap_ampdu = AmpduLimits::new(if n == 1 { 0 } else { 1 << 22 }, n);
    config
}

#[test]
fn check_2_a_lone_sender_reaches_the_closed_form() {
    let mut table = String::from("# single sender: closed form, model (Mb/s), error\n");
    let mut runs: Vec<(String, WlanConfig, u16)> = Vec::new();
    for standard in Standard::ALL {
        let sizes: &[u16] = if standard.aggregates() { &[1, 13, 34, 42, 64] } else { &[1] };
        for &n in sizes {
            runs.push((format!("{} {n}", standard.name()), with_mpdus(standard, n), n));
        }
    }
    let mut wide = with_mpdus(Standard::Ax, 256);
    wide.block_ack_window = 256;
    runs.push(("ax 256".into(), wide, 256));
    let mut short = with_mpdus(Standard::B, 1);
    short.downlink = DataRate::Dsss { kbps: 11_000, preamble: DsssPreamble::Short };
    runs.push(("b short".into(), short, 1));
    runs.push(("g cts".into(), WlanConfig::preset(Preset::PaperA, Standard::G), 1));
    for (name, config, n) in runs {
        let expected = closed_form(&config, u32::from(n));
        let b = config.standard == Standard::B;
        let mut experiment = OpenLoop::new(config, Mode::Udp);
        experiment.duration = Duration::from_secs(if b { 50 } else { 10 });
        let report = run(&experiment);
        let error = percent(report.l3_mbps, expected);
        writeln!(table, "{name:<8} {expected:8.3} {:8.3} {error:+.2} %", report.l3_mbps).unwrap();
        assert!(error.abs() <= 0.3, "{name}: {expected} against {}", report.l3_mbps);
        assert_eq!(report.ap.mpdus_per_ppdu(), f64::from(n), "{name}");
    }
    check("closed_form", &table);
}

#[test]
fn check_2_the_closed_form_is_the_published_one() {
    for (standard, n, mbps) in [
        (Standard::B, 1, 6.224),
        (Standard::G, 1, 30.496),
        (Standard::N, 42, 261.07),
        (Standard::N, 13, 211.24),
        (Standard::Ac, 34, 590.88),
        (Standard::Ac, 42, 625.0),
        (Standard::Ac, 64, 686.63),
        (Standard::Ax, 64, 877.4),
    ] {
        let form = closed_form(&with_mpdus(standard, n), u32::from(n));
        assert!(percent(form, mbps).abs() < 0.02, "{standard:?} {n}: {form} against {mbps}");
    }
}
