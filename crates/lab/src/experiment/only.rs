//! Which cases and variants run, of one file or of several.

use super::{Experiment, Extent, Variant};

impl Experiment {
    /// The names of its cases and variants.
    pub fn names(&self) -> Vec<&str> {
        self.axes().into_iter().flatten().map(|v| v.name.as_str()).collect()
    }

    /// Runs only those cases and variants, at `extent`.
    ///
    /// # Errors
    /// Which of them there is not, and which there are.
    pub fn keep_only(&mut self, extent: Extent, names: &[String]) -> Result<(), String> {
        let there = self.names();
        if let Some(name) = names.iter().find(|name| !there.contains(&name.as_str())) {
            return Err(format!("{name}: {}", self.choice()));
        }
        self.extent.of_mut(extent).only = names.to_vec();
        Ok(())
    }

    /// Which cases and variants there are, as a sentence.
    pub fn choice(&self) -> String {
        let names = self.names();
        if names.is_empty() {
            return format!("{} has no cases and no variants", self.id);
        }
        format!("of {} there are {}", self.id, names.join("; "))
    }

    /// Who sets this key whatever the base says, so that a [change](Self::change) of it is nowhere seen: all cases
    /// that run at `extent`, or all variants.
    pub fn overruled(&self, extent: Extent, key: &str) -> Option<&'static str> {
        let only = &self.extent.of(extent).only;
        let sets = |of: &Variant| {
            let is_in = |rest: &str| rest.is_empty() || rest.starts_with('.');
            of.set.keys().any(|set| key.strip_prefix(set.as_str()).is_some_and(is_in))
        };
        let all = |axis: &[Variant]| {
            let is_chosen = |of: &Variant| only.contains(&of.name);
            let any = !axis.iter().any(is_chosen);
            let mut runs = axis.iter().filter(|of| any || is_chosen(of)).peekable();
            runs.peek().is_some() && runs.all(sets)
        };
        ["case", "variant"]
            .into_iter()
            .zip(self.axes())
            .find_map(|(name, axis)| all(axis).then_some(name))
    }

    fn axes(&self) -> [&[Variant]; 2] {
        [&self.case, &self.variant]
    }
}

/// Runs only the cases and variants of `experiments` that `names` has, at `extent`. Returns of each experiment
/// whether that leaves anything: whoever has none of the variants that were chosen among those of all runs
/// nothing, rather than all of its own; cases alike.
pub fn keep_only(experiments: &mut [Experiment], extent: Extent, names: &[String]) -> Vec<bool> {
    let chosen = |axis: &[Variant]| axis.iter().any(|of| names.contains(&of.name));
    let is_chosen_from: [bool; 2] =
        std::array::from_fn(|axis| experiments.iter().any(|e| chosen(e.axes()[axis])));
    let keep = |experiment: &mut Experiment| {
        let lacks =
            |(axis, of): (usize, &[Variant])| is_chosen_from[axis] && !of.is_empty() && !chosen(of);
        let own = experiment.names();
        let kept: Vec<String> =
            names.iter().filter(|name| own.contains(&name.as_str())).cloned().collect();
        let is_left = !kept.is_empty() && !experiment.axes().into_iter().enumerate().any(lacks);
        experiment.extent.of_mut(extent).only = kept;
        is_left
    };
    experiments.iter_mut().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: &str, cases: &[&str], variants: &[&str]) -> Experiment {
        let named = |names: &[&str]| -> Vec<Variant> {
            let one = |name: &&str| Variant { name: (*name).to_owned(), set: Default::default() };
            names.iter().map(one).collect()
        };
        let (case, variant) = (named(cases), named(variants));
        Experiment { id: id.to_owned(), case, variant, ..Experiment::default() }
    }

    #[test]
    fn a_file_that_has_none_of_the_chosen_variants_or_cases_runs_nothing() {
        let all = [
            file("bulk", &["veth", "wifi"], &["tack", "udp"]),
            file("latency", &["veth", "wifi"], &["tack", "tcp"]),
            file("paced", &[], &["tack", "srt"]),
            file("plain", &[], &[]),
        ];
        for (names, left, kept) in [
            (&["udp"][..], [true, false, false, false], "bulk: udp"),
            (&["veth", "udp"], [true, false, false, false], "bulk: veth udp"),
            (&["veth"], [true, true, false, false], "bulk: veth, latency: veth"),
            (
                &["wifi", "tack"],
                [true, true, true, false],
                "bulk: wifi tack, latency: wifi tack, paced: tack",
            ),
            (&["udp", "srt"], [true, false, true, false], "bulk: udp, paced: srt"),
        ] {
            let mut all = all.clone();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(keep_only(&mut all, Extent::Short, &names), left, "{names:?}");
            let told = all.iter().zip(left).filter(|(_, left)| *left);
            let told = told.map(|(e, _)| format!("{}: {}", e.id, e.extent.short.only.join(" ")));
            assert_eq!(told.collect::<Vec<_>>().join(", "), kept);
        }
    }
}
