//! What the receiver already has of a list, and what is in the way of it.

use std::collections::BTreeSet;

use crate::transfer::error::TransferError;
use crate::transfer::frame::Hash;
use crate::transfer::frame::SenderId;
use crate::transfer::list::{Entry, FileList, Kind};
use crate::transfer::partial::Partial;
use crate::transfer::store::{Present, Store};

/// Most interrupted files that one transfer resumes: each holds a hash's state until it is sent.
/// One transfer leaves at most one behind, so a list with more has been through many hands.
pub const MAX_RESUMED: usize = 64;

/// A prefix of a file that is already here.
#[derive(Debug)]
pub struct Held {
    /// Position in the list.
    pub index: u32,
    /// Length of the prefix.
    pub bytes: u64,
    /// Where it is, locked; `None` if the whole file is in its place.
    pub partial: Option<Partial>,
}

/// Looks at each path of `list`, which `sender` sends.
///
/// # Errors
/// [`TransferError::Exists`] if something is in the way and may not be replaced,
/// [`TransferError::OtherKind`] if it never is,
/// [`TransferError::NoSpace`] if the rest cannot fit.
pub fn plan(
    store: &Store,
    sender: &SenderId,
    list: &FileList,
    overwrite: bool,
) -> Result<Vec<Held>, TransferError> {
    let mut held = Vec::new();
    let (mut in_the_way, mut other_kind) = (Vec::new(), Vec::new());
    // Folders that cannot be: whatever is to be in one is not looked for.
    let mut blocked = BTreeSet::new();
    let mut resumed = 0;
    for (index, entry) in (0..).zip(list.entries()) {
        if entry.path.as_path().parent().is_some_and(|parent| blocked.contains(parent)) {
            blocked.insert(entry.path.as_path());
            continue;
        }
        let present = store.present(&entry.path)?;
        if !fits(entry, &present, overwrite) {
            let never = !fits(entry, &present, true);
            if never { &mut other_kind } else { &mut in_the_way }.push(entry.path.to_string());
            blocked.insert(entry.path.as_path());
            continue;
        }
        let Some(size) = entry.file_size() else { continue };
        if present == Present::File(size) {
            held.push(Held { index, bytes: size, partial: None });
        } else if resumed < MAX_RESUMED
            && let Some(partial) = store.partial(sender, &entry.path)?
        {
            let length = partial.bytes().map_err(TransferError::disk(
                "look at the partial file of",
                store.show(&entry.path),
            ))?;
            if length > 0 {
                resumed += 1;
                held.push(Held { index, bytes: length.min(size), partial: Some(partial) });
            }
        }
    }
    // First: what can be done about the others is no help against these.
    if !other_kind.is_empty() {
        return Err(TransferError::other_kind(&other_kind));
    }
    if !in_the_way.is_empty() {
        return Err(TransferError::exists(&in_the_way));
    }
    let needed = list.total_bytes() - held.iter().map(|h| h.bytes).sum::<u64>();
    match store.free_bytes() {
        Some(free) if free < needed => {
            let place = store.shown().display().to_string();
            Err(TransferError::NoSpace { needed, free, place })
        }
        _ => Ok(held),
    }
}

/// Whether `entry` may go where `present` is.
fn fits(entry: &Entry, present: &Present, overwrite: bool) -> bool {
    match (&entry.kind, present) {
        (_, Present::Nothing) | (Kind::Dir, Present::Dir) => true,
        // Perhaps the same file: its hash will tell.
        (Kind::File { size }, Present::File(there)) => size == there || overwrite,
        (Kind::Symlink { target }, Present::Symlink(there)) => target == there || overwrite,
        (Kind::File { .. }, Present::Symlink(_)) => overwrite,
        (Kind::Symlink { .. }, Present::File(_)) => overwrite,
        // A folder is never replaced by something else, nor a device by anything.
        _ => false,
    }
}

/// Whether a proof is right.
pub fn proves(hasher: &blake3::Hasher, proof: &Hash) -> bool {
    hasher.finalize() == blake3::Hash::from_bytes(*proof)
}
