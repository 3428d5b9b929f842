//! `tack top`.

use std::time::Duration;

use clap::Args;

use crate::exit::Failure;
use crate::top::DEFAULT_PORT;
use tack_net::HostPort;

const AFTER: &str = "\
Examples:
  tack perf -c HOST -t 600 --metrics 127.0.0.1:9826   a command that can be looked at
  tack top                                            ... and looked at
  tack top gateway:9826 127.0.0.1:9000                two of them";

/// Look at running commands: rates, acknowledgments by kind, round trips, queues, limits.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct TopArgs {
    /// Where commands serve their --metrics [default: 127.0.0.1:9826]
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub endpoints: Vec<String>,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_name = "SECONDS")]
    pub interval: f64,
}

/// A `tack top` that makes sense.
#[derive(Clone, Debug)]
pub struct TopConfig {
    /// Whom to ask; at least one.
    pub endpoints: Vec<HostPort>,
    /// How often.
    pub interval: Duration,
}

impl TopArgs {
    /// What the user meant.
    pub fn resolve(mut self) -> Result<TopConfig, Failure> {
        if self.endpoints.is_empty() {
            self.endpoints.push("127.0.0.1".to_owned());
        }
        if !(0.1..=60.0).contains(&self.interval) {
            return Err(Failure::usage(format!("-i {}: from 0.1 to 60 s", self.interval)));
        }
        let parse = |text: &String| HostPort::parse(text, DEFAULT_PORT);
        let endpoints = self.endpoints.iter().map(parse).collect::<Result<_, _>>();
        let endpoints = endpoints.map_err(|e| Failure::usage(format!("ADDRESS: {e}")))?;
        Ok(TopConfig { endpoints, interval: Duration::from_secs_f64(self.interval) })
    }
}
