//! Checks 5 and 6: the recommended parameter sets, from the UDP baseline to an ACK per 40 ms.
//!
//! The expected values are in `tests/data/recommended-sets.txt`.

use std::fmt::Write;
use std::time::Duration;

use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{AmpduLimits, DataRate, DsssPreamble, Preset, Standard, WlanConfig};

use crate::snapshot::{check, percent, run};

/// UDP, L = 1, 2, 4, 8, 16, then 200, 50 and 25 ACKs per second.
type Row = [f64; 9];

const L2: usize = 2;
const L16: usize = 5;
const HZ50: usize = 7;

const EXPECTED: &str = include_str!("../data/recommended-sets.txt");

/// One line of the table of expected results.
struct Set {
    name: String,
    config: WlanConfig,
    /// Mb/s.
    rates: Row,
    /// Of 50 Hz over L = 2, percent.
    gain: f64,
}

fn sets() -> Vec<Set> {
    let lines = EXPECTED.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let numbers: Vec<f64> =
                words[3..].iter().map(|w| w.parse().expect("a number")).collect();
            Set {
                name: words[..3].join(" "),
                config: config(words[0], words[1], words[2]),
                rates: numbers[..9].try_into().expect("nine rates"),
                gain: numbers[9],
            }
        })
        .collect()
}

fn config(set: &str, phy: &str, variant: &str) -> WlanConfig {
    let standard = Standard::from_name(phy).expect("a PHY");
    // `alone`: short A-MPDUs downlink, every ACK in a PPDU of its own at the downlink's rate.
    let preset = Preset::from_name(set).unwrap_or(Preset::PaperA);
    let mut c = WlanConfig::preset(preset, standard);
    if variant == "short" {
        c.downlink = DataRate::Dsss { kbps: 11_000, preamble: DsssPreamble::Short };
        c.uplink = c.downlink;
    }
    if set == "alone" {
        c.uplink = c.downlink;
        c.station_ampdu = AmpduLimits::NONE;
    }
    c
}

const SEEDS: u64 = 2;

fn measure(config: &WlanConfig) -> Row {
    let hz = |hz: u32| AckRule::Every(Duration::from_secs(1) / hz);
    let every = AckRule::EveryPackets;
    let rules = [
        AckRule::Never,
        every(1),
        every(2),
        every(4),
        every(8),
        every(16),
        hz(200),
        hz(50),
        hz(25),
    ];
    let seconds = match config.standard {
        Standard::B => 40,
        Standard::G => 12,
        Standard::N => 6,
        Standard::Ac | Standard::Ax => 4,
    };
    rules.map(|ack| {
        let mode = if ack == AckRule::Never { Mode::Udp } else { Mode::UdpAck };
        let mut experiment = OpenLoop::new(config.clone(), mode);
        experiment.ack = ack;
        experiment.duration = Duration::from_secs(seconds);
        let sum: f64 = (1..=SEEDS)
            .map(|seed| {
                experiment.wlan.seed = seed;
                run(&experiment).l3_mbps
            })
            .sum();
        sum / SEEDS as f64
    })
}

#[test]
fn check_5_and_6_recommended_sets_and_their_shape() {
    let mut table = String::from(
        "# Mb/s: UDP, L = 1, 2, 4, 8, 16, 200 Hz, 50 Hz, 25 Hz; gain 50 Hz over L = 2\n",
    );
    let mut failures = Vec::new();
    for Set { name, config, rates: expected, gain } in sets() {
        let rates = measure(&config);
        let model_gain = percent(rates[HZ50], rates[L2]);
        write!(table, "{name:<22}").unwrap();
        rates.iter().for_each(|r| write!(table, " {r:7.2}").unwrap());
        writeln!(table, "  {model_gain:+.1} % ({gain:+.1})").unwrap();
        let tolerance = if config.standard == Standard::B { 2.0 } else { 1.5 };
        for (i, (model, prototype)) in rates.iter().zip(expected).enumerate() {
            let error = percent(*model, prototype);
            if error.abs() > tolerance {
                failures.push(format!("{name} [{i}]: {model:.2}, not {prototype}: {error:+.2} %"));
            }
        }
        if (model_gain - gain).abs() > 2.0 {
            failures.push(format!("{name}: gain {model_gain:.1} %, not {gain} %"));
        }
        failures.extend(shape(&name, &config, &rates));
    }
    check("tables", &table);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Check 6.
fn shape(name: &str, config: &WlanConfig, rates: &Row) -> Vec<String> {
    let mut failures = Vec::new();
    let ls = &rates[1..=L16];
    if ls.windows(2).any(|w| w[1] < w[0] * 0.995) {
        failures.push(format!("{name}: falls with L: {ls:?}"));
    }
    let (l8, l16, tack) = (rates[L16 - 1], rates[L16], rates[HZ50]);
    if config.standard == Standard::B {
        if !(l8..=l16).contains(&tack) {
            failures.push(format!("{name}: 50 Hz {tack} is not between L = 8 {l8} and 16 {l16}"));
        }
    } else if tack < l16 {
        failures.push(format!("{name}: 50 Hz {tack} is below L = 16 {l16}"));
    }
    if name == "textbook n -" && percent(l16, rates[L2]) > 4.0 {
        failures.push(format!("{name}: L = 2 to 16 spread over {l16} / {}", rates[L2]));
    }
    failures
}
