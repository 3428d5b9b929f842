//! What a program that runs items brings along: controllers of its own, and when to stop.

use std::collections::BTreeMap;

use tack_cc::Factory;

/// Controllers that are not ours, by the names that `flow.N.controller` has.
pub type Controllers = BTreeMap<String, Factory>;

/// What a program that runs items brings to them.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its controllers. A run's identity has their names alone: two that differ need two names.
    pub controllers: &'a Controllers,
    /// Asked every now and then whether a simulated run is to go on; where it is not, the run's error
    /// is [`Interrupted`](crate::Interrupted).
    pub go_on: &'a (dyn Fn() -> bool + Sync),
}
