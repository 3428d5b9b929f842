//! Random numbers of the system.

use std::io;

/// So many that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // So few come at once or not at all.
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? {
        n if n == N => Ok(bytes),
        _ => Err(io::Error::other("the system gave too few random numbers")),
    }
}
