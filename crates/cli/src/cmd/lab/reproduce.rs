//! `tack lab reproduce`.

use serde::Serialize;
use tack_lab::reproduce::{Finding, scenarios, table};

use super::{at, run_batch, show};
use crate::args::lab::ReproduceArgs;
use crate::exit::{ExitCode, Failure};

/// `{"findings": […]}`.
#[derive(Serialize)]
struct Json {
    findings: Vec<Finding>,
}

/// Runs and shows them.
pub(super) fn reproduce(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    let claims = args.resolve()?;
    let results = run_batch(scenarios(&claims), &args.how, args.out.as_deref())?;
    let findings = tack_lab::reproduce::judge(&claims, &results);
    if let Some(dir) = &args.out {
        tack_lab::reproduce::draw(&claims, &results, dir).map_err(|e| at(dir, format!("{e:#}")))?;
    }
    let text = table(&findings);
    show(&text, &Json { findings }, args.json, args.out.as_deref().map(|dir| (dir, "findings")))
}
