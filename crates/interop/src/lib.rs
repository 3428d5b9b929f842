//! Our TCP against the Linux kernel's, over real IP packets.
//!
//! ```text
//!   namespace "near"                                    namespace "far"
//!   our endpoint -- TUN -- kernel (forwards) -- path0 == link model == path0 -- kernel's TCP
//!   10.78.0.2              10.78.0.1            10.77.0.1              10.77.0.2
//!   fd78::2                fd78::1              fd77::1                fd77::2
//! ```
//!
//! A [`World`] is these two machines, or the near one alone: its kernel is then the peer. Everything
//! in it is a test's own, and gone with it: namespaces, devices, and the processes of [`Program`].
//! What passes the path is looked at in two ways that know nothing of our own code's reading:
//! [`segment`] by a parser of its own, and programs that anybody uses.
//!
//! The crate holds no part of the product; its tests are in `tests/kernel`.
#![cfg(target_os = "linux")]

pub mod program;
pub mod routed;
pub mod segment;
pub mod sockets;
pub mod sshd;
pub mod stream;
pub mod watch;
pub mod world;

pub use program::Program;
pub use routed::Routed;
pub use segment::Seen;
pub use sshd::Sshd;
pub use stream::Received;
pub use watch::{Log, Watch};
pub use world::{Family, Setup, World};
