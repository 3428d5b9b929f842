//! `tack top`: what running commands do, as a picture in the terminal that is drawn anew each second.
//!
//! A command started with `--metrics ADDRESS` is asked for its counters ([`scrape`]); two answers in a
//! row make rates ([`state`]), and those a picture ([`draw`]).

pub mod draw;
pub mod scrape;
pub mod state;

/// Port that `--metrics` and `tack top` have in common where none is said.
pub const DEFAULT_PORT: u16 = 9_826;
