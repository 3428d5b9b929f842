//! Which seeds are run.

use std::ops::Range;

/// As many seeds as is usual, or those that the environment names: `N` or `FIRST..END`.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let Ok(named) = std::env::var("TACK_SEEDS") else { return 0..usual };
    let (first, end) = named.split_once("..").unwrap_or(("0", &named));
    let number = |text: &str| text.parse().expect("TACK_SEEDS is N or FIRST..END");
    number(first)..number(end)
}
