//! `tack lab versus`.

use std::path::PathBuf;

use clap::Args;
use tack_lab::bundle;

use super::FigureArgs;
use crate::exit::Failure;

const AFTER: &str = "\
Needs root, or `unshare -Urn`, and leaves the machine's own network alone. Rivals that are not
installed are named with what installs them, and left out; `script/rivals` installs all.
A rival is a file: `--set stack.rival=FILE.toml` runs one of your own (experiments/rivals has examples).

Examples:
  tack lab versus --list                      who could take part, and what is missing
  tack lab versus bulk --only veth,tack,quinn
  tack lab versus --short                     whether it works at all
  tack lab versus --out versus/ --report versus.html";

/// Put TACK beside the programs of today.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct VersusArgs {
    /// Workloads: bulk, files, paced, many, latency [default: all]
    #[arg(value_name = "WORKLOAD")]
    pub which: Vec<String>,
    /// Only tell who could take part
    #[arg(long, conflicts_with = "which")]
    pub list: bool,
    /// Write what is shown as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub document: Option<PathBuf>,
    /// How they run and what is shown.
    #[command(flatten)]
    pub figure: FigureArgs,
}

impl VersusArgs {
    /// The names of the files that were asked for.
    pub fn files(&self) -> Result<Vec<String>, Failure> {
        if self.which.is_empty() {
            return Ok(vec!["versus".to_owned()]);
        }
        let file = |which: &String| {
            let name = format!("versus-{which}");
            if bundle::find(&name).is_empty() {
                let all = bundle::find("versus");
                let stems = all.iter().map(|(path, _)| bundle::stem(path));
                let all: Vec<&str> = stems.filter_map(|s| s.strip_prefix("versus-")).collect();
                let why = format!("`{which}` is no workload: {}", all.join(", "));
                return Err(Failure::usage(why));
            }
            Ok(name)
        };
        self.which.iter().map(file).collect()
    }
}
