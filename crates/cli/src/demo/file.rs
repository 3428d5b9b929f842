//! The file that is sent, and how it is told from another.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

/// Bytes handled at a time.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// A temporary file of random bytes.
#[derive(Debug)]
pub(crate) struct SourceFile {
    file: File,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

impl SourceFile {
    /// Makes a file of `bytes` random bytes.
    pub(crate) fn random(bytes: u64) -> io::Result<SourceFile> {
        let mut file = tempfile::tempfile()?;
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = bytes;
        while left > 0 {
            let n = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            fill_random(&mut chunk[..n])?;
            hash.update(&chunk[..n]);
            file.write_all(&chunk[..n])?;
            left -= n as u64;
        }
        Ok(SourceFile { file, bytes, sha256: hash.finalize().into() })
    }

    /// The file, to be read from its beginning.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

fn fill_random(mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        let n = rustix::rand::getrandom(&mut *out, rustix::rand::GetRandomFlags::empty())?;
        out = &mut out[n..];
    }
    Ok(())
}

/// SHA-256 of all of `file`.
pub(crate) fn sha256_of(file: &mut File) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hash.finalize().into()),
            n => hash.update(&chunk[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_size_and_hash_it_says_and_no_two_are_alike() {
        let one = SourceFile::random(300_001).unwrap();
        let mut file = one.open().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 300_001);
        assert_eq!(sha256_of(&mut file).unwrap(), one.sha256);
        assert_ne!(SourceFile::random(300_001).unwrap().sha256, one.sha256);
        assert_eq!(SourceFile::random(0).unwrap().bytes, 0);
    }
}
