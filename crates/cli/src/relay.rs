//! Streams that outlive the connections that carry them.
//!
//! ```text
//!  program -- session == one connection after another == session -- program
//! ```
//!
//! A [`session`] keeps what the other end may lack ([`outgoing`]) and knows what has come ([`incoming`]); bytes
//! travel in [`frame`]s, for only so can an end be told from a break. Where a connection breaks, a [`carrier`]
//! has another one from its [`Supply`], on which each end says what it has. What is said on a
//! connection before that, and who may go on with which stream, is each command's own: the [tunnel's](crate::tunnel),
//! and that of [`send -` and `nc`](crate::transfer::pipe).

pub mod carrier;
pub mod frame;
pub mod handed;
pub mod incoming;
pub mod outgoing;
pub mod session;

pub use carrier::{Carrier, Supply};
pub use session::{Broken, Passed, Session};
