//! What a program that runs items brings along: controllers of its own, and when to stop.

use std::collections::BTreeMap;

use tack_cc::Factory;

/// Controllers that are not ours, by the names that `flow.N.controller` has.
pub type Controllers = BTreeMap<String, Factory>;

/// Whether a run is to go on.
pub type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// What a program that runs items brings to them.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its controllers. A run's identity has their names alone: two that differ need two names.
    pub controllers: &'a Controllers,
    /// Asked every now and then; where a run is not to go on, its error is
    /// [`Interrupted`](crate::Interrupted), and it has left neither programs nor files behind.
    pub go_on: GoOn<'a>,
}
