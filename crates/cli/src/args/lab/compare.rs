//! `tack lab compare`: the experiment `lab/compare.toml` on a path in two flags.

use std::time::Duration;

use clap::Args;

use super::{FigureArgs, parse_time};

const AFTER: &str = "\
Goodput counts the application's bytes. `ideal` is what open-loop traffic with the same number of
ACKs reaches on the same air: what fewer ACKs alone would give.

Examples:
  tack lab compare
  tack lab compare --wifi n,ac --rtt 80ms --out compare/
  tack lab compare --set flow.0.strategy=tcp-l2,tack,quic-tack,quic-quinn
  tack lab compare --wifi g --set wifi.preset=textbook --set seeds=10";

/// Rounds of the path that are left out of every figure, and the least time.
const WARMUP_ROUNDS: f64 = 60.0;
const LEAST_WARMUP_S: f64 = 2.0;
/// What is measured of each run.
const MEASURED_S: f64 = 10.0;

/// Put every ACK strategy on the same air.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct CompareArgs {
    /// 802.11 generations: b, g, n, ac, ax [default: n]
    #[arg(long, value_name = "PHY,…", value_delimiter = ',')]
    pub wifi: Vec<String>,
    /// Round trip of the path behind the access point [default: 80ms]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub rtt: Option<Duration>,
    /// How they run and what is shown.
    #[command(flatten)]
    pub figure: FigureArgs,
}

impl CompareArgs {
    /// The same in the words of the file, before what `--set` says.
    pub fn figure(mut self) -> FigureArgs {
        let mut said = Vec::new();
        if !self.wifi.is_empty() {
            said.push(("wifi.phy".to_owned(), self.wifi.into()));
        }
        if let Some(rtt) = self.rtt.map(|rtt| rtt.as_secs_f64()) {
            let warmup = (WARMUP_ROUNDS * rtt).max(LEAST_WARMUP_S);
            let words = [
                ("wan.delay_ms", rtt * 500.0),
                ("warmup_s", warmup),
                ("duration_s", warmup + MEASURED_S),
            ];
            said.extend(words.map(|(key, value)| (key.to_owned(), value.into())));
        }
        self.figure.change.set.splice(0..0, said);
        self.figure
    }
}
