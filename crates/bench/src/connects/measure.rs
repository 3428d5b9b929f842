//! One phase of one contestant, measured.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::client::Outcome;
use super::ends::Ends;
use super::server::Brought;
use super::who::Who;
use super::{ConnectsArgs, Phase};
use crate::path::Network;
use crate::process::kernel_mb;
use crate::siege::pause;

/// What opening and its timers leave behind is over by then.
const REST: Duration = Duration::from_secs(2);

/// The figures of a phase, in the order of its columns in the [table](super::table).
pub(super) fn phase(
    phase: Phase,
    who: Who,
    args: &ConnectsArgs,
    network: &Network,
    keys: &Path,
) -> Result<Vec<f64>> {
    let ends = Ends::start((phase, who), args, network, keys)?;
    match phase {
        Phase::Hold | Phase::Kept => hold(ends, args),
        Phase::Steady => steady(ends),
        Phase::Busy => busy(ends, args),
    }
}

fn hold(mut ends: Ends, args: &ConnectsArgs) -> Result<Vec<f64>> {
    let (kernel_before, before) = (kernel_mb()?, ends.usage()?);
    ends.client.go_on()?;
    let opened: Outcome = ends.client.hear()?;
    let open = ends.usage()?;
    pause(REST);
    let (kernel, idle) = (kernel_mb()?, ends.usage()?);
    pause(Duration::from_secs_f64(args.silence));
    let after = ends.usage()?;
    ends.client.go_on()?;
    let heard: Outcome = ends.client.hear()?;
    let each = |mb: f64| 1e3 * mb / opened.opened.max(1) as f64;
    let [client, server] = open.spent_since(&before);
    let [client_mb, server_mb] = idle.more_than(&before);
    let [client_idle, server_idle] = after.spent_since(&idle).map(|s| 1e3 * s / args.silence);
    Ok(vec![
        (opened.not_opened + heard.lost) as f64,
        opened.seconds,
        client,
        server,
        each(client_mb),
        each(server_mb),
        each(kernel - kernel_before),
        client_idle,
        server_idle,
    ])
}

fn steady(mut ends: Ends) -> Result<Vec<f64>> {
    let before = ends.usage()?;
    ends.client.go_on()?;
    let outcome: Outcome = ends.client.hear()?;
    let each = |seconds: f64| 1e3 * seconds / outcome.opened.max(1) as f64;
    let [client, server] = ends.usage()?.spent_since(&before).map(each);
    let failed = (outcome.not_opened + outcome.lost) as f64;
    Ok(vec![failed, outcome.opened as f64 / outcome.seconds, client, server])
}

fn busy(mut ends: Ends, args: &ConnectsArgs) -> Result<Vec<f64>> {
    let idle = ends.usage()?;
    ends.client.go_on()?;
    let opened: Outcome = ends.client.hear()?;
    ends.client.go_on()?;
    pause(REST);
    let mut brought = || -> Result<_> {
        ends.server.go_on()?;
        Ok((ends.server.hear::<Brought>()?, ends.usage()?))
    };
    let (first, before) = brought()?;
    pause(Duration::from_secs_f64(args.seconds));
    let (last, after) = brought()?;
    let each: Vec<f64> =
        last.bytes.iter().zip(&first.bytes).map(|(last, first)| (last - first) as f64).collect();
    let all: f64 = each.iter().sum();
    ensure!(all > 0.0, "nothing came");
    let (least, mean) = (each.iter().copied().fold(f64::MAX, f64::min), all / each.len() as f64);
    let [client, server] = after.spent_since(&before).map(|seconds| 1e9 * seconds / all);
    let [client_mb, server_mb] = after.more_than(&idle);
    Ok(vec![
        opened.not_opened as f64,
        8e-9 * all / (last.at - first.at),
        client,
        server,
        jain(&each),
        least / mean,
        client_mb,
        server_mb,
    ])
}

/// Jain's index of fairness: 1 where all have the same, 1/n where one has all.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_of_equal_shares_and_a_part_where_a_part_has_all() {
        assert!((jain(&[3.0; 10]) - 1.0).abs() < 1e-9);
        assert!((jain(&[0.0, 5.0, 5.0, 0.0]) - 0.5).abs() < 1e-9);
    }
}
