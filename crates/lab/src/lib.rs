//! Experiments: scenarios, sweeps, comparisons and reports.
