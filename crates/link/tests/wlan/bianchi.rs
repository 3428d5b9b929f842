//! Check 3: saturation throughput and collision probability against G. Bianchi, "Performance
//! analysis of the IEEE 802.11 distributed coordination function", JSAC 18(3), 2000.
//!
//! Basic access, five doublings of the window, retries without end, no EIFS and no response
//! timeout, as the analysis assumes.

use std::fmt::Write;
use std::time::Duration;

use tack_link::open_loop::{Mode, OpenLoop};
use tack_link::wlan::{
    AcParams, AmpduLimits, DataRate, DsssPreamble, FreezeRule, Preset, Standard, WlanConfig,
};

use crate::snapshot::{check, percent, run};

const DOUBLINGS: u32 = 5;

/// Fixed point of the analysis: probabilities to send in a slot, and to collide.
fn fixed_point(n: f64, w: f64) -> (f64, f64) {
    let m = DOUBLINGS as i32;
    let tau_of = |p: f64| {
        let series: f64 = (0..m).map(|i| (2.0 * p).powi(i)).sum();
        2.0 / (1.0 + w + p * w * series)
    };
    // p - (1 - (1 - tau(p))^(n-1)) rises with p: bisect.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = (low + high) / 2.0;
        if 1.0 - tack_units::math::pow(1.0 - tau_of(p), n - 1.0) > p { low = p } else { high = p }
    }
    (tau_of(low), low)
}

/// Times of one slot, one success, one collision in µs.
struct Times {
    slot: f64,
    success: f64,
    collision: f64,
    payload_bits: f64,
}

fn throughput(n: f64, w: f64, t: &Times) -> f64 {
    let (tau, _) = fixed_point(n, w);
    let some = 1.0 - tack_units::math::pow(1.0 - tau, n);
    let one = n * tau * tack_units::math::pow(1.0 - tau, n - 1.0);
    let mean = (1.0 - some) * t.slot + one * t.success + (some - one) * t.collision;
    one * t.payload_bits / mean
}

/// The assumptions, put on top of a textbook configuration.
fn assume(mut c: WlanConfig, w: u32) -> WlanConfig {
    let params = AcParams::new(w - 1, w * (1 << DOUBLINGS) - 1, 2);
    c.station_edca = [params; 4];
    c.ap_edca = [params; 4];
    c.freeze = FreezeRule::Edca;
    c.eifs_share = 0.0;
    c.timing.response_timeout = Some(Duration::ZERO);
    c.retry_limit = None;
    c.station_ampdu = AmpduLimits::NONE;
    c
}

/// The analysis' own example: frequency hopping at 1 Mb/s, 8184 bits of payload.
fn fhss() -> (WlanConfig, u32, f64) {
    let mut c = WlanConfig::preset(Preset::Textbook, Standard::B);
    let rate =
        DataRate::Dsss { kbps: 1_000, preamble: DsssPreamble::Other(Duration::from_micros(128)) };
    c.uplink = rate;
    c.downlink = rate;
    c.timing.slot = Duration::from_micros(50);
    c.timing.sifs = Duration::from_micros(28);
    c.timing.basic_kbps = vec![1_000];
    // 36 bytes of overhead instead of the paper's 34: the same 8456 bits on air.
    (c, 1_021, 8_184.0)
}

fn textbook(standard: Standard) -> (WlanConfig, u32, f64) {
    (WlanConfig::preset(Preset::Textbook, standard), 1_500, 12_000.0)
}

fn times(c: &WlanConfig, ip_bytes: u32, payload_bits: f64) -> Times {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let t = &c.timing;
    let data = us(c.uplink.ppdu(ip_bytes + if c.qos { 38 } else { 36 }, t.band));
    let ack = us(t.ack(t.response_rate(c.uplink)));
    let difs = us(t.aifs(2));
    Times {
        slot: us(t.slot),
        success: data + us(t.sifs) + ack + difs,
        collision: data + difs,
        payload_bits,
    }
}

#[test]
fn check_3_the_analysis_gives_its_published_numbers() {
    let (c, bytes, bits) = fhss();
    for (n, mbps, p) in [(5.0, 0.8103, 0.178), (10.0, 0.7580, 0.290), (50.0, 0.6111, 0.532)] {
        assert!((throughput(n, 32.0, &times(&c, bytes, bits)) - mbps).abs() < 0.0005, "n = {n}");
        assert!((fixed_point(n, 32.0).1 - p).abs() < 0.001, "n = {n}");
    }
}

#[test]
fn check_3_saturation_follows_bianchi() {
    let mut table = String::from("# phy W n: Mb/s analysis, model, error; p analysis, model\n");
    let mut failures = Vec::new();
    let phys = [("fhss", fhss()), ("g", textbook(Standard::G)), ("n", textbook(Standard::N))];
    for (name, (config, bytes, bits)) in phys {
        for w in [16, 32] {
            for n in [1, 2, 5, 10, 20, 50] {
                let config = assume(config.clone(), w).with_stations(n);
                let expected = throughput(f64::from(n), f64::from(w), &times(&config, bytes, bits));
                let p = fixed_point(f64::from(n), f64::from(w)).1;
                let mut experiment = OpenLoop::new(config, Mode::Up);
                experiment.data_ip_bytes = bytes;
                // About 40 000 accesses each.
                experiment.duration = Duration::from_secs(if name == "fhss" { 400 } else { 12 });
                let report = run(&experiment);
                let seconds = experiment.duration.as_secs_f64();
                let mbps = report.data_packets as f64 * bits / seconds / 1e6;
                let p_model = report.stations.collision_probability();
                let error = percent(mbps, expected);
                let rates = format!("{expected:8.4} {mbps:8.4} {error:+.2} %");
                writeln!(table, "{name:<4} {w} {n:>2}  {rates}  {p:.3} {p_model:.3}").unwrap();
                if error.abs() > 1.0 || (p_model - p).abs() > 0.012 {
                    failures.push(format!("{name} {w} {n}: {rates}, p {p:.3} {p_model:.3}"));
                }
            }
        }
    }
    check("bianchi", &table);
    assert!(failures.is_empty(), "{failures:#?}");
}
