//! `tack lab versus`.

use std::path::PathBuf;

use clap::Args;
use tack_lab::bundle;
use tack_lab::versus::rival::Rival;

use super::{FigureArgs, FigureFile, files};
use crate::exit::Failure;

const AFTER: &str = "\
Needs root, or `unshare -Urn`, and leaves the machine's own network alone. Rivals that are not
installed are named with what installs them, and left out; `script/rivals` installs all.
A rival is a file: `--rival FILE.toml` runs one of your own beside them, called FILE.
experiments/rivals has examples; `--short` runs it where `--only` names it.

Examples:
  tack lab versus --list                      who could take part, and what is missing
  tack lab versus bulk --only veth,tack,quinn
  tack lab versus bulk --rival mine.toml --only veth,tack,mine
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
    /// A rival of your own, beside those of the repository
    #[arg(long = "rival", value_name = "FILE.toml")]
    pub rivals: Vec<String>,
    /// Write what is shown as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub document: Option<PathBuf>,
    /// How they run and what is shown.
    #[command(flatten)]
    pub figure: FigureArgs,
}

impl VersusArgs {
    /// The files that were asked for, each with a variant more for every rival of the user's own.
    pub fn files(&self) -> Result<Vec<FigureFile>, Failure> {
        let mut files = files(&self.names()?)?;
        for (name, path, _) in self.own()? {
            let (name, path) = (toml::Value::from(name), toml::Value::from(path));
            let more =
                format!("\n[[variant]]\nname = {name}\nset = {{ stack = {{ rival = {path} }} }}\n");
            files.iter_mut().for_each(|file| file.text.push_str(&more));
        }
        Ok(files)
    }

    /// The user's own rivals: name, path, and what the file says.
    pub fn own(&self) -> Result<Vec<(&str, &str, Rival)>, Failure> {
        let mut known: Vec<&str> = bundle::RIVALS.iter().map(|(name, _)| *name).collect();
        let mut own = Vec::new();
        for path in &self.rivals {
            let rival = Rival::find(path).map_err(Failure::usage)?;
            let name = bundle::stem(path);
            if known.contains(&name) {
                let why =
                    format!("--rival {path}: there is a rival `{name}`: name the file otherwise");
                return Err(Failure::usage(why));
            }
            known.push(name);
            own.push((name, path.as_str(), rival));
        }
        Ok(own)
    }

    fn names(&self) -> Result<Vec<String>, Failure> {
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
