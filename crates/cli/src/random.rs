//! Random bytes that nobody can guess.

use std::io;

/// So many of them.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? {
        got if got == N => Ok(bytes),
        _ => Err(io::Error::other("the system gave too few random numbers")),
    }
}
