//! `tack lab versus`.

use tack_lab::table::Table;
use tack_lab::versus::places;
use tack_lab::versus::rival::{RIVALS, Rival};

use super::experiment::{self, Papers};
use super::failed;
use crate::args::lab::{VersusArgs, files as named};
use crate::cmd::extras::print;
use crate::exit::{ExitCode, Failure};

/// Runs the files, or tells who could take part.
pub(super) fn versus(args: &VersusArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list();
    }
    let files = args.files()?;
    let which: Vec<String> = args.which.iter().map(|which| format!(" {which}")).collect();
    let command = format!("tack lab versus{}", which.concat());
    let papers = Papers { bless: None, document: args.document.as_deref() };
    experiment::show(&named(&files)?, &args.figure, papers, &command)
}

fn list() -> Result<ExitCode, Failure> {
    let places = places();
    let row = |(name, text): &(&str, &str)| {
        let rival = Rival::parse(text).map_err(|e| failed(format!("{name}, {e}")))?;
        let missing = rival.missing(&places);
        let there = if missing.is_empty() {
            "installed".to_owned()
        } else {
            format!("without {}: {}", missing.join(", "), rival.install)
        };
        let loads: Vec<String> = rival.client.keys().map(ToString::to_string).collect();
        Ok(vec![(*name).to_owned(), rival.title, rival.encryption, loads.join(", "), there])
    };
    let header = ["rival", "who", "encryption", "workloads", ""].map(str::to_owned).to_vec();
    let rows = RIVALS.iter().map(row).collect::<Result<_, Failure>>()?;
    let table = Table { title: String::new(), keys: 5, header, rows };
    print(table.text().as_bytes())
}
