//! `tack lab compare`: flags of the experiment `lab/compare.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_lab::experiment::{Experiment, Extent};
use tack_lab::scenario::{Strategy, Wifi};
use toml::Value;

use super::{HowArgs, parse_time, within};
use crate::exit::Failure;

const AFTER: &str = "\
Goodput counts the application's bytes. `ideal` is what open-loop traffic with the same number of
ACKs reaches on the same air: what fewer ACKs alone would give.

Examples:
  tack lab compare
  tack lab compare --wifi n,ac --rtt 80ms --plot compare.svg
  tack lab compare --strategies tcp-l2,tack,quic-tack,quic-quinn
  tack lab compare --wifi g --strategies tcp-l2,tack --presets textbook --json";

/// Put every ACK strategy on the same air.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct CompareArgs {
    /// 802.11 generations: b, g, n, ac, ax
    #[arg(long, value_name = "PHY,…", value_delimiter = ',', default_value = "n")]
    pub wifi: Vec<String>,
    /// Round trip of the path behind the access point, e.g. 80ms
    #[arg(long, value_name = "TIME", default_value = "80ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Runs of each cell, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seeds: u64,
    /// Simulated seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Simulated seconds before that, left out of every figure
    /// [default: 60 round trips, at least 2]
    #[arg(long, value_name = "S")]
    pub warmup: Option<f64>,
    /// Some of udp, tcp-l1 to tcp-l64, ae, a4l4, a8l8, 2waf, 4w, 4waf, ar10, akdu, picoquic, srt,
    /// tack and their like; of QUIC quic-tack (ours), quinn, noq, quinn-eq4 and more [default: udp,
    /// tcp-l1,2,4,8,16, tack]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<Strategy>,
    /// Some of textbook, paper-a, paper-b
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "textbook,paper-a")]
    pub presets: Vec<String>,
    /// Draw the result to this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl CompareArgs {
    /// Changes `experiment` to what the user meant.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        for phy in &self.wifi {
            for preset in &self.presets {
                let wrong = |e| Failure::usage(format!("--wifi {phy} --presets {preset}: {e}"));
                Wifi::preset(phy, preset).checked_config(1).map_err(wrong)?;
            }
        }
        let rtt = self.rtt.as_secs_f64();
        let warmup = self.warmup.unwrap_or((60.0 * rtt).max(2.0));
        within(&[
            ("--rtt in seconds", rtt, 0.0, 10.0),
            ("--seeds", self.seeds as f64, 1.0, 10_000.0),
            ("--seconds", self.seconds, 0.01, 36_000.0),
            ("--warmup", warmup, 0.0, 36_000.0),
        ])?;
        let mut words: Vec<(&str, Value)> = vec![
            ("warmup_s", warmup.into()),
            ("duration_s", (warmup + self.seconds).into()),
            ("seeds", i64::try_from(self.seeds).unwrap_or(i64::MAX).into()),
            ("wan.delay_ms", (rtt * 500.0).into()),
            ("wifi.phy", self.wifi.clone().into()),
            ("wifi.preset", self.presets.clone().into()),
        ];
        if !self.strategies.is_empty() {
            let names = self.strategies.iter().map(ToString::to_string);
            words.push(("flow.0.strategy", names.collect::<Vec<_>>().into()));
        }
        for (key, value) in words {
            let done = experiment.change(Extent::Usual, key, value);
            done.map_err(|what| Failure::usage(format!("`{key}` {what}")))?;
        }
        Ok(())
    }
}
