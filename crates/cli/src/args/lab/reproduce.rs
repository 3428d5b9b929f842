//! `tack lab reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tack_lab::reproduce::{Claim, Extent};
use tack_lab::{custura, landstrom};

use super::HowArgs;
use crate::exit::Failure;

const AFTER: &str = "\
Every claim is judged by its own tolerance, and what differs says why. Nothing is tuned to agree:
the exit status is 0 whatever the verdicts are.

Examples:
  tack lab reproduce landstrom
  tack lab reproduce landstrom --rows L1,L8 --out figures/
  tack lab reproduce custura --json";

/// Whose figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Landström & Larzon, Reducing the TCP Acknowledgment Frequency (2007)
    Landstrom,
    /// Custura, Jones & Fairhurst, Rethinking ACKs at the Transport Layer (2020)
    Custura,
}

/// Put a paper's figures beside ours.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct ReproduceArgs {
    /// Which paper
    #[arg(value_enum)]
    pub paper: Paper,
    /// The paper's run times also at 100 Mbit/s, more flows and seeds: hours
    #[arg(long, conflicts_with = "short")]
    pub full: bool,
    /// A few short runs of each
    #[arg(long)]
    pub short: bool,
    /// Only these of L1, L3, L4, L6 (with L7, L8b, L9), L8, L10 (with L12); C3 (all of them)
    #[arg(long, value_name = "ROW,…", value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Write findings and figures into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl ReproduceArgs {
    /// What the user meant.
    pub fn resolve(&self) -> Result<Vec<Box<dyn Claim>>, Failure> {
        let extent = match (self.full, self.short) {
            (true, _) => Extent::Full,
            (_, true) => Extent::Short,
            _ => Extent::Usual,
        };
        let mut claims = match self.paper {
            Paper::Landstrom => landstrom::claims(extent),
            Paper::Custura => custura::claims(extent),
        };
        let known: Vec<&str> = claims.iter().map(|c| c.row()).collect();
        if let Some(row) = self.rows.iter().find(|row| !known.contains(&row.as_str())) {
            let why = format!("--rows {row}: there are {}", known.join(", "));
            return Err(Failure::usage(why));
        }
        if !self.rows.is_empty() {
            claims.retain(|c| self.rows.iter().any(|row| row == c.row()));
        }
        Ok(claims)
    }
}
