//! `tack lab acks`: flags of the experiment `lab/acks.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_cc::Algorithm;
use tack_lab::experiment::Experiment;
use tack_lab::scenario::{Strategy, Wifi};

use super::{HowArgs, parse_time};
use crate::exit::Failure;

const AFTER: &str = "\
`formula/s` is the strategy's own frequency formula at the goodput, RTTmin and round trip measured;
every strategy runs with the same controller. Losses make receivers acknowledge more than it says.

Examples:
  tack lab acks
  tack lab acks --rate 100 --rtt 80ms --loss 0.001 --cc cubic
  tack lab acks --wifi n --rtt 80ms --strategies tcp-l2,ar10,tack";

/// What a queue is in a scenario: keys and values.
#[derive(Clone, Debug)]
pub struct QueueKeys(Vec<(&'static str, toml::Value)>);

/// Reads `drop-tail`, `drop-tail:2.5` (bandwidth-delay products), `red` and `codel`.
fn parse_queue(text: &str) -> Result<QueueKeys, String> {
    let (kind, bdp) = match text {
        // Gentle RED drops everything at twice its upper threshold: room for that.
        "red" => ("red", 2.5),
        "codel" => ("codel", 4.0),
        "drop-tail" => ("drop-tail", 1.0),
        _ => {
            let bdp = text.strip_prefix("drop-tail:").and_then(|bdp| bdp.parse::<f64>().ok());
            let bdp = bdp.filter(|bdp| (0.001..=10_000.0).contains(bdp));
            let known = "drop-tail, drop-tail:BDPS, red or codel";
            ("drop-tail", bdp.ok_or_else(|| format!("`{text}` is no queue: {known}"))?)
        }
    };
    let mut keys = vec![("wan.queue", kind.into()), ("wan.buffer_bdp", bdp.into())];
    if kind == "red" {
        keys.push(("wan.red_bdp", vec![0.25, 1.25].into()));
    }
    Ok(QueueKeys(keys))
}

/// Put every acknowledgment strategy on the same path.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct AcksArgs {
    /// Rate of the bottleneck, Mbit/s [default: 20; none behind Wi-Fi]
    #[arg(long, value_name = "MBPS")]
    pub rate: Option<f64>,
    /// Round trip of the empty path
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Share of data packets lost at random
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub loss: f64,
    /// Share of acknowledgments lost at random
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub ack_loss: f64,
    /// At the bottleneck: drop-tail, drop-tail:BDPS, red, codel
    #[arg(long, value_name = "QUEUE", default_value = "drop-tail", value_parser = parse_queue)]
    pub queue: QueueKeys,
    /// 802.11 generation of a wireless hop: b, g, n, ac, ax
    #[arg(long, value_name = "PHY")]
    pub wifi: Option<String>,
    /// Parameters of that hop: textbook, paper-a, paper-b
    #[arg(long, value_name = "NAME", default_value = "textbook")]
    pub preset: String,
    /// Which strategies [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<Strategy>,
    /// Congestion controller of all of them
    #[arg(long, value_name = "NAME", default_value = "newreno")]
    pub cc: Algorithm,
    /// Let ACKs alone clock window-based controllers, as ns-2 does
    #[arg(long)]
    pub unpaced: bool,
    /// Runs of each, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Simulated seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub seconds: f64,
    /// Simulated seconds before that, left out of rates
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub warmup: f64,
    /// Write acks.json and acks.txt into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl AcksArgs {
    /// Changes `experiment` to what the user meant.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        if let Some(phy) = &self.wifi {
            let wrong = |e| Failure::usage(format!("--wifi {phy} --preset {}: {e}", self.preset));
            Wifi::preset(phy, &self.preset).checked_config(1).map_err(wrong)?;
            experiment.set("wifi.phy", phy.as_str());
            experiment.set("wifi.preset", self.preset.as_str());
        }
        let rate = self.rate.or(self.wifi.is_none().then_some(20.0));
        super::within(&[
            ("--rate", rate.unwrap_or(1.0), 0.01, 100_000.0),
            ("--rtt in seconds", self.rtt.as_secs_f64(), 0.0, 10.0),
            ("--loss", self.loss, 0.0, 0.9),
            ("--ack-loss", self.ack_loss, 0.0, 0.9),
            ("--seeds", self.seeds as f64, 1.0, 10_000.0),
            ("--seconds", self.seconds, 0.1, 36_000.0),
            ("--warmup", self.warmup, 0.0, 36_000.0),
        ])?;
        if rate.is_some() && self.rtt.is_zero() {
            let why = "--rtt 0ms: buffers are counted in products of rate and round trip";
            return Err(Failure::usage(why));
        }
        experiment.set_seconds(self.warmup, self.seconds);
        experiment.set("runs", i64::try_from(self.seeds).unwrap_or(i64::MAX));
        for key in ["rate_mbps", "queue", "buffer_bdp"] {
            experiment.unset("wan", key);
        }
        experiment.set("wan.delay_ms", self.rtt.as_secs_f64() * 500.0);
        experiment.set("wan.down.loss", self.loss);
        experiment.set("wan.up.loss", self.ack_loss);
        if let Some(rate) = rate {
            experiment.set("wan.rate_mbps", rate);
            for (key, value) in &self.queue.0 {
                experiment.set(key, value.clone());
            }
        }
        experiment.set("flow.0.cc", self.cc.name());
        experiment.set("flow.0.paced", !self.unpaced);
        if !self.strategies.is_empty() {
            experiment.sweep("flow.0.strategy", self.strategies.iter().map(ToString::to_string));
        }
        Ok(())
    }
}
