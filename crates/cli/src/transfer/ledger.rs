//! What of a list may still come.

use std::collections::BTreeMap;

use crate::transfer::error::TransferError;
use crate::transfer::frame::Frame;
use crate::transfer::list::FileList;
use crate::transfer::received::Received;
use crate::transfer::sink::{Job, Proved};
use crate::transfer::wire::unexpected;

/// Parts to go on with.
pub(super) type Resumed = BTreeMap<u32, Box<Proved>>;

/// Which files may still come: each once, in the order of the list.
pub(super) struct Ledger<'a> {
    pub(super) list: &'a FileList,
    pub(super) resumed: Resumed,
    pub(super) next: u32,
}

impl Ledger<'_> {
    /// The disk's part of a frame; `None` if it has none. What is left out is noted in `done`.
    pub(super) fn job(
        &mut self,
        frame: Frame,
        done: &mut Received,
    ) -> Result<Option<Job>, TransferError> {
        match frame {
            Frame::Data(bytes) => Ok(Some(Job::Data(bytes))),
            Frame::End { hash } => Ok(Some(Job::End(hash))),
            Frame::File { index, offset } => {
                let resume = self.resumed.remove(&index);
                let starts_at = resume.as_ref().map_or(0, |proved| proved.bytes);
                if index < self.next || self.list.file(index).is_none() || offset != starts_at {
                    let frame = Frame::File { index, offset };
                    return Err(unexpected(&frame, "the next file, where it was left"));
                }
                self.next = index + 1;
                Ok(Some(Job::File { index, resume }))
            }
            Frame::Skip { index, reason } => {
                self.next = self.next.max(index.saturating_add(1));
                done.note_skipped(&reason);
                Ok(None)
            }
            other => Err(unexpected(&other, "FILE, DATA, END, SKIP or FINISHED")),
        }
    }
}
