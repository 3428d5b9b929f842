//! The outcomes as a document.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cases::{Case, Role};
use crate::peers::cause;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pass,
    Fail(String),
    NotOffered(&'static str),
    NotInstalled,
}

/// Outcomes by case, peer and role.
pub(crate) type Outcomes = BTreeMap<(&'static str, &'static str, Role), Outcome>;

pub(crate) fn document(
    cases: &[Case],
    versions: &[(&'static str, String)],
    outcomes: &Outcomes,
) -> String {
    let mut text = String::from(
        "# QUIC with others\n\n\
         `script/quic-interop` installs each stack from its registry, runs every case with it in both roles\n\
         through a relay on loopback, compares every byte, and wrote this. A cell has two words: our client\n\
         with its server, and its client with our server. `–`: not offered by it, or by the program around it\n\
         (`rivals/interop`); why is below the table. Towards these stacks ours is QUIC without TACK.\n\n",
    );
    for (name, version) in versions {
        let _ = writeln!(text, "- {name}: {version}");
    }
    let names: Vec<_> = versions.iter().map(|(name, _)| *name).collect();
    let ran: Vec<_> =
        cases.iter().filter(|case| outcomes.keys().any(|(name, ..)| *name == case.name)).collect();
    let _ = writeln!(text, "\n| case | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for case in &ran {
        let cells = names.iter().map(|name| {
            let words = Role::BOTH.map(|role| word(outcomes.get(&(case.name, *name, role))));
            words.join(" / ")
        });
        let _ = writeln!(text, "| {} | {} |", case.name, cells.collect::<Vec<_>>().join(" | "));
    }
    text += "\n## The cases\n\n";
    for case in &ran {
        let _ = writeln!(text, "- {}: {}", case.name, case.what);
    }
    let mut failed = Vec::new();
    let mut lacking: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for ((case, peer, role), outcome) in outcomes {
        let side = if *role == Role::Client { "as a server" } else { "as a client" };
        match outcome {
            Outcome::Fail(why) => {
                let cause = cause(peer, *role, case).map(|cause| format!(". Cause: {cause}"));
                let cause = cause.unwrap_or_default();
                failed.push(format!("- {case}, {peer} {side}: {why}{cause}"));
            }
            Outcome::NotOffered(why) => {
                lacking.entry((peer, why)).or_default().push(format!("{case} {side}"));
            }
            _ => {}
        }
    }
    if !failed.is_empty() {
        let _ = writeln!(text, "\n## What failed\n\n{}", failed.join("\n"));
    }
    text += "\n## Not offered\n\n";
    for ((peer, why), cases) in lacking {
        let _ = writeln!(text, "- {peer}: {why} ({})", cases.join(", "));
    }
    text
}

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "pass",
        Some(Outcome::Fail(_)) => "**fail**",
        Some(Outcome::NotOffered(_)) => "–",
        Some(Outcome::NotInstalled) => "not installed",
        None => "not run",
    }
}
