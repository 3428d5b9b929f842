//! Reading and hashing on threads of their own: a slow disk must not hold up the transport.

use std::fs::File;
use std::io::{self, Read, Seek};

use crate::transfer::error::{Standing, TransferError};

/// Bytes per read.
pub const CHUNK: usize = super::frame::MAX_DATA;

/// Chunks between a disk thread and the connection: enough that neither waits for the other.
pub const CHUNKS_AHEAD: usize = 4;

/// Hashes the first `bytes` of `file`, of which `hasher` may know some already, as long as `go_on` says so.
///
/// # Errors
/// `UnexpectedEof` if the file is shorter; `ConnectionAborted` if it was not to go on.
pub fn hash_prefix(
    file: &mut File,
    mut hasher: blake3::Hasher,
    bytes: u64,
    go_on: impl Fn() -> bool,
) -> io::Result<blake3::Hasher> {
    let mut left = bytes.saturating_sub(hasher.count());
    file.seek(io::SeekFrom::Start(hasher.count()))?;
    let mut buffer = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)).max(1)];
    while left > 0 {
        if !go_on() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = match file.read(&mut buffer[..want]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&buffer[..n]);
        left -= n as u64;
    }
    Ok(hasher)
}

/// Starts `work` on a thread for blocking calls, at once; the future waits for its end.
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> impl Future<Output = Result<T, TransferError>> {
    let thread = tokio::task::spawn_blocking(work);
    async {
        match thread.await {
            Ok(result) => result,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(TransferError::Stopped(Standing::Unknown)),
        }
    }
}
