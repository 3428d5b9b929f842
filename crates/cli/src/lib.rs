//! The command `tack`: files, folders, streams and measurements over TCP-TACK.
//!
//! Each command is a typed command line ([`args`]), turned into what the user meant, and a part
//! that does it ([`cmd`]) over any [`conn::Connection`].

// They panic where nobody reads: `terminal::say` and `terminal::print` do not.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod admission;
pub mod args;
pub mod cmd;
pub mod conn;
pub mod demo;
pub mod doctor;
pub mod exit;
pub mod net;
pub mod notices;
pub mod observe;
pub mod perf;
pub mod progress;
pub mod random;
pub mod relay;
pub mod stop;
mod task;
pub mod terminal;
pub mod top;
pub mod transfer;
pub mod tunnel;
pub mod units;
