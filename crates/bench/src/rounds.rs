//! Measurements that take turns: how long, how often, and how they are shown.

use std::fmt::Display;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

/// Rounds of transfers.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rounds {
    /// Seconds each transfer lasts.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// Rounds; each measures every contestant once.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Rounds {
    /// Measures each of `contestants` once per round.
    pub(crate) fn in_turns<C: Copy>(
        &self,
        contestants: &[C],
        measure: impl FnMut(C) -> Result<()>,
    ) -> Result<()> {
        in_turns(self.rounds, contestants, measure)
    }

    /// Prints what came of it: `table`, or `summary` as JSON.
    pub(crate) fn show(&self, table: &impl Display, summary: &impl Serialize) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(summary)?);
        } else {
            print!("{table}");
        }
        Ok(())
    }
}

/// Measures each of `contestants` once per round, every other round the other way round.
pub(crate) fn in_turns<C: Copy>(
    rounds: u32,
    contestants: &[C],
    mut measure: impl FnMut(C) -> Result<()>,
) -> Result<()> {
    for round in 0..rounds {
        let mut order = contestants.to_vec();
        if round % 2 == 1 {
            order.reverse();
        }
        order.into_iter().try_for_each(&mut measure)?;
    }
    Ok(())
}
