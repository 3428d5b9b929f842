//! Tests that a machine cannot run.

use std::fmt::Display;

/// Says why a test does not run here.
///
/// # Panics
/// Where `TACK_INTEROP_REQUIRED` says that all must run, as in CI.
pub(crate) fn skipped(why: impl Display) {
    assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{why}");
    println!("skipped: {why}");
}
