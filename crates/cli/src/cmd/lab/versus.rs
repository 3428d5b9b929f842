//! `tack lab versus`.

use std::process::Command;

use tack_lab::bundle::RIVALS;
use tack_lab::table::Table;
use tack_lab::versus::places;
use tack_lab::versus::rival::Rival;

use super::experiment::{self, Papers};
use super::{failed, typed};
use crate::args::lab::VersusArgs;
use crate::exit::{ExitCode, Failure};
use crate::terminal::print;

/// Runs the files, or tells who could take part.
pub(super) fn versus(args: &VersusArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args);
    }
    let files = args.files()?;
    let (command, setting) = (typed(), setting());
    let document = args.document.as_deref().map(|path| (path, setting.as_str()));
    let papers = Papers { bless: None, document };
    experiment::show(&files, &args.figure, papers, &command)
}

/// What figures of real time belong to: the sources in whose directory the command is run, the day, and the
/// machine with what else was done on it.
fn setting() -> String {
    let git = ["describe", "--always", "--dirty", "--abbrev=12"];
    let said = Command::new("git").args(git).output().ok().filter(|said| said.status.success());
    let commit = said.and_then(|said| String::from_utf8(said.stdout).ok()).unwrap_or_default();
    let commit = match commit.trim() {
        "" => String::new(),
        commit => format!(" at commit {commit}"),
    };
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    let load = read("loadavg").split(' ').next().unwrap_or_default().to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let day = jiff::Zoned::now().date();
    let kernel = read("sys/kernel/osrelease");
    format!(
        "On {day}{commit}, on a machine of {cores} cores (Linux {}) whose load was {load} before the first run.",
        kernel.trim()
    )
}

fn list(args: &VersusArgs) -> Result<ExitCode, Failure> {
    let places = places();
    let parsed = |(name, text): &(&'static str, &str)| {
        let rival = Rival::parse(text).map_err(|e| failed(format!("{name}, {e}")))?;
        Ok((*name, rival))
    };
    let mut rivals = RIVALS.iter().map(parsed).collect::<Result<Vec<_>, Failure>>()?;
    rivals.extend(args.own()?.into_iter().map(|(name, _, rival)| (name, rival)));
    let row = |(name, rival): (&str, Rival)| {
        let missing = rival.missing(&places);
        let there = if missing.is_empty() {
            "installed".to_owned()
        } else {
            format!("without {}: {}", missing.join(", "), rival.install)
        };
        let loads: Vec<String> = rival.client.keys().map(ToString::to_string).collect();
        vec![name.to_owned(), rival.title, rival.encryption, loads.join(", "), there]
    };
    let header = ["rival", "who", "encryption", "workloads", ""].map(str::to_owned).to_vec();
    let rows = rivals.into_iter().map(row).collect();
    let table = Table { title: String::new(), keys: 5, header, rows };
    print(table.text().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_day_and_machine() {
        let said = setting();
        assert!(said.starts_with("On 20") && said.contains(" cores (Linux "), "{said}");
    }
}
