//! The 802.11 model against closed forms, Bianchi's analysis, ns-3 and its own recorded tables.
//!
//! Every test is named after its check in the model's design note. Tables of results are kept
//! under `snapshots/`, so that a change of behaviour is a diff; `TACK_BLESS=1` rewrites them.

mod bianchi;
mod closed_form;
mod conservation;
mod durations;
mod fq_codel;
mod link;
mod medium;
mod ns3;
mod relay;
mod snapshot;
mod tables;
