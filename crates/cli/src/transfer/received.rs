//! What came of a transfer, as its receiver sees it.

use crate::transfer::frame::SenderId;
use crate::transfer::name::printable;

/// Most skipped files whose reasons are kept.
const MAX_SKIPPED: usize = 1000;

/// What was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Files that are now here, those that were here before included.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes that were here already.
    pub kept: u64,
    /// Files that the sender could not read, with its reasons.
    pub skipped: Vec<String>,
    /// Who sent them.
    pub sender: SenderId,
    /// Whether it has shown that it knows that all are here.
    pub is_known_there: bool,
}

impl Received {
    /// Takes down why the sender left a file out.
    pub(super) fn note_skipped(&mut self, reason: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(printable(reason.as_bytes()));
        }
    }
}
