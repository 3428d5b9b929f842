//! Checks 5 and 6: the recommended parameter sets, from the UDP baseline to an ACK per 40 ms.
//!
//! The expected values are those of the prototype that the model's design note was written with.

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

/// Name, configuration, expected rates in Mb/s, expected gain of 50 Hz over L = 2 in percent.
fn sets() -> Vec<(&'static str, WlanConfig, Row, f64)> {
    use Preset::{PaperA, PaperB, Textbook};
    use Standard::{Ac, Ax, B, G, N};
    let of = WlanConfig::preset;
    let mut b_short = of(Textbook, B);
    b_short.downlink = DataRate::Dsss { kbps: 11_000, preamble: DsssPreamble::Short };
    b_short.uplink = b_short.downlink;
    let alone = |standard| {
        let mut c = of(PaperA, standard);
        c.uplink = c.downlink;
        c.station_ampdu = AmpduLimits::NONE;
        c
    };
    vec![
        (
            "textbook b",
            of(Textbook, B),
            [6.22, 4.58, 5.30, 5.72, 5.96, 6.09, 5.38, 6.01, 6.12],
            13.4,
        ),
        ("textbook b short", b_short, [6.91, 5.39, 6.09, 6.47, 6.68, 6.79, 6.25, 6.74, 6.83], 10.8),
        (
            "textbook g",
            of(Textbook, G),
            [30.49, 21.37, 25.27, 27.62, 28.98, 29.70, 29.47, 30.24, 30.36],
            19.7,
        ),
        (
            "textbook n",
            of(Textbook, N),
            [261.0, 219.5, 230.7, 234.1, 235.5, 236.3, 245.4, 256.6, 259.0],
            11.2,
        ),
        (
            "textbook ac",
            of(Textbook, Ac),
            [686.4, 536.0, 584.3, 597.8, 601.8, 603.9, 653.4, 678.0, 682.1],
            16.0,
        ),
        (
            "textbook ax",
            of(Textbook, Ax),
            [877.0, 665.8, 730.2, 746.9, 750.4, 751.4, 835.2, 866.4, 871.7],
            18.7,
        ),
        ("paper-a b", of(PaperA, B), [6.91, 4.63, 5.57, 6.17, 6.52, 6.71, 5.74, 6.62, 6.77], 18.8),
        (
            "paper-a g",
            of(PaperA, G),
            [26.45, 16.40, 20.33, 22.98, 24.60, 25.48, 24.99, 26.09, 26.27],
            28.3,
        ),
        (
            "paper-a n",
            of(PaperA, N),
            [211.1, 153.2, 165.9, 173.1, 176.8, 181.7, 202.0, 208.9, 210.0],
            25.9,
        ),
        (
            "paper-a ac",
            of(PaperA, Ac),
            [590.6, 419.3, 463.4, 481.4, 490.5, 495.2, 565.9, 584.7, 587.8],
            26.2,
        ),
        (
            "paper-b g",
            of(PaperB, G),
            [26.45, 17.04, 20.89, 23.39, 24.81, 25.62, 25.14, 26.13, 26.30],
            25.1,
        ),
        (
            "paper-b n",
            of(PaperB, N),
            [211.1, 160.1, 165.5, 168.9, 172.0, 179.8, 202.4, 209.0, 210.1],
            26.3,
        ),
        (
            "paper-b ac",
            of(PaperB, Ac),
            [590.6, 448.0, 457.9, 462.5, 465.3, 469.0, 566.9, 585.0, 587.8],
            27.8,
        ),
        (
            "no ACK aggregation n",
            alone(N),
            [211.0, 162.0, 162.0, 162.0, 162.0, 171.0, 202.0, 209.0, 210.0],
            28.8,
        ),
        (
            "no ACK aggregation ac",
            alone(Ac),
            [591.0, 447.0, 447.0, 447.0, 447.0, 448.0, 567.0, 585.0, 588.0],
            30.8,
        ),
    ]
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
    for (name, config, expected, gain) in sets() {
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
        failures.extend(shape(name, &config, &rates));
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
    if name == "textbook n" && percent(l16, rates[L2]) > 4.0 {
        failures.push(format!("{name}: L = 2 to 16 spread over {l16} / {}", rates[L2]));
    }
    failures
}
