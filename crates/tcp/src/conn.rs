//! One connection after [RFC 9293], without clock or socket: segments and a time go in; segments,
//! events and a deadline come out.

mod error;
mod state;

pub use error::{ConnectionError, UseError};
pub use state::State;
