//! Datagrams in a stream, and in SOCKS' own wrapping.
//!
//! In a stream each is a length (two bytes, of what follows), a target as SOCKS writes it, and the
//! data. Between program and proxy it is a datagram with two zero bytes, a fragment number, target
//! and data [RFC 1928 §7]; fragments are not taken, as the standard allows.

use super::target::{Target, TargetError};

/// Most bytes of a datagram's target and data together.
pub const MAX_FRAME_BYTES: usize = u16::MAX as usize;

/// A datagram and where it goes, or where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Of the other end.
    pub target: Target,
    /// What it carries.
    pub data: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Appends its frame to `out`. Whether it fits one; else nothing is appended.
    pub fn frame(&self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.extend([0, 0]);
        self.target.write(out);
        out.extend_from_slice(self.data);
        match u16::try_from(out.len() - start - 2) {
            Ok(length) => {
                out[start..start + 2].copy_from_slice(&length.to_be_bytes());
                true
            }
            Err(_) => {
                out.truncate(start);
                false
            }
        }
    }

    /// The datagram that `bytes` begin with and the length of its frame; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read_frame(bytes: &'a [u8]) -> Result<Option<(Datagram<'a>, usize)>, FrameError> {
        let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let (target, used) = Target::read(frame)?.ok_or(FrameError::Short)?;
        Ok(Some((Datagram { target, data: &frame[used..] }, 2 + length)))
    }

    /// As SOCKS wraps it.
    pub fn wrap(&self) -> Vec<u8> {
        let mut out = vec![0, 0, 0];
        self.target.write(&mut out);
        out.extend_from_slice(self.data);
        out
    }

    /// What SOCKS wrapped; `None` if it is not whole, or a fragment.
    pub fn unwrap(bytes: &'a [u8]) -> Option<Datagram<'a>> {
        let [_, _, 0, rest @ ..] = bytes else { return None };
        let (target, used) = Target::read(rest).ok()??;
        Some(Datagram { target, data: &rest[used..] })
    }
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It ends within its target.
    #[error("a datagram's frame ends within its target")]
    Short,
    /// Its target is none.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Tries `bytes` in both forms: read or refused, and written as read. For fuzzing.
///
/// # Panics
/// If it is not.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(Some((datagram, used))) = Datagram::read_frame(bytes) {
        assert!(used <= bytes.len());
        let mut again = Vec::new();
        assert!(datagram.frame(&mut again));
        let length = again.len();
        assert_eq!(Datagram::read_frame(&again), Ok(Some((datagram, length))));
    }
    if let Some(datagram) = Datagram::unwrap(bytes) {
        assert_eq!(Datagram::unwrap(&datagram.wrap()), Some(datagram));
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};

    use super::*;
    use crate::tunnel::target::Host;

    #[test]
    fn frames_are_read_as_written_and_every_beginning_asks_for_more() {
        let target = Target::new(Host::parse("example.org").unwrap(), 53);
        for data in [&b""[..], b"x", &[7; 1_400]] {
            let datagram = Datagram { target: target.clone(), data };
            let mut bytes = Vec::new();
            assert!(datagram.frame(&mut bytes));
            for end in 0..bytes.len() {
                assert_eq!(Datagram::read_frame(&bytes[..end]), Ok(None));
            }
            let length = bytes.len();
            bytes.push(0);
            assert_eq!(Datagram::read_frame(&bytes), Ok(Some((datagram.clone(), length))));
            assert_eq!(Datagram::unwrap(&datagram.wrap()), Some(datagram));
        }
        let too_long = Datagram { target, data: &[0; MAX_FRAME_BYTES] };
        let mut out = vec![1];
        assert!(!too_long.frame(&mut out) && out == [1]);
    }

    #[test]
    fn a_fragment_and_half_a_target_are_nothing() {
        assert_eq!(Datagram::unwrap(&[0, 0, 1, 1, 1, 1, 1, 1, 0, 80]), None);
        assert_eq!(Datagram::unwrap(&[0, 0, 0, 1, 1]), None);
        assert_eq!(Datagram::read_frame(&[0, 2, 1, 1]), Err(FrameError::Short));
    }

    #[test]
    fn random_bytes_are_read_or_refused() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(0xda7a);
        for _ in 0..50_000 {
            let mut bytes = vec![0; rng.random_range(0..40)];
            rng.fill_bytes(&mut bytes);
            bytes.iter_mut().take(3).for_each(|b| *b %= 8);
            fuzz(&bytes);
        }
    }
}
