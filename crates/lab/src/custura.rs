//! What [Custura et al.] measured of acknowledgments over a satellite, run again with TCP.
//!
//! 8.5 Mbit/s there, 1.5 or 0.1 Mbit/s back, 600 ms, 10 MiB. Theirs were QUIC implementations and
//! Linux's TCP; the counts of acknowledgments compare, the bytes of each are the transport's.

use tack_cc::Algorithm;

use crate::reproduce::{Claim, Extent, Finding};
use crate::result::RunResult;
use crate::scenario::{App, Flow, Scenario, Strategy, Wan, WanDirection};

const FILE_BYTES: u64 = 10 << 20;
/// Of an Ethernet frame around an acknowledgment: their volumes include it.
const ETHERNET_BYTES: f64 = 14.0;
/// IP-level bytes of a bare acknowledgment with timestamps, and text of a full segment.
const ACK_BYTES: f64 = 52.0;
const TEXT_BYTES: f64 = 1_448.0;
/// Theirs is unknown, but nothing was lost in it: 242 KB are one acknowledgment for every second
/// of 7241 packets and no more. This one holds the whole file.
const BUFFER_BDP: f64 = 20.0;
const DOWN_MBPS: f64 = 8.5;
const THIN_UP_MBPS: f64 = 0.1;
const LONGEST_S: f64 = 300.0;
const STEADY_S: (f64, f64) = (120.0, 60.0);
const STRATEGIES: [&str; 2] = ["tcp-l2", "ar10"];
/// Runs, as [`Satellite::scenarios`] makes them per seed.
const CELLS: usize = 8;

/// C2, C3, C4, C5 and C6.
#[derive(Clone, Debug)]
pub struct Satellite {
    seeds: u64,
}

/// Every row that can be checked.
pub fn claims(extent: Extent) -> Vec<Box<dyn Claim>> {
    vec![Box::new(Satellite::new(extent))]
}

impl Satellite {
    /// More seeds for the runs with loss.
    pub fn new(extent: Extent) -> Satellite {
        Satellite { seeds: if extent == Extent::Short { 1 } else { 5 } }
    }

    fn scenario(strategy: &str, up_mbps: f64, loss: f64, file: bool, seed: u64) -> Scenario {
        let strategy: Strategy =
            strategy.parse().unwrap_or_else(|e| panic!("a name of our own: {e}"));
        let down = WanDirection {
            rate_mbps: Some(DOWN_MBPS),
            loss: (loss > 0.0).then_some(loss),
            buffer_bdp: Some(BUFFER_BDP),
            ..WanDirection::default()
        };
        let up = WanDirection { rate_mbps: Some(up_mbps), ..WanDirection::default() };
        let app = if file { App::File { bytes: FILE_BYTES } } else { App::Bulk };
        let (duration_s, warmup_s) = if file { (LONGEST_S, 0.0) } else { STEADY_S };
        Scenario {
            name: format!("satellite-{strategy}"),
            duration_s,
            warmup_s,
            seed,
            runs: 1,
            wifi: None,
            wan: Some(Wan {
                delay_ms: Some(300.0),
                down: Some(down),
                up: Some(up),
                ..Wan::default()
            }),
            access: None,
            flow: vec![Flow { app, cc: Algorithm::Cubic, ..Flow::bulk(strategy) }],
        }
    }
}

/// Means over seeds of one cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Acknowledgments and their IP-level bytes, in all.
    acks: f64,
    ack_bytes: f64,
    data_packets: f64,
    /// Seconds a file took.
    seconds: f64,
    goodput_bps: f64,
    /// Data packets per second.
    packets_per_s: f64,
}

impl Cell {
    fn of(results: &[RunResult], index: usize) -> Cell {
        let runs: Vec<&RunResult> = results.iter().skip(index).step_by(CELLS).collect();
        let mean = |f: &dyn Fn(&RunResult) -> f64| {
            runs.iter().map(|r| f(r)).sum::<f64>() / (runs.len() as f64).max(1.0)
        };
        Cell {
            acks: mean(&|r| r.total.ack_packets_per_s) * LONGEST_S,
            ack_bytes: mean(&|r| r.total.ack_bytes_per_s) * LONGEST_S,
            data_packets: mean(&|r| r.total.data_packets_per_s) * LONGEST_S,
            seconds: mean(&|r| r.total.completed_at_s.unwrap_or(LONGEST_S)),
            goodput_bps: mean(&|r| r.total.goodput_bps),
            packets_per_s: mean(&|r| r.total.data_packets_per_s),
        }
    }

    fn return_kb(&self) -> f64 {
        (self.ack_bytes + self.acks * ETHERNET_BYTES) / 1e3
    }
}

impl Claim for Satellite {
    fn row(&self) -> &'static str {
        "C3"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = Vec::new();
        for seed in 1..=self.seeds {
            for loss in [0.0, 0.01] {
                for strategy in STRATEGIES {
                    scenarios.push(Self::scenario(strategy, 1.5, loss, true, seed));
                }
            }
            for up_mbps in [1.5, THIN_UP_MBPS] {
                for strategy in STRATEGIES {
                    scenarios.push(Self::scenario(strategy, up_mbps, 0.0, false, seed));
                }
            }
        }
        scenarios
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let cells: Vec<Cell> = (0..CELLS).map(|i| Cell::of(results, i)).collect();
        let [two, ten, two_lossy, ten_lossy, two_wide, ten_wide, two_thin, ten_thin] = cells[..]
        else {
            return Vec::new();
        };
        let mut findings = volumes(&two, &ten, &two_lossy, &ten_lossy);
        findings.extend(rates(&two, &ten));
        findings.extend(thin_return(&two_wide, &ten_wide, &two_thin, &ten_thin));
        findings
    }
}

fn volumes(two: &Cell, ten: &Cell, two_lossy: &Cell, ten_lossy: &Cell) -> Vec<Finding> {
    let per_packet = two.ack_bytes / two.data_packets.max(1.0);
    let kb = [two, ten, two_lossy, ten_lossy].map(Cell::return_kb);
    let (saved, saved_lossy) = (kb[0] / kb[1].max(1e-9), kb[2] / kb[3].max(1e-9));
    vec![
        Finding::new(
            "C2",
            "ACK bytes per data packet at 1:2, timestamps on",
            "26",
            format!("{per_packet:.1}"),
            (per_packet / (ACK_BYTES / 2.0) - 1.0).abs() <= 0.05,
        ),
        Finding::new(
            "C3",
            "return volume of 10 MiB at 1:2 without loss",
            "242 KB (TCP)",
            format!("{:.0} KB", kb[0]),
            (kb[0] / 242.0 - 1.0).abs() <= 0.05,
        ),
        Finding::new(
            "C3",
            "the same at 1:10, times less",
            "4.1 (313 to 76 KB), 4.5 (343 to 77 KB)",
            format!("{saved:.1} ({:.0} KB)", kb[1]),
            saved >= 4.0,
        ),
        Finding::new(
            "C3",
            "with 1 % loss there, times less",
            "1.3 (336 to 262 KB), 2.3 (390 to 166 KB)",
            format!("{saved_lossy:.1} ({:.0} to {:.0} KB)", kb[2], kb[3]),
            saved_lossy > 1.0 && saved_lossy < saved,
        ),
    ]
}

fn rates(two: &Cell, ten: &Cell) -> Vec<Finding> {
    let fewer = (two.acks / two.seconds) / (ten.acks / ten.seconds).max(1e-9);
    let slower = ten.seconds / two.seconds - 1.0;
    vec![
        Finding::new(
            "C4",
            "ACK/s of 1:2 by those of 1:10, whole transfer",
            "about 5",
            format!("{fewer:.1}"),
            (4.0..=6.0).contains(&fewer),
        ),
        Finding::new(
            "C6",
            "time of 10 MiB at 1:10 against 1:2",
            "alike: less than 3 % more",
            format!("{:+.1} % ({:.1} s)", slower * 100.0, ten.seconds),
            slower < 0.03,
        ),
    ]
}

fn thin_return(two_wide: &Cell, ten_wide: &Cell, two_thin: &Cell, ten_thin: &Cell) -> Vec<Finding> {
    // What the return path carries, two data packets for each.
    let bound = THIN_UP_MBPS * 1e6 / 8.0 / ACK_BYTES * 2.0;
    let mbps = |packets_per_s: f64| packets_per_s * TEXT_BYTES * 8.0 / 1e6;
    vec![
        Finding::new(
            "C5",
            "100 kbit/s back, 1:2: packets/s by the formula for our ACKs",
            format!("{bound:.0} (theirs: about 400 with 63-byte ACKs)"),
            format!("{:.0}", two_thin.packets_per_s),
            (two_thin.packets_per_s / bound - 1.0).abs() <= 0.1,
        )
        .because(
            "CUBIC fills the return path's queue with ACKs that are dropped there, and each ACK \
             that arrives then covers more than two packets",
        ),
        Finding::new(
            "C5",
            "100 kbit/s back, 1:10: goodput of the unconstrained",
            "all of 8.5 Mbit/s",
            format!(
                "{:.1} % ({:.2} Mbit/s; 1:2 has {:.2}, by the bound {:.2})",
                ten_thin.goodput_bps / ten_wide.goodput_bps.max(1.0) * 100.0,
                ten_thin.goodput_bps / 1e6,
                two_thin.goodput_bps / 1e6,
                mbps(bound)
            ),
            ten_thin.goodput_bps >= 0.97 * ten_wide.goodput_bps,
        ),
        Finding::new(
            "C6",
            "steady goodput at 1:10 against 1:2, unconstrained",
            "less than 3 % less",
            format!("{:+.1} %", (ten_wide.goodput_bps / two_wide.goodput_bps - 1.0) * 100.0),
            ten_wide.goodput_bps >= 0.97 * two_wide.goodput_bps,
        ),
    ]
}
