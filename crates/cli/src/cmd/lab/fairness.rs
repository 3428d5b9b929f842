//! `tack lab fairness`.

#[cfg(target_os = "linux")]
mod live;

use serde::Serialize;
use tack_lab::fairness::{FairnessRow, figures, table, why_table};
use tack_lab::svg::stacked;

use super::{at, run_batch, show};
use crate::args::lab::FairnessArgs;
use crate::exit::{ExitCode, Failure};

/// `{"rows": […]}`.
#[derive(Serialize)]
struct Json {
    rows: Vec<FairnessRow>,
}

/// Runs and shows them.
pub(super) fn fairness(args: &FairnessArgs) -> Result<ExitCode, Failure> {
    #[cfg(target_os = "linux")]
    if args.live {
        return live::live(args);
    }
    let fairness = args.resolve()?;
    let results = run_batch(fairness.scenarios(), &args.how, args.out.as_deref())?;
    let rows = fairness.summarise(&results);
    if let Some(dir) = &args.out {
        let path = dir.join("fairness.svg");
        std::fs::write(&path, stacked(&figures(&rows))).map_err(|e| at(&path, e))?;
    }
    let mut text = table(&rows);
    if args.why {
        text += &why_table(&rows);
    }
    show(&text, &Json { rows }, args.json, args.out.as_deref().map(|dir| (dir, "fairness")))
}
