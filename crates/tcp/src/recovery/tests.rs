//! Two ends and a bad path: every byte gets through, and not more often than it must.

use super::*;

mod cases;
mod harness;
mod hostile;
