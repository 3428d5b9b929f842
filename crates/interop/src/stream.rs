//! Seeded bytes, hashed on their way: a gigabyte takes no memory.

use std::io::{self, Seek, Write};
use std::process::Stdio;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes written or read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// How much came or went, and its SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    /// Bytes.
    pub bytes: u64,
    /// Their hash.
    pub sha256: [u8; 32],
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, SHA-256 {}", self.bytes, hex(&self.sha256))
    }
}

/// As programs print it.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes that a seed determines and that do not repeat.
#[derive(Clone, Debug)]
pub struct Source {
    state: u64,
    left: u64,
}

impl Source {
    /// `bytes` of them.
    pub fn new(seed: u64, bytes: u64) -> Source {
        Source { state: seed.wrapping_mul(0xd134_2543_de82_ef95), left: bytes }
    }

    /// Fills `out` from the front and returns how much; 0 at the end.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let n = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        for piece in out[..n].chunks_mut(8) {
            // Weyl sequence and a finaliser: fast, and no two words of a stream are alike.
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let x = (self.state ^ self.state >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
            piece.copy_from_slice(&(x ^ x >> 29).to_le_bytes()[..piece.len()]);
        }
        self.left -= n as u64;
        n
    }

    /// All of them.
    pub fn bytes(mut self) -> Vec<u8> {
        let mut all = vec![0; usize::try_from(self.left).expect("it fits into memory")];
        self.fill(&mut all);
        all
    }
}

/// A file with `bytes` of the seed's stream, for a program's standard input.
///
/// # Panics
/// If there is no room for it.
pub fn file(seed: u64, bytes: u64) -> Stdio {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&Source::new(seed, bytes).bytes()).expect("room on the disk");
    file.rewind().expect("a file");
    file.into()
}

/// What `bytes` come to.
pub fn of(bytes: &[u8]) -> Received {
    Received { bytes: bytes.len() as u64, sha256: Sha256::digest(bytes).into() }
}

/// Writes `bytes` of the seed's stream. Does not end the stream.
///
/// # Errors
/// As the writer's.
pub async fn send<W: AsyncWrite + Unpin>(
    to: &mut W,
    seed: u64,
    bytes: u64,
) -> io::Result<Received> {
    let (mut source, mut hash) = (Source::new(seed, bytes), Sha256::new());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n = source.fill(&mut chunk);
        if n == 0 {
            return Ok(Received { bytes, sha256: hash.finalize().into() });
        }
        hash.update(&chunk[..n]);
        to.write_all(&chunk[..n]).await?;
    }
}

/// As [`send`], and ends the stream.
///
/// # Errors
/// As the writer's.
pub async fn send_all<W: AsyncWrite + Unpin>(
    to: &mut W,
    seed: u64,
    bytes: u64,
) -> io::Result<Received> {
    let sent = send(to, seed, bytes).await?;
    to.shutdown().await?;
    Ok(sent)
}

/// Reads to the end of the stream.
///
/// # Errors
/// As the reader's.
pub async fn receive<R: AsyncRead + Unpin>(from: &mut R) -> io::Result<Received> {
    receive_at_most(from, u64::MAX).await
}

/// Reads to the end of the stream, or `limit` bytes.
///
/// # Errors
/// As the reader's.
pub async fn receive_at_most<R: AsyncRead + Unpin>(
    from: &mut R,
    limit: u64,
) -> io::Result<Received> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    while bytes < limit {
        let room = usize::try_from(limit - bytes).map_or(CHUNK_BYTES, |n| n.min(CHUNK_BYTES));
        let n = from.read(&mut chunk[..room]).await?;
        if n == 0 {
            break;
        }
        hash.update(&chunk[..n]);
        bytes += n as u64;
    }
    Ok(Received { bytes, sha256: hash.finalize().into() })
}

/// One stream in both directions at once: sends `bytes` of `seed` and ends its half, receives to
/// the end; what went and what came.
///
/// # Errors
/// As the stream's.
pub async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    seed: u64,
    bytes: u64,
) -> io::Result<(Received, Received)> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::try_join!(send_all(&mut writer, seed, bytes), receive(&mut reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_yields_the_same_however_it_is_read() {
        let whole = Source::new(7, 100_000).bytes();
        let mut source = Source::new(7, 100_000);
        let (mut pieces, mut chunk) = (Vec::new(), [0; 4_096]);
        loop {
            match source.fill(&mut chunk) {
                0 => break,
                n => pieces.extend_from_slice(&chunk[..n]),
            }
        }
        assert!(whole == pieces);
        assert_ne!(whole, Source::new(8, 100_000).bytes());
    }

    #[tokio::test]
    async fn what_is_sent_and_what_arrives_hash_alike() {
        let (mut a, mut b) = tokio::io::duplex(10_000);
        let (left, right) = tokio::join!(exchange(&mut a, 1, 300_000), exchange(&mut b, 2, 5));
        let ((a_sent, a_got), (b_sent, b_got)) = (left.unwrap(), right.unwrap());
        assert_eq!((&a_sent, &b_sent), (&b_got, &a_got));
        assert_eq!(a_sent, of(&Source::new(1, 300_000).bytes()));
        assert_ne!(a_sent.sha256, b_sent.sha256);
    }
}
