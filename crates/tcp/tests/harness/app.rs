//! Applications: one writes a known stream, one reads and compares.

use tack_tcp::{ConnId, Host};
use tack_units::Instant;

/// Length of the repeated pattern; a prime, so that a shift cannot go unnoticed.
const PERIOD: usize = 65_537;

/// A stream whose byte at any offset is known.
pub(crate) struct Pattern(Vec<u8>);

impl Pattern {
    pub(crate) fn new(seed: u64) -> Pattern {
        let mut x = seed | 1;
        let mut bytes: Vec<u8> = (0..PERIOD)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 24) as u8
            })
            .collect();
        // Twice, so that any run of one period is a slice.
        bytes.extend_from_within(..);
        Pattern(bytes)
    }

    /// Up to a period of bytes from `offset`.
    pub(crate) fn at(&self, offset: u64, len: usize) -> &[u8] {
        let from = (offset % PERIOD as u64) as usize;
        &self.0[from..from + len.min(PERIOD)]
    }
}

/// Writes `len` bytes of a pattern, then ends the stream.
pub(crate) struct Writer {
    pattern: Pattern,
    pub(crate) written: u64,
    pub(crate) len: u64,
    pub(crate) ended: bool,
    pub(crate) ends: bool,
}

impl Writer {
    pub(crate) fn new(seed: u64, len: u64) -> Writer {
        Writer { pattern: Pattern::new(seed), written: 0, len, ended: false, ends: true }
    }

    /// Writes at most `most` bytes.
    pub(crate) fn poll(&mut self, host: &mut Host, conn: ConnId, most: u64, now: Instant) {
        let mut left = most.min(self.len - self.written);
        while left > 0 {
            let chunk = self.pattern.at(self.written, left.min(PERIOD as u64) as usize);
            let Ok(n) = host.write(conn, chunk, now) else { return };
            if n == 0 {
                return;
            }
            self.written += n as u64;
            left -= n as u64;
        }
        if self.written == self.len && self.ends && !self.ended {
            self.ended = true;
            host.shutdown_write(conn, now).expect("the connection is known");
        }
    }
}

/// Reads and compares with a pattern.
pub(crate) struct Reader {
    pattern: Pattern,
    pub(crate) read: u64,
    pub(crate) at_end: bool,
}

impl Reader {
    pub(crate) fn new(seed: u64) -> Reader {
        Reader { pattern: Pattern::new(seed), read: 0, at_end: false }
    }

    /// Reads at most `most` bytes.
    pub(crate) fn poll(&mut self, host: &mut Host, conn: ConnId, most: u64, now: Instant) {
        let mut left = most;
        while left > 0 {
            let (a, _) = host.readable(conn);
            let n = a.len().min(left.min(PERIOD as u64) as usize);
            if n == 0 {
                break;
            }
            assert!(a[..n] == *self.pattern.at(self.read, n), "wrong byte after {}", self.read);
            self.read += n as u64;
            left -= n as u64;
            host.consume(conn, n, now);
        }
        self.at_end |= host.at_end(conn);
    }
}
