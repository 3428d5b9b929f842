//! `tack lab acks`.

use serde::Serialize;
use tack_lab::acks::{ArenaRow, table};

use super::{run_batch, show};
use crate::args::lab::AcksArgs;
use crate::exit::{ExitCode, Failure};

/// `{"rows": […]}`.
#[derive(Serialize)]
struct Json {
    rows: Vec<ArenaRow>,
}

/// Runs and shows them.
pub(super) fn acks(args: &AcksArgs) -> Result<ExitCode, Failure> {
    let arena = args.resolve()?;
    let results = run_batch(arena.scenarios(), &args.how, args.out.as_deref())?;
    let rows = arena.summarise(&results);
    let text = table(&rows);
    show(&text, &Json { rows }, args.json, args.out.as_deref().map(|dir| (dir, "acks")))
}
